"""Attention by tensor cores: the kernel in the interpreter, and its way through the back end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.devices.cuda.fake import BACKEND as FAKE
from tests.unit.devices.cuda.test_tensor_cores import NUMPY, Barriers, placed

import bedplate as bp
from bedplate.config import config
from bedplate.devices import register
from bedplate.errors import KernelError
from bedplate.kernel import bf16, f16
from bedplate.ops.attention import tensor_cores
from bedplate.ops.attention import tensor_cores_reverse as reverse
from bedplate.ops.attention.backward import reference as backward_reference
from bedplate.ops.attention.backward import weights
from bedplate.ops.attention.tensor_cores import ROWS, WARPS, forward_kernel
from bedplate.ops.attention.tiles import Geometry

EPS = {bf16: 2.0**-8, f16: 2.0**-11}
NO_WINDOW = 2**30


def inputs(shape: Any, n_keys: int, group: int, element: Any) -> list[Any]:
    batch, heads, _, width = shape
    rng = np.random.default_rng(n_keys)
    sizes = (shape, *[(batch, heads // group, n_keys, width)] * 2)
    return [placed(rng.normal(size=size).astype(NUMPY[element])) for size in sizes]


def strides(array: Any) -> list[int]:
    return [step // array.itemsize for step in array.strides[:3]]


def run(
    q: Any, k: Any, v: Any, element: Any, causal: bool = True, window: int | None = None,
    length: int | None = None, warps: int = 1,
) -> tuple[Any, Any]:  # fmt: skip
    """(out, lse) by the interpreter, with scale 0.3."""
    batch, heads, n_queries, width = q.shape
    out, lse = placed(np.full_like(q, 7)), placed(np.full(q.shape[:3], 7, np.float32))
    counted, windowed = length is not None, window is not None
    g = Geometry(element, width, causal or windowed, windowed, counted)
    number = placed(np.array([length or 0]))
    blocks = -(-n_queries // (ROWS * warps))
    arrays = [q, k, v, out, lse]
    words = [
        *(x.ctypes.data for x in arrays), 0, 0, heads, heads // k.shape[1], n_queries, k.shape[2],
        blocks, *(step for x in (q, k, v, out) for step in strides(x)), window or NO_WINDOW,
        int(np.float64(0.3).view(np.int64)), number.ctypes.data,
    ]  # fmt: skip
    tensor_cores.forward_kernel(g, width % 8 == 0, warps).interpret(
        np.array(words), 0, batch * heads * blocks, 0, memory=[*arrays, number]
    )
    return out, lse


def expected(
    q: Any, k: Any, v: Any, causal: bool = True, window: int | None = None,
    length: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    p, lse, _ = weights(q, k, length, scale=0.3, causal=causal, window=window)
    return p @ np.repeat(v.astype(np.float64), q.shape[1] // k.shape[1], 1), lse


@pytest.mark.parametrize(
    ("shape", "n_keys", "group", "element", "options"),
    [
        ((1, 1, 18, 16), 18, 1, bf16, {}),
        ((1, 2, 5, 20), 70, 2, bf16, {"window": 9}),
        ((1, 1, 3, 3), 5, 1, f16, {"causal": False}),
        ((1, 1, 9, 8), 5, 1, bf16, {}),  # the first four see no key
        ((1, 1, 2, 24), 66, 1, f16, {"causal": False, "length": 65}),
        ((1, 1, 2, 8), 6, 1, bf16, {"length": 3}),
        ((1, 1, 2, 8), 6, 1, bf16, {"length": 0}),
        ((1, 1, 1, 40), 1, 1, f16, {"warps": 2}),
    ],
)
def test_against_the_reference(
    shape: Any, n_keys: int, group: int, element: Any, options: dict[str, Any]
) -> None:
    q, k, v = inputs(shape, n_keys, group, element)
    out, lse = run(q, k, v, element, **options)
    options.pop("warps", None)
    wanted, wanted_lse = expected(q, k, v, **options)
    np.testing.assert_allclose(lse, wanted_lse, rtol=1e-5, atol=1e-5)
    error = np.abs(out.astype(np.float64) - wanted)
    # of the weights, of the values' sum and of the result, each rounded once
    assert (error <= 3 * EPS[element] * np.abs(v.astype(np.float64)).max()).all(), error.max()


def test_warps_do_not_change_the_bits() -> None:
    q, k, v = inputs((1, 1, 20, 8), 20, 1, bf16)
    one, four = (run(q, k, v, bf16, warps=warps)[0] for warps in (1, WARPS))
    assert one.tobytes() == four.tobytes()


def test_what_is_not_seen_is_not_read() -> None:
    """NaN behind the length, and in rows that lie beside a head's."""
    q, k, v = inputs((1, 1, 2, 8), 70, 1, bf16)
    k[:, :, 40:], v[:, :, 40:] = np.nan, np.nan
    out, lse = run(q, k, v, bf16, length=40)
    assert np.isfinite(out.astype(np.float32)).all() and np.isfinite(lse).all()


def test_a_nan_spoils_those_who_see_it() -> None:
    q, k, v = inputs((1, 1, 4, 8), 4, 1, bf16)
    k[0, 0, 2, 1] = np.nan
    out, _ = run(q, k, v, bf16)
    assert np.isnan(out.astype(np.float32)).all(-1)[0, 0].tolist() == [False, False, True, True]


@pytest.mark.parametrize("left_out", range(4))
def test_each_barrier_is_needed(left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks of queries, two tiles of keys, without one of the barriers."""
    barriers = Barriers(left_out)
    monkeypatch.setattr(tensor_cores, "block_barrier", barriers)
    monkeypatch.setattr(tensor_cores, "forward_kernel", forward_kernel.__wrapped__)
    q, k, v = inputs((1, 1, 17, 8), 70, 1, bf16)
    with pytest.raises(KernelError, match=r"use the same shared memory|a shared array before"):
        run(q, k, v, bf16)
    assert barriers.traced == 4


def gradients(
    q: Any, k: Any, v: Any, element: Any, causal: bool = True, window: int | None = None,
    length: int | None = None, warps: int = 1,
) -> tuple[Any, Any]:  # fmt: skip
    """(dq, dk, dv) by the interpreter, and by the reference in float64."""
    batch, heads, n_queries, width = q.shape
    key_heads, n_keys = k.shape[1:3]
    options = {"causal": causal, "window": window}
    out, lse = expected(q, k, v, length=length, **options)
    rng = np.random.default_rng(3)
    grad = placed(rng.normal(size=q.shape).astype(q.dtype))
    arrays = [q, k, v, placed(out.astype(q.dtype)), placed(lse.astype(np.float32)), grad]
    made = [placed(np.full_like(x, 7)) for x in (q, k, v)]
    delta, number = placed(np.zeros(q.shape[:3], np.float32)), placed(np.array([length or 0]))
    counted, windowed = length is not None, window is not None
    g = Geometry(element, width, causal or windowed, windowed, counted)
    memory = [*arrays, *made, delta]
    for make, rows, n_heads in (
        (reverse.queries_kernel, n_queries, heads), (reverse.keys_kernel, n_keys, key_heads)
    ):  # fmt: skip
        blocks = -(-rows // (ROWS * warps))
        words = [
            *(x.ctypes.data for x in memory), blocks, key_heads, heads // key_heads, n_queries,
            n_keys, *(step for x in (*arrays[:4], grad, made[2]) for step in strides(x)),
            window or NO_WINDOW, int(np.float64(0.3).view(np.int64)), number.ctypes.data,
        ]  # fmt: skip
        make(g, width % 8 == 0, warps).interpret(
            np.array(words), 0, batch * n_heads * blocks, 0, memory=[*memory, number]
        )
    wide = [x.astype(np.float64) for x in (*arrays[:4], arrays[4], grad)]
    return made, backward_reference(*wide, length, scale=0.3, **options)


@pytest.mark.parametrize(
    ("shape", "n_keys", "group", "element", "options"),
    [
        ((1, 1, 18, 16), 18, 1, bf16, {}),
        ((1, 2, 5, 20), 40, 2, bf16, {"window": 9}),
        ((1, 1, 3, 3), 5, 1, f16, {"causal": False}),
        ((1, 1, 9, 8), 5, 1, bf16, {}),
        ((1, 1, 35, 8), 6, 1, bf16, {"length": 3}),
        ((1, 1, 40, 8), 40, 1, f16, {"window": 5}),
        ((1, 1, 3, 8), 3, 1, f16, {"warps": 4}),
    ],
)
def test_gradients_against_the_reference(
    shape: Any, n_keys: int, group: int, element: Any, options: dict[str, Any]
) -> None:
    found, wanted = gradients(*inputs(shape, n_keys, group, element), element, **options)
    for mine, other in zip(found, wanted, strict=True):
        error = np.abs(mine.astype(np.float64) - other)
        assert (error <= 4 * EPS[element] * max(np.abs(other).max(), 1.0)).all(), error.max()


@pytest.mark.parametrize("left_out", range(6))
@pytest.mark.parametrize("name", ["queries_kernel", "keys_kernel"])
def test_each_barrier_of_the_gradients_is_needed(
    name: str, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    barriers = Barriers(left_out)
    make = getattr(reverse, name).__wrapped__

    def faulty(*arguments: Any) -> Any:
        with monkeypatch.context() as context:
            context.setattr(reverse, "block_barrier", barriers)
            task = make(*arguments)
            _ = task.ir  # traced meanwhile
        return task

    monkeypatch.setattr(reverse, name, faulty)
    with pytest.raises(KernelError, match=r"use the same shared memory|a shared array before"):
        gradients(*inputs((1, 1, 40, 8), 40, 1, bf16), bf16)
    assert barriers.traced == 6


def test_through_the_back_end() -> None:
    register(FAKE)
    rng = np.random.default_rng(0)
    shape = (1, 1, 10, 8)
    arrays = [rng.normal(size=shape).astype(NUMPY[bf16]) for _ in range(3)]
    found = []
    for place in ("cpu", "fakecuda"):
        FAKE.driver.launched.clear()
        q, k, v = (bp.tensor(x, device=place, requires_grad=True) for x in arrays)
        out = bp.attention(q, k, v)
        out.astype(bp.float32).square().sum().backward()
        found.append([x.numpy().astype("f4") for x in (out, q.grad, k.grad, v.grad)])
    assert (1, 32 * WARPS) in FAKE.driver.launched  # one block of queries
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, rtol=3e-2, atol=3e-2)
    with config(tensor_cores=False):
        q, k, v = (bp.tensor(x, device="fakecuda") for x in arrays)
        assert bp.attention(q, k, v).numpy().astype("f4").tobytes() == found[0][0].tobytes()
