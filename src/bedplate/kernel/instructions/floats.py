"""Comparisons, minimum and maximum, fma, roots and rounding; select."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.kernel.instructions.arithmetic import constant, meaning, numeric, suffix
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, boolean, i32, i64, with_element
from bedplate.later import Later

fractions: Any = Later("fractions")


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


# Instructions of AVX-512 that no LLVM instruction stands for, register by register


def _has_512(lowering: Any, type_: Type) -> bool:
    """Whether a value is float32 or float64 in whole registers of AVX-512."""
    native = lowering.target.vector_bits == 512 and lowering.target.triple.startswith("x86_64")
    return native and type_.bits >= 32 and type_.lanes > 0 and type_.lanes * type_.bits % 512 == 0


def _packed(type_: Type) -> str:
    return "ps" if type_.bits == 32 else "pd"


def _by_register(lowering: Any, type_: Type, build: Any, *texts: str) -> str:
    """build(vector type, lanes, *texts) for each register, joined in pairs."""
    lanes = 512 // type_.bits
    vector = f"<{lanes} x {type_.scalar.llvm}>"
    parts = [
        build(vector, lanes, *(_part(lowering, type_, text, first, lanes) for text in texts))
        for first in range(0, type_.lanes, lanes)
    ]
    while len(parts) > 1:
        vector = f"<{lanes} x {type_.scalar.llvm}>"
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffled(lowering, vector, a, b, range(2 * lanes)) for a, b in pairs]
        lanes *= 2
    return parts[0]


def _part(lowering: Any, type_: Type, text: str, first: int, lanes: int) -> str:
    if type_.lanes == lanes:
        return text
    return _shuffled(lowering, type_.llvm, text, text, range(first, first + lanes))


def _shuffled(lowering: Any, vector: str, a: str, b: str, places: range) -> str:
    mask = ", ".join(f"i32 {place}" for place in places)
    return lowering.new(f"shufflevector {vector} {a}, {vector} {b}, <{len(places)} x i32> <{mask}>")


def _propagating(raw: Any, name: str) -> Any:
    """NaN if either is; LLVM would make three comparisons of the one instruction, were it seen."""

    def build(lowering: Any, type_: Type, a: str, b: str) -> str:
        # with a constant, which is not NaN, LLVM finds the one instruction itself
        values = a.startswith("%") and b.startswith("%")
        if values and type_.is_float and _has_512(lowering, type_):
            result = _by_register(lowering, type_, register(lowering, type_), a, b)
        else:
            result = raw(lowering, type_, a, b)
        if not type_.is_float:
            return result
        is_nan = lowering.new(f"fcmp uno {type_.llvm} {a}, {a}")
        return _select(lowering, type_, is_nan, a, result)

    def register(lowering: Any, type_: Type) -> Any:
        intrinsic = f"llvm.x86.avx512.{name}.{_packed(type_)}.512"
        return lambda vector, _, a, b: lowering.intrinsic(
            intrinsic, vector, [f"{vector} {a}", f"{vector} {b}", "i32 4"]
        )

    return build


raw_min, raw_max = _raw("olt", "lt"), _raw("ogt", "gt")
minimum, maximum = _propagating(raw_min, "min"), _propagating(raw_max, "max")
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
    exact = _fraction(a) * _fraction(b) + _fraction(c)
    if exact == 0:
        return plain if a == 0 or b == 0 else kind(0.0)
    return kind(_round_fraction(exact, 24 if kind is np.float32 else 53))


def _fraction(value: Any) -> Any:
    return fractions.Fraction(float(value))


def _round_fraction(exact: Any, digits: int) -> float:
    """The nearest float with `digits` binary digits, ties to even, subnormals included."""
    sign, exact = (-1.0, -exact) if exact < 0 else (1.0, exact)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < _fraction(2) ** exponent:
        exponent -= 1
    least = -149 if digits == 24 else -1074
    unit = max(exponent - digits + 1, least)
    whole = round(exact / _fraction(2) ** unit)
    try:
        return sign * float(whole * _fraction(2) ** unit)
    except OverflowError:
        return sign * float("inf")


def _float32_fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding: the product is exact in float64, and the sum is rounded to odd
    there, so that rounding it again to less than half as many digits rounds as once.

    source  Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums
    """
    product, other = np.float64(a) * np.float64(b), np.float64(c)
    total = np.atleast_1d(product + other)
    back = total - product
    error = (product - (total - back)) + (other - back)  # what the sum lost, exactly
    is_even = (total.view(np.int64) & 1) == 0
    lost = np.isfinite(total) & (error != 0) & is_even
    odd = np.where(lost, np.nextafter(total, np.copysign(np.inf, error)), total)
    return odd.astype(np.float32).reshape(np.shape(a))


def fused(a: Any, b: Any, c: Any) -> Any:
    if a.dtype == np.float32:
        return _float32_fma(a, b, c)
    lanes = zip(np.ravel(a), np.ravel(b), np.ravel(c), strict=True)
    return np.array([_exact_fma(*lane) for lane in lanes], a.dtype).reshape(np.shape(a))


define("fma", _intrinsic("fma"), meaning(fused))


# x * 2^n with one rounding: an instruction of AVX-512, two products elsewhere


def _scale(lowering: Any, type_: Type, x: str, n: str) -> str:
    """`vscalef`; its last operand asks for the usual rounding."""
    if not _has_512(lowering, type_):
        return _scale_by_products(lowering, type_, x, n)

    def register(vector: str, lanes: int, x: str, n: str) -> str:
        operands = [f"{vector} {x}", f"{vector} {n}", f"{vector} {x}", f"i{lanes} -1", "i32 4"]
        return lowering.intrinsic(
            f"llvm.x86.avx512.mask.scalef.{_packed(type_)}.512", vector, operands
        )

    return _by_register(lowering, type_, register, x, n)


def _scale_by_products(lowering: Any, type_: Type, x: str, n: str) -> str:
    """x * 2^(n >> 1) is exact, so that only the second product rounds."""
    integer = with_element(type_, i32 if type_.bits == 32 else i64)
    mantissa, bias = (23, 127) if type_.bits == 32 else (52, 1023)

    def whole(op: str, a: str, b: int | str) -> str:
        other = constant(integer, b) if isinstance(b, int) else b
        return lowering.new(f"{op} {integer.llvm} {a}, {other}")

    power = whole("add", lowering.new(f"fptosi {type_.llvm} {n} to {integer.llvm}"), 2 * bias)
    power = lowering.new(f"freeze {integer.llvm} {power}")  # of NaN, which x is too then
    first = whole("ashr", power, 1)
    for each in (first, whole("sub", power, first)):
        bits = whole("shl", each, mantissa)
        factor = lowering.new(f"bitcast {integer.llvm} {bits} to {type_.llvm}")
        x = lowering.new(f"fmul {type_.llvm} {x}, {factor}")
    return x


def _scaled(x: Any, n: Any) -> Any:
    with np.errstate(all="ignore"):
        held = np.where(np.isfinite(n), n, 0).astype(np.int32)
        return np.where(np.isnan(n), n, np.ldexp(x, held)).astype(x.dtype)


define("scale", numeric(_scale), meaning(_scaled))
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
