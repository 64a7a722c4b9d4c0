"""Sums of two floats that carry twice the digits, and polynomials.

A pair (high, low) stands for high + low with |low| at most half a unit in the last place of
high. Every function here is exact or correct to about 2^-2p, p the bits of a mantissa.

source  Dekker 1971, Knuth TAOCP 2 section 4.2.2; Joldes, Muller, Popescu 2017 for the products
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.kernel.language.numbers import fma

Pair = tuple[Any, Any]


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule with fused multiply-adds; coefficients lowest power first."""
    result = fma(x, coefficients[-1], coefficients[-2])
    for coefficient in reversed(coefficients[:-2]):
        result = fma(result, x, coefficient)
    return result


def fast_two_sum(a: Any, b: Any) -> Pair:
    """a + b exactly, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Any, b: Any) -> Pair:
    """a + b exactly."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def two_product(a: Any, b: Any) -> Pair:
    """a * b exactly, while it neither overflows nor underflows."""
    product = a * b
    return product, fma(a, b, -product)


def add(x: Pair, y: Pair) -> Pair:
    """x + y, for |x| >= |y|."""
    high, low = fast_two_sum(x[0], y[0])
    return fast_two_sum(high, low + (x[1] + y[1]))


def multiply(x: Pair, y: Pair) -> Pair:
    """x * y."""
    high, low = two_product(x[0], y[0])
    return fast_two_sum(high, low + fma(x[0], y[1], x[1] * y[0]))


def divide(x: Pair, y: Pair) -> Pair:
    """x / y; not normalised: high is the rounded quotient, low its correction."""
    inverse = 1.0 / y[0]
    high = x[0] * inverse
    remainder = fma(-high, y[0], x[0]) + fma(-high, y[1], x[1])
    return high, remainder * inverse
