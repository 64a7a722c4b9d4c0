"""Comparisons, minimum and maximum, fma, roots and rounding; select."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from bedplate.kernel.instructions.arithmetic import meaning, numeric, suffix
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, boolean


def _compare(float_op: str, integer_op: str) -> Any:
    def build(lowering: Any, type_: Type, a: str, b: str) -> str:
        if type_.is_float:
            return lowering.new(f"fcmp {float_op} {type_.llvm} {a}, {b}")
        op = integer_op
        if op not in ("eq", "ne"):
            op = ("s" if type_.is_signed else "u") + op
        return lowering.new(f"icmp {op} {type_.llvm} {a}, {b}")

    return numeric(build, narrows=False)


define("less", _compare("olt", "lt"), meaning(lambda a, b: a < b))
define("less_equal", _compare("ole", "le"), meaning(lambda a, b: a <= b))
define("greater", _compare("ogt", "gt"), meaning(lambda a, b: a > b))
define("greater_equal", _compare("oge", "ge"), meaning(lambda a, b: a >= b))
define("equal", _compare("oeq", "eq"), meaning(lambda a, b: a == b))
define("not_equal", _compare("une", "ne"), meaning(lambda a, b: a != b))


def _select(lowering: Any, type_: Type, mask: str, a: str, b: str) -> str:
    bits = boolean(type_).llvm
    return lowering.new(f"select {bits} {mask}, {type_.llvm} {a}, {type_.llvm} {b}")


def _raw(float_op: str, integer_op: str) -> Any:
    def build(lowering: Any, type_: Type, a: str, b: str) -> str:
        if type_.is_float:
            first = lowering.new(f"fcmp {float_op} {type_.llvm} {a}, {b}")
        else:
            sign = "s" if type_.is_signed else "u"
            first = lowering.new(f"icmp {sign}{integer_op} {type_.llvm} {a}, {b}")
        return _select(lowering, type_, first, a, b)

    return build


def _propagating(raw: Any) -> Any:
    def build(lowering: Any, type_: Type, a: str, b: str) -> str:
        result = raw(lowering, type_, a, b)
        if not type_.is_float:
            return result
        is_nan = lowering.new(f"fcmp uno {type_.llvm} {a}, {a}")
        return _select(lowering, type_, is_nan, a, result)

    return build


raw_min, raw_max = _raw("olt", "lt"), _raw("ogt", "gt")
minimum, maximum = _propagating(raw_min), _propagating(raw_max)
define("raw_min", numeric(raw_min), meaning(lambda a, b: np.where(a < b, a, b)))
define("raw_max", numeric(raw_max), meaning(lambda a, b: np.where(a > b, a, b)))
define("minimum", numeric(minimum), meaning(lambda a, b: np.where((a < b) | (a != a), a, b)))
define("maximum", numeric(maximum), meaning(lambda a, b: np.where((a > b) | (a != a), a, b)))


def _intrinsic(name: str) -> Any:
    def build(lowering: Any, type_: Type, *texts: str) -> str:
        operands = [f"{type_.llvm} {text}" for text in texts]
        return lowering.intrinsic(f"llvm.{name}.{suffix(type_)}", type_.llvm, operands)

    return numeric(build)


def _exact_fma(a: Any, b: Any, c: Any) -> float:
    """a * b + c with one rounding to float32 or float64, by exact fractions."""
    kind = type(a)
    plain = a * b + c
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return plain
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return plain if a == 0 or b == 0 else kind(0.0)
    return kind(_round_fraction(exact, 24 if kind is np.float32 else 53))


def _round_fraction(exact: Fraction, digits: int) -> float:
    """The nearest float with `digits` binary digits, ties to even, subnormals included."""
    sign, exact = (-1.0, -exact) if exact < 0 else (1.0, exact)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < Fraction(2) ** exponent:
        exponent -= 1
    least = -149 if digits == 24 else -1074
    unit = max(exponent - digits + 1, least)
    whole = round(exact / Fraction(2) ** unit)
    try:
        return sign * float(whole * Fraction(2) ** unit)
    except OverflowError:
        return sign * float("inf")


def _fma(a: Any, b: Any, c: Any) -> Any:
    lanes = zip(np.ravel(a), np.ravel(b), np.ravel(c), strict=True)
    return np.array([_exact_fma(*lane) for lane in lanes], a.dtype).reshape(np.shape(a))


define("fma", _intrinsic("fma"), meaning(_fma))
define("sqrt", _intrinsic("sqrt"), meaning(lambda a: np.sqrt(a)))
define("floor", _intrinsic("floor"), meaning(lambda a: np.floor(a)))
define("ceil", _intrinsic("ceil"), meaning(lambda a: np.ceil(a)))
define("trunc", _intrinsic("trunc"), meaning(lambda a: np.trunc(a)))
define("round_even", _intrinsic("roundeven"), meaning(lambda a: np.rint(a)))
define("copysign", _intrinsic("copysign"), meaning(np.copysign))


def _emit_select(lowering: Any, instruction: Any) -> str:
    return lowering.new("select " + ", ".join(map(lowering.typed, instruction.operands)))


def _select_meaning(machine: Any, instruction: Any, mask: Any, a: Any, b: Any) -> Any:
    if instruction.type.is_pointer or not instruction.type.lanes:
        return a if mask else b
    return np.where(mask, a, b)


define("select", _emit_select, _select_meaning)
