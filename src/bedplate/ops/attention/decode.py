"""The kernel of attention for a few queries against many keys: decoding with a cache of keys.

The same sums as the tiled kernel, with the lanes along the head instead of along the queries:

    for each tile of 64 keys:
        for each query that shares the key head:
            s[key] = sum over d of q[d] k[key, d]         16 keys at a time, lanes along d
            m' = max(m, max s);  p = 2^(s - m');  l = l 2^(m - m') + sum p
            o = o 2^(m - m') + sum over key of p[key] v[key]

An item is one key head of one batch: its keys and values are read from memory once, for all
query heads that share them, and the tile is in the first cache when the next query wants it.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            4 D a pair; bytes: k and v once; bound by memory
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
    Value,
    Variable,
    cast,
    constant,
    fma,
    i32,
    i64,
    iota,
    kernel,
    load,
    loop,
    maths,
    maximum,
    minimum,
    prefetch,
    ptr,
    raw_max,
    reduce_add,
    reduce_max,
    select,
    shuffle,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_float,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.attention.forward import (
    GROUP,
    K_BATCH,
    K_HEAD,
    K_ROW,
    LENGTH,
    LOG2_E,
    LSE,
    N_HEADS,
    N_KEYS,
    N_QUERIES,
    OUT,
    OUT_BATCH,
    OUT_HEAD,
    OUT_ROW,
    Q_BATCH,
    Q_HEAD,
    Q_ROW,
    SCALE,
    SCRATCH,
    SCRATCH_BYTES,
    V_BATCH,
    V_HEAD,
    V_ROW,
    WINDOW,
    K,
    Q,
    V,
)
from bedplate.ops.attention.tiles import INFINITY, KEYS, Geometry, TileRows, n_keys_there

LINE = 64
# The tiled kernel spends 32 lanes on any number of queries; from 9 to 12 a head on, depending on
# sizes, it is the faster one (measured on Zen 5).
MOST_QUERIES = 8


def vectors_of_head(g: Geometry) -> int:
    return -(-g.head_dim // g.lanes)


def scratch_elements(g: Geometry, n_rows: int) -> int:
    """Elements that a worker needs: one tile; q and out, greatest and total of each row."""
    return KEYS + g.lanes + n_rows * (2 * vectors_of_head(g) * g.lanes + 2)


@dataclass(frozen=True, slots=True)
class Rows:
    """The queries that share a key head, in scratch, contiguous and padded with zeros."""

    scores: Value
    queries: Value
    outputs: Value
    greatest: Value
    total: Value


@dataclass(frozen=True, slots=True)
class Item:
    """One key head: its numbers, its keys and values, and what the rows are cut from."""

    batch: Value
    key_head: Value
    k: Value
    v: Value
    n_rows: Value


@dataclass(frozen=True, slots=True)
class Tile:
    """`count` keys of all from number `first` on, and their rows of keys and values."""

    n_keys: Value
    first: Value
    count: Value
    keys: TileRows
    values: TileRows


def _first_tile(g: Geometry, args: Value, n_keys: Value) -> Value:
    """The first tile of which a query sees a key."""
    if not g.windowed:
        return constant(i64, 0)
    first = maximum(n_keys - word_int(args, N_QUERIES) - word_int(args, WINDOW) + 1, 0)
    return first - first % KEYS


def _tile(args: Value, item: Item, n_keys: Value, first: Value) -> Tile:
    """Narrow numbers are widened at each use: to widen a tile first took twice the time."""
    k_row, v_row = word_int(args, K_ROW), word_int(args, V_ROW)
    count = minimum(n_keys - first, KEYS)
    keys = TileRows(item.k + first * k_row, k_row, count - 1)
    return Tile(n_keys, first, count, keys, TileRows(item.v + first * v_row, v_row, count - 1))


@functools.cache
def decode_kernel(g: Geometry) -> Kernel:
    """The task kernel; an item is one key head of one batch. Words as in attention_forward."""

    @kernel
    def attention_decode(args: ptr(i64), begin: i64, end: i64, worker: i64):
        n_rows = word_int(args, GROUP) * word_int(args, N_QUERIES)
        rows = _scratch(g, args, worker, n_rows)
        n_key_heads = word_int(args, N_HEADS) // word_int(args, GROUP)
        for number in loop(begin, end):
            batch, key_head = number // n_key_heads, number % n_key_heads
            k = _place(g, args, K, (K_BATCH, batch), (K_HEAD, key_head))
            v = _place(g, args, V, (V_BATCH, batch), (V_HEAD, key_head))
            item = Item(batch, key_head, k, v, n_rows)
            _start(g, args, item, rows)
            n_keys = n_keys_there(g, args, N_KEYS, LENGTH)
            first = _first_tile(g, args, n_keys)
            for tile in loop(first, n_keys, KEYS):
                here = _tile(args, item, n_keys, tile)
                for row in loop(n_rows):
                    _attend(g, args, item, rows, row, here)
            for row in loop(n_rows):
                _finish(g, args, item, rows, row)

    return attention_decode


def _scratch(g: Geometry, args: Value, worker: Value, n_rows: Value) -> Rows:
    start = word_int(args, SCRATCH) + worker * word_int(args, SCRATCH_BYTES)
    tile = cast(start, ptr(g.accumulator))
    queries = tile + (KEYS + g.lanes)
    size = n_rows * (vectors_of_head(g) * g.lanes)
    outputs = queries + size
    return Rows(tile, queries, outputs, outputs + size, outputs + size + n_rows)


def _place(g: Geometry, args: Value, base: int, *steps: tuple[int, Value]) -> Value:
    pointer = word_pointer(args, base, g.element)
    for word, index in steps:
        pointer = pointer + word_int(args, word) * index
    return pointer


def _heads(args: Value, item: Item, row: Value) -> tuple[Value, Value]:
    """(query head, query) of a row."""
    n_queries = word_int(args, N_QUERIES)
    return item.key_head * word_int(args, GROUP) + row // n_queries, row % n_queries


def _head_mask(g: Geometry, v: int) -> Any:
    left = g.head_dim - v * g.lanes
    return None if left >= g.lanes else tail_mask(left, g.lanes)


def _wide(g: Geometry, place: Value, v: int) -> Value:
    """Vector v of a row of the head, in the accumulator's type, zero past its end."""
    return cast(load(place + v * g.lanes, g.lanes, _head_mask(g, v)), g.accumulator)


def _prefetch(g: Geometry, row: Value) -> None:
    """Ask for a row of the next tile: 10 to 25 % faster than the machine's own prefetching."""
    for byte in range(0, g.head_dim * g.element.itemsize, LINE):
        prefetch(row + byte // g.element.itemsize, locality=2)


def _start(g: Geometry, args: Value, item: Item, rows: Rows) -> None:
    scale = cast(word_float(args, SCALE) * LOG2_E, g.accumulator)
    width = vectors_of_head(g) * g.lanes
    lowest = -(2.0 - 2.0**-23) * 2.0**127
    for row in loop(item.n_rows):
        head, query = _heads(args, item, row)
        q = _place(g, args, Q, (Q_BATCH, item.batch), (Q_HEAD, head), (Q_ROW, query))
        for v in range(vectors_of_head(g)):
            store(rows.queries + row * width + v * g.lanes, _wide(g, q, v) * scale)
            store(rows.outputs + row * width + v * g.lanes, zeros(g.accumulator, g.lanes))
        store(rows.greatest + row, constant(g.accumulator, lowest))
        store(rows.total + row, constant(g.accumulator, 0.0))


def _attend(g: Geometry, args: Value, item: Item, rows: Rows, row: Value, tile: Tile) -> None:
    """One query against one tile of keys."""
    greatest, total = load(rows.greatest + row), load(rows.total + row)
    highest = _scores(g, args, item, rows, row, tile)
    new = raw_max(highest, greatest)
    factor = maths.exp2_flushed(greatest - new)
    weight_sum = var(zeros(g.accumulator, g.lanes))
    for key in loop(0, tile.count, g.lanes):
        weight = maths.exp2_flushed(load(rows.scores + key, g.lanes) - new)
        store(rows.scores + key, weight)
        weight_sum.set(weight_sum.get() + weight)
    store(rows.greatest + row, new)
    store(rows.total + row, fma(total, factor, reduce_add(weight_sum.get())))
    _add_values(g, rows, row, tile, factor)


def _scores(g: Geometry, args: Value, item: Item, rows: Rows, row: Value, tile: Tile) -> Value:
    """Store the scores, -infinity for keys that are not seen or not there; returns the greatest."""
    n_vectors = vectors_of_head(g)
    _, query = _heads(args, item, row)
    position = query + tile.n_keys - word_int(args, N_QUERIES)
    window = word_int(args, WINDOW)
    q = [load(rows.queries + (row * n_vectors + v) * g.lanes, g.lanes) for v in range(n_vectors)]
    best = var(constant(g.accumulator, -INFINITY, g.lanes))
    for key in loop(0, tile.count, g.lanes):
        sums = []
        for r in range(g.lanes):
            place = tile.keys.row_or_last(key + r)
            _prefetch(g, tile.keys.row(key + r + KEYS))
            total = _wide(g, place, 0) * q[0]
            for v in range(1, n_vectors):
                total = fma(_wide(g, place, v), q[v], total)
            sums.append(total)
        hidden = ~tail_mask(tile.count - key, g.lanes)
        behind = cast(position - tile.first - key, i32) - iota(i32, g.lanes)
        if g.causal:
            hidden = hidden | (behind < 0)
        if g.windowed:
            hidden = hidden | (behind >= cast(window, i32))
        score = select(hidden, -INFINITY, sum_each(sums))
        store(rows.scores + key, score)
        best.set(raw_max(score, best.get()))
    return reduce_max(best.get())


def sum_each(vectors: list[Value]) -> Value:
    """n vectors of n lanes -> the vector of their sums, in n - 1 additions."""
    n = len(vectors)
    step = 1
    while len(vectors) > 1:
        low = [lane if not lane & step else n + lane - step for lane in range(n)]
        high = [lane + step if not lane & step else n + lane for lane in range(n)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [shuffle(a, b, low) + shuffle(a, b, high) for a, b in pairs]
        step *= 2
    return vectors[0]


def _add_values(g: Geometry, rows: Rows, row: Value, tile: Tile, factor: Value) -> None:
    """Add the weighted values; even and odd keys apart, to keep more additions in flight."""
    n_vectors = vectors_of_head(g)
    places = [rows.outputs + (row * n_vectors + v) * g.lanes for v in range(n_vectors)]
    even = [var(load(place, g.lanes) * factor) for place in places]
    odd = [var(zeros(g.accumulator, g.lanes)) for _ in places]
    pairs = tile.count - tile.count % 2
    for key in loop(0, pairs, 2):
        _add_value(g, rows, tile, key, even)
        _add_value(g, rows, tile, key + 1, odd)
    with when(pairs < tile.count):
        _add_value(g, rows, tile, pairs, even)
    for place, a, b in zip(places, even, odd, strict=True):
        store(place, a.get() + b.get())


def _add_value(g: Geometry, rows: Rows, tile: Tile, key: Value, sums: list[Variable]) -> None:
    weight = splat(load(rows.scores + key), g.lanes)
    values = tile.values.row(key)
    _prefetch(g, tile.values.row(key + KEYS))
    for v, total in enumerate(sums):
        total.set(fma(_wide(g, values, v), weight, total.get()))


def _finish(g: Geometry, args: Value, item: Item, rows: Rows, row: Value) -> None:
    head, query = _heads(args, item, row)
    out = _place(g, args, OUT, (OUT_BATCH, item.batch), (OUT_HEAD, head), (OUT_ROW, query))
    total = load(rows.total + row)
    seen = ~(total == 0.0)
    inverse = select(seen, 1.0 / total, 0.0)
    for v in range(vectors_of_head(g)):
        place = rows.outputs + (row * vectors_of_head(g) + v) * g.lanes
        value = load(place, g.lanes) * inverse
        store(out + v * g.lanes, cast(value, g.element), _head_mask(g, v))
    lse = maths.log(total) + load(rows.greatest + row) * math.log(2.0)
    flat = (item.batch * word_int(args, N_HEADS) + head) * word_int(args, N_QUERIES) + query
    lse_place = word_pointer(args, LSE, g.accumulator) + flat
    store(lse_place, select(seen, lse, -math.inf))


__all__ = ["MOST_QUERIES", "decode_kernel", "scratch_elements", "sum_each"]
