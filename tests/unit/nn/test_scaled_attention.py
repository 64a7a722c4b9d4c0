"""scaled_dot_product_attention: both ways against NumPy, masks, rows that see nothing, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, ShapeError
from bedplate.nn.functional import scaled_dot_product_attention as attention

RNG = np.random.default_rng(0)
INF = math.inf


def arrays(*shapes: tuple[int, ...]) -> Any:
    return [RNG.normal(size=shape) for shape in shapes]


def wanted(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """In float64, with zeros for rows that see nothing."""
    if k.ndim > 2 and q.shape[-3] != k.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -INF) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = shares.sum(-1, keepdims=True)
    return shares / np.where(total == 0, 1, total) @ v


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 3, 7, 4), (2, 3, 9, 4), (2, 3, 9, 4)),
        ((3, 7, 4), (3, 9, 4), (3, 9, 4)),
        ((7, 4), (9, 4), (9, 5)),
        ((2, 1, 3, 7, 4), (2, 1, 3, 5, 4), (2, 1, 3, 5, 4)),
        ((2, 3, 7, 4), (1, 3, 9, 4), (3, 9, 4)),
        ((2, 4, 7, 4), (2, 2, 9, 4), (2, 2, 9, 6)),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_shapes(q: Any, k: Any, v: Any, causal: bool) -> None:
    inputs = arrays(q, k, v)
    mask = np.tri(q[-2], k[-2], dtype=bool) if causal else None
    groups = len(q) == len(k) == 4 and q[1] != k[1]
    bare: Any = [bp.tensor(x) for x in inputs]
    got = attention(*bare, is_causal=causal, enable_gqa=groups)
    np.testing.assert_allclose(got.numpy(), wanted(*inputs, mask), rtol=1e-9, atol=1e-12)
    assert bp.gradcheck(
        lambda q, k, v: attention(q, k, v, is_causal=causal, enable_gqa=groups), bare
    )


MASKS: dict[str, Any] = {
    "bool": RNG.random((2, 1, 5, 6)) < 0.6,
    "of keys": np.array([True, True, False, True, False, True]),
    "added": np.where(RNG.random((5, 6)) < 0.6, RNG.normal(size=(5, 6)), -INF),
    "none is seen": np.zeros((5, 6), bool),
    "some rows see none": np.repeat([[True], [False], [True], [False], [True]], 6, 1),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("heads", [4, 2])
def test_masks(name: str, heads: int) -> None:
    """B01 beside it: a row that sees nothing is zeros, and so are its gradients."""
    mask = MASKS[name]
    inputs = arrays((2, 4, 5, 3), (2, heads, 6, 3), (2, heads, 6, 3))
    q, k, v = (bp.tensor(x) for x in inputs)
    got = attention(q, k, v, bp.tensor(mask), enable_gqa=heads == 2)
    np.testing.assert_allclose(got.numpy(), wanted(*inputs, mask), rtol=1e-12, atol=1e-14)

    def function(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, bp.tensor(mask), enable_gqa=heads == 2)

    assert bp.gradcheck(function, [q, k, v])
    assert bp.gradgradcheck(function, [q[:1, :, :2], k[:1], v[:1]]) if mask.ndim == 1 else True


def test_an_added_mask_has_a_gradient() -> None:
    inputs = [bp.tensor(x) for x in arrays((5, 3), (6, 3), (6, 3), (5, 6))]
    assert bp.gradcheck(lambda q, k, v, m: attention(q, k, v, m), inputs)
    assert bp.gradgradcheck(lambda q, k, v, m: attention(q, k, v, m), inputs)


def test_nan_is_not_taken_for_a_mask() -> None:
    q, k, v = (bp.tensor(x) for x in arrays((5, 3), (6, 3), (6, 3)))
    mask = bp.tensor(np.full((5, 6), math.nan))
    assert np.isnan(attention(q, k, v, mask).numpy()).all()


def test_causal_counts_from_the_first_key() -> None:
    """As in PyTorch: with more keys than queries the last keys are seen by nobody."""
    inputs = arrays((1, 2, 3, 4), (1, 2, 8, 4), (1, 2, 8, 4))
    q, k, v = (bp.tensor(x) for x in inputs)
    first = attention(q, k[:, :, :3], v[:, :, :3], is_causal=True).numpy()
    np.testing.assert_array_equal(attention(q, k, v, is_causal=True).numpy(), first)
    np.testing.assert_allclose(first, wanted(*inputs, np.tri(3, 8, dtype=bool)), rtol=1e-9)


def test_no_keys_give_zeros() -> None:
    q, none = bp.ones((1, 2, 3, 4)), bp.ones((1, 2, 0, 4))
    zeros = np.zeros((1, 2, 3, 4))
    np.testing.assert_array_equal(attention(q, none, none).numpy(), zeros)
    mask = bp.ones((3, 0), dtype=bp.bool_)
    np.testing.assert_array_equal(attention(q, none, none, mask).numpy(), zeros)


def test_narrow_floats_are_computed_in_float32() -> None:
    q, k, v = (bp.tensor(x).astype(bp.bfloat16) for x in arrays((2, 9, 8), (2, 7, 8), (2, 7, 8)))
    mask = bp.tensor(RNG.random((9, 7)) < 0.7)
    got = attention(q, k, v, mask)
    wide = [x.numpy().astype(np.float64) for x in (q, k, v)]
    assert got.dtype is bp.bfloat16
    np.testing.assert_allclose(
        got.numpy().astype(np.float64), wanted(*wide, mask.numpy()), rtol=0.005, atol=0.005
    )


def test_dropout_draws_from_the_generator() -> None:
    q, k, v = (bp.tensor(x) for x in arrays((2, 2, 64, 8), (2, 2, 64, 8), (2, 2, 64, 8)))
    once = attention(q, k, v, dropout_p=0.3, generator=bp.Generator(1)).numpy()
    again = attention(q, k, v, dropout_p=0.3, generator=bp.Generator(1)).numpy()
    other = attention(q, k, v, dropout_p=0.3, generator=bp.Generator(2)).numpy()
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()
    ones = bp.ones_like(v)
    total = attention(q, k, ones, dropout_p=0.3, is_causal=True).numpy()
    assert total.mean() == pytest.approx(1.0, abs=0.05)  # kept weights are scaled up


def test_refusals() -> None:
    q, k = bp.ones((1, 4, 5, 3)), bp.ones((1, 3, 6, 3))
    cases: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (ShapeError, "the shapes do not fit", lambda: attention(q, k, k[:, :, :4])),
        (ShapeError, "the shapes do not fit", lambda: attention(q[0, 0, 0], k, k)),
        (ShapeError, "query and key differ in their last size",
         lambda: attention(q, k[..., :2], k)),
        (ShapeError, "the heads do not fit", lambda: attention(q, k, k, enable_gqa=True)),
        (ShapeError, "the shapes do not broadcast",
         lambda: attention(q, q, q, bp.ones((4, 5), dtype=bp.bool_))),
        (DTypeError, "the dtypes must be one float dtype",
         lambda: attention(q, q, q.astype(bp.float64))),
        (DTypeError, "a mask is bool or float",
         lambda: attention(q, q, q, bp.ones((5, 5), dtype=bp.int64))),
        (ValueError, "attn_mask and is_causal exclude each other",
         lambda: attention(q, q, q, bp.ones((5, 5), dtype=bp.bool_), is_causal=True)),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()


def test_heads_must_divide() -> None:
    with pytest.raises(ShapeError, match="MultiheadAttention: 3 heads do not divide 8"):
        bp.nn.MultiheadAttention(8, 3)


def test_dropout_of_a_module_ends_with_training() -> None:
    module = bp.nn.MultiheadAttention(8, 2, dropout=0.5)
    x = bp.tensor(RNG.normal(size=(6, 8)).astype(np.float32))
    first, second = (module(x, x, x)[0].numpy() for _ in range(2))
    assert (first != second).any()
    module.eval()
    first, second = (module(x, x, x, need_weights=False)[0].numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
