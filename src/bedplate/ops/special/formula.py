"""One formula for NumPy and for the kernel language, always in float64.

A special function is written once, over a `World`: the handful of functions that both have. The
NumPy world makes the reference of the op, the kernel world its emission. float32 is computed in
float64 and rounded once, so it is right to half a unit in the last place (or nearly); how near
float64 comes is told with each function, and tested against mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.kernel import maths
from bedplate.ops.build import Function
from bedplate.ops.elementwise import unary
from bedplate.ops.record import Gradient, Sample

# splits a float64 into halves of 26 bits whose products are exact: Dekker 1971
SPLITTER = 134217729.0


@dataclass(frozen=True)
class World:
    """Where a formula is computed: the same functions of float64 values by the same names."""

    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    log1p: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    sin: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    pow: Callable[[Any, Any], Any]
    erfc: Callable[[Any], Any]
    round: Callable[[Any], Any]
    maximum: Callable[[Any, Any], Any]
    minimum: Callable[[Any, Any], Any]
    where: Callable[[Any, Any, Any], Any]
    repeat: Callable[[int, Callable[..., Any], Any], Any]  # values = step(*values), n times


def _repeat_arrays(count: int, step: Callable[..., Any], values: Any) -> Any:
    for _ in range(count):
        values = step(*values)
    return values


def _repeat_values(count: int, step: Callable[..., Any], values: Any) -> Any:
    """A loop of the kernel: unrolled, some formulas take seconds to compile."""
    cells = [language.var(value) for value in values]
    for _ in language.loop(count):
        after = step(*(cell.get() for cell in cells))
        for cell, value in zip(cells, after, strict=True):
            cell.set(value)
    return tuple(cell.get() for cell in cells)


NUMPY = World(
    np.exp, np.log, np.log1p, np.sqrt, np.sin, np.cos, np.power,
    np.vectorize(math.erfc, otypes=[np.float64]), np.round, np.maximum, np.minimum, np.where,
    _repeat_arrays,
)  # fmt: skip
KERNEL = World(
    maths.exp, maths.log, maths.log1p, language.sqrt, maths.sin, maths.cos, maths.pow,
    maths.erfc, language.round_even, language.maximum, language.minimum, language.select,
    _repeat_values,
)  # fmt: skip
Formula = Callable[..., Any]  # (world, x) -> y


def reference_of(formula: Formula) -> Callable[..., Any]:
    """The NumPy function of a formula."""

    def reference(*arrays: Any, **attributes: Any) -> Any:
        return formula(NUMPY, *(a.astype(np.float64) for a in arrays), **attributes)

    return reference


def emission_of(formula: Formula) -> Callable[..., Any]:
    """The emission of a formula: in float64, rounded once to the type of the output."""

    def emit(type_: Any, *values: Any, **attributes: Any) -> Any:
        wide = (language.cast(value, language.f64) for value in values)
        return language.cast(formula(KERNEL, *wide, **attributes), type_)

    return emit


def special(
    formula: Formula, gradient: Gradient, samples: tuple[Sample, ...]
) -> Callable[[Function], Function]:
    """The decorator that makes an op of one float input from a formula."""
    return unary(
        reference=reference_of(formula),
        emit=emission_of(formula),
        gradient=gradient,
        samples=samples,
    )


def _step(value: Any, x: Any, coefficient: float) -> Any:
    return value * x + coefficient


def polynomial(coefficients: Sequence[float], x: Any, step: Callable[..., Any] = _step) -> Any:
    """The sum of coefficients[k] x^k, by Horner's rule.

    step   computes value x + coefficient, but the first: the kernel language's `fma` rounds once
    """
    value = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value = step(value, x, coefficient)
    return value


def ratio(polynomials: Sequence[Sequence[float]], x: Any, step: Callable[..., Any] = _step) -> Any:
    """One polynomial over another, by their coefficients."""
    above, below = (polynomial(coefficients, x, step) for coefficients in polynomials)
    return above / below


def exp_square(m: World, x: Any, factor: float = 1.0) -> Any:
    """exp(factor x^2) for a power of 2 and |x| < 2^400, the rounding of the square made good."""
    high = x * SPLITTER
    high = high - (high - x)
    low = x - high
    square = x * x
    rest = ((high * high - square) + high * low * 2) + low * low
    return m.exp(square * factor) * (rest * factor + 1)


def sin_cos_pi(m: World, x: Any) -> tuple[Any, Any]:
    """sin(pi x) and cos(pi x) but for a common sign, exact at integers; NaN at infinity."""
    turn = (x - m.round(x)) * math.pi
    return m.sin(turn), m.cos(turn)
