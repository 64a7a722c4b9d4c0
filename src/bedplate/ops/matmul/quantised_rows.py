"""Rows of x as whole numbers, which products with quantised weights multiply by.

For each row and each group of 32 along k, e being the exponent of the largest magnitude there:

    step = 2**(e - 8 * planes + 3)                  at least the smallest normal number
    r[k] = x[k] / step to the nearest integer       at most 2**(8 * planes - 2)
    r[k] = sum over p of 256**(planes - 1 - p) * digit[p, k]        digits from -128 to 127

A step is a power of two, so nothing but that rounding is lost: an element is off by at most
2**(2 - 8 * planes) times the largest of its group.

| x        | planes | off by at most | what it is exact for                                   |
|----------|--------|----------------|--------------------------------------------------------|
| bfloat16 | 2      | 2**-14         | elements down to 2**-6 of the group's largest          |
| float16  | 2      | 2**-14         | elements down to 2**-3 of it                           |
| float32  | 3      | 2**-22         | hardly any, but sums of float32 round as coarsely      |
| float64  | 7      | 2**-54         | elements down to half of it                            |

    flops   some 5 an element
    bytes   x once, and `planes` for each element
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from bedplate.dtypes import DType, float32, float64
from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    bitcast,
    cast,
    f64,
    gather,
    i8,
    i32,
    i64,
    iota,
    kernel,
    load,
    loop,
    ptr,
    reduce_add,
    reduce_max,
    round_even,
    select,
    shuffle,
    splat,
    store,
    tail_mask,
    u32,
    u64,
    when,
    word_int,
    word_pointer,
)
from bedplate.ops.matmul.quantised_format import GROUP, places_of_bytes

# words of the task
FROM, FROM_ROW, FROM_K, DIGITS, STARTS, STEPS, DEPTH, ROW_GROUPS, N_ROWS = range(9)
WORDS = GROUP // 4  # of one plane of a group


def planes_of(dtype: DType) -> int:
    """Bytes that an element of x becomes."""
    return 7 if dtype is float64 else 3 if dtype is float32 else 2


@dataclass(frozen=True, slots=True)
class Rounding:
    """What specialises the kernel.

    given       the type of x
    accumulate  of the steps
    planes      bytes of an element
    bits        of a weight: in which order its bytes want those of x
    joined      neighbours along k are neighbours in memory
    """

    given: Type
    accumulate: Type
    planes: int
    bits: int
    joined: bool

    @property
    def whole(self) -> Type:
        """The integers of the accumulator's size."""
        return i64 if self.accumulate is f64 else i32

    @property
    def unsigned(self) -> Type:
        return u64 if self.accumulate is f64 else u32

    @property
    def mantissa(self) -> int:
        return 52 if self.accumulate is f64 else 23

    @property
    def most(self) -> int:
        """The exponent field of what is not finite."""
        return 2047 if self.accumulate is f64 else 255


@functools.cache
def rows_kernel(rounding: Rounding) -> Kernel:
    """Rounds rows of x; an item is a row.

    digits[group, row, plane]   32 bytes, in the order in which those of weights are multiplied
    starts[group, row, plane]   what a sum with values q + 2**(bits - 1) begins with, i32
    steps[group, row]           NaN if an element is not finite
    """

    @kernel
    def quantised_rows(args: ptr(i64), begin: i64, end: i64, worker: i64):
        depth, groups, rows = (word_int(args, i) for i in (DEPTH, ROW_GROUPS, N_ROWS))
        whole = depth // GROUP
        for row in loop(begin, end):
            for group in loop(whole):
                values = _elements(rounding, args, row, group, None)
                _store_group(rounding, args, group * rows + row, values)
            with when(whole < groups):
                mask = tail_mask(depth - whole * GROUP, GROUP)
                values = _elements(rounding, args, row, whole, mask)
                _store_group(rounding, args, whole * rows + row, values)

    return quantised_rows


def _elements(
    rounding: Rounding, args: Value, row: Value, group: Value, mask: Value | None
) -> Value:
    """The elements of a group; zeros where there is none."""
    x = word_pointer(args, FROM, rounding.given) + row * word_int(args, FROM_ROW)
    if rounding.joined:
        values = load(x + group * GROUP, GROUP, mask=mask)
    else:
        step = word_int(args, FROM_K)
        values = gather(x + group * GROUP * step, iota(i64, GROUP) * step, mask)
    return cast(values, rounding.accumulate)


def _store_group(rounding: Rounding, args: Value, place: Value, values: Value) -> None:
    step, inverse = _step(rounding, values)
    store(word_pointer(args, STEPS, rounding.accumulate) + place, step)
    numbers = cast(round_even(values * splat(inverse, GROUP)), rounding.whole)
    order = places_of_bytes(rounding.bits)
    for plane in reversed(range(rounding.planes)):
        digit = cast(numbers, i8)
        at = place * rounding.planes + plane
        store(word_pointer(args, DIGITS, i8) + at * GROUP, shuffle(digit, None, order))
        total = reduce_add(cast(digit, i32))
        store(word_pointer(args, STARTS, i32) + at, total * -(2 ** (rounding.bits - 1)))
        numbers = (numbers - cast(digit, rounding.whole)) >> 8


def _step(rounding: Rounding, values: Value) -> tuple[Value, Value]:
    """The step of a group, and 1 / step; both are powers of two."""
    unsigned, mantissa = rounding.unsigned, rounding.mantissa
    field = reduce_max(bitcast(values, unsigned) << 1) >> (mantissa + 1)
    lowered = cast(field, i64) - (8 * rounding.planes - 3)
    exponent = cast(select(lowered < 1, lowered * 0 + 1, lowered), unsigned)
    step = bitcast(exponent << mantissa, rounding.accumulate)
    step = select(field == rounding.most, step * 0.0 + float("nan"), step)
    inverse = bitcast(
        (exponent * 0 + (rounding.most - 1) - exponent) << mantissa, rounding.accumulate
    )
    return step, inverse
