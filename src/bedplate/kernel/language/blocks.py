"""Blocks of the kernel language: threads that do one item of a task together, on a GPU.

A kernel that uses one of these words is run by blocks of `warps` x 32 threads: all threads of a
block have the same `begin`, `end` and `worker`. What a whole block or warp does together must be
reached by all its threads: outside of branches and loops on which they disagree.
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.context import failure, tracer
from bedplate.kernel.types import Type, bf16, f16, f32, i32, i64, ptr, u32, vec
from bedplate.kernel.values import Value, as_value

MOST_WARPS = 32  # 1024 threads, the most of a block
SHARED_BYTES = 48 << 10  # of a block, that every GPU gives without being asked for more


def thread_warp(warps: int) -> Value:
    """The number of this thread's warp, an i64, in a block of `warps`.

    warps  a Python number from 1 to 32, the same wherever a kernel says it
    """
    if not isinstance(warps, int) or not 1 <= warps <= MOST_WARPS:
        raise failure(f"thread_warp: a block of {warps!r} warps", f"1 to {MOST_WARPS}")
    return tracer().emit("thread_warp", i64, (), {"warps": warps})


def thread_lane() -> Value:
    """The number of this thread in its warp, an i64 from 0 to 31."""
    return tracer().emit("thread_lane", i64, ())


def shared(element: Type, count: int) -> Value:
    """An array of `count` elements that all threads of the block see; garbage until written.

    What a thread writes, others may read behind the next barrier; 64-byte aligned.
    count    a Python number; all such arrays of a kernel take 48 KiB at most
    returns  ptr(element)
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise failure("shared needs a size known under trace", "a Python int >= 1", count=count)
    here = tracer()
    here.shared_bytes += -(-count * element.itemsize // 64) * 64
    if here.shared_bytes > SHARED_BYTES:
        raise failure(f"shared arrays of {here.shared_bytes} bytes", f"{SHARED_BYTES} a kernel")
    return here.emit("shared", ptr(element), (), {"count": count})


def block_barrier() -> None:
    """Wait until all threads of the block are here; what they wrote before is there then."""
    tracer().emit("block_barrier", None, ())


def warp_barrier() -> None:
    """Wait until all lanes of the warp are here, as behind a branch on which they disagreed.

    What they wrote to shared memory needs `block_barrier` all the same.
    """
    tracer().emit("warp_barrier", None, ())


def from_lane(value: Value, lane: Any) -> Value:
    """The `value` of another lane of the warp.

    value  f32, i32 or u32
    lane   an i64 or a Python number, taken modulo 32
    """
    if not isinstance(value, Value) or value.type not in (f32, i32, u32):
        raise failure("from_lane exchanges 32 bits", "f32, i32 or u32", value=value)
    number = tracer().emit("cast", i32, (as_value(lane, i64, "the lane of from_lane"),))
    return tracer().emit("from_lane", value.type, (value, number))


def load_matrices(pointer: Value, transposed: bool = False) -> Value:
    """Four matrices of 8 x 8 from shared memory, spread over the warp as `mma` takes them.

    pointer     ptr(bf16) or ptr(f16), 16-byte aligned: lane 8 m + r points at row r of matrix m
    transposed  of each matrix its transpose
    returns     vec(T, 8): of matrix m, elements 2 m and 2 m + 1 are those at row lane // 4,
                columns 2 (lane % 4) and the next
    """
    type_ = pointer.type.element if isinstance(pointer, Value) and pointer.type.is_pointer else None
    if type_ is not bf16 and type_ is not f16:
        raise failure("load_matrices reads 16-bit floats", "ptr(bf16), ptr(f16)", pointer=pointer)
    attributes = {"transposed": bool(transposed), "aligned": True}
    return tracer().emit("load_matrices", vec(type_, 8), (pointer,), attributes)


def mma(a: Value, b: Value, c: Any) -> Value:
    """The product of a 16 x 16 and a 16 x 8 matrix, plus c, by the whole warp.

    With g = lane // 4 and t = lane % 4, a lane has

        a  vec(T, 8)    rows g, g, g + 8, g + 8 twice; k = 2 t, 2 t + 1 twice, then 8 further twice
        b  vec(T, 4)    column g; k = 2 t, 2 t + 1, 2 t + 8, 2 t + 9
        c  vec(f32, 4)  rows g, g, g + 8, g + 8; columns 2 t, 2 t + 1 twice

    T is bf16 or f16. Products are exact and added in float32, in an order that is the hardware's.
    returns  vec(f32, 4), as c
    """
    for name, value, lanes in (("a", a, 8), ("b", b, 4)):
        legal = (vec(bf16, lanes), vec(f16, lanes))
        if not isinstance(value, Value) or value.type not in legal:
            raise failure(f"mma: wrong {name}", f"{legal[0]} or {legal[1]}", **{name: value})
    if a.type.scalar is not b.type.scalar:
        raise failure("mma mixes two types", "bf16 or f16 for both", a=a, b=b)
    total = as_value(c, vec(f32, 4), "c of mma")
    return tracer().emit("mma", vec(f32, 4), (a, b, total))
