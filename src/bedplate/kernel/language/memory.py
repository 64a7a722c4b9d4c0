"""Memory of the kernel language: load, store, gather, scatter, prefetch, local arrays."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.context import failure, tracer
from bedplate.kernel.ir import NO_ATTRIBUTES
from bedplate.kernel.types import Type, i1, ptr, vec
from bedplate.kernel.values import Value, as_value, mask_for

# What all local arrays of a kernel may take; threads are commonly given 8 MiB, rarely less than 2.
STACK_BYTES = 1 << 20


def _element(pointer: Any, what: str) -> Type:
    if not isinstance(pointer, Value) or not pointer.type.is_pointer:
        raise failure(f"{what} needs a pointer", "a value of type ptr(T)", pointer=pointer)
    element = pointer.type.element
    return element if element is not None else pointer.type


def _attributes(aligned: bool, nontemporal: bool = False) -> dict[str, Any]:
    if not aligned and not nontemporal:
        return NO_ATTRIBUTES
    return {"aligned": bool(aligned), "nontemporal": bool(nontemporal)}


def load(
    pointer: Value, lanes: int | None = None, mask: Any = None, other: Any = 0,
    aligned: bool = False, nontemporal: bool = False,
) -> Value:  # fmt: skip
    """Read one element, or `lanes` elements side by side as a vector.

    mask         vec(i1, lanes) or i1: only these lanes touch memory; the rest are `other`
    other        number or value of the element's or the vector's type
    aligned      the address is a multiple of the whole size; else of the element's size
    nontemporal  do not keep the line in the cache
    returns      T, or vec(T, lanes); a ptr(i1) holds bytes, which are 0 or not
    """
    element = _element(pointer, "load")
    type_ = vec(element, lanes) if lanes else element
    attributes = _attributes(aligned, nontemporal)
    if mask is None or mask is True:
        return tracer().emit("load", type_, (pointer,), attributes)
    operands = (pointer, mask_for(mask, lanes or 0), as_value(other, type_, "other of load"))
    return tracer().emit("load_masked", type_, operands, attributes)


def store(
    pointer: Value, value: Any, mask: Any = None, aligned: bool = False, nontemporal: bool = False
) -> None:
    """Write a scalar, or a vector's lanes side by side; with a mask only the lanes it names.

    value  T or vec(T, lanes) for a ptr(T); a Python number is one element
    """
    element = _element(pointer, "store")
    if not isinstance(value, Value) or not value.type.lanes:
        value = as_value(value, element, "the value stored")
    elif value.type.element is not element:
        raise failure(
            "store: the value does not fit the pointer", f"{element} or a vector of it; "
            "cast(x, T) converts", pointer=pointer, value=value,
        )  # fmt: skip
    attributes = _attributes(aligned, nontemporal)
    if mask is None or mask is True:
        tracer().emit("store", None, (pointer, value), attributes)
    else:
        operands = (pointer, value, mask_for(mask, value.type.lanes))
        tracer().emit("store_masked", None, operands, attributes)


def gather(pointer: Value, indices: Value, mask: Any = None, other: Any = 0) -> Value:
    """Read the element at pointer + indices[lane] for each lane; lanes off the mask give `other`.

    indices  vec(i32 or i64 or another integer, lanes), in elements
    """
    element = _element(pointer, "gather")
    if not isinstance(indices, Value) or not indices.type.lanes or not indices.type.is_integer:
        raise failure("gather needs a vector of indices", "vec(i32 or i64, lanes)", indices=indices)
    type_ = vec(element, indices.type.lanes)
    mask = mask_for(True if mask is None else mask, type_.lanes)
    operands = (pointer, indices, mask, as_value(other, type_, "other of gather"))
    return tracer().emit("gather", type_, operands)


def scatter(pointer: Value, indices: Value, value: Any, mask: Any = None) -> None:
    """Write value[lane] at pointer + indices[lane]; where indices meet, the highest lane wins."""
    element = _element(pointer, "scatter")
    if not isinstance(indices, Value) or not indices.type.lanes or not indices.type.is_integer:
        raise failure(
            "scatter needs a vector of indices", "vec(i32 or i64, lanes)", indices=indices
        )
    type_ = vec(element, indices.type.lanes)
    mask = mask_for(True if mask is None else mask, type_.lanes)
    operands = (pointer, indices, as_value(value, type_, "the value scattered"), mask)
    tracer().emit("scatter", None, operands)


def prefetch(pointer: Value, write: bool = False, locality: int = 3) -> None:
    """Ask for the cache line at an address; never fails, whatever the address.

    locality  0 (use once) to 3 (keep in every level)
    """
    _element(pointer, "prefetch")
    if not isinstance(locality, int) or not 0 <= locality <= 3:
        raise failure("prefetch: locality is out of range", "0 to 3", locality=locality)
    attributes = {"write": bool(write), "locality": locality}
    tracer().emit("prefetch", None, (pointer,), attributes)


def local(element: Type, count: int) -> Value:
    """An array of `count` elements on the stack, aligned to 64 bytes; garbage until written.

    count    a Python number; it is one array per call of the kernel, also inside a loop
    returns  ptr(element)
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise failure("local needs a size known under trace", "a Python int >= 1", count=count)
    here = tracer()
    here.local_bytes += count * element.itemsize
    if here.local_bytes > STACK_BYTES:
        raise failure(
            "local arrays are larger than the stack allows", "at most 1 MiB a kernel", count=count
        )
    return here.emit("local", ptr(element), (), {"count": count})


__all__ = ["gather", "i1", "load", "local", "prefetch", "scatter", "store"]
