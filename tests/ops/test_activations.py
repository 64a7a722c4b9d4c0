"""Activations: values by their formula, exact limits, slopes at kinks, gradients, modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn
from bedplate.errors import ShapeError
from bedplate.nn import functional as F

INF, NAN = math.inf, math.nan
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


def _sigmoid(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(x / 2))


# the function, its formula in NumPy
FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (F.relu, lambda x: np.maximum(x, 0)),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 2), lambda x: np.clip(x, -0.5, 2)),
    "hardsigmoid": (F.hardsigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": (F.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": (lambda x: F.elu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "selu": (F.selu, lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x))),
    "celu": (lambda x: F.celu(x, 0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x / 0.7))),
    "silu": (F.silu, lambda x: x * _sigmoid(x)),
    "mish": (F.mish, lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "softplus": (lambda x: F.softplus(x, 2.0), lambda x: np.logaddexp(2 * x, 0) / 2),
    "logsigmoid": (F.logsigmoid, lambda x: -np.logaddexp(-x, 0)),
    "softsign": (F.softsign, lambda x: x / (1 + np.abs(x))),
    "tanhshrink": (F.tanhshrink, lambda x: x - np.tanh(x)),
    "hardshrink": (F.hardshrink, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "softshrink": (F.softshrink, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "threshold": (lambda x: F.threshold(x, 0.3, 9), lambda x: np.where(x > 0.3, x, 9)),
    "glu": (F.glu, lambda x: x[..., :3] * _sigmoid(x[..., 3:])),
    "softmin": (F.softmin, lambda x: np.exp(-x) / np.exp(-x).sum(-1, keepdims=True)),
    "prelu": (
        lambda x: F.prelu(x, bp.full(1, 0.3, dtype=x.dtype, device=x.device)),
        lambda x: np.where(x > 0, x, 0.3 * x),
    ),
}
X = np.random.default_rng(0).uniform(-7, 7, (3, 6))


@pytest.mark.parametrize("name", FORMULAS)
def test_values(name: str, device: Any, toolbox: Any) -> None:
    ours, formula = FORMULAS[name]
    toolbox.assert_close(ours(bp.Tensor(X, device)).numpy(), formula(X), 1e-14, name)
    narrow = bp.Tensor(X, device).astype(bp.bfloat16)
    wanted = formula(narrow.numpy().astype(np.float64))
    toolbox.assert_close(ours(narrow).numpy(), wanted, 0.005, name)
    assert ours(narrow).dtype is bp.bfloat16


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients(name: str) -> None:
    ours = FORMULAS[name][0]
    x = bp.tensor(X)
    inputs = [x, bp.tensor(X.T.copy()).T, x[:, ::-1], x[:1].broadcast_to(x.shape)]
    if name != "glu":
        inputs += [bp.zeros((0, 6)), bp.tensor(X[0])]
    for value in inputs:
        assert bp.gradcheck(ours, value)
        assert bp.gradgradcheck(ours, value)


@pytest.mark.parametrize("name", [n for n in FORMULAS if n not in ("glu", "softmin", "prelu")])
def test_far_out_nothing_overflows(name: str, device: Any) -> None:
    """B82 and its neighbours: finite values and slopes at +-1e4, in float32 and float16."""
    ours, formula = FORMULAS[name]
    points = np.array([-1e4, -1000, 1000, 1e4])
    for dtype in (bp.float32, bp.float16):
        x = bp.Tensor(points.astype(dtype.numpy), device, requires_grad=True)
        y = ours(x)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(y.numpy(), formula(points), rtol=1e-3)
        y.sum().backward()
        assert x.grad is not None and np.isfinite(x.grad.numpy()).all()


def test_exact_limits(device: Any) -> None:
    """B82."""
    x = bp.Tensor(np.array([-1000.0, 1000.0], np.float32), device)
    assert F.sigmoid(x).tolist() == [0, 1]
    assert F.softplus(x).tolist() == [0, 1000]
    assert F.logsigmoid(x).tolist() == [-1000, 0]
    assert F.mish(x).tolist() == [0, 1000]
    assert F.elu(x).tolist() == [-1, 1000]
    assert F.tanhshrink(x).tolist() == [-999, 999]


# name -> (point, slope there): what docs/numeric-contract.md says of kinks
KINKS = {
    "relu": [(0, 0)],
    "relu6": [(0, 0), (6, 0)],
    "hardtanh": [(-0.5, 0), (2, 0)],
    "hardsigmoid": [(-3, 0), (3, 0)],
    "hardswish": [(-3, 0), (3, 1)],
    "leaky_relu": [(0, 0.2)],
    "elu": [(0, 0.7)],
    "celu": [(0, 1)],
    "selu": [(0, SCALE * ALPHA)],
    "hardshrink": [(-0.5, 0), (0.5, 0)],
    "softshrink": [(-0.5, 0), (0.5, 0)],
    "threshold": [(0.3, 0)],
    "softsign": [(0, 1)],
    "prelu": [(0, 0.3)],
}


@pytest.mark.parametrize("name", KINKS)
def test_slopes_at_kinks(name: str, device: Any) -> None:
    points, slopes = zip(*KINKS[name], strict=True)
    x = bp.Tensor(np.array(points, np.float64), device, requires_grad=True)
    FORMULAS[name][0](x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in FORMULAS if n not in ("glu", "softmin")])
def test_nan_stays(name: str, device: Any) -> None:
    """B10."""
    x = bp.Tensor(np.array([NAN, 1.0, NAN], np.float32), device)
    assert np.isnan(FORMULAS[name][0](x).numpy()).tolist() == [True, False, True]


def test_prelu_has_a_slope_for_each_channel() -> None:
    x = bp.tensor(np.random.default_rng(1).normal(size=(2, 3, 4)))
    weight = bp.tensor([0.1, 0.2, 0.3], dtype=bp.float64)
    wanted = np.where(x.numpy() > 0, x.numpy(), x.numpy() * weight.numpy().reshape(3, 1))
    np.testing.assert_array_equal(F.prelu(x, weight).numpy(), wanted)
    assert bp.gradcheck(F.prelu, [x, weight]) and bp.gradgradcheck(F.prelu, [x, weight])


def test_integers_become_floats() -> None:
    assert F.elu(bp.tensor([1, 2])).dtype is bp.float32
    assert F.softplus(bp.tensor([1, 2])).dtype is bp.float32


def test_softplus_with_a_threshold() -> None:
    x = bp.tensor([1.0, 11.0], dtype=bp.float64)
    wanted = [math.log1p(math.exp(2)) / 2, 11.0]
    np.testing.assert_allclose(F.softplus(x, 2.0, 20).numpy(), wanted, rtol=1e-15)


def test_axis_of_glu() -> None:
    x = bp.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    np.testing.assert_array_equal(F.glu(x, 0).numpy(), F.glu(x.T, -1).numpy().T)
    np.testing.assert_array_equal(F.glu(x, **{"dim": 0}).numpy(), F.glu(x, 0).numpy())


def test_random_slopes_lie_between_the_bounds() -> None:
    x = -bp.ones((1000,))
    y = -F.rrelu(x, 0.2, 0.4, training=True, generator=bp.Generator(3)).numpy()
    again = -F.rrelu(x, 0.2, 0.4, training=True, generator=bp.Generator(3)).numpy()
    assert 0.2 <= y.min() < 0.21 and 0.39 < y.max() <= 0.4
    np.testing.assert_array_equal(y, again)
    np.testing.assert_allclose(F.rrelu(x, 0.2, 0.4).numpy(), -0.3, rtol=1e-6)


def test_gumbel_softmax_draws_by_the_shares() -> None:
    logits = bp.tensor([math.log(0.1), math.log(0.6), math.log(0.3)]).broadcast_to((20000, 3))
    choice = F.gumbel_softmax(logits, hard=True, generator=bp.Generator(0)).numpy()
    assert set(choice.reshape(-1).tolist()) == {0.0, 1.0} and (choice.sum(1) == 1).all()
    np.testing.assert_allclose(choice.mean(0), [0.1, 0.6, 0.3], atol=0.02)
    x = bp.tensor(np.zeros((2, 3)), requires_grad=True)
    (F.gumbel_softmax(x, 0.7, hard=True, axis=0) * bp.tensor([[1.0], [2.0]])).sum().backward()
    assert x.grad is not None and np.any(x.grad.numpy())
    soft = F.gumbel_softmax(logits, 0.5, generator=bp.Generator(0)).numpy()
    np.testing.assert_allclose(soft.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(soft.argmax(1), choice.argmax(1))


def test_gumbel_softmax_of_narrow_logits_is_finite() -> None:
    """The noise is drawn in float32: in bfloat16 a uniform number would often be 0 or 1."""
    logits = bp.zeros((20000, 2), dtype=bp.bfloat16)
    shares = F.gumbel_softmax(logits, generator=bp.Generator(0))
    assert shares.dtype is bp.bfloat16 and shares.isfinite().all().item()
    assert F.gumbel_softmax(bp.zeros((20000, 1), dtype=bp.bfloat16)).tolist() == [[1.0]] * 20000


def test_modules_have_the_settings_of_their_functions() -> None:
    x = bp.tensor(X)
    pairs = [
        (nn.ELU(0.7), F.elu(x, 0.7)),
        (nn.Hardtanh(-2.0, max_val=1.0), F.hardtanh(x, -2.0, 1.0)),
        (nn.Softplus(beta=2.0), F.softplus(x, 2.0)),
        (nn.GELU("tanh"), F.gelu(x, "tanh")),
        (nn.GLU(0 - 1), F.glu(x)),
        (nn.Softmax(dim=0), F.softmax(x, 0)),
        (nn.LogSoftmax(), F.log_softmax(x)),
        (nn.Threshold(0.1, 20.0), F.threshold(x, 0.1, 20.0)),
        (nn.Mish(), F.mish(x)),
    ]
    for module, wanted in pairs:
        np.testing.assert_array_equal(module(x).numpy(), wanted.numpy())
    assert repr(nn.Hardtanh(-2.0, max_val=1.0)) == "Hardtanh(min_val=-2.0, max_val=1.0)"
    assert [name for name, _ in nn.PReLU(3).named_parameters()] == ["weight"]
    with pytest.raises(TypeError, match="missing a required argument: 'threshold'"):
        nn.Threshold()
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        nn.LeakyReLU(slope=1)


def test_refusals() -> None:
    x = bp.ones((2, 3))
    for call, text in (
        (lambda: F.hardtanh(x, 2.0, 1.0), r"min_val = 2.0 is above max_val = 1.0"),
        (lambda: F.softplus(x, 0.0), "beta must be positive, got 0.0"),
        (lambda: F.celu(x, 0.0), "alpha must not be 0"),
        (lambda: F.softshrink(x, -1.0), "lambd must not be negative, got -1.0"),
        (lambda: F.gelu(x, "fast"), "approximate must be 'none' or 'tanh', got 'fast'"),
        (lambda: F.rrelu(x, 1.0, 0.0), "lower = 1.0 is above upper = 0.0"),
        (lambda: F.gumbel_softmax(x, 0.0), "tau must be positive, got 0.0"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(ShapeError, match="glu: axis 1 has an odd size"):
        F.glu(x)
    with pytest.raises(ShapeError, match="prelu: the slopes do not fit"):
        F.prelu(x, bp.ones((2,)))
    assert F.softmin(bp.tensor([1, 1])).tolist() == [0.5, 0.5]  # integers count as float32
    with pytest.raises(TypeError, match="elu: expected a tensor, got str"):
        F.elu("x")


def test_gelu_far_out() -> None:
    x = np.array([-np.inf, -1e30, -6.0, -5.0, 5.0, 6.0, 1e30, np.inf, -0.0])
    wanted = np.array([0.5 * v * math.erfc(-v * math.sqrt(0.5)) if v > -INF else 0.0 for v in x])
    for dtype, allowed in ((bp.float32, 3e-8), (bp.float64, 1e-14)):
        y = bp.gelu(bp.tensor(x, dtype=dtype)).numpy()
        np.testing.assert_allclose(y, wanted, rtol=1e-7, atol=allowed)
    assert np.isnan(bp.gelu(bp.tensor([np.nan])).item())
