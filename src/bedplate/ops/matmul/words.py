"""Words: two or four neighbours along k in 32 bits, as the processor's dot instructions take them.

| elements | in a word | instruction  | which stands where                                    |
|----------|-----------|--------------|-------------------------------------------------------|
| bfloat16 | 2         | bfloat16_dot | the earlier in the upper half, which is added first   |
| bytes    | 4         | byte_dot     | the earliest lowest, as in memory                     |

Where the depth ends within a word, zeros stand for what does not exist.

`byte_dot` multiplies an unsigned byte by a signed one. Operands of which one is unsigned are
taken as they are. Of two signed ones a + 128 is taken, of two unsigned ones a - 128, which both
is the sign bit turned over (`turn_signs`), and what that adds too much is taken off again:

    sum of a * b = sum of (a + 128) * b - 128 * (sum of b)       128 * (the sum of b's column)
    sum of a * b = sum of (a - 128) * b + 128 * (sum of b)

modulo 2**32, so the integers are exactly those of plain multiplications.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bedplate.kernel import (
    Type,
    Value,
    bfloat16_dot,
    bitcast,
    byte_dot,
    cast,
    constant,
    element,
    fma,
    i32,
    load,
    loop,
    shuffle,
    store,
    u8,
    u16,
    u32,
    var,
    vec,
    when,
    zeros,
)

SIGNS = 0x80808080  # the sign bit of each byte of a word
ONES, MOST = 0x01010101, 0x80808080  # four bytes of 1; of 128, unsigned


def each_word(source: Type) -> int:
    """How many elements of a type fill a word."""
    return 4 // source.itemsize


def turns(source: Value, target: Value, depth: Value) -> Iterator[tuple[Value, list[Value]]]:
    """Each row of a packed panel, and the k's that it takes, in staged loops."""
    if element(target.type) is not u32:
        for k in loop(depth):
            yield k, [k]
        return
    each = each_word(element(source.type))
    for row in loop(depth // each):
        yield row, [row * each + n for n in range(each)]
    for left in range(1, each):
        with when(depth % each == left):
            yield depth // each, [depth - left + n for n in range(left)]


def joined(values: Sequence[Value], type_: Type) -> Value:
    """One value as `type_`; for words (u32), a word of the values given, zeros where one lacks."""
    if type_ is not u32:
        return cast(values[0], type_)
    if values[0].type.scalar.bits == 8:
        parts = [cast(bitcast(value, u8), u32) << 8 * n for n, value in enumerate(values)]
    else:
        parts = [cast(bitcast(value, u16), u32) << 16 - 16 * n for n, value in enumerate(values)]
    word, *others = parts
    for part in others:
        word = word | part
    return word


def interleaved(values: Sequence[Value]) -> list[Value]:
    """As `joined` for words, of 2 * lanes elements a value: two vectors of `lanes` words."""
    if values[0].type.scalar.bits == 16:
        first, *others = (bitcast(value, u16) for value in values)
        return _mixed(others[0] if others else first ^ first, first)
    first, *others = (bitcast(value, u8) for value in values)
    nothing = first ^ first
    bytes_ = [first, *others, *[nothing] * (3 - len(others))]
    lanes = first.type.lanes
    order = [n for c in range(lanes) for n in (c, lanes + c)]
    halves = [bitcast(shuffle(bytes_[n], bytes_[n + 1], order), vec(u16, lanes)) for n in (0, 2)]
    return _mixed(*halves)


def _mixed(lower: Value, upper: Value) -> list[Value]:
    """Words of two halves each, in two vectors."""
    lanes = lower.type.lanes
    parts = (range(lanes // 2), range(lanes // 2, lanes))
    mixed = [shuffle(lower, upper, [n for c in part for n in (c, lanes + c)]) for part in parts]
    return [bitcast(each, vec(u32, lanes // 2)) for each in mixed]


def from_memory(words: Value, source: Type) -> Value:
    """Words that were read where k's are neighbours, with each element where it belongs."""
    if source.itemsize == 1:
        return words
    return words << 16 | words >> 16


def multiply_add(a: Value, b: Value, c: Value, b_signed: bool = True) -> Value:
    """a * b + c: rounded once for floats, modulo 2**bits for integers; all products of words.

    b_signed  of words of bytes: whether b's are the signed ones, and a's the unsigned
    """
    if a.type.scalar is not u32:
        return fma(a, b, c) if c.type.is_float else a * b + c
    if c.type.is_float:
        return bfloat16_dot(a, b, c)
    return byte_dot(a, b, c) if b_signed else byte_dot(b, a, c)


def turn_signs(words: Value, count: Value, lanes: int) -> None:
    """Turn over the sign bit of each byte of `count` words, a multiple of lanes, in place."""
    for n in loop(0, count, lanes):
        store(words + n, load(words + n, lanes) ^ constant(u32, SIGNS, lanes))


def store_corrections(
    panel: Value, depth: Value, width: int, lanes: int, b_signed: bool, target: Value
) -> None:
    """Store for each of a packed panel's columns what its sums start from where a was turned.

    panel   depth x width words of b
    target  `width` numbers (i32)
    """
    vectors = range(width // lanes)
    sums = [var(zeros(i32, lanes)) for _ in vectors]
    factor = constant(u32, MOST if b_signed else ONES, lanes)
    for k in loop(depth):
        for v, total in zip(vectors, sums, strict=True):
            words = load(panel + k * width + v * lanes, lanes)
            total.set(multiply_add(factor, words, total.get(), b_signed))
    for v, total in zip(vectors, sums, strict=True):
        value = zeros(i32, lanes) - total.get() if b_signed else total.get() << 7
        store(target + v * lanes, value)
