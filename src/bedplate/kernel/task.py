"""What the kernels of a plan have in common: the task interface and its argument words.

    @kernel
    def f(args: ptr(i64), begin: i64, end: i64, worker: i64): ...

`args` are 64-bit words: addresses, integers, or floats as the bits of an f64. The kernel does the
work items begin <= item < end; the result of an item never depends on how items are split.
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel.language.conversions import bitcast, cast
from bedplate.kernel.language.memory import load
from bedplate.kernel.types import Type, f64, ptr
from bedplate.kernel.values import Value


def word_int(args: Value, index: Any) -> Value:
    """Word `index` as an i64."""
    return load(args + index)


def word_pointer(args: Value, index: Any, type_: Type) -> Value:
    """Word `index` as a pointer to elements of `type_`."""
    return cast(load(args + index), ptr(type_))


def word_float(args: Value, index: Any) -> Value:
    """Word `index` as an f64, from its bits."""
    return bitcast(load(args + index), f64)
