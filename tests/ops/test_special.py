"""Special functions: errors against mpmath, exact values, limits, gradients of two orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, GradientError

INF, NAN = math.inf, math.nan
S = bp.special
mp: Any = mpmath.mp
Function = Callable[[Any], Any]


def spread(*parts: Any) -> Any:
    """Uniform numbers between each (low, high), or powers of ten if there is a third entry."""
    rng = np.random.default_rng(0)
    values = [rng.uniform(part[0], part[1], 40) for part in parts]
    powers = [10.0**v if len(p) > 2 else v for v, p in zip(values, parts, strict=True)]
    return np.concatenate(powers)


def below(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_gamma(x: Any) -> Any:
    return mp.log(abs(mp.gamma(x)))


def scaled(order: int) -> Function:
    return lambda x: mp.besseli(order, x) * mp.exp(-abs(x))


# the function, the same by mpmath, where it is tried, the error that its docstring tells in units
# of 2^-53, and whether that is of 1 where the value is smaller
ERRORS: dict[str, tuple[Function, Function, Any, float, bool]] = {
    "erfc": (S.erfc, mp.erfc, spread((-5, 26)), 3, False),
    "erfcx": (
        S.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), spread((-26, 10), (10, 60)), 5, False
    ),
    "erfinv": (S.erfinv, mp.erfinv, spread((-1, 1), (-300, -1, 10)), 5, False),
    "erfinv near 1": (S.erfinv, mp.erfinv, 1 - spread((-15, -1, 10)), 5, False),
    "ndtr": (S.ndtr, below, spread((-37, 0), (-3, 8)), 7, False),
    "log_ndtr": (S.log_ndtr, lambda x: mp.log(below(x)), spread((-38, 5), (-1.2, -0.8)), 7, False),
    "ndtri": (S.ndtri, lambda x: mp.sqrt(2) * mp.erfinv(2 * x - 1), spread((0.1, 0.9)), 9, True),
    "gammaln": (
        S.gammaln, log_gamma, spread((0, 10), (0.9, 1.1), (1.9, 2.1), (-300, 2, 10)), 6, False
    ),
    "gammaln of large": (S.gammaln, mp.loggamma, spread((1, 300, 10)), 6, False),
    "gammaln below 0": (S.gammaln, log_gamma, -spread((0, 30)), 6, True),
    "digamma": (S.digamma, mp.digamma, spread((0, 3), (3, 90), (1, 300, 10), (-9, -1)), 12, True),
    "polygamma 1": (
        lambda x: S.polygamma(1, x), lambda x: mp.polygamma(1, x), spread((0, 20), (-3, 5, 10)),
        8, False,
    ),
    "polygamma 4": (
        lambda x: S.polygamma(4, x), lambda x: mp.polygamma(4, x), spread((0, 20), (-3, 5, 10)),
        8, False,
    ),
    "polygamma 1 below 0": (
        lambda x: S.polygamma(1, x), lambda x: mp.polygamma(1, x), -spread((0, 6)), 30, True
    ),
    "polygamma 2 below 0": (
        lambda x: S.polygamma(2, x), lambda x: mp.polygamma(2, x), -spread((0, 6)), 30, True
    ),
    "zeta": (lambda x: S.zeta(1.5, x), lambda x: mp.zeta(1.5, x), spread((0, 20)), 8, False),
    "zeta of 30": (lambda x: S.zeta(30, x), lambda x: mp.zeta(30, x), spread((0, 20)), 8, False),
    "multigammaln": (
        lambda x: S.multigammaln(x, 3),
        lambda x: 1.5 * mp.log(mp.pi) + sum(mp.loggamma(x - mpmath.mpf(j) / 2) for j in range(3)),
        spread((1.1, 30)), 12, True,
    ),
    "i0": (S.i0, lambda x: mp.besseli(0, x), spread((-30, 30), (600, 700)), 12, False),
    "i1": (S.i1, lambda x: mp.besseli(1, x), spread((-30, 30), (-9, -1, 10)), 12, False),
    "i0e": (S.i0e, scaled(0), spread((-30, 30), (15, 25), (-9, 3, 10)), 12, False),
    "i1e": (S.i1e, scaled(1), spread((-30, 30), (15, 25), (-9, 3, 10)), 12, False),
    "sinc": (S.sinc, lambda x: mp.sinpi(x) / (mp.pi * x), spread((-30, 30), (-9, 1, 10)), 3, False),
    "logit": (S.logit, lambda x: mp.log(x / (1 - x)), spread((0, 1), (-300, -1, 10)), 3, False),
    "entr": (S.entr, lambda x: -x * mp.log(x), spread((0, 9)), 4, False),
}  # fmt: skip


def units(got: Any, wanted: Any, absolute: bool, bits: int) -> float:
    """The error in units of 2^-bits, of the value or at least of 1."""
    scale = max(abs(wanted), mpmath.mpf(1)) if absolute else abs(wanted)
    return float(abs(mpmath.mpf(float(got)) - wanted) / scale * 2**bits)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_told(name: str, device: Any) -> None:
    ours, theirs, points, bound, absolute = ERRORS[name]
    with mp.workdps(60):
        with np.errstate(all="ignore"):
            narrow = points.astype(np.float32)
        narrow = narrow[(narrow != 0) & (abs(narrow) < 80) & (abs(narrow) > 1e-30) & (narrow != 1)]
        if name.startswith(("erfcx", "ndtr", "erfc")):
            narrow = narrow[abs(narrow) < 9]
        for x, bits, most in ((points, 53, bound), (narrow, 24, 1.01)):
            values = ours(bp.Tensor(x, device)).numpy()
            normal = abs(values) > np.finfo(x.dtype).tiny
            pairs = zip(x[normal], values[normal], strict=True)
            rows = [units(y, theirs(mpmath.mpf(float(a))), absolute, bits) for a, y in pairs]
            composed = name in ("logit", "entr", "multigammaln", "ndtri")  # in float32 itself
            assert max(rows) <= (16 if composed and bits == 24 else most)


def test_limits(device: Any) -> None:
    for function, points, wanted in (
        (S.erfc, [-INF, 0, INF, NAN], [2, 1, 0, NAN]),
        (S.erfcx, [-INF, 0, INF, NAN], [INF, 1, 0, NAN]),
        (S.erfinv, [-1, 0, 1, 1.5, NAN], [-INF, 0, INF, NAN, NAN]),
        (S.ndtr, [-INF, 0, INF, NAN], [0, 0.5, 1, NAN]),
        (S.log_ndtr, [-INF, INF, NAN], [-INF, 0, NAN]),
        (S.ndtri, [0, 0.5, 1, 2], [-INF, 0, INF, NAN]),
        (S.gammaln, [-INF, -1, 0, 1, 2, INF, NAN], [INF, INF, INF, 0, 0, INF, NAN]),
        (S.digamma, [-1, -0.0, 0, INF, NAN], [NAN, INF, -INF, INF, NAN]),
        (lambda x: S.polygamma(1, x), [-1, 0, INF, NAN], [INF, INF, 0, NAN]),
        (lambda x: S.polygamma(2, x), [-1, 0, INF, NAN], [NAN, -INF, 0, NAN]),
        (lambda x: S.zeta(2, x), [-1, -0.5, 0, INF, NAN], [INF, NAN, INF, 0, NAN]),
        (lambda s: S.zeta(s, s * 0 + 1), [1, 0.5, NAN], [INF, NAN, NAN]),
        (lambda s: S.zeta(s, bp.ones_like(s)), [1e3, 1e10, 1e20, INF], [1, 1, 1, 1]),
        (lambda s: S.zeta(s, 2 * bp.ones_like(s)), [1e5, 1e10, 1e20, INF], [0, 0, 0, 0]),
        (lambda s: S.zeta(s, 0.5 * bp.ones_like(s)), [1e5, 1e20, INF], [INF, INF, INF]),
        (S.i0, [-INF, 0, 800, NAN], [INF, 1, INF, NAN]),
        (S.i1, [-INF, 0, 800, NAN], [-INF, 0, INF, NAN]),
        (S.i0e, [-INF, 0, INF, NAN], [0, 1, 0, NAN]),
        (S.i1e, [-INF, 0, INF, NAN], [0, 0, 0, NAN]),
        (S.sinc, [-INF, -2, 0, 1e300, NAN], [0, 0, 1, 0, NAN]),
        (S.logit, [-0.5, 0, 0.5, 1, 2, NAN], [NAN, -INF, 0, INF, NAN, NAN]),
        (S.entr, [-1, 0, 1, NAN], [-INF, 0, 0, NAN]),
        (S.expit, [-INF, 0, INF, NAN], [0, 0.5, 1, NAN]),
    ):
        for dtype in (np.float64, np.float32):
            with np.errstate(over="ignore"):
                x = np.array(points, dtype)
            got = function(bp.Tensor(x, device)).numpy()
            np.testing.assert_array_equal(got, wanted)


GRADIENTS: dict[str, tuple[Function, list[float]]] = {
    "erfc": (S.erfc, [-2.0, 0, 0.7, 3]),
    "erfcx": (S.erfcx, [-2.0, 0, 0.7, 3, 12]),
    "erfinv": (S.erfinv, [-0.9, 0, 0.3, 0.95]),
    "ndtr": (S.ndtr, [-3.0, 0, 0.7, 3]),
    "log_ndtr": (S.log_ndtr, [-30.0, -1.5, 0.1, 0.7, 3]),
    "ndtri": (S.ndtri, [0.2, 0.5, 0.9]),
    "gammaln": (S.gammaln, [-2.3, -0.5, 0.3, 1, 2, 5, 40]),
    "digamma": (S.digamma, [-2.3, -0.5, 0.3, 1, 2, 5, 40]),
    "polygamma": (lambda x: S.polygamma(2, x), [-2.3, -0.5, 0.7, 1, 2, 5, 40]),
    "zeta": (lambda x: S.zeta(2.5, x), [0.7, 1, 2, 5, 40]),
    "multigammaln": (lambda x: S.multigammaln(x, 2), [1.7, 40]),
    "i0": (S.i0, [-3.0, 0, 1e-3, 2, 22]),
    "i1": (S.i1, [-3.0, 0, 1e-3, 2, 22]),
    "i0e": (S.i0e, [-3.0, 1e-3, 2, 22]),
    "i1e": (S.i1e, [-3.0, 1e-3, 2, 22]),
    "sinc": (S.sinc, [-3.0, -0.4, 0, 1e-3, 0.6, 1, 22.3]),
    "logit": (S.logit, [0.1, 0.3, 0.5, 0.9]),
    "logit with eps": (lambda x: S.logit(x, 0.2), [0.1, 0.3, 0.5, 0.9]),
    "entr": (S.entr, [0.1, 1, 3]),
    "expit": (S.expit, [-3.0, 0, 2]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    function, points = GRADIENTS[name]
    x = bp.tensor(np.array(points))
    assert bp.gradcheck(function, x)
    assert bp.gradgradcheck(function, x)
    both = bp.tensor(np.repeat(points, 2))[::2]
    assert bp.gradcheck(function, both)


def test_gradients_far_out_are_finite() -> None:
    for function, points, wanted in (
        (S.log_ndtr, [-1e4, 40.0], [1e4, 0]),
        (S.sinc, [0.0, 1e-8, 4.0], [0, -3.289868e-8, 0.25]),
        (S.i0e, [1e4], [-1.9947e-7]),
        (S.gammaln, [1e6], [13.81551]),
    ):
        x = bp.tensor(np.array(points, np.float32), requires_grad=True)
        function(x).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=2e-3)


def test_products_with_a_logarithm(device: Any) -> None:
    """0 log(0) is 0, and its gradients are those of PyTorch."""
    x = bp.Tensor(np.array([0.0, 0.0, 0.0, 0.0, 2.0]), device, requires_grad=True)
    y = bp.Tensor(np.array([0.0, 2.0, INF, NAN, 3.0]), device, requires_grad=True)
    product = S.xlogy(x, y)
    np.testing.assert_allclose(product.numpy(), [0, 0, 0, NAN, 2 * math.log(3)])
    product.sum().backward()
    assert x.grad is not None and y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [0, math.log(2), 0, NAN, math.log(3)])
    np.testing.assert_allclose(y.grad.numpy()[[0, 1, 4]], [0, 0, 2 / 3])
    got = S.xlog1py(x.detach(), y.detach() - 1)
    np.testing.assert_allclose(got.numpy(), [0, 0, 0, NAN, 2 * math.log(3)])
    tiny = bp.Tensor(np.array([1e-20]), device)
    assert S.xlog1py(tiny, tiny).item() == pytest.approx(1e-40, rel=1e-12)
    pair = [bp.tensor([[0.5], [2.0]]), bp.tensor([0.7, 3.0, 4.0])]
    for function in (S.xlogy, S.xlog1py):
        assert bp.gradcheck(function, pair)
        assert bp.gradgradcheck(function, pair)
    assert S.xlogy(bp.tensor([2]), bp.tensor([1])).dtype is bp.float32


def test_other_names() -> None:
    x = bp.tensor([0.3, 4.0])
    assert bp.lgamma(x).tolist() == S.gammaln(x).tolist()
    assert S.psi(x).tolist() == S.digamma(x).tolist() == S.polygamma(0, x).tolist()
    for name in ("erf", "exp2", "expm1", "log1p", "softmax", "log_softmax"):
        assert getattr(S, name)(x).tolist() == getattr(bp, name)(x).tolist()
    assert S.logsumexp(x).item() == bp.logsumexp(x).item()


def test_integers_and_narrow_floats() -> None:
    assert S.gammaln(bp.tensor([4])).item() == pytest.approx(math.log(6))
    assert S.polygamma(1, bp.tensor([1])).item() == pytest.approx(math.pi**2 / 6)
    for dtype in (bp.bfloat16, bp.float16):
        got = S.digamma(bp.tensor([1.0], dtype=dtype))
        assert got.dtype is dtype
        assert got.item() == pytest.approx(-0.5772, rel=0.01)


def test_refusals() -> None:
    x: Any = bp.ones(2)
    for call, text in (
        (lambda: S.polygamma(-1, x), "polygamma: n must be an integer from 0 to 168, got -1"),
        (lambda: S.multigammaln(x, 0), "multigammaln: p must be from 1 to 10000, got 0"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(GradientError, match="zeta: the slope along s is not known"):
        S.zeta(bp.tensor(2.0, requires_grad=True), x)
    with pytest.raises(DTypeError, match="no such op for this dtype"):
        S.i0(bp.ones(2, dtype=bp.complex64))
