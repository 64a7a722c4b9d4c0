"""The tiled forward kernel of attention: one pass over the keys with a running softmax.

For each query i, over the keys j that it sees:

    s[j] = scale * sum over d of q[i, d] * k[j, d]
    lse = log(sum over j of exp(s[j]))
    out[i, d] = sum over j of exp(s[j] - lse) * v[j, d]

and what becomes of it, for a block of 32 queries (with 16 lanes):

    the queries are packed transposed, times scale * log2(e)
    for each tile of 64 keys that the block sees:
        s = scores of the tile; keys that a query does not see get -infinity
        m' = max(m, max s);  p = 2^(s - m');  l = l 2^(m - m') + sum p
        o = o 2^(m - m') + p v
    out = o / l;  lse = (m + log2(l)) log(2)

A row's result depends on that row, the keys and the values alone: tiles start at multiples of
64 keys, and a key that is not seen adds an exact zero. The T x S scores are never stored.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            4 D a pair of query and key that it sees; bound by multiply-adds
    bytes            q, k, v, out once from memory; k and v again from the caches for each block
    source           Dao et al. 2022, arXiv:2205.14135; Milakov and Gimelshein 2018,
                     arXiv:1805.02867, for the running softmax
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from bedplate.kernel import (
    Kernel,
    Value,
    cast,
    constant,
    i64,
    kernel,
    load,
    local,
    loop,
    maths,
    ptr,
    raw_max,
    select,
    splat,
    store,
    tail_mask,
    var,
    word_float,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.attention.tiles import (
    KEYS,
    N_VECTORS,
    Geometry,
    Span,
    add_weighted,
    clear,
    n_keys_there,
    pack_transposed,
    scores,
    span,
    store_transposed,
    tile_rows,
)

# Words of the task.
(
    Q, K, V, OUT, LSE, SCRATCH, SCRATCH_BYTES, N_HEADS, GROUP, N_QUERIES, N_KEYS, BLOCKS,
    Q_BATCH, Q_HEAD, Q_ROW, K_BATCH, K_HEAD, K_ROW, V_BATCH, V_HEAD, V_ROW,
    OUT_BATCH, OUT_HEAD, OUT_ROW, WINDOW, SCALE, LENGTH,
) = range(27)  # fmt: skip
LOG2_E = 1.0 / math.log(2.0)


@dataclass(frozen=True, slots=True)
class Head:
    """One query head: pointers to its first rows, and the strides from row to row."""

    q: Value
    k: Value
    v: Value
    out: Value
    lse: Value
    q_row: Value
    k_row: Value
    v_row: Value
    out_row: Value


def head(g: Geometry, args: Value, index: Value) -> Head:
    """The head with number `index`, counted over batch and query heads."""
    n_heads = word_int(args, N_HEADS)
    batch, query_head = index // n_heads, index % n_heads
    key_head = query_head // word_int(args, GROUP)

    def place(base: int, batch_word: int, head_word: int, which: Value) -> Value:
        start = batch * word_int(args, batch_word) + which * word_int(args, head_word)
        return word_pointer(args, base, g.element) + start

    return Head(
        place(Q, Q_BATCH, Q_HEAD, query_head),
        place(K, K_BATCH, K_HEAD, key_head),
        place(V, V_BATCH, V_HEAD, key_head),
        place(OUT, OUT_BATCH, OUT_HEAD, query_head),
        word_pointer(args, LSE, g.accumulator) + index * word_int(args, N_QUERIES),
        word_int(args, Q_ROW), word_int(args, K_ROW), word_int(args, V_ROW),
        word_int(args, OUT_ROW),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scratch:
    """A worker's memory: queries and outputs (D, queries), scores (KEYS, queries), wide rows."""

    queries: Value
    outputs: Value
    scores: Value
    wide_keys: Value
    wide_values: Value


def scratch_elements(g: Geometry) -> int:
    """Elements of the accumulator's type that a worker needs."""
    wide = 2 * KEYS * g.head_dim if g.narrow else 0
    return (2 * g.head_dim + KEYS) * g.queries + wide


def scratch(g: Geometry, args: Value, worker: Value) -> Scratch:
    start = word_int(args, SCRATCH) + worker * word_int(args, SCRATCH_BYTES)
    queries = cast(start, ptr(g.accumulator))
    outputs = queries + g.head_dim * g.queries
    values = outputs + g.head_dim * g.queries
    wide = values + KEYS * g.queries
    return Scratch(queries, outputs, values, wide, wide + KEYS * g.head_dim)


@functools.cache
def forward_kernel(g: Geometry) -> Kernel:
    """The task kernel; an item is a block of queries of one head, the last block first."""

    @kernel
    def attention_forward(args: ptr(i64), begin: i64, end: i64, worker: i64):
        own = scratch(g, args, worker)
        blocks = word_int(args, BLOCKS)
        for item in loop(begin, end):
            here = head(g, args, item // blocks)
            # With a causal mask the last block sees most: it should not be started last.
            first = (blocks - 1 - item % blocks) * g.queries
            attend_block(g, args, own, here, first)

    return attention_forward


def attend_block(g: Geometry, args: Value, own: Scratch, here: Head, first: Value) -> None:
    n_queries = word_int(args, N_QUERIES)
    scale = cast(word_float(args, SCALE) * LOG2_E, g.accumulator)
    pack_transposed(g, here.q, here.q_row, first, n_queries, scale, own.queries)
    clear(g, own.outputs)
    n_keys = n_keys_there(g, args, N_KEYS, LENGTH)
    keys = span(g, first, n_queries, n_keys, word_int(args, WINDOW))
    softmax = RunningSoftmax(g)
    for tile in loop(keys.first_tile(), keys.high, KEYS):
        attend_tile(g, own, here, keys, softmax, tile)
    finish_block(g, own, here, softmax, first, n_queries)


class RunningSoftmax:
    """The greatest score so far and the sum of the weights, for each query of a block."""

    def __init__(self, g: Geometry) -> None:
        self.g = g
        # Finite, so that -infinity minus it is no NaN before a query has seen a key.
        lowest = -(2.0 - 2.0**-23) * 2.0**127
        self.greatest = [var(constant(g.accumulator, lowest, g.lanes)) for _ in range(N_VECTORS)]
        self.total = [var(zeros(g.accumulator, g.lanes)) for _ in range(N_VECTORS)]

    def absorb(self, values: Value, begin: Value, end: Value) -> list[Value]:
        """Turn scores into weights, in place; returns the factors for what was summed before."""
        g = self.g
        before = [greatest.get() for greatest in self.greatest]
        for key in loop(begin, end):
            for v, greatest in enumerate(self.greatest):
                score = load(values + key * g.queries + v * g.lanes, g.lanes)
                greatest.set(raw_max(score, greatest.get()))
        factors = []
        for old, greatest, total in zip(before, self.greatest, self.total, strict=True):
            factors.append(maths.exp2_flushed(old - greatest.get()))
            total.set(total.get() * factors[-1])
        shifts = [greatest.get() for greatest in self.greatest]
        for key in loop(begin, end):
            for v, shift in enumerate(shifts):
                place = values + key * g.queries + v * g.lanes
                weight = maths.exp2_flushed(load(place, g.lanes) - shift)
                store(place, weight)
                self.total[v].set(self.total[v].get() + weight)
        return factors


def attend_tile(
    g: Geometry, own: Scratch, here: Head, keys: Span, softmax: RunningSoftmax, tile: Value
) -> None:
    begin, end = keys.within(tile)
    rows = tile_rows(g, here.k, here.k_row, tile, begin, end, own.wide_keys)
    scores(g, rows, own.queries, begin, end, own.scores)
    keys.hide(own.scores, tile, begin, end)
    factors = softmax.absorb(own.scores, begin, end)
    rows = tile_rows(g, here.v, here.v_row, tile, begin, end, own.wide_values)
    add_weighted(g, rows, own.scores, begin, end, own.outputs, factors)


def finish_block(
    g: Geometry, own: Scratch, here: Head, softmax: RunningSoftmax, first: Value, n_queries: Value
) -> None:
    """Divide by the sums; a query that sees no key gives zeros and -infinity."""
    factors = local(g.accumulator, g.queries)
    for v, total in enumerate(softmax.total):
        value = total.get()
        seen = ~(value == 0.0)
        store(factors + v * g.lanes, select(seen, 1.0 / value, 0.0))
        lse = maths.log(value) + softmax.greatest[v].get() * splat_log2(g)
        lse = select(seen, lse, -math.inf)
        start = first + v * g.lanes
        store(here.lse + start, lse, tail_mask(n_queries - start, g.lanes))
    store_transposed(g, own.outputs, factors, here.out, here.out_row, first, n_queries)


def splat_log2(g: Geometry) -> Value:
    return splat(constant(g.accumulator, math.log(2.0)), g.lanes)
