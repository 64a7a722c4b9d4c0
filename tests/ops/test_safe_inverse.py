"""safe_inv (E2): value, gradient and second gradient everywhere, and where others break."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp

INF, NAN = math.inf, math.nan


def test_values(device: Any, toolbox: Any) -> None:
    x = np.concatenate([np.linspace(-3, 3, 61), [1e-3, -1e-3, 1e-8, 40, -1e6]])
    for epsilon in (1e-6, 0.25):
        wanted = x / (x * x + epsilon)
        got = bp.safe_inv(bp.Tensor(x, device), epsilon)
        toolbox.assert_close(got.numpy(), wanted, 1e-15, "float64")
        for dtype, bound in ((bp.float32, 3e-7), (bp.bfloat16, 0.004), (bp.float16, 0.0005)):
            narrow = bp.Tensor(x[:64], device).astype(dtype)
            wide = narrow.numpy().astype(np.float64)
            got = bp.safe_inv(narrow, epsilon)
            assert got.dtype is dtype
            np.testing.assert_allclose(
                got.numpy().astype(np.float64),
                wide / (wide * wide + epsilon),
                rtol=bound,
                atol=1e-7,
            )


def test_the_ends(device: Any) -> None:
    x = np.array([0, -0.0, INF, -INF, NAN, 1e30, -1e30, 1e-30], np.float32)
    got = bp.safe_inv(bp.Tensor(x, device)).numpy()
    np.testing.assert_allclose(got, [0, 0, 0, 0, NAN, 1e-30, -1e-30, 1e-24], rtol=1e-6)
    assert np.signbit(got).tolist()[:4] == [False, True, False, True]


def test_gradients_at_the_ends(device: Any) -> None:
    """1 / epsilon at 0, 0 at infinity; the second gradient is 0 at both."""
    points = np.array([0, INF, -INF, NAN, 1e30, 0.5])
    x = bp.Tensor(points, device, requires_grad=True)
    bp.safe_inv(x, 0.25).sum().backward(create_graph=True)
    first = x.grad
    assert first is not None
    np.testing.assert_allclose(first.numpy(), [4, 0, 0, NAN, -1e-60, 0], atol=1e-15)
    x.grad = None
    first[:3].sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy()[:3], [0, 0, 0])


def test_gradients_agree_with_differences() -> None:
    x = bp.tensor(np.array([-40.0, -2, -0.9, -1e-3, 0, 1e-4, 0.3, 1.1, 3, 1e3]))
    for inputs in (x, x[::-1], x[:1].broadcast_to((2, 3)), bp.tensor(0.3), bp.zeros((0, 2))):
        assert bp.gradcheck(lambda x: bp.safe_inv(x, 0.1), inputs)
        assert bp.gradgradcheck(lambda x: bp.safe_inv(x, 0.1), inputs)


def test_both_ways_meet_at_one() -> None:
    x = bp.tensor([1.0, math.nextafter(1.0, 2.0)], dtype=bp.float64)
    a, b = bp.safe_inv(x).tolist()
    assert abs(a - b) < 1e-15


def test_refusals() -> None:
    with pytest.raises(ValueError, match="safe_inv: epsilon must be positive, got 0"):
        bp.safe_inv(bp.ones(2), 0)
