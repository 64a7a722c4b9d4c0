"""The memory of a device: reuse in the order of queues, no room, what comes home."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices import register
from bedplate.devices.block import DeviceBlock
from bedplate.errors import InternalError, OutOfMemoryError
from bedplate.testing import LoopbackBackend


@pytest.fixture(scope="module")
def small() -> bp.Device:
    """A device of 64 MiB."""
    register(LoopbackBackend("small_loopback", capacity_bytes=64 << 20))
    return bp.Device("small_loopback")


def runtime(device: bp.Device) -> Any:
    return device.runtime


def settled_bytes(device: bp.Device) -> int:
    """Bytes in use when all work is done and all that is dropped has come home."""
    gc.collect()
    runtime(device).settle_all()
    runtime(device).pool._drain()
    return runtime(device).pool.live_bytes


def test_what_is_dropped_comes_home(loopback: bp.Device) -> None:
    before = settled_bytes(loopback)
    x = bp.ones((1000, 100), device=loopback).realise()
    y = (x * 2).sum(axis=0).realise()
    assert settled_bytes(loopback) >= before + 400_000
    del x, y
    assert settled_bytes(loopback) == before


def test_long_loops_take_no_more_memory(loopback: bp.Device) -> None:
    x = bp.zeros(5000, device=loopback)
    sizes = []
    for step in range(150):
        x = (x * 0.5 + bp.tensor(np.full(5000, step, np.float32)).to(loopback)).realise()
        if step % 50 == 49:
            pool = runtime(loopback).pool
            settled_bytes(loopback)
            sizes.append(pool.live_bytes + pool.free_bytes)
    assert sizes[1] == sizes[2]


def test_a_queue_reuses_its_own_at_once_and_others_when_it_is_done(loopback: bp.Device) -> None:
    pool = runtime(loopback).pool
    with bp.Stream(loopback) as first:
        queue: Any = first._queue
        block = DeviceBlock(3_000_000, queue)
        address = block.address
        del block
        again = DeviceBlock(3_000_000, queue)
        assert again.address == address
        (bp.ones(10, device=loopback) + 1).realise()
        del again
        pool._drain()
    with bp.Stream(loopback) as second:
        other: Any = second._queue
        queue.settle_all()
        third = DeviceBlock(3_000_000, other)
        assert third.address == address  # all work of the first queue is done


def test_no_room_names_the_holders_and_all_goes_on(small: bp.Device) -> None:
    held = [(bp.ones(4 << 20, device=small) * n).realise() for n in range(3)]  # 16 MiB each
    big = bp.ones(4 << 20, device=small)
    with pytest.raises(OutOfMemoryError) as caught:
        y = [(big + n).realise() for n in range(4)]
    text = str(caught.value)
    assert re.search(r"allocate: no memory for 16.0 MiB on small_loopback", text)
    assert "the device says:" in text
    assert text.count("16.0 MiB   made at") >= 3
    assert held[2].numpy()[0] == 2
    y = held = None
    gc.collect()
    assert (bp.ones(8 << 20, device=small) * 3).numpy()[-1] == 3
    assert y is held is None


def test_what_is_kept_makes_room(small: bp.Device) -> None:
    for n in range(1, 9):  # each another size
        assert (bp.ones((n << 20) + 1, device=small) * n).numpy()[-1] == n


def test_without_pooling(small: bp.Device) -> None:
    with bp.config(pooling=False):
        for n in range(4):
            assert (bp.ones(1 << 20, device=small) + n).sum().item() == (n + 1) << 20
    assert settled_bytes(small) < 64 << 20


def test_a_block_gives_copies(loopback: bp.Device) -> None:
    x = bp.tensor([1.0, 2.0, 3.0], device=loopback)
    block = x.realise()._node.block
    assert isinstance(block, DeviceBlock)
    assert repr(block) == "<DeviceBlock 12 bytes on loopback>"
    first = block.array("float32", (3,))
    first[:] = 0
    assert block.array("float32", (3,)).tolist() == [1.0, 2.0, 3.0]
    shown = x.numpy(copy=False)
    assert not shown.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        shown.flags.writeable = True
    with pytest.raises(InternalError, match=r"\(4,\) float32 does not fit 12 bytes"):
        block.array("float32", (4,))


def test_empty_tensors(loopback: bp.Device) -> None:
    x = bp.zeros((0, 3), device=loopback)
    assert (x + 1).sum(axis=0).tolist() == [0.0, 0.0, 0.0]
    assert x.to("cpu").numpy().shape == (0, 3)
    assert bp.zeros((0, 3)).to(loopback).tolist() == []
