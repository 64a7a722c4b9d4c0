"""What float32 and float64 differ in, and the decorator that every function here wears.

The functions are written once: their `Precision` gives the integer type of the same width, the
layout of the bits and the coefficients. float16 and bfloat16 values are computed in float32
and rounded once; some float32 functions are computed in float64, where that is the short way
to two units in the last place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bedplate.errors import KernelError
from bedplate.kernel.language.conversions import cast, constant
from bedplate.kernel.maths import coefficients
from bedplate.kernel.types import Type, bf16, element, f16, f32, f64, i32, i64
from bedplate.kernel.values import Value


@dataclass(frozen=True)
class Precision:
    """One floating-point format.

    mantissa_bits   stored bits of the fraction
    bias            of the exponent
    magic           1.5 * 2^mantissa_bits: added to a float, it rounds it to an integer that then
                    stands in the low bits
    magic_bits      the bits of `magic`
    suffix          of the coefficients' names
    """

    float_type: Type
    integer_type: Type
    mantissa_bits: int
    bias: int
    magic: float
    magic_bits: int
    suffix: str

    def coefficients(self, name: str) -> Any:
        return getattr(coefficients, f"{name}_{self.suffix}")

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def largest(self) -> float:
        return (2.0 - 2.0**-self.mantissa_bits) * 2.0**self.bias


SINGLE = Precision(f32, i32, 23, 127, 12582912.0, 0x4B400000, "32")
DOUBLE = Precision(f64, i64, 52, 1023, 6755399441055744.0, 0x4338000000000000, "64")


def like(model: Any, number: float) -> Any:
    """A number as a value of `model`'s type."""
    return constant(model.type, number)


def precision_of(x: Any) -> Precision:
    return SINGLE if element(x.type) is f32 else DOUBLE


def elementary(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept float16 and bfloat16 (through float32) and Python numbers beside a Value."""
    return _wrapped(function, widen_single=False)


def through_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `elementary`, and compute float32 in float64 too."""
    return _wrapped(function, widen_single=True)


def _wrapped(function: Callable[..., Any], widen_single: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        values = _values(function.__name__, arguments)
        kind = element(values[0].type)
        compute = f32 if kind in (f16, bf16) else kind
        if widen_single and compute is f32:
            compute = f64
        if compute is kind:
            return function(*values)
        return cast(function(*(cast(v, compute) for v in values)), kind)

    return wrapper


def _values(name: str, arguments: tuple[Any, ...]) -> list[Any]:
    """The arguments as values of one floating-point type; Python numbers take it on."""
    model = next((a for a in arguments if isinstance(a, Value)), None)
    if model is None:
        raise KernelError(f"{name}: needs a kernel value, got {arguments!r}")
    if not element(model.type).is_float:
        raise KernelError(
            f"{name}: needs a floating-point value, got {model.type}; cast(x, f32) first"
        )
    values = [a if isinstance(a, Value) else like(model, a) for a in arguments]
    if any(v.type is not model.type for v in values):
        raise KernelError(f"{name}: types differ: {', '.join(str(v.type) for v in values)}")
    return values
