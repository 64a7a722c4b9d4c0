"""What sorting kernels move and compare: unsigned keys in the order of the elements, and words.

A key is an unsigned integer of the width of the element. Keys order as the elements do: negative
zero has the key of zero, every NaN the greatest key, so that both stay in their old order where
they are equal. Descending order has the complement.

What is moved are the elements as they are (`indexed=False`; bits of NaNs and signs of zeros stay),
or keys with the place that they came from: key and place in one 64-bit word where both fit into
32 bits, else in two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Value,
    cast,
    i64,
    load,
    ptr,
    select,
    store,
    u8,
    u16,
    u32,
    u64,
    word_int,
    word_pointer,
)
from bedplate.kernel.types import Type

UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}
# exponent and mantissa of infinity, by the name of the float type
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
PLACE_BITS = 32


@dataclass(frozen=True)
class Layout:
    """How the rows of one dtype are sorted.

    element     type of the elements
    descending  greatest first; NaN counts as the greatest
    indexed     places are sorted along; the result is places, not elements
    wide        places need a word of their own
    """

    element: Type
    descending: bool
    indexed: bool
    wide: bool

    @property
    def raw(self) -> Type:
        """The unsigned type of the bits of an element; a bool is a byte."""
        return UNSIGNED[max(self.element.bits, 8)]

    @property
    def bits(self) -> int:
        """Width of a key."""
        return self.raw.bits

    @property
    def columns(self) -> tuple[Type, ...]:
        """The types of the words that are moved."""
        if not self.indexed:
            return (self.raw,)
        return (u64, u64) if self.wide else (u64,)

    @property
    def nbytes(self) -> int:
        """Bytes that are moved for one element."""
        return sum(column.itemsize for column in self.columns)

    def key(self, raw: Value) -> Value:
        """The key of an element, or of a vector of them, given as their bits."""
        bits, ones = self.bits, (1 << self.bits) - 1
        sign = 1 << (bits - 1)
        if self.element.is_float:
            size = raw & (ones >> 1)
            key = select(raw >= sign, sign - size, size + sign)
            key = select(size > INFINITY[self.element.name], ones, key)
        elif self.element.is_signed and self.element.bits > 1:
            key = raw ^ sign
        else:
            key = raw
        return ~key if self.descending else key

    def words(self, raw: Value, place: Value) -> tuple[Value, ...]:
        """What is moved for an element with these bits at this place (i64)."""
        if not self.indexed:
            return (raw,)
        key, place = cast(self.key(raw), u64), cast(place, u64)
        return (key, place) if self.wide else ((key << PLACE_BITS) | place,)

    def key_of(self, words: tuple[Value, ...]) -> Value:
        """The key within words: raw's type, or u64 where places are sorted along."""
        if not self.indexed:
            return self.key(words[0])
        return words[0] if self.wide else words[0] >> PLACE_BITS

    def digit(self, words: tuple[Value, ...], shift: int, width: int) -> Value:
        """`width` bits of the key within words, from bit `shift` upwards (i64)."""
        return cast((self.key_of(words) >> shift) & ((1 << width) - 1), i64)

    @property
    def out(self) -> Type:
        """The type of results: places, or the bits of elements."""
        return i64 if self.indexed else self.raw

    def result(self, words: tuple[Value, ...]) -> Value:
        """The element or the place within words."""
        if not self.indexed:
            return words[0]
        return cast(words[1] if self.wide else words[0] & ((1 << PLACE_BITS) - 1), i64)


def layout_of(element: Type, length: int, descending: bool, indexed: bool) -> Layout:
    """How rows of `length` elements are sorted."""
    wide = element.bits > PLACE_BITS or length >= 1 << PLACE_BITS
    return Layout(element, descending, indexed, wide)


@dataclass(frozen=True, eq=False)
class Columns:
    """Words of elements in memory: one array of `length` a column, one after the other.

    start    ptr(u8) to the first; all columns of a layout have one width, so all are aligned
    """

    layout: Layout
    start: Value
    length: Value

    def _pointers(self) -> list[Value]:
        pointers, place = [], self.start
        for column in self.layout.columns:
            pointers.append(cast(place, ptr(column)))
            place = place + self.length * column.itemsize
        return pointers

    def load(self, index: Value) -> tuple[Value, ...]:
        return tuple(load(pointer + index) for pointer in self._pointers())

    def store(self, index: Value, words: tuple[Value, ...]) -> None:
        for pointer, word in zip(self._pointers(), words, strict=True):
            store(pointer + index, word)


def element_reader(layout: Layout, args: Value, first: int) -> Any:
    """A function (row, column) -> bits of an input, from three words: address and two steps."""
    start = word_pointer(args, first, layout.raw)
    row_step, step = word_int(args, first + 1), word_int(args, first + 2)

    def read(row: Value, column: Value) -> Value:
        return load(start + row * row_step + column * step)

    return read
