"""Vectors of the kernel language: select, lanes, reductions, shuffles, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.kernel.context import failure, tracer
from bedplate.kernel.types import i1, i64, vec
from bedplate.kernel.values import Value, as_value, mask_for, pair, splat_to


def _vector(what: str, value: Any) -> Value:
    if not isinstance(value, Value) or not value.type.lanes:
        raise failure(f"{what} needs a vector", "vec(T, lanes); splat(x, lanes)", value=value)
    return value


def select(condition: Any, a: Any, b: Any) -> Value:
    """a where the condition holds, else b: lane by lane for a mask, whole for an i1."""
    a, b = pair("select", a, b)
    if not isinstance(condition, Value) or condition.type.scalar is not i1:
        raise failure("select needs a condition", "i1 or a mask", condition=condition)
    lanes = condition.type.lanes
    if lanes and not a.type.lanes:
        a, b = (splat_to(x, vec(x.type, lanes)) for x in (a, b))
    if lanes and lanes != a.type.lanes:
        raise failure("select: lanes differ", "a mask of as many lanes", condition=condition, a=a)
    return tracer().emit("select", a.type, (condition, a, b))


def extract(vector: Value, lane: Any) -> Value:
    """One lane; a Python number, or an integer value (out of range: taken modulo the lanes)."""
    type_ = _vector("extract", vector).type
    return tracer().emit("extract", type_.scalar, (vector, _lane(lane, type_.lanes)))


def insert(vector: Value, lane: Any, value: Any) -> Value:
    """The vector with one lane replaced."""
    type_ = _vector("insert", vector).type
    value = as_value(value, type_.scalar, "the value inserted")
    return tracer().emit("insert", type_, (vector, _lane(lane, type_.lanes), value))


def _lane(lane: Any, lanes: int) -> Value:
    if isinstance(lane, int) and not 0 <= lane < lanes:
        raise failure(f"lane {lane} of a vector of {lanes}", f"0 to {lanes - 1}")
    if isinstance(lane, Value) and lane.type is not i64 and lane.type.is_integer:
        return tracer().emit("cast", i64, (lane,))
    return as_value(lane, i64, "the lane")


def shuffle(a: Value, b: Any, indices: Sequence[int]) -> Value:
    """Lanes picked from a (0 to lanes - 1) and b (lanes to 2 lanes - 1); b None: from a alone.

    indices  Python numbers, as many as the result has lanes
    """
    type_ = _vector("shuffle", a).type
    second = a if b is None else as_value(b, type_, "the second vector")
    picked = tuple(int(i) for i in indices)
    limit = type_.lanes * (1 if b is None else 2)
    if any(not 0 <= i < limit for i in picked):
        raise failure(f"shuffle: an index of {picked} is out of range", f"0 to {limit - 1}", a=a)
    result = vec(type_.scalar, len(picked))
    return tracer().emit("shuffle", result, (a, second), {"indices": picked})


def tail_mask(n_left: Any, lanes: int) -> Value:
    """The mask whose lane i holds if i < n_left; n_left is an i64 of any value."""
    count = as_value(n_left, i64, "the count of tail_mask")
    return tracer().emit("tail_mask", vec(i1, lanes), (count,))


def any_of(mask: Value) -> Value:
    """Whether any lane of a mask holds; an i1 is given back as it is."""
    return _reduce("reduce_or", mask_or_bit(mask))


def all_of(mask: Value) -> Value:
    """Whether every lane of a mask holds; an i1 is given back as it is."""
    return _reduce("reduce_and", mask_or_bit(mask))


def mask_or_bit(mask: Any) -> Value:
    if isinstance(mask, Value) and mask.type.scalar is i1:
        return mask
    return mask_for(mask, 0)


def _reduce(op: str, vector: Value) -> Value:
    if isinstance(vector, Value) and not vector.type.lanes and not vector.type.is_pointer:
        return vector
    type_ = _vector(op, vector).type
    if type_.bits == 1 and op not in ("reduce_and", "reduce_or"):
        raise failure(f"{op} of a mask", "any_of, all_of; cast(mask, i32) first", value=vector)
    if type_.is_float and op in ("reduce_and", "reduce_or"):
        raise failure(f"{op} needs integers", "integers and masks", value=vector)
    return tracer().emit(op, type_.scalar, (vector,))


def reduce_add(vector: Value) -> Value:
    """The sum of all lanes, always as one tree: halves are added lane by lane until one is left."""
    return _reduce("reduce_add", vector)


def reduce_mul(vector: Value) -> Value:
    """The product of all lanes, as the tree of reduce_add."""
    return _reduce("reduce_mul", vector)


def reduce_min(vector: Value) -> Value:
    """The smallest lane; NaN if any is NaN."""
    return _reduce("reduce_min", vector)


def reduce_max(vector: Value) -> Value:
    """The greatest lane; NaN if any is NaN."""
    return _reduce("reduce_max", vector)


def reduce_and(vector: Value) -> Value:
    """All lanes of an integer vector or a mask combined with &."""
    return _reduce("reduce_and", vector)


def reduce_or(vector: Value) -> Value:
    """All lanes of an integer vector or a mask combined with |."""
    return _reduce("reduce_or", vector)
