"""Activation functions that are smooth, and relu; piecewise.py has those with kinks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import FLOATS
from bedplate.errors import ShapeError
from bedplate.kernel import maths
from bedplate.kernel.maths import error_function
from bedplate.ops.build import Value, as_type, normalised_axis, number
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.elementwise import INEXACT, NUMBERS, in_float32, rounded_once, unary
from bedplate.ops.pointwise.arithmetic import abs_, multiply
from bedplate.ops.pointwise.comparison import greater
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp
from bedplate.ops.pointwise.extremes import clip
from bedplate.ops.pointwise.trigonometry import tanh
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats, integers, one
from bedplate.ops.shape.regions import narrow

SQRT_HALF = 1 / math.sqrt(2)
INVERSE_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
# the tanh form of gelu: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2
TANH_SCALE = math.sqrt(2 / math.pi)
TANH_CUBIC = 0.044715
GELU_FLAT = 40.0  # beyond, the slopes of both forms are 0 and 1 exactly, in float64 too

_erf = np.vectorize(math.erf, otypes=[np.float64])


def relu_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """1 above 0, else 0; told by the output, so that the input need not be kept"""
    return (where(greater(output, 0), grad_out, number(grad_out, 0.0)),)


@unary(
    reference=lambda x: np.maximum(x, 0),
    emit=lambda t, x: language.maximum(x, 0),
    gradient=relu_gradient,
    samples=(*one(), integers((9,))),
    dtypes=NUMBERS,
    promote="common",
)
def relu(x: Value) -> Value:
    """Cut off below zero: y = max(x, 0); NaN stays NaN; the gradient at 0 is 0.

    also     bp.nn.functional.relu(x)
    >>> import bedplate as bp
    >>> bp.relu(bp.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """


def _sigmoid(x: Any) -> Any:
    is_right = x.real >= 0
    small = np.exp(np.where(is_right, -x, x))
    return np.where(is_right, 1 / (1 + small), small / (1 + small))


@in_float32
def sigmoid_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = y (1 - y) dx"""
    return (multiply(grad_out, conj(multiply(output, 1 - output))),)


@unary(
    reference=_sigmoid,
    emit=lambda t, x: maths.sigmoid(x),
    gradient=sigmoid_gradient,
    samples=one(),
    dtypes=INEXACT,
)
def sigmoid(x: Value) -> Value:
    """The logistic function: y = 1 / (1 + exp(-x)); no overflow on either side.

    also     bp.nn.functional.sigmoid(x)
    >>> import bedplate as bp
    >>> bp.sigmoid(bp.tensor([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """


def expit(x: Value) -> Value:
    """`sigmoid` by SciPy's name.

    >>> import bedplate as bp
    >>> bp.special.expit(bp.tensor([0.0])).tolist()
    [0.5]
    """
    return sigmoid(x)


@in_float32
def silu_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = s (1 + x (1 - s)) dx with s = sigmoid(x)"""
    (x,) = inputs
    s = sigmoid(x)
    return (multiply(grad_out, multiply(s, 1 + multiply(x, 1 - s))),)


@unary(
    reference=lambda x: x * _sigmoid(x),
    emit=lambda t, x: x * maths.sigmoid(x),
    gradient=silu_gradient,
    samples=one(),
)
def silu(x: Value) -> Value:
    """The sigmoid linear unit: y = x sigmoid(x), also called swish.

    source   Elfwing et al. 2017, arXiv:1702.03118
    also     bp.nn.functional.silu(x)
    >>> import bedplate as bp
    >>> bp.silu(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def erf_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = 2 / sqrt(pi) exp(-x^2) dx"""
    (x,) = inputs
    return (multiply(grad_out, multiply(exp(-multiply(x, x)), 2 / math.sqrt(math.pi))),)


@unary(
    reference=lambda x: _erf(x),
    emit=lambda t, x: maths.erf(x),
    gradient=erf_gradient,
    samples=one(),
)
def erf(x: Value) -> Value:
    """The error function: y = 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    also     bp.special.erf(x)
    >>> import bedplate as bp
    >>> bp.erf(bp.tensor([0.0])).tolist()
    [0.0]
    """


@in_float32
def gelu_exact_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = (F(x) + x f(x)) dx with F and f the normal distribution and its density"""
    x = clip(inputs[0], -GELU_FLAT, GELU_FLAT)
    below = multiply(1 + erf(multiply(x, SQRT_HALF)), 0.5)
    density = multiply(exp(multiply(multiply(x, x), -0.5)), INVERSE_SQRT_2PI)
    return (multiply(grad_out, below + multiply(x, density)),)


@unary(
    reference=lambda x: np.maximum(x, -GELU_FLAT) * 0.5 * (1 + _erf(x * SQRT_HALF)),
    emit=lambda t, x: error_function.gelu(x),
    gradient=gelu_exact_gradient,
    samples=one(),
)
def gelu_exact(x: Value) -> Value:
    """The Gaussian error linear unit: y = x (1 + erf(x / sqrt 2)) / 2."""


@in_float32
def gelu_tanh_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = ((1 + h) / 2 + x (1 - h^2) u' / 2) dx with h = tanh(u), u = c (x + d x^3)"""
    x = clip(inputs[0], -GELU_FLAT, GELU_FLAT)
    square = multiply(x, x)
    h = tanh(multiply(multiply(x, 1 + multiply(square, TANH_CUBIC)), TANH_SCALE))
    inner = multiply(1 + multiply(square, 3 * TANH_CUBIC), TANH_SCALE)
    slope = multiply(multiply(x, 1 - multiply(h, h)), inner)
    return (multiply(grad_out, multiply(1 + h + slope, 0.5)),)


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(TANH_SCALE * (x + TANH_CUBIC * x * x * x)))


def _gelu_tanh_emit(t: Any, x: Any) -> Any:
    return x * 0.5 * (1 + maths.tanh((x + x * x * x * TANH_CUBIC) * TANH_SCALE))


@unary(reference=_gelu_tanh, emit=_gelu_tanh_emit, gradient=gelu_tanh_gradient, samples=one())
def gelu_tanh(x: Value) -> Value:
    """The tanh form of gelu: y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2."""


def gelu(x: Value, approximate: str = "none") -> Value:
    """The Gaussian error linear unit: y = x (1 + erf(x / sqrt 2)) / 2.

    approximate  "none", or "tanh": y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
    raises       ValueError for another word
    source       Hendrycks and Gimpel 2016, arXiv:1606.08415
    also         bp.nn.functional.gelu(x, approximate)
    >>> import bedplate as bp
    >>> bp.gelu(bp.tensor([0.0])).tolist()
    [0.0]
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return gelu_exact(x) if approximate == "none" else gelu_tanh(x)


@in_float32
def softplus_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dy = sigmoid(x) dx"""
    return (multiply(grad_out, sigmoid(inputs[0])),)


@unary(
    reference=lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    emit=lambda t, x: language.maximum(x, 0) + maths.log1p(maths.exp(-abs(x))),
    gradient=softplus_gradient,
    samples=(*one(), floats((7,), low=-30, high=30)),
    dtypes=FLOATS,
)
def _softplus(x: Value) -> Value:
    """A smooth relu: y = log(1 + exp(x))."""


def softplus(x: Value, beta: float = 1.0, threshold: float | None = None) -> Value:
    """A smooth relu: y = log(1 + exp(beta x)) / beta; no overflow on either side.

    threshold  above it (of beta x) y = x, as in PyTorch; not needed here, hence None
    raises     ValueError for a beta that is not positive
    also     bp.nn.functional.softplus(x, beta, threshold)
    >>> import bedplate as bp
    >>> bp.softplus(bp.tensor([1000.0, -1000.0])).tolist()
    [1000.0, 0.0]
    """
    if beta == 1.0 and threshold is None:
        return _softplus(x)
    if not beta > 0:
        raise ValueError(f"softplus: beta must be positive, got {beta}")
    return _scaled_softplus(x, beta, threshold)


@rounded_once
def _scaled_softplus(x: Value, beta: float, threshold: float | None) -> Value:
    y = _softplus(x * beta) / beta
    return y if threshold is None else where(x * beta > threshold, x, y)


@rounded_once
def logsigmoid(x: Value) -> Value:
    """The logarithm of the sigmoid: y = -log(1 + exp(-x)); no overflow on either side.

    >>> import bedplate as bp
    >>> bp.nn.functional.logsigmoid(bp.tensor([1000.0, -1000.0])).tolist()
    [-0.0, -1000.0]
    """
    return -_softplus(-x)


@rounded_once
def mish(x: Value) -> Value:
    """A smooth, not monotonic relu: y = x tanh(log(1 + exp(x))).

    source   Misra 2019, arXiv:1908.08681
    >>> import bedplate as bp
    >>> bp.nn.functional.mish(bp.tensor([0.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """
    return x * tanh(_softplus(x))


@rounded_once
def softsign(x: Value) -> Value:
    """A sigmoid with slow tails: y = x / (1 + |x|).

    >>> import bedplate as bp
    >>> bp.nn.functional.softsign(bp.tensor([0.0, -3.0])).tolist()
    [0.0, -0.75]
    """
    return x / (1 + abs_(x))


@rounded_once
def tanhshrink(x: Value) -> Value:
    """What tanh takes away: y = x - tanh(x).

    returns  exact to a rounding of x, so not relative to y where x is near 0
    >>> import bedplate as bp
    >>> bp.nn.functional.tanhshrink(bp.tensor([0.0, 1000.0])).tolist()
    [0.0, 999.0]
    """
    return x - tanh(x)


def glu(x: Value, axis: int = -1) -> Value:
    """The gated linear unit: y = a sigmoid(b) with a and b the halves of x along an axis.

    axis     of even size; `dim` works too
    returns  shape of x with the axis half as long
    raises   ShapeError for an axis of odd size
    source   Dauphin et al. 2016, arXiv:1612.08083
    >>> import bedplate as bp
    >>> bp.nn.functional.glu(bp.tensor([3.0, 0.0])).tolist()
    [1.5]
    """
    axis = normalised_axis("glu", axis, len(x.shape), x)
    if x.shape[axis] % 2:
        refuse(ShapeError, "glu", f"axis {axis} has an odd size", {"x": x},
               "its halves are the values and the gates")  # fmt: skip
    half = x.shape[axis] // 2
    return _gated(narrow(x, axis, 0, half), narrow(x, axis, half, half))


@rounded_once
def _gated(x: Value, gate: Value) -> Value:
    return x * sigmoid(as_type(gate, x.dtype))
