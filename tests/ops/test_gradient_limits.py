"""Gradients at the ends of the floats: beside infinities, at 0, where a square overflows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.nn import functional as F

INF, NAN = math.inf, math.nan


def slopes(function: Callable[..., Any], device: Any, *inputs: Any) -> list[Any]:
    """The gradients of the sum of a function of float32 values."""
    tensors = [bp.Tensor(np.array(x, np.float32), device, requires_grad=True) for x in inputs]
    function(*tensors).sum().backward()
    found = [tensor.grad for tensor in tensors]
    return [None if grad is None else grad.numpy() for grad in found]


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ([INF, 1.0], [1, 0]),
        ([INF, INF, -INF, 3], [0.5, 0.5, 0, 0]),
        ([-INF, -INF], [0, 0]),
        ([-INF, 0.0], [0, 1]),
        ([NAN, 0.0], [NAN, NAN]),
    ],
)
def test_logsumexp_beside_infinities(row: list[float], wanted: list[float], device: Any) -> None:
    """As logaddexp: infinite terms share what there is, finite ones beside them get nothing."""
    (found,) = slopes(lambda x: bp.logsumexp(x, axis=0), device, row)
    np.testing.assert_array_equal(found, wanted)
    narrow = bp.tensor(row, dtype=bp.bfloat16, device=device, requires_grad=True)
    bp.logsumexp(narrow).backward()
    assert narrow.grad is not None
    np.testing.assert_array_equal(narrow.grad.astype(bp.float32).numpy(), wanted)


def test_logsumexp_is_twice_differentiable_beside_infinity() -> None:
    x = bp.tensor([[INF, 1.0], [0.0, 1.0]], requires_grad=True)
    first = bp.grad(lambda x: bp.logsumexp(x, axis=1).sum())
    second = bp.grad(lambda x: (first(x) * bp.tensor([1.0, 2.0])).sum())(x)
    p = 1 / (1 + math.exp(-1))
    np.testing.assert_allclose(second.numpy(), [[0, 0], [-p * (1 - p), p * (1 - p)]], rtol=1e-6)


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e20, 1e30])
def test_slopes_of_atan2(size: float, device: Any) -> None:
    dy, dx = slopes(bp.atan2, device, [size, 2 * size], [size, -size])
    np.testing.assert_allclose(dy * np.float32(size), [0.5, -0.2], rtol=1e-6)
    np.testing.assert_allclose(dx * np.float32(size), [-0.5, -0.4], rtol=1e-6)


def test_slopes_of_atan2_at_the_origin_and_beside_infinity(device: Any) -> None:
    dy, dx = slopes(bp.atan2, device, [0, 1, INF, INF, NAN], [0, INF, 1, -INF, 1])
    np.testing.assert_array_equal(dy, [0, 0, 0, 0, NAN])
    np.testing.assert_array_equal(dx, [0, 0, 0, 0, NAN])


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_slopes_of_gelu_far_out(form: str, device: Any) -> None:
    far = [-INF, -1e30, -1e10, -50, 50, 1e10, 1e20, 1e30, INF, NAN]
    (found,) = slopes(lambda x: F.gelu(x, form), device, far)
    np.testing.assert_array_equal(found, [0] * 4 + [1] * 5 + [NAN])


def test_shares_of_large_numbers_add_up(device: Any) -> None:
    """log(2) is lost in 1e10; the shares are not."""
    large = np.float32(1e10)
    assert slopes(bp.logaddexp, device, [large], [large]) == [[0.5], [0.5]]
    (found,) = slopes(bp.logsumexp, device, [-large, -large, -large, -large])
    assert found.tolist() == [0.25] * 4


def test_slopes_of_inverse_functions_far_out(device: Any) -> None:
    far = np.array([1e15, 1e20, 1e30])
    for function in (bp.asinh, bp.acosh):
        np.testing.assert_allclose(slopes(function, device, far)[0] * far, 1, rtol=1e-6)
    np.testing.assert_allclose(slopes(bp.asinh, device, -far)[0] * far, 1, rtol=1e-6)
    assert np.isnan(slopes(bp.acosh, device, [-2.0, 0.5])[0]).all()
    near = np.float32(1 - 2**-20)  # 1 - x^2 would lose half of the digits
    wanted = 1 / math.sqrt((1 - float(near)) * (1 + float(near)))
    np.testing.assert_allclose(slopes(bp.asin, device, [near])[0], wanted, rtol=3e-7)
    np.testing.assert_allclose(slopes(bp.acos, device, [near])[0], -wanted, rtol=3e-7)


@pytest.mark.parametrize("p", [0.5, 1.5, 2.0, 3.0])
def test_elements_of_0_have_no_slope_in_a_norm(p: float, device: Any) -> None:
    for function in (
        lambda x: bp.linalg.vector_norm(x, ord=p),
        lambda x: F.pairwise_distance(x, bp.zeros_like(x), p, 0.0),
        lambda x: F.lp_pool1d(x.reshape(1, 1, 2), p, 2),
    ):
        assert slopes(function, device, [0.0, 1.0])[0].tolist() == [0, 1]
        assert slopes(function, device, [0.0, 0.0])[0].tolist() == [0, 0]


@pytest.mark.parametrize("p", [0.5, 2.0, 3.0, 9.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1.0, 1e30, 1e-30])
def test_norms_of_windows_do_not_overflow(p: float, dtype: str, size: float) -> None:
    size = size**9 if dtype == "float64" else size
    windows = np.array([[3.0, -4.0], [1.0, 2.0]])
    x = bp.tensor((windows * size).reshape(1, 1, 4), dtype=getattr(bp, dtype), requires_grad=True)
    y = F.lp_pool1d(x, p, 2)
    y.sum().backward()
    wanted = (abs(windows) ** p).sum(-1) ** (1 / p)
    share = np.sign(windows) * (abs(windows) / wanted[:, None]) ** (p - 1)
    assert x.grad is not None
    np.testing.assert_allclose(y.numpy()[0, 0] / size, wanted, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy().reshape(2, 2), share, rtol=1e-5)


def test_norms_of_windows_of_infinity_and_nan() -> None:
    x = bp.tensor([[INF, 1.0, NAN, 1.0, 3.0, 4.0]], dtype=bp.float64)
    np.testing.assert_array_equal(F.lp_pool1d(x, 2.0, 2).numpy(), [[INF, NAN, 5]])
