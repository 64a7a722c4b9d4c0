"""Packing: the elements of a panel in the order in which the micro-kernel reads them.

    target[k * width + w] = source[w * across + k * along]      0 <= w < width, 0 <= k < depth

The plain loop nest:

    for k in range(depth):
        for w in range(width):
            target[k * width + w] = source[min(w, valid - 1) * across + k * along]

`valid` elements exist across; what stands behind them in the panel is never stored by the
micro-kernel, so anything may stand there (but nothing outside the source is read). Narrow
floats become the accumulator type on the way. The bound is memory: each element is read once
and written once. Three layouts:

    across    neighbours across are neighbours in memory: rows are copied
    along     neighbours along k are: blocks of lanes x lanes are transposed in registers
    general   neither: gathered

Where the target holds words (u32), each takes two or four k's for the dot instruction: words.py.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from bedplate.kernel import (
    Type,
    Value,
    cast,
    element,
    gather,
    i64,
    iota,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    otherwise,
    prefetch,
    ptr,
    shuffle,
    store,
    tail_mask,
    u32,
    when,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.matmul.words import (
    each_word,
    from_memory,
    interleaved,
    joined,
    turn_signs,
    turns,
)

# rows that are asked for ahead: memory answers in about 100 ns, a row takes 10 to 20
PREFETCH_ROWS = 8
GROUP = 4  # tiles of an item: neighbours share the cache lines of a contiguous row


def layout(across: int, along: int) -> str:
    """Which layout a source has; `along` wins where both strides are 1."""
    return "along" if along == 1 else "across" if across == 1 else "general"


def transpose(vectors: Sequence[Value]) -> list[Value]:
    """Transpose lanes x lanes elements held in `lanes` vectors.

    Squares as wide as 128 bits are transposed inside the vectors, by the interleaving that
    every SIMD instruction set has for each 128 bits; then the squares change places as wholes.
    cost: lanes * log2(lanes) shuffles
    """
    lanes = len(vectors)
    side = min(128 // vectors[0].type.bits, lanes)
    rows = list(vectors)
    for first in range(0, lanes, side):
        rows[first : first + side] = _transpose_squares(rows[first : first + side], side)
    return _exchange_squares(rows, side)


def _transpose_squares(rows: list[Value], side: int) -> list[Value]:
    """Transpose each of the side x side squares (2 or 4) that `side` vectors hold."""
    if side == 1:
        return rows
    if side == 2:
        return list(_interleave(rows[0], rows[1], 1, side))
    low, high = _interleave(rows[0], rows[1], 1, side), _interleave(rows[2], rows[3], 1, side)
    return [
        *_interleave(low[0], high[0], 2, side), *_interleave(low[1], high[1], 2, side)
    ]  # fmt: skip


def _interleave(a: Value, b: Value, run: int, side: int) -> tuple[Value, Value]:
    """Runs of elements of a and b in turn, by the lower and by the upper half of each square."""
    lanes = a.type.lanes
    halves = []
    for half in (0, side // 2):
        picked = []
        for square in range(0, lanes, side):
            for at in range(square + half, square + half + side // 2, run):
                picked += [*range(at, at + run), *range(lanes + at, lanes + at + run)]
        halves.append(shuffle(a, b, picked))
    return halves[0], halves[1]


def _exchange_squares(rows: list[Value], side: int) -> list[Value]:
    """rows[g * side + c] holds column c of every square of block row g; give whole columns."""
    columns = list(rows)
    for c in range(side):
        columns[c::side] = _transpose_blocks(rows[c::side], side)
    return columns


def _transpose_blocks(rows: list[Value], side: int) -> list[Value]:
    """Transpose 1, 2 or 4 vectors of as many blocks of `side` elements."""
    if len(rows) == 1:
        return rows
    if len(rows) == 2:
        return [_blocks(rows[0], rows[1], [n, n + 2], side) for n in range(2)]
    a, b, c, d = rows
    even, odd = [0, 2, 4, 6], [1, 3, 5, 7]
    upper = [_blocks(a, b, picked, side) for picked in (even, odd)]
    lower = [_blocks(c, d, picked, side) for picked in (even, odd)]
    return [
        _blocks(upper[n], lower[n], picked, side) for picked in (even, odd) for n in range(2)
    ]  # fmt: skip


def _blocks(a: Value, b: Value, picked: list[int], side: int) -> Value:
    """Whole blocks of `side` elements of a and b, by number."""
    return shuffle(a, b, [n * side + i for n in picked for i in range(side)])


def emit_pack(
    kind: str, source: Value, across: Value, along: Value, valid: Value, depth: Value,
    target: Value, width: int, lanes: int,
) -> None:  # fmt: skip
    """Stage the packing of one panel; `target` has room for `depth` rounded up to lanes rows.

    kind    the layout; `target` points at the accumulator type
    """
    for first in range(0, width, lanes):
        count = min(lanes, width - first)
        keep = None if count == lanes else tail_mask(count, lanes)
        if kind == "along":
            _pack_along(source, across, valid, depth, target + first, width, lanes, first, count)
        else:
            _pack_across(
                kind, source + across * first, across, along, valid - first, depth,
                target + first, width, lanes, keep,
            )  # fmt: skip


def emit_pack_rows(
    source: Value, along: Value, n_panels: Value, depth: Value, target: Value, width: int,
    panel_size: Any, lanes: int,
) -> None:  # fmt: skip
    """Stage the packing of several whole panels side by side whose rows are contiguous."""
    for row, places in turns(source, target, depth):
        for panel in loop(n_panels):
            there = [source + k * along + panel * width for k in places]
            _pack_row(there, target + panel * panel_size + row * width, width, along, lanes)


def _pack_row(there: list[Value], target: Value, width: int, along: Value, lanes: int) -> None:
    """One row of a panel, from one row of the source or two."""
    type_ = element(target.type)
    is_mixed = type_ is u32 and width % (2 * lanes) == 0
    unit = 2 * lanes if is_mixed else lanes
    for v in range(0, width, unit):
        keep = None if v + unit <= width else tail_mask(width - v, unit)
        for at in there:
            # rows are far apart, which no hardware prefetcher follows
            prefetch(at + along * (PREFETCH_ROWS * len(there)) + v)
        elements = [load(at + v, unit, mask=keep) for at in there]
        if not is_mixed:
            store(target + v, joined(elements, type_), mask=keep)
            continue
        for n, words in enumerate(interleaved(elements)):
            store(target + v + n * lanes, words)


def _pack_across(
    kind: str, source: Value, across: Value, along: Value, valid: Value, depth: Value,
    target: Value, width: int, lanes: int, keep: Any,
) -> None:  # fmt: skip
    type_ = element(target.type)
    mask = tail_mask(valid, lanes) if keep is None else tail_mask(valid, lanes) & keep
    if kind == "general":
        apart = iota(i64, lanes) * across
        for row, places in turns(source, target, depth):
            elements = [gather(source + k * along, apart, mask) for k in places]
            store(target + row * width, joined(elements, type_), mask=keep)
        return
    with when(valid >= lanes):
        for row, places in turns(source, target, depth):
            elements = [load(source + k * along, lanes, mask=keep) for k in places]
            store(target + row * width, joined(elements, type_), mask=keep)
    with otherwise():
        for row, places in turns(source, target, depth):
            elements = [load(source + k * along, lanes, mask=mask) for k in places]
            store(target + row * width, joined(elements, type_), mask=keep)


def _pack_along(
    source: Value, across: Value, valid: Value, depth: Value, target: Value, width: int,
    lanes: int, first: int, count: int,
) -> None:  # fmt: skip
    type_ = element(target.type)
    rows = [source + minimum(valid - 1, first + n) * across for n in range(count)]
    keep = None if count == lanes else tail_mask(count, lanes)
    spare = [zeros(type_, lanes)] * (lanes - count)
    if type_ is u32:
        _pack_words_along(rows, depth, target, width, spare, keep)
        return
    for k in loop(0, depth, lanes):
        mask = tail_mask(depth - k, lanes)
        block = [cast(load(row + k, lanes, mask=mask), type_) for row in rows]
        for n, column in enumerate(transpose(block + spare)):
            store(target + (k + n) * width, column, mask=keep)


def _pack_words_along(
    rows: list[Value], depth: Value, target: Value, width: int, spare: list[Value], keep: Any
) -> None:
    """Words are transposed as they are in memory, and then put in their order."""
    lanes, source = len(rows) + len(spare), element(rows[0].type)
    each = each_word(source)
    whole = depth // each
    for k in loop(0, whole, lanes):
        mask = tail_mask(whole - k, lanes)
        block = [load(cast(row + k * each, ptr(u32)), lanes, mask=mask) for row in rows]
        for n, column in enumerate(transpose(block + spare)):
            store(target + (k + n) * width, from_memory(column, source), mask=keep)
    for left in range(1, each):
        with when(depth % each == left):
            for n, row in enumerate(rows):
                last = [load(row + (depth - left + m)) for m in range(left)]
                store(target + whole * width + n, joined(last, u32))


# words of the packing task; batch dimensions follow as pairs (size, stride)
SOURCE, TARGET, ROWS, DEPTH, ACROSS, ALONG, TILES, TILE_WORDS, FIRST_ROW, FIRST_BATCH = range(10)
N_WORDS = 10


@functools.cache
def pack_kernel(
    kind: str, source: Type, accumulate: Type, width: int, lanes: int, rank: int,
    turned: bool = False,
):  # fmt: skip
    """The task that packs a: one item is GROUP tiles of `width` rows over the whole depth.

    turned  the sign bit of each byte is turned over
    """

    @kernel
    def matmul_pack(args: ptr(i64), begin: i64, end: i64, worker: i64):
        tiles, rows, depth = (word_int(args, w) for w in (TILES, ROWS, DEPTH))
        across, along = word_int(args, ACROSS), word_int(args, ALONG)
        tile_words = word_int(args, TILE_WORDS)
        groups = (tiles + (GROUP - 1)) // GROUP
        for item in loop(begin, end):
            batch, first = item // groups, item % groups * GROUP
            last = minimum(first + GROUP, tiles)
            at = batch_offset(args, batch + word_int(args, FIRST_BATCH), N_WORDS, rank, 1)
            there = word_pointer(args, SOURCE, source) + at
            there = there + word_int(args, FIRST_ROW) * across
            target = word_pointer(args, TARGET, accumulate) + batch * tiles * tile_words
            following = first
            if kind == "across":
                following = maximum(minimum(last, rows // width), first)
                emit_pack_rows(
                    there + first * width, along, following - first, depth,
                    target + first * tile_words, width, tile_words, lanes,
                )  # fmt: skip
            for tile in loop(following, last):
                row = tile * width
                emit_pack(
                    kind, there + row * across, across, along, rows - row, depth,
                    target + tile * tile_words, width, lanes,
                )  # fmt: skip
            if turned:
                turn_signs(target + first * tile_words, (last - first) * tile_words, lanes)

    return matmul_pack


def n_pack_items(n_tiles: int, n_products: int) -> int:
    """How many items the packing of that many tiles of that many products is."""
    return -(-n_tiles // GROUP) * n_products


def batch_offset(
    args: Value, batch: Value, first_word: int, rank: int, column: int, columns: int = 2
) -> Value:
    """Offset in elements of a flattened batch index, by the table of (size, stride ...) words."""
    rest, offset = batch, batch * 0
    for n in reversed(range(rank)):
        word = first_word + n * columns
        size = word_int(args, word)
        offset = offset + rest % size * word_int(args, word + column)
        rest = rest // size
    return offset
