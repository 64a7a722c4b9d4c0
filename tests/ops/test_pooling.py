"""Pooling as users meet it: plain loops in float64, layouts, dtypes, ties and NaN, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.indexing.row_choice import ROW_ADD, ROW_TAKE
from bedplate.ops.pooling.records import MAX_POOL, WINDOW_SPREAD, WINDOW_SUM
from bedplate.ops.record import apply

NAN = math.nan


def floats(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def starts(size: int, window: int, stride: int, padding: int, dilation: int, ceil: bool) -> Any:
    """Where windows begin, by trying: each that fits, and with `ceil` one that reaches over."""
    found, start = [], -padding
    while start + dilation * (window - 1) < size + padding:
        found.append(start)
        start += stride
    last = found[-1] + dilation * (window - 1) if found else -1
    if ceil and last < size + padding - 1 and start < size:
        found.append(start)
    return found


def pooled(x: Any, window: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Any:
    """{output index: (flat indices of the elements inside, how many with padding)} by loops."""
    space = x.shape[2:]
    axes = [starts(*each, ceil) for each in
            zip(space, window, stride, padding, dilation, strict=True)]  # fmt: skip
    result = {}
    for out in itertools.product(*(range(len(a)) for a in axes)):
        met, counted = [], 1
        for axis, i in enumerate(out):
            first = axes[axis][i]
            places = [first + k * dilation[axis] for k in range(window[axis])]
            counted *= sum(p < space[axis] + padding[axis] for p in places)
            met.append([p for p in places if 0 <= p < space[axis]])
        flat = [int(np.ravel_multi_index(p, space)) for p in itertools.product(*met)]
        result[out] = flat, counted
    return result


# (shape, window, stride, padding, dilation, ceil_mode)
CASES = [
    ((2, 3, 7, 9), (3, 3), (2, 2), (1, 1), (1, 1), False),
    ((1, 2, 8, 37), (2, 5), (1, 1), (0, 2), (1, 1), False),
    ((2, 1, 10, 11), (3, 2), (3, 2), (1, 0), (2, 3), True),
    ((1, 2, 6, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((1, 1, 5, 40), (1, 6), (1, 3), (0, 3), (1, 1), True),
    ((2, 2, 33), (4,), (2,), (2,), (1,), True),
    ((1, 2, 70), (7,), (5,), (0,), (2,), False),
    ((1, 2, 5, 6, 7), (2, 3, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1), True),
    ((0, 2, 4, 4), (2, 2), (1, 1), (0, 0), (1, 1), False),
]


def by_rank(name: str, rank: int) -> Any:
    return getattr(F, f"{name}{rank}d")


@pytest.mark.parametrize("numbers", CASES, ids=str)
def test_max_pool_by_loops(numbers: Any, device: Any) -> None:
    shape, window, stride, padding, dilation, ceil = numbers
    x = floats(0, *shape)
    found, places = by_rank("max_pool", len(window))(
        bp.Tensor(x, device), window, stride, padding, dilation, ceil, return_indices=True
    )
    planes = x.reshape(*shape[:2], math.prod(shape[2:]))
    loops = pooled(x, window, stride, padding, dilation, ceil)
    assert found.shape[2:] == tuple(max(i) + 1 for i in zip(*loops, strict=True))
    assert places.dtype is bp.int64
    for out, (flat, _) in loops.items():
        np.testing.assert_array_equal(found.numpy()[(..., *out)], planes[..., flat].max(-1))
        wanted = np.asarray(flat)[planes[..., flat].argmax(-1)]
        np.testing.assert_array_equal(places.numpy()[(..., *out)], wanted)


@pytest.mark.parametrize("numbers", [c for c in CASES if set(c[4]) == {1}], ids=str)
@pytest.mark.parametrize("include", [True, False])
def test_avg_pool_by_loops(numbers: Any, include: bool, device: Any) -> None:
    shape, window, stride, padding, dilation, ceil = numbers
    x = floats(0, *shape)
    function = by_rank("avg_pool", len(window))
    found = function(bp.Tensor(x, device), window, stride, padding, ceil, include).numpy()
    planes = x.reshape(*shape[:2], math.prod(shape[2:]))
    for out, (flat, counted) in pooled(x, window, stride, padding, dilation, ceil).items():
        wanted = planes[..., flat].sum(-1) / (counted if include else len(flat))
        np.testing.assert_allclose(found[(..., *out)], wanted, rtol=1e-12, atol=1e-12)


ADAPTIVE = [((2, 3, 8, 9), (4, 3)), ((2, 3, 7, 10), (3, 4)), ((1, 2, 5, 6), (1, 1)),
            ((1, 2, 3, 4), (5, 7)), ((1, 2, 4, 5, 6), (2, 2, 3)), ((2, 2, 37), (5,)),
            ((0, 2, 5), (2,))]  # fmt: skip


@pytest.mark.parametrize(("shape", "out"), ADAPTIVE, ids=str)
def test_adaptive_pools_by_loops(shape: Any, out: Any, device: Any) -> None:
    x = floats(0, *shape)
    rank = len(out)
    mean = by_rank("adaptive_avg_pool", rank)(bp.Tensor(x, device), out).numpy()
    top, places = by_rank("adaptive_max_pool", rank)(bp.Tensor(x, device), out, True)
    flat = x.reshape(*shape[:2], math.prod(shape[2:]))
    assert mean.shape == top.shape == (*shape[:2], *out)
    for place in itertools.product(*(range(m) for m in out)):
        part = tuple(
            slice(math.floor(i * s / m), math.ceil((i + 1) * s / m))
            for i, s, m in zip(place, shape[2:], out, strict=True)
        )
        met = x[(..., *part)]
        met = met.reshape(*shape[:2], math.prod(met.shape[2:]))
        np.testing.assert_allclose(mean[(..., *place)], met.mean(-1), rtol=1e-12)
        np.testing.assert_array_equal(top.numpy()[(..., *place)], met.max(-1))
        chosen = np.take_along_axis(flat, places.numpy()[(..., *place)][..., None], -1)[..., 0]
        np.testing.assert_array_equal(chosen, met.max(-1))


FUNCTIONS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2),
    "avg": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "avg apart": lambda x: F.avg_pool2d(x, 2),
    "lp": lambda x: F.lp_pool2d(x, 3, 2, 1),
    "adaptive avg": lambda x: F.adaptive_avg_pool2d(x, (2, 4)),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, (2, 4)),
    "line": lambda x: F.max_pool1d(F.avg_pool1d(x[0], 3, 1), 2),
    "volume": lambda x: F.avg_pool3d(
        F.max_pool3d(x[None], (1, 2, 2), 1), (2, 1, 2), padding=(1, 0, 1)
    ),
}  # fmt: skip
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2),
    "stepped": lambda x: x[:, :, ::-1, ::2],
    "repeated": lambda x: x[:, :, :1].broadcast_to((1, 2, 5, 8)),
}


@pytest.mark.parametrize("view", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_both_orders(name: str, view: str) -> None:
    x = bp.tensor(np.random.default_rng(0).permutation(56).reshape(1, 1, 7, 8) / 25.0 - 1.09)

    def function(x: Any) -> Any:
        return FUNCTIONS[name](LAYOUTS[view](x))

    copied = bp.tensor(LAYOUTS[view](x).numpy())
    np.testing.assert_array_equal(function(x).numpy(), FUNCTIONS[name](copied).numpy())
    assert bp.gradcheck(function, x)
    assert bp.gradgradcheck(lambda x: (function(x) ** 2).sum(), x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_images_have_gradients_of_their_shape(name: str) -> None:
    if name in ("line", "volume"):
        return
    x = bp.zeros((0, 2, 9, 7)).requires_grad_()
    FUNCTIONS[name](x).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


def test_ties_go_to_the_first_and_nan_to_the_first_nan(device: Any) -> None:
    """B10: NaN wins."""
    x = bp.Tensor(np.array([[[2.0, 2, 1, NAN, 3, NAN, 0]]]), device, requires_grad=True)
    y, places = F.max_pool1d(x, 3, 2, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), [[[2, NAN, NAN]]])
    assert places.tolist() == [[[0, 3, 5]]]
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[[1, 0, 0, 1, 0, 1, 0]]]
    bottom = bp.Tensor(np.full((1, 1, 4), -np.inf), device)
    y, places = F.max_pool1d(bottom, 2, 2, 1, return_indices=True)
    assert y.tolist() == [[[-np.inf] * 3]] and places.tolist() == [[[0, 1, 3]]]
    np.testing.assert_array_equal(
        F.adaptive_max_pool1d(bp.Tensor(np.array([[[1.0, NAN, 3]]]), device), 2).numpy(),
        [[[NAN, NAN]]],
    )


def test_padding_is_not_zero() -> None:
    x = bp.full((1, 1, 3, 3), -5.0)
    assert F.max_pool2d(x, 3, 1, 1).numpy().max() == -5.0
    assert F.max_pool2d(x.astype(bp.int8), 3, 1, 1).numpy().max() == -5


def test_a_window_that_meets_nothing_has_no_place_and_no_gradient() -> None:
    x = bp.tensor([[[1.0]]], requires_grad=True)
    y, places = F.max_pool1d(x, 2, 1, 2, 3, return_indices=True)
    assert y.tolist() == [[[-math.inf, 1.0]]] or places.tolist() == [[[-1, -1]]]
    y.sum().backward()
    assert x.grad is not None and x.grad.item() == (np.asarray(places.tolist()) >= 0).sum()


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                                   "uint64", "bfloat16", "float16", "float32"])  # fmt: skip
def test_every_dtype(name: str, device: Any) -> None:
    dtype = getattr(bp, name)
    x = np.random.default_rng(0).integers(0, 100, (2, 3, 9, 41)).astype(dtype.numpy)
    y = F.max_pool2d(bp.Tensor(x, device), 3, 2, 1)
    wanted = F.max_pool2d(bp.tensor(x.astype(np.float64)), 3, 2, 1)
    assert y.dtype is dtype
    np.testing.assert_array_equal(y.numpy().astype(np.float64), wanted.numpy())
    uneven = F.adaptive_max_pool2d(bp.Tensor(x, device), (2, 5))
    assert uneven.dtype is dtype
    if dtype.is_float:
        mean = F.avg_pool2d(bp.Tensor(x, device), 3, 2)
        assert mean.dtype is dtype
        exact = F.avg_pool2d(bp.tensor(x.astype(np.float64)), 3, 2).numpy()
        np.testing.assert_allclose(mean.numpy().astype(np.float64), exact, rtol=8e-3)


def test_a_mean_of_float16_does_not_overflow() -> None:
    x = bp.full((1, 1, 4, 6), 40000.0).astype(bp.float16)
    for y in (F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 4))):
        assert set(np.unique(y.numpy())) == {40000.0}


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    data = floats(1, 2, 3, 61, 130).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with bp.config(num_threads=threads):
            x = bp.tensor(data, requires_grad=True)
            y = F.avg_pool2d(F.max_pool2d(x, 3, 1, 1), 5, 3)
            (y * y).sum().backward()
            assert x.grad is not None
            found.append((y.numpy().tobytes(), x.grad.numpy().tobytes()))
    assert found[0] == found[1] == found[2]


def test_norms_of_windows() -> None:
    x = bp.tensor([[3.0, -4.0, 0.0, 0.0]], requires_grad=True)
    y = F.lp_pool1d(x, 2, 2)
    y.sum().backward()
    assert y.tolist() == [[5.0, 0.0]]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [[0.6, -0.8, 0, 0]], rtol=1e-6)
    assert F.lp_pool1d(x, math.inf, 2).tolist() == [[4.0, 0.0]]
    assert F.lp_pool3d(bp.ones((1, 2, 2, 2)), 1, 2).tolist() == [[[[8.0]]]]


def test_without_a_batch() -> None:
    x = bp.tensor(floats(0, 3, 8, 9))
    for function in (F.max_pool2d, F.avg_pool2d):
        np.testing.assert_array_equal(function(x, 2).numpy(), function(x[None], 2)[0].numpy())
    assert F.adaptive_max_pool2d(x, (None, 2)).shape == (3, 8, 2)


REFUSED = [
    (lambda: F.max_pool2d(bp.ones((2, 3)), 2), "2 axes of space are needed"),
    (lambda: F.max_pool1d(bp.ones((1, 1, 3)), 4), "the window does not fit into the input"),
    (lambda: F.avg_pool1d(bp.ones((1, 1, 3)), 2, padding=2), "more than half of the window"),
    (lambda: F.avg_pool2d(bp.ones((1, 1, 3, 3)), (2, 2, 2)), "expected one integer, or 2"),
    (lambda: F.max_pool1d(bp.ones((1, 1, 3)), 2, stride=0), "stride 0 does not fit"),
    (lambda: F.adaptive_avg_pool2d(bp.ones((1, 1, 3, 3)), 0), "output_size 0 does not fit"),
    (lambda: F.adaptive_max_pool1d(bp.ones((1, 1, 0)), 1), "there is nothing to pool"),
    (lambda: apply(MAX_POOL, (bp.ones((1, 3)),), {"out": (2,)}), "1 axes of space are needed"),
    (lambda: apply(WINDOW_SPREAD, (bp.ones((1, 1, 3)),), {"out": (2,)}), r"\(2,\) windows"),
    (lambda: apply(ROW_TAKE, (bp.ones((1, 3)), bp.ones((2, 3)).astype(bp.int32))), "as many rows"),
    (lambda: apply(ROW_ADD, (bp.ones((1, 3)), bp.ones((1, 2)).astype(bp.int32)), {"width": 3}),
     "row_add: the shapes differ"),
]  # fmt: skip


@pytest.mark.parametrize("call, text", REFUSED, ids=[text for _, text in REFUSED])
def test_refused_shapes(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call()


def test_refused_dtypes_and_numbers() -> None:
    with pytest.raises(DTypeError, match="this dtype cannot be pooled"):
        F.max_pool1d(bp.tensor([[True, False]]), 2)
    with pytest.raises(DTypeError, match="only floats have a mean"):
        F.avg_pool1d(bp.tensor([[1, 2]]), 2)
    with pytest.raises(DTypeError, match="window_sum: no such op for this dtype"):
        apply(WINDOW_SUM, (bp.tensor([[[1, 2]]]),), {"out": (1,)})
    with pytest.raises(DTypeError, match="expected numbers and int32 places"):
        apply(ROW_TAKE, (bp.ones((1, 3)), bp.tensor([[1]])))
    with pytest.raises(ValueError, match="divisor_override must not be 0"):
        F.avg_pool2d(bp.ones((1, 2, 2)), 2, divisor_override=0)
    with pytest.raises(ValueError, match="norm_type must be positive"):
        F.lp_pool1d(bp.ones((1, 2)), 0, 2)
