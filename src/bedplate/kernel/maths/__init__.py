"""Vector maths in the kernel language: the same bits for scalars, vectors and every target."""

from bedplate.kernel.maths.error_function import erf, erfc
from bedplate.kernel.maths.exponential import (
    cosh,
    exp,
    exp2,
    exp2_flushed,
    expm1,
    sigmoid,
    sinh,
    tanh,
)
from bedplate.kernel.maths.inverse_trigonometry import acos, asin, atan, atan2
from bedplate.kernel.maths.logarithm import acosh, asinh, atanh, log, log1p, log2, log10
from bedplate.kernel.maths.power import cbrt, pow, rsqrt, sqrt
from bedplate.kernel.maths.trigonometry import cos, sin, tan

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "exp2_flushed", "expm1", "log", "log1p", "log2", "log10", "pow",
    "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip
