"""What sorting kernels move and compare: unsigned keys in the order of the elements, and words.

A key is an unsigned integer of the width of the element. Keys order as the elements do: negative
zero has the key of zero, every NaN the greatest key, so that both stay in their old order where
they are equal. Descending order has the complement.

What is moved are keys with the place that they came from: key and place in one 64-bit word where
both fit into 32 bits, else in two words. Without places (`indexed=False`) it is enough to move keys
from which the elements can be made again; floats have those as long as there is no NaN and no
negative zero. Where there are, the elements themselves are moved, and keys made in every pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bedplate.kernel import (
    Value,
    cast,
    gather,
    i64,
    iota,
    load,
    ptr,
    select,
    splat,
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
LINE = 64  # bytes of a cache line: each worker's scratch starts a new one


@dataclass(frozen=True)
class Layout:
    """How the rows of one dtype are sorted.

    element     type of the elements
    descending  greatest first; NaN counts as the greatest
    indexed     places are sorted along; the result is places, not elements
    wide        places need a word of their own
    exact       numbers that are equal have one key; otherwise a key is as good as its element
    """

    element: Type
    descending: bool
    indexed: bool
    wide: bool
    exact: bool

    @property
    def plain(self) -> Layout:
        """The same for rows without NaN and negative zeros, where keys stand for elements."""
        return replace(self, exact=False)

    @property
    def has_variants(self) -> bool:
        """Whether rows without special numbers are sorted faster."""
        return self.exact and not self.indexed

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
        if self.element.is_float and self.exact:
            size = raw & (ones >> 1)
            key = select(raw >= sign, sign - size, size + sign)
            key = select(size > INFINITY[self.element.name], ones, key)
        elif self.element.is_float:
            key = select(raw >= sign, ~raw, raw ^ sign)
        elif self.element.is_signed and self.element.bits > 1:
            key = raw ^ sign
        else:
            key = raw
        return ~key if self.descending else key

    def words(self, raw: Value, place: Value) -> tuple[Value, ...]:
        """What is moved for an element with these bits at this place (i64)."""
        if not self.indexed:
            return (raw if self.exact else self.key(raw),)
        key, place = cast(self.key(raw), u64), cast(place, u64)
        return (key, place) if self.wide else ((key << PLACE_BITS) | place,)

    def key_of(self, words: tuple[Value, ...]) -> Value:
        """The key within words: raw's type, or u64 where places are sorted along."""
        if not self.indexed:
            return self.key(words[0]) if self.exact else words[0]
        return words[0] if self.wide else words[0] >> PLACE_BITS

    def _element(self, key: Value) -> Value:
        """The bits of an element, from its key."""
        sign = 1 << (self.bits - 1)
        key = ~key if self.descending else key
        if self.element.is_float:
            return select(key >= sign, key ^ sign, ~key)
        return key ^ sign if self.element.is_signed and self.element.bits > 1 else key

    def is_special(self, raw: Value) -> Value:
        """Whether bits are those of a NaN or of negative zero."""
        sign = 1 << (self.bits - 1)
        return ((raw & (sign - 1)) > INFINITY[self.element.name]) | (raw == sign)

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
            return words[0] if self.exact else self._element(words[0])
        return cast(words[1] if self.wide else words[0] & ((1 << PLACE_BITS) - 1), i64)


def layout_of(element: Type, length: int, descending: bool, indexed: bool) -> Layout:
    """How rows of `length` elements are sorted."""
    wide = element.bits > PLACE_BITS or length >= 1 << PLACE_BITS
    return Layout(element, descending, indexed, wide, exact=indexed or element.is_float)


def whole_lines(nbytes: int) -> int:
    """Bytes rounded up to whole cache lines: the step between the workers' scratch."""
    return -(-nbytes // LINE) * LINE


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


def known_step(x: Any) -> int:
    """1 for a view whose columns lie side by side; 0 where only the words know."""
    return int(x.strides[1] == 1)


def vector_reader(layout: Layout, args: Value, first: int, step: int, lanes: int) -> Any:
    """As `element_reader` for `lanes` columns side by side: (row, column, mask) -> bits.

    step     between columns, if it is known to be 1
    """
    start = word_pointer(args, first, layout.raw)
    row_step, column_step = word_int(args, first + 1), word_int(args, first + 2)

    def read(row: Value, column: Value, mask: Value) -> Value:
        place = start + row * row_step + column * column_step
        if step == 1:
            return load(place, lanes, mask=mask)
        return gather(place, iota(i64, lanes) * splat(column_step, lanes), mask=mask)

    return read


def element_reader(layout: Layout, args: Value, first: int) -> Any:
    """A function (row, column) -> bits of an input, from three words: address and two steps."""
    start = word_pointer(args, first, layout.raw)
    row_step, step = word_int(args, first + 1), word_int(args, first + 2)

    def read(row: Value, column: Value) -> Value:
        return load(start + row * row_step + column * step)

    return read
