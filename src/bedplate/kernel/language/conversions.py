"""Conversions and constants of the kernel language: cast, bitcast, splat, iota, constant."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.context import failure, tracer
from bedplate.kernel.types import Type, vec, with_element
from bedplate.kernel.values import Value, literal


def cast(x: Any, type_: Type) -> Value:
    """x converted to another element type; a vector keeps its lanes.

    floats round to nearest even; float to integer truncates and saturates, NaN gives 0;
    to i1 means x != 0; integers wrap; a pointer becomes another ptr(T) or an integer address
    """
    if not isinstance(x, Value):
        return literal(type_, x)
    target = type_ if type_.is_pointer else with_element(x.type, type_.scalar)
    if type_.lanes and type_.lanes != x.type.lanes:
        raise failure("cast keeps the number of lanes", f"cast(x, {type_.scalar})", value=x)
    if target is x.type:
        return x
    if x.op == "literal" and target.is_float and x.type.is_float:
        return literal(target, x.attributes["value"])
    if target.is_pointer and (x.type.lanes or x.type.is_float):
        raise failure("cast to a pointer needs an address", "i64, u64 or a pointer", value=x)
    if x.type.is_pointer and not target.is_pointer and target.bits != 64:
        raise failure(f"cast of a pointer to {target}", "another ptr(T), i64 or u64", value=x)
    return tracer().emit("cast", target, (x,))


def bitcast(x: Value, type_: Type) -> Value:
    """The same bits as another type of the same width.

    A vector keeps its lanes, or becomes the vector type that is given; of two elements that
    become one, the first is the lower half.
    """
    if not isinstance(x, Value):
        raise failure("bitcast needs a value", "constant(T, x)", value=x)
    target = type_ if x.type.lanes and type_.lanes else with_element(x.type, type_.scalar)
    width = x.type.bits * max(x.type.lanes, 1)
    is_word = not (x.type.is_pointer or target.is_pointer or 1 in (x.type.bits, target.bits))
    if target.bits * max(target.lanes, 1) != width or not is_word:
        raise failure(f"bitcast to {type_}", f"a number of {x.type.bits} bits", value=x)
    return x if target is x.type else tracer().emit("bitcast", target, (x,))


def splat(x: Value, lanes: int) -> Value:
    """A vector with the scalar x in every lane; x itself if `lanes` is 0 or None."""
    if not isinstance(x, Value) or x.type.lanes or x.type.is_pointer:
        raise failure("splat needs a scalar value", "constant(T, x, lanes)", value=x)
    if not lanes:
        return x
    if x.op == "literal":
        return Value("literal", vec(x.type, lanes), (), x.attributes)
    return tracer().emit("splat", vec(x.type, lanes), (x,))


def iota(type_: Type, lanes: int) -> Value:
    """The vector 0, 1, 2 ... lanes - 1."""
    return tracer().emit("iota", vec(type_, lanes), ())


def constant(type_: Type, value: Any, lanes: int | None = None) -> Value:
    """A Python number as a value of `type_`, in every lane if `lanes` is given."""
    if lanes and not type_.lanes:
        type_ = vec(type_, lanes)
    return literal(type_, value)


def zeros(type_: Type, lanes: int | None = None) -> Value:
    """Zero as a value of `type_`, in every lane if `lanes` is given."""
    return constant(type_, 0, lanes)
