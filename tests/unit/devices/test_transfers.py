"""Moves between devices: lazy, in graphs, with gradients; how tensors are made and read there."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices import current_stream
from bedplate.devices.block import ArrivingBlock, DeviceBlock
from bedplate.errors import DeviceError


def test_a_move_is_made_when_its_value_is_needed(loopback: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0])
    there = (x + 1).to(loopback)
    assert there._node.block is None
    assert there.device is loopback
    assert there.to(loopback) is there
    back = (there * 2).to("cpu")
    assert back._node.block is None
    assert back.tolist() == [4.0, 6.0]
    assert isinstance(back._node.block, ArrivingBlock)
    assert isinstance(there._node.block, DeviceBlock)


def test_a_graph_over_three_devices(loopback: bp.Device) -> None:
    x = bp.tensor(np.linspace(-1, 1, 12).reshape(3, 4))
    shared = x * 3
    a = shared.to(loopback)
    b = shared.to("reference")
    c = a.exp().to("reference") + b
    d = c.to(loopback).sum(axis=1) + a.T[0].sum()
    e = d.to("cpu") * shared[:, 0] + a.to("cpu").mean()
    plain = np.linspace(-1, 1, 12).reshape(3, 4) * 3
    wanted = ((np.exp(plain) + plain).sum(axis=1) + plain[:, 0].sum()) * plain[:, 0] + plain.mean()
    np.testing.assert_allclose(e.numpy(), wanted, rtol=1e-12)


def test_what_two_stages_read_is_computed_once(loopback: bp.Device, driver: Any) -> None:
    x = bp.tensor(np.ones(1000), device=loopback)
    y = x.exp()
    z = (y.to("cpu") + 1).to(loopback) * y
    before = driver.n_launches
    np.testing.assert_allclose(z.numpy(), (np.e + 1) * np.e)
    assert driver.n_launches - before == 2


def test_gradients_move_back(loopback: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ((x * x).to(loopback) * 3).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad.device == bp.Device("cpu")
    assert x.grad.tolist() == [6.0, 12.0, 18.0]
    (gradient,) = bp.vjp(lambda v: v.to(loopback).exp().to("cpu"), bp.tensor([0.0]))[1](bp.ones(1))
    assert gradient.tolist() == [1.0]
    leaf = bp.tensor([2.0], device=loopback, requires_grad=True)
    (leaf.to("cpu") ** 3).sum().backward(create_graph=True)
    assert leaf.grad is not None
    assert (leaf.grad.device, leaf.grad.tolist()) == (loopback, [12.0])
    leaf.grad.sum().backward()
    assert leaf.grad.tolist() == [24.0]


def test_values_that_change_hands_stay_as_they_were(loopback: bp.Device) -> None:
    source = np.arange(100_000, dtype=np.float64)
    x = bp.tensor(source)
    there = x.to(loopback).realise()
    x += 1
    array = source.copy()
    shared = bp.from_dlpack(array)
    moved = shared.to(loopback).realise()
    array[:] = -1
    made = bp.tensor(array, device=loopback)
    array[:] = -2
    np.testing.assert_array_equal(there.numpy(), source)
    np.testing.assert_array_equal(moved.numpy(), source)
    assert set(made.tolist()) == {-1.0}
    step = bp.jit(lambda w: w.assign(w * 2))
    w = bp.tensor(source)
    copies = []
    for _ in range(5):
        step(w)
        copies.append(w.to(loopback).realise())
    for number, each in enumerate(copies, 1):
        np.testing.assert_array_equal(each.numpy(), source * 2**number)


def test_every_way_to_make_one(loopback: bp.Device) -> None:
    made = [
        bp.tensor([1, 2], device=loopback), bp.Tensor(np.ones(2), loopback), bp.ones(2),
        bp.zeros(2, device=loopback), bp.full((2,), 7, device=loopback),
        bp.arange(2, device=loopback), bp.linspace(0, 1, 2, device=loopback),
        bp.eye(2, device=loopback), bp.random.rand(2, device=loopback),
        bp.random.randn(2, device=loopback),
        bp.empty(2, device=loopback), bp.asarray([1.0], device=loopback),
        bp.from_dlpack(bp.ones(2), device=loopback),
        bp.from_dlpack(np.ones(2), device=loopback), bp.tensor([True], loopback),
    ]  # fmt: skip
    made[2] = made[2].to("loopback")
    plain = [
        [1, 2], [1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [7, 7], [0, 1], [0.0, 1.0],
        [[1.0, 0.0], [0.0, 1.0]], None, None, [0.0, 0.0], [1.0], [1.0, 1.0], [1.0, 1.0], [True],
    ]  # fmt: skip
    for tensor, wanted in zip(made, plain, strict=True):
        assert tensor.device is loopback
        assert wanted is None or tensor.tolist() == wanted
    with bp.default_device(loopback):
        assert (bp.ones(2) * 2).tolist() == [2.0, 2.0]
        bp.manual_seed(3)
        here = bp.random.randn(1000)
    bp.manual_seed(3)
    assert here.device is loopback
    assert here.numpy().tobytes() == bp.random.randn(1000).numpy().tobytes()
    with pytest.raises(BufferError, match="cannot be"):
        bp.from_dlpack(np.ones(2), device=loopback, copy=False)


def test_every_way_to_read_one(loopback: bp.Device, tmp_path: Path) -> None:
    x = bp.tensor([[1.5, 2.5]], device=loopback)
    assert x[0, 1].item() == float(x[0, 1]) == 2.5
    assert bool(x[0, 0]) and int(x[0, 0]) == 1
    assert (x.tolist(), len(x), list(x[0] * 2)[1].tolist()) == ([[1.5, 2.5]], 1, 5.0)
    assert np.asarray(x).tolist() == np.from_dlpack(x).tolist() == [[1.5, 2.5]]
    assert "2.5" in repr(x) and "device='loopback'" in repr(x)
    assert x._repr_html_()
    assert bytes(memoryview(x.numpy(copy=False))) == x.numpy().tobytes()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert other.device is loopback
        assert other.tolist() == [[1.5, 2.5]]
    bp.save({"x": x}, tmp_path / "x.safetensors")
    assert bp.load(tmp_path / "x.safetensors")["x"].tolist() == [[1.5, 2.5]]
    there = bp.load(tmp_path / "x.safetensors", device=loopback)["x"]
    assert (there.device, there.tolist()) == (loopback, [[1.5, 2.5]])
    assert "loopback" in repr(bp.load(tmp_path / "x.safetensors", device="loopback")["x"])


def test_devices_do_not_mix(loopback: bp.Device) -> None:
    x = bp.ones(2, device=loopback)
    with pytest.raises(DeviceError, match=r"on loopback   made at(.|\n)*on cpu(.|\n)*\.to\(dev"):
        bp.matmul(x, bp.ones(2))
    y = bp.zeros(2, device=loopback)
    y.assign(bp.ones(2))  # an assignment moves what it is given
    assert (y.device, y.tolist()) == (loopback, [1.0, 1.0])
    y += 1
    y[0] = 5
    assert y.tolist() == [5.0, 2.0]


def test_modules_and_optimisers_go_where_their_parameters_go(loopback: bp.Device) -> None:
    results = []
    for place in ("cpu", loopback):
        bp.manual_seed(1)
        model = bp.nn.Linear(4, 3)
        optimizer = bp.optim.AdamW(model.parameters(), lr=0.1)
        for turn in range(4):
            if turn == 1:
                model.to(place)
            x = bp.tensor(np.linspace(-1, 1, 8).reshape(2, 4).astype(np.float32))
            loss = (model(x.to(model.weight.device)) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        results.append([p.numpy().tobytes() for p in model.parameters()])
        assert model.weight.device == bp.Device(place)
        state = {name: value.to("cpu") for name, value in optimizer.state_dict().items()}
        optimizer.load_state_dict(state)
        assert optimizer.step_count.device == bp.Device(place)
    assert results[0] == results[1]
    mixed = bp.nn.Linear(4, 3)
    with pytest.raises(DeviceError, match="parameter 0 is on loopback, parameter 2 on cpu"):
        bp.optim.SGD([*model.parameters(), *mixed.parameters()], lr=0.1).step()


def test_jit_runs_uncaptured(loopback: bp.Device) -> None:
    step = bp.jit(lambda x, y: (x.to(loopback) * 2).to("cpu") + y)
    for number in range(4):
        assert step(bp.full((3,), float(number)), bp.ones(3)).tolist() == [2.0 * number + 1] * 3
    assert "on several devices, or on one without plans; it ran uncaptured" in step.report()


def _reached(work: Any) -> bool:
    deadline = time.monotonic() + 60
    while not work.is_reached() and time.monotonic() < deadline:
        time.sleep(0.001)
    return work.is_reached()


def test_moves_overlap_with_work(loopback: bp.Device) -> None:
    """While the thread's stream is held up, values come and go beside it."""
    ready = bp.tensor(np.arange(1000.0), device=loopback)
    there = (ready * 2).realise()
    there.numpy()
    stream: Any = current_stream(loopback)
    gate = threading.Event()
    stream._queue.handle.jobs.put(gate.wait)
    try:
        slow = (there + 1).realise()
        uploaded = bp.tensor(np.ones(1000)).to(loopback).realise()
        downloaded = there.to("cpu").realise()
        assert _reached(uploaded._node.block.work)
        assert downloaded.numpy()[-1] == 1998
        assert not slow._node.block.work.is_reached()
        behind = (uploaded + slow).to("cpu").realise()
        assert not behind._node.block.work.is_reached()
    finally:
        gate.set()
    assert behind.numpy()[-1] == 2000
