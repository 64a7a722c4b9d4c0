"""What arithmetic on complex numbers is made of: the forms of ops, each on the parts.

The forms stand in files of their own, beside the records that they belong to: the logarithm needs
the arc tangent, the sine the exponential, and modules of records would import each other in a
circle. Beside this file there are exponential.py, trigonometry.py and
sums.py. Their accuracy is stated relative to |y|, in units of its last place; one part
alone may be worse where it is much smaller than the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import real_dtype
from bedplate.ops.build import as_type, number
from bedplate.ops.complex_numbers import parts as complex_parts
from bedplate.ops.complex_numbers.form import Pair, complex_form
from bedplate.ops.pointwise import arithmetic, comparison, convert, rounding
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, negative, subtract
from bedplate.ops.pointwise.comparison import equal, logical_and, logical_or, not_equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.pointwise.floats import hypot
from bedplate.ops.record import apply
from bedplate.ops.shape.regions import PAD

INFINITY = math.inf


# ---- parts


@complex_form(complex_parts._real)
def real(z: Pair) -> Any:
    """x"""
    return z.re


@complex_form(complex_parts.imag)
def imag(z: Pair) -> Any:
    """y"""
    return z.im


@complex_form(complex_parts._conj)
def conj(z: Pair) -> Pair:
    """x - iy"""
    return Pair(z.re, negative(z.im))


@complex_form(complex_parts._complex)
def complex_(re: Any, im: Any) -> Pair:
    """The parts as they are."""
    return Pair(re, im)


@complex_form(convert.CAST)
def cast(x: Any, dtype: Any) -> Any:
    """A real number has the imaginary part 0; a complex one is true if it is not 0."""
    part = real_dtype(dtype)
    if not isinstance(x, Pair):
        re = as_type(x, part)
        return Pair(re, number(re, 0.0))
    if dtype.kind == "b":
        return nonzero(x)
    return Pair(as_type(x.re, part), as_type(x.im, part))


@complex_form(PAD)
def pad(z: Pair, widths: Any, value: complex) -> Pair:
    """Each part with its part of the value around it."""
    numbers = (float(value.real), float(value.imag))
    pairs = zip(z[:2], numbers, strict=True)
    return Pair(*[apply(PAD, (part,), {"widths": widths, "value": n}) for part, n in pairs])


# ---- comparison


def nonzero(z: Pair) -> Any:
    """Whether a number is not 0; NaN is not."""
    return logical_or(not_equal(z.re, 0.0), not_equal(z.im, 0.0))


def isinf(z: Pair) -> Any:
    """A number with an infinite part is infinite, whatever the other part is."""
    return logical_or(comparison.isinf(z.re), comparison.isinf(z.im))


complex_form(comparison.isinf)(isinf)


@complex_form(comparison.equal)
def equal_(a: Pair, b: Pair) -> Any:
    """Both parts are."""
    return logical_and(equal(a.re, b.re), equal(a.im, b.im))


@complex_form(comparison.not_equal)
def not_equal_(a: Pair, b: Pair) -> Any:
    """A part is not."""
    return logical_or(not_equal(a.re, b.re), not_equal(a.im, b.im))


@complex_form(comparison.isnan)
def isnan(z: Pair) -> Any:
    """A part is."""
    return logical_or(comparison.isnan(z.re), comparison.isnan(z.im))


@complex_form(comparison.isfinite)
def isfinite(z: Pair) -> Any:
    """Both parts are."""
    return logical_and(comparison.isfinite(z.re), comparison.isfinite(z.im))


# ---- arithmetic


@complex_form(arithmetic.add)
def add_(a: Pair, b: Pair) -> Pair:
    """Part by part."""
    return Pair(add(a.re, b.re), add(a.im, b.im))


@complex_form(arithmetic.subtract)
def subtract_(a: Pair, b: Pair) -> Pair:
    """Part by part."""
    return Pair(subtract(a.re, b.re), subtract(a.im, b.im))


@complex_form(arithmetic.negative)
def negative_(z: Pair) -> Pair:
    """Part by part."""
    return Pair(negative(z.re), negative(z.im))


@complex_form(arithmetic.multiply)
def product(a: Pair, b: Pair) -> Pair:
    """(ac - bd) + i(ad + bc); what NaN there is stays, as in NumPy."""
    re = subtract(multiply(a.re, b.re), multiply(a.im, b.im))
    return Pair(re, add(multiply(a.re, b.im), multiply(a.im, b.re)))


@complex_form(arithmetic.square)
def square(z: Pair) -> Pair:
    """The product with itself."""
    return product(z, z)


def scaled(z: Pair, factor: Any) -> Pair:
    """Both parts times a real value or number."""
    return Pair(multiply(z.re, factor), multiply(z.im, factor))


def largest(z: Pair) -> Any:
    """The larger of |x| and |y|; NaN if one is."""
    return maximum(abs(z.re), abs(z.im))


def chosen(condition: Any, a: Pair, b: Pair) -> Pair:
    """a where the condition holds, else b."""
    return Pair(where(condition, a.re, b.re), where(condition, a.im, b.im))


@complex_form(arithmetic.divide)
def quotient(a: Pair, b: Pair) -> Pair:
    """Smith's division of numbers that are scaled away from overflow and underflow first.

    With |c| >= |d|: r = d / c, q = c + d r; a / b = ((x + y r) + i(y - x r)) / q; else the same
    with the parts of both exchanged. At most 3 ulp off.
    source  Smith 1962, Algorithm 116; the scaling of Baudin and Smith 2012, arXiv:1210.4539
    """
    up, down = _divisor_scales(a), _divisor_scales(b)
    x, y = scaled(a, up)[:2]
    c, d = scaled(b, down)[:2]
    straight = abs(c) >= abs(d)
    long, short = where(straight, c, d), where(straight, d, c)
    first, second = where(straight, x, y), where(straight, y, x)
    nothing = logical_and(equal(c, 0.0), equal(d, 0.0))
    ratio = divide(short, long)
    whole = add(long, multiply(short, ratio))
    re = divide(add(first, multiply(second, ratio)), whole)
    turned = multiply(first, ratio)
    im = where(straight, subtract(second, turned), subtract(turned, second))
    im = divide(im, whole)
    back = divide(down, up)
    re, im = multiply(re, back), multiply(im, back)
    return Pair(where(nothing, divide(x, abs(c)), re), where(nothing, divide(y, abs(d)), im))


def _divisor_scales(z: Pair) -> Any:
    """The power of two that brings a number to where a product with it cannot over- or underflow.

    1 for most.
    """
    limits = np.finfo(z.re.dtype.numpy)
    size = largest(z)
    grown = 2.0 ** (2 * limits.nmant)
    small = where(size < float(limits.tiny) * grown, number(size, grown), number(size, 1.0))
    return where(size > float(limits.max) / 4, number(size, 0.25), small)


@complex_form(arithmetic.reciprocal)
def reciprocal(z: Pair) -> Pair:
    """1 / z as in `quotient`, with the zeros of the conjugate; inf + i NaN for 0."""
    scale = _divisor_scales(z)
    c, d = scaled(z, scale)[:2]
    straight = abs(c) >= abs(d)
    long, short = where(straight, c, d), where(straight, d, c)
    ratio = divide(short, long)
    whole = add(long, multiply(short, ratio))
    first, second = divide(scale, whole), multiply(divide(ratio, whole), scale)
    re, im = where(straight, first, second), negative(where(straight, second, first))
    nothing = logical_and(equal(c, 0.0), equal(d, 0.0))
    infinite, unknown = number(re, INFINITY), number(re, math.nan)
    return chosen(nothing, Pair(infinite, unknown), Pair(re, im))


@complex_form(arithmetic.abs_)
def absolute(z: Pair) -> Any:
    """sqrt(x^2 + y^2), without overflow; at most 2 ulp off."""
    return hypot(z.re, z.im)


@complex_form(rounding.round_)
def round_(z: Pair) -> Pair:
    """Each part rounded."""
    return Pair(rounding.round_(z.re), rounding.round_(z.im))


@complex_form(arithmetic.sign)
def sign(z: Pair) -> Pair:
    """z / |z|; 0 for 0; the axis on which one part alone is infinite; at most 3 ulp off."""
    size = largest(z)
    zero, unknown = number(size, 0.0), number(size, math.nan)
    u, v = divide(z.re, size), divide(z.im, size)
    length = hypot(u, v)
    result = Pair(divide(u, length), divide(v, length))
    axis = [where(comparison.isinf(part), arithmetic.sign(part), zero) for part in z[:2]]
    result = chosen(isinf(z), Pair(*axis), result)
    both = logical_and(comparison.isinf(z.re), comparison.isinf(z.im))
    result = chosen(logical_or(isnan(z), both), Pair(unknown, unknown), result)
    return chosen(equal(size, 0.0), Pair(zero, zero), result)
