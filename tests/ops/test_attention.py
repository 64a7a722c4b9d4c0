"""Attention's kernels against the textbook formulas in float64: shapes, layouts, threads, words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.realise import clear_plans
from bedplate.errors import DTypeError, ShapeError
from bedplate.kernel import f32
from bedplate.kernel.target import find_target
from bedplate.ops.attention import tiles as attention_tiles
from bedplate.ops.attention.attention import ATTENTION
from bedplate.ops.attention.backward import ATTENTION_BACKWARD
from bedplate.ops.attention.decode import decode_kernel
from bedplate.ops.attention.forward import forward_kernel
from bedplate.ops.attention.lower import n_pairs
from bedplate.ops.attention.reverse import backward_kernel
from bedplate.ops.attention.tiles import Geometry

DTYPES = [np.float32, np.float64, ml_dtypes.bfloat16, np.float16]
# B, H, K, T, S, D, causal, window: tails of every kind, groups, more queries than keys, one key
SHAPES = [
    (2, 4, 2, 70, 70, 20, True, None),
    (1, 2, 2, 33, 100, 64, True, 40),
    (1, 3, 1, 33, 129, 17, False, None),
    (1, 1, 1, 40, 20, 16, True, None),
    (1, 2, 1, 200, 200, 8, True, 65),
    (1, 2, 1, 9, 9, 128, True, 1),
    (1, 2, 2, 1, 300, 64, True, None),
    (1, 4, 1, 1, 300, 40, True, 100),
    (2, 4, 2, 7, 150, 33, True, 64),
    (1, 2, 1, 8, 3, 16, True, None),
    (1, 1, 1, 5, 1, 1, True, None),
    (1, 2, 1, 64, 64, 192, True, None),
]
# relative to the greatest value; sums of some hundred terms
TOLERANCE = {"float64": 1e-13, "float32": 4e-6, "bfloat16": 0.02, "float16": 0.003}


def make(shape: Any, dtype: Any, seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
    """q, k, v, grad_out, and the op's attributes."""
    b, h, n_key_heads, t, s, d, causal, window = shape
    generator = np.random.default_rng(seed)
    sizes = ((b, h, t, d), (b, n_key_heads, s, d), (b, n_key_heads, s, d), (b, h, t, d))
    arrays = [generator.normal(size=size).astype(dtype) for size in sizes]
    return arrays, {"causal": causal, "window": window, "scale": d**-0.5}


def run(
    arrays: list[Any], attributes: dict[str, Any], length: Any = None
) -> list[np.ndarray[Any, Any]]:
    """out, dq, dk, dv on the CPU."""
    q, k, v, grad = (bp.Tensor(array) for array in arrays)
    for x in (q, k, v):
        x.requires_grad = True
    options = {name: attributes[name] for name in ("causal", "window", "scale")}
    out = bp.attention(q, k, v, length=length, **options)
    (out * grad).sum().backward()
    return [x.numpy() for x in (out, q.grad, k.grad, v.grad)]


def oracle(arrays: list[Any], attributes: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    q, k, v, grad = (array.astype(np.float64) for array in arrays)
    out, lse = ATTENTION.reference(q, k, v, **attributes)
    return [out, *ATTENTION_BACKWARD.reference(q, k, v, out, lse, grad, **attributes)]


def assert_near(found: Any, wanted: Any, dtype: Any) -> None:
    for name, a, b in zip(("out", "dq", "dk", "dv"), found, wanted, strict=True):
        limit = TOLERANCE[np.dtype(dtype).name] * max(np.abs(b).max(initial=0), 1)
        error = np.abs(a.astype(np.float64) - b).max(initial=0)
        assert error <= limit, f"{name}: {error} > {limit}"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_agrees_with_the_formulas(shape: Any, dtype: Any) -> None:
    arrays, attributes = make(shape, dtype)
    assert_near(run(arrays, attributes), oracle(arrays, attributes), dtype)


@pytest.mark.parametrize("n_queries", [5, 40])
def test_strided_operands_are_read_in_place(n_queries: int) -> None:
    """(B, T, H, D) with heads moved to the front, a part of a wider head, repeated gradients."""
    generator = np.random.default_rng(1)
    wide = [generator.normal(size=(2, n, h, 24)).astype(np.float32)
            for n, h in ((n_queries, 4), (50, 2), (50, 2))]  # fmt: skip
    tensors = [bp.Tensor(x, requires_grad=True) for x in wide]
    q, k, v = (x.permute(0, 2, 1, 3)[..., 3:19] for x in tensors)
    bp.attention(q, k, v).sum().backward()
    cut = [x.transpose(0, 2, 1, 3)[..., 3:19] for x in wide]
    attributes = {"causal": True, "window": None, "scale": 0.25}
    expected = oracle([*cut, np.ones(cut[0].shape)], attributes)
    for tensor, want in zip(tensors, expected[1:], strict=True):
        got = tensor.grad.numpy().transpose(0, 2, 1, 3)[..., 3:19]
        np.testing.assert_allclose(got, want, atol=2e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[1], SHAPES[8]], ids=str)
def test_results_stored_by_position_are_those_stored_by_head(shape: Any, dtype: Any) -> None:
    arrays, attributes = make(shape, dtype)
    wide = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in arrays]

    def by_position() -> list[np.ndarray[Any, Any]]:
        tensors = [bp.Tensor(x, requires_grad=True) for x in wide[:3]]
        q, k, v = (x.permute(0, 2, 1, 3) for x in tensors)
        out = bp.attention(q, k, v, **attributes).permute(0, 2, 1, 3)
        (out * bp.Tensor(wide[3])).sum().backward()
        results = [out, *(x.grad for x in tensors)]
        return [x.numpy().transpose(0, 2, 1, 3) for x in results]

    found = by_position()
    assert_near(found, oracle(arrays, attributes), dtype)
    with bp.config(fusion=False):
        for a, b in zip(found, by_position(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_heads_along_the_last_axis_are_copied_first() -> None:
    arrays, attributes = make((1, 2, 1, 20, 20, 16, True, None), np.float32)
    turned = [bp.Tensor(x.swapaxes(-1, -2).copy()).transpose(-1, -2) for x in arrays[:3]]
    out = bp.attention(*turned, scale=attributes["scale"]).numpy()
    np.testing.assert_array_equal(out, run(arrays, attributes)[0])


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[8]], ids=str)
def test_same_bits_at_any_number_of_threads(shape: Any) -> None:
    arrays, attributes = make(shape, np.float32)
    results = []
    for threads in (True, False):
        with bp.config(threads=threads):
            results.append(run(arrays, attributes))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    """The last 20 queries alone give the bits that they have among all."""
    arrays, attributes = make((1, 2, 1, 100, 100, 16, True, None), np.float32)
    whole = run(arrays, attributes)[0]
    q, k, v, grad = arrays
    part = run([q[:, :, 80:], k, v, grad[:, :, 80:]], attributes)[0]
    np.testing.assert_array_equal(part, whole[:, :, 80:])


@pytest.mark.parametrize("n_queries", [3, 40])
def test_a_query_that_sees_no_key_gives_zeros(n_queries: int) -> None:
    arrays, attributes = make((1, 1, 1, n_queries, 1, 4, True, None), np.float32)
    out, dq, _, dv = run(arrays, attributes)
    assert not out[0, 0, :-1].any() and not dq[0, 0, :-1].any()
    np.testing.assert_array_equal(out[0, 0, -1], arrays[2][0, 0, 0])
    np.testing.assert_allclose(dv[0, 0, 0], arrays[3][0, 0, -1], rtol=1e-6)


@pytest.mark.parametrize("n_queries", [2, 40])
def test_huge_scores_and_not_a_number(n_queries: int) -> None:
    arrays, attributes = make((1, 2, 2, n_queries, n_queries, 8, False, None), np.float32)
    arrays[0][0, 0] *= 1e4  # the softmax becomes a choice of one key
    out = run(arrays, attributes)[0]
    np.testing.assert_allclose(out, oracle(arrays, attributes)[0], atol=1e-4)
    arrays[0][0, 0, 1, 3] = np.nan
    out = run(arrays, attributes)[0]
    assert np.isnan(out[0, 0, 1]).all()
    assert np.isfinite(np.delete(out[0, 0], 1, axis=0)).all() and np.isfinite(out[0, 1]).all()


@pytest.mark.parametrize("sizes", [(0, 2, 1, 4), (1, 2, 0, 4), (1, 2, 12, 0), (2, 0, 3, 5)])
def test_empty_sizes(sizes: Any) -> None:
    batch, heads, n_queries, n_keys = sizes
    shape = (batch, heads, heads // 2, n_queries, n_keys, 8, True, None)
    arrays, attributes = make(shape, np.float32)
    for found, array in zip(run(arrays, attributes), [arrays[0], *arrays[:3]], strict=True):
        assert found.shape == array.shape and not found.any()


def test_pairs_that_see_each_other_are_counted() -> None:
    cases = ((5, 5, None), (3, 9, 2), (9, 3, None), (9, 3, 2), (0, 4, None))
    for n_queries, n_keys, window in cases:
        behind = np.arange(n_queries)[:, None] + n_keys - n_queries - np.arange(n_keys)
        seen = (behind >= 0) & (behind < (window or n_keys))
        attributes = {"causal": True, "window": window}
        assert n_pairs(n_queries, n_keys, attributes) == seen.sum()


def test_refusals_name_the_inputs() -> None:
    q = bp.zeros((1, 3, 4, 8))
    with pytest.raises(ShapeError, match=r"attention: the shapes do not fit\n  q  \(1, 3, 4, 8\)"):
        bp.attention(q, bp.zeros((1, 2, 4, 8)), bp.zeros((1, 2, 4, 8)))
    with pytest.raises(ShapeError, match="attention: a window of 0"):
        bp.attention(q, q, q, window=0)
    with pytest.raises(DTypeError, match="attention: the dtypes must be one float dtype"):
        bp.attention(q, q, bp.zeros((1, 3, 4, 8), dtype=bp.complex64))


def forget_kernels() -> None:
    clear_plans()
    for kernel in (forward_kernel, decode_kernel, backward_kernel):
        kernel.cache_clear()


@pytest.mark.parametrize("target", ["avx2", "aarch64"])
def test_narrower_machines_take_the_same_steps(target: str, monkeypatch: Any) -> None:
    """The kernels as they are made for fewer and shorter registers, run here."""
    forget_kernels()
    monkeypatch.setattr(attention_tiles, "host", lambda: find_target(target))
    for shape in (SHAPES[0], SHAPES[2], SHAPES[4], SHAPES[8]):
        arrays, attributes = make(shape, np.float32)
        assert_near(run(arrays, attributes), oracle(arrays, attributes), np.float32)
    forget_kernels()


@pytest.mark.parametrize(
    "target, register", [("avx2", "%ymm"), ("avx512", "%zmm"), ("aarch64", "fmla\tv")]
)
def test_every_target_gets_vector_code(target: str, register: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(attention_tiles, "host", lambda: find_target(target))
    g = Geometry(f32, 16, True, False)
    for kernel in (forward_kernel, decode_kernel, backward_kernel):
        assert register in kernel.__wrapped__(g).assembly(target)


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2], SHAPES[4], SHAPES[7], SHAPES[8]], ids=str)
@pytest.mark.parametrize("length", [0, 1, 50, 1000])
def test_keys_past_the_length_are_not_there(shape: Any, length: int) -> None:
    """As if the keys were cut; what lies past them may be anything."""
    arrays, attributes = make(shape, np.float32)
    there = min(length, shape[4])
    cut = [arrays[0], *(x[:, :, :there] for x in arrays[1:3]), arrays[3]]
    wanted = run(cut, attributes)
    for x in arrays[1:3]:
        x[:, :, there:] = np.nan
    found = run(arrays, attributes, bp.tensor(length))
    assert not found[2][:, :, there:].any() and not found[3][:, :, there:].any()
    found[2:] = [x[:, :, :there] for x in found[2:]]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
