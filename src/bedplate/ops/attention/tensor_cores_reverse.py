"""The kernels of attention's gradient by tensor cores, of bfloat16 and float16.

What they compute is said in reverse.py. There are two, so that no sum is shared by blocks:

    queries    rows are queries, columns keys:  dq = sum of ds k;  and delta, which the other reads
    keys       rows are keys, columns queries:  dv = sum of p g;  dk = sum of ds q

In both a warp holds 16 rows of two operands as fragments, and goes over tiles of columns:

    s = x rows . x columns      x: q and k        p = 2^(s - lse), 0 where a key is not seen
    d = y rows . y columns      y: g and v        ds = scale * p * (d - delta)
    sums += p or ds, rounded to 16 bits, times the columns' rows, as they are staged

    accumulates in   float32
    flops            14 D a pair that sees each other: s and d are computed twice
    bytes            rows once, columns once for each block of rows
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.kernel import (
    Kernel,
    Value,
    block_barrier,
    cast,
    constant,
    f32,
    from_lane,
    i32,
    i64,
    insert,
    kernel,
    load,
    loop,
    maths,
    maximum,
    minimum,
    mma,
    ptr,
    select,
    shared,
    shuffle,
    splat,
    store,
    tail_mask,
    thread_lane,
    thread_warp,
    var,
    when,
    word_float,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.ops.attention.reverse import (
    DK,
    DV,
    DV_BATCH,
    DV_HEAD,
    DV_ROW,
    GROUP,
    K_BATCH,
    K_HEAD,
    K_ROW,
    LENGTH,
    LOG2_E,
    N_KEY_HEADS,
    N_KEYS,
    N_QUERIES,
    SCALE,
    SCRATCH,
    SCRATCH_BYTES,
    V_BATCH,
    V_HEAD,
    V_ROW,
    WINDOW,
    K,
    Keys,
    QueryHead,
    V,
    _place,
    query_head,
)
from bedplate.ops.attention.tiles import Geometry, n_keys_there
from bedplate.ops.matmul.fragments import EIGHT, Copier, Fragments, Layout, Source

WARPS = 4
ROWS = 16  # of a warp
# Columns of a tile: s and d take as many registers of a thread, beside those of the sums.
COLUMNS = 32
# where other kernels find their scratch memory: delta (B, H, T) float32, and blocks of rows a head
DELTA, BLOCKS = SCRATCH, SCRATCH_BYTES


def _keys(g: Geometry, args: Value, batch: Value, index: Value) -> Keys:
    k = _place(g, args, K, (K_BATCH, batch), (K_HEAD, index))
    v = _place(g, args, V, (V_BATCH, batch), (V_HEAD, index))
    return Keys(batch, index, k, v, word_int(args, K_ROW), word_int(args, V_ROW))


@functools.cache
def queries_kernel(g: Geometry, aligned: bool, warps: int = WARPS) -> Kernel:
    """dq and delta; an item is a block of 16 queries a warp of one query head."""

    @kernel
    def attention_backward_queries(args: ptr(i64), begin: i64, end: i64, worker: i64):
        here = _Warp(g, args, aligned, warps)
        group, blocks = word_int(args, GROUP), word_int(args, BLOCKS)
        n_key_heads = word_int(args, N_KEY_HEADS)
        for item in loop(begin, end):
            head = item // blocks
            pair, member = head // group, head % group
            keys = _keys(g, args, pair // n_key_heads, pair % n_key_heads)
            here.gradients_of_queries(
                keys, query_head(g, args, keys, member), head, item % blocks * here.n_rows
            )

    return attention_backward_queries


@functools.cache
def keys_kernel(g: Geometry, aligned: bool, warps: int = WARPS) -> Kernel:
    """dk and dv; an item is a block of 16 keys a warp of one key head."""

    @kernel
    def attention_backward_keys(args: ptr(i64), begin: i64, end: i64, worker: i64):
        here = _Warp(g, args, aligned, warps)
        blocks, n_key_heads = word_int(args, BLOCKS), word_int(args, N_KEY_HEADS)
        for item in loop(begin, end):
            pair = item // blocks
            keys = _keys(g, args, pair // n_key_heads, pair % n_key_heads)
            here.gradients_of_keys(keys, pair, item % blocks * here.n_rows)

    return attention_backward_keys


class _Warp:
    """What a thread does in either kernel."""

    def __init__(self, g: Geometry, args: Value, aligned: bool, warps: int) -> None:
        self.g, self.args, self.aligned = g, args, aligned
        self.n_rows, self.wide = warps * ROWS, -(-g.head_dim // ROWS) * ROWS
        self.warp, self.lane = thread_warp(warps), thread_lane()
        thread, n_threads = self.warp * 32 + self.lane, warps * 32
        rows = Layout(g.element, self.n_rows, self.wide, "along", aligned)
        columns = Layout(g.element, COLUMNS, self.wide, "along", aligned)
        turned = Layout(g.element, self.wide, COLUMNS, "across", aligned)  # the same memory
        self.x = shared(g.element, max(rows.size, 2 * columns.size))
        self.y = self.x + columns.size
        self.copy_rows = Copier(rows, thread, n_threads)
        self.copy_columns = Copier(columns, thread, n_threads)
        self.of_rows, self.of_columns = Fragments(rows), Fragments(columns)
        self.of_turned = Fragments(turned)
        self.n_queries = word_int(args, N_QUERIES)
        self.n_keys = n_keys_there(g, args, N_KEYS, LENGTH)
        self.shift = self.n_keys - self.n_queries
        self.window = word_int(args, WINDOW)
        self.scale = cast(word_float(args, SCALE), f32)
        self.scale_2 = cast(word_float(args, SCALE) * LOG2_E, f32)

    # What both do

    def _source(self, start: Value, stride: Value, first: Value, count: Value) -> Source:
        """Rows of a head from `first` on, of `count`."""
        one, width = constant(i64, 1), constant(i64, self.g.head_dim)
        return Source(start + first * stride, stride, one, count - first, width)

    def _row_fragments(self, source: Source) -> list[Value]:
        self.copy_rows.put(self.copy_rows.fetch(source), self.x)
        block_barrier()
        row = self.warp * ROWS
        found = [self.of_rows.a(self.x, row, d) for d in range(0, self.wide, ROWS)]
        block_barrier()
        return found

    def _stage(self, x: Source, y: Source) -> None:
        self.copy_columns.put(self.copy_columns.fetch(x), self.x)
        self.copy_columns.put(self.copy_columns.fetch(y), self.y)
        block_barrier()

    def _products(self, rows: list[Value], columns: Value) -> list[Value]:
        """(16, 8) each: this warp's rows times the staged columns."""
        sums = [zeros(f32, 4) for _ in range(COLUMNS // EIGHT)]
        for d, row in enumerate(rows):
            for pair in range(COLUMNS // ROWS):
                for half, b in enumerate(self.of_columns.b(columns, pair * ROWS, d * ROWS)):
                    place = 2 * pair + half
                    sums[place] = mma(row, b, sums[place])
        return sums

    def _add(self, sums: list[Any], weights: list[Value], columns: Value) -> None:
        """sums (16, D) += weights (16, columns) times what is staged (columns, D)."""
        for pair in range(COLUMNS // ROWS):
            both = shuffle(weights[2 * pair], weights[2 * pair + 1], range(8))
            a = cast(both, self.g.element)
            for d in range(0, self.wide, ROWS):
                for half, b in enumerate(self.of_turned.b(columns, d, pair * ROWS)):
                    total = sums[d // EIGHT + half]
                    total.set(mma(a, b, total.get()))

    def _sums(self) -> list[Any]:
        return [var(zeros(f32, 4)) for _ in range(self.wide // EIGHT)]

    def _weights(self, score: Value, slope: Value, left: Value, behind: Value, lse: Value,
                 delta: Value) -> tuple[Value, Value]:  # fmt: skip
        """(p, ds) of four pairs, in float32."""
        sees = left > 0
        if self.g.causal:
            sees = sees & (behind >= 0)
        if self.g.windowed:
            sees = sees & (behind < cast(self.window, i32))
        exponent = score * splat(self.scale_2, 4) - lse * LOG2_E
        p = select(sees, maths.exp2_flushed(exponent), 0.0)
        return p, select(sees, p * (slope - delta) * splat(self.scale, 4), 0.0)

    def _store(self, to: Value, stride: Value, first: Value, count: Value, sums: Any) -> None:
        """This warp's rows, narrowed."""
        for half in range(2):
            row = first + self.warp * ROWS + self.lane // 4 + 8 * half
            with when(row < count):
                place = to + row * stride + self.lane % 4 * 2
                for j, each in enumerate(sums):
                    pair = shuffle(each.get(), None, (2 * half, 2 * half + 1))
                    pair, d = cast(pair, self.g.element), j * EIGHT
                    if d + EIGHT <= self.g.head_dim:
                        store(place + d, pair, aligned=self.aligned)
                    else:
                        store(
                            place + d, pair, tail_mask(self.g.head_dim - d - self.lane % 4 * 2, 2)
                        )

    # Rows are queries

    def gradients_of_queries(
        self, keys: Keys, query: QueryHead, head: Value, first: Value
    ) -> None:  # fmt: skip
        q = self._row_fragments(self._source(query.q, query.q_row, first, self.n_queries))
        grad = self._row_fragments(self._source(query.grad, query.grad_row, first, self.n_queries))
        row = first + self.warp * ROWS + self.lane // 4
        deltas, lses = [], []
        for half in range(2):
            there = row + 8 * half < self.n_queries
            delta = self._delta(query, row + 8 * half, there)
            to = word_pointer(self.args, DELTA, f32) + head * self.n_queries + row + 8 * half
            store(to, delta, there & (self.lane % 4 == 0))
            deltas.append(delta)
            lses.append(load(query.lse + row + 8 * half, None, there))
        delta, lse = (_four(a, a, b, b) for a, b in (deltas, lses))
        sums = self._sums()
        low, high = self._keys_seen(first)
        for tile in loop(low, high, COLUMNS):
            self._stage(
                self._source(keys.k, keys.k_row, tile, self.n_keys),
                self._source(keys.v, keys.v_row, tile, self.n_keys),
            )
            key = tile + self.lane % 4 * 2
            left = _four(*(cast(self.n_keys - key - e, i32) for e in (0, 1, 0, 1)))
            behind = _four(
                *(cast(row + self.shift + r - key - e, i32) for r in (0, 8) for e in (0, 1))
            )
            pairs = zip(self._products(q, self.x), self._products(grad, self.y), strict=True)
            slopes = [
                self._weights(s, d, left - 8 * j, behind - 8 * j, lse, delta)[1]
                for j, (s, d) in enumerate(pairs)
            ]
            self._add(sums, slopes, self.x)
            block_barrier()
        self._store(query.dq, constant(i64, self.g.head_dim), first, self.n_queries, sums)

    def _delta(self, query: QueryHead, row: Value, there: Value) -> Value:
        """The product of a row of out and of its gradient, by the four lanes that hold the row."""
        total = var(constant(f32, 0.0))
        for d in loop(self.lane % 4, self.g.head_dim, 4):
            out = load(query.out + row * query.out_row + d, None, there)
            grad = load(query.grad + row * query.grad_row + d, None, there)
            total.set(total.get() + cast(out, f32) * cast(grad, f32))
        value = total.get()
        for step in (1, 2):
            value = value + from_lane(value, self.lane ^ step)
        return value

    def _keys_seen(self, first: Value) -> tuple[Value, Value]:
        low, high = constant(i64, 0), self.n_keys
        if self.g.causal:
            high = minimum(first + self.n_rows, self.n_queries) + self.shift
        if self.g.windowed:
            low = maximum(first + self.shift - self.window + 1, 0)
        return low - low % COLUMNS, high

    # Rows are keys

    def gradients_of_keys(self, keys: Keys, pair: Value, first: Value) -> None:
        k = self._row_fragments(self._source(keys.k, keys.k_row, first, self.n_keys))
        v = self._row_fragments(self._source(keys.v, keys.v_row, first, self.n_keys))
        dk, dv = self._sums(), self._sums()
        low, high = self._queries_seeing(first)
        for member in loop(word_int(self.args, GROUP)):
            query = query_head(self.g, self.args, keys, member)
            head = pair * word_int(self.args, GROUP) + member
            delta = word_pointer(self.args, DELTA, f32) + head * self.n_queries
            for tile in loop(low, high, COLUMNS):
                self._queries_tile(query, delta, first, tile, (k, v), (dk, dv))
        n_keys = word_int(self.args, N_KEYS)
        width = constant(i64, self.g.head_dim)
        to = word_pointer(self.args, DK, self.g.element) + pair * n_keys * width
        self._store(to, width, first, n_keys, dk)
        to = _place(self.g, self.args, DV, (DV_BATCH, keys.batch), (DV_HEAD, keys.index))
        self._store(to, word_int(self.args, DV_ROW), first, n_keys, dv)

    def _queries_tile(
        self, query: QueryHead, deltas: Value, first: Value, tile: Value, rows: Any, sums: Any
    ) -> None:
        self._stage(
            self._source(query.q, query.q_row, tile, self.n_queries),
            self._source(query.grad, query.grad_row, tile, self.n_queries),
        )
        key = first + self.warp * ROWS + self.lane // 4
        column = tile + self.lane % 4 * 2
        left = _four(*(cast(self.n_keys - key - r, i32) for r in (0, 8) for e in (0, 1)))
        behind = _four(
            *(cast(column + e + self.shift - key - r, i32) for r in (0, 8) for e in (0, 1))
        )
        pairs = zip(self._products(rows[0], self.x), self._products(rows[1], self.y), strict=True)
        weights, slopes = [], []
        for j, (s, d) in enumerate(pairs):
            at = column + 8 * j
            lse, delta = (
                _four(*[load(x + at + e, None, at + e < self.n_queries) for e in (0, 1)] * 2)
                for x in (query.lse, deltas)
            )
            p, ds = self._weights(s, d, left, behind + 8 * j, lse, delta)
            weights.append(p)
            slopes.append(ds)
        self._add(sums[0], slopes, self.x)
        self._add(sums[1], weights, self.y)
        block_barrier()

    def _queries_seeing(self, first: Value) -> tuple[Value, Value]:
        """The first tile and the end of the queries that see any key of the block."""
        low, high = constant(i64, 0), self.n_queries
        if self.g.causal:
            low = maximum(first - self.shift, 0)
        if self.g.windowed:
            high = minimum(high, first + self.n_rows - 1 - self.shift + self.window)
        return low - low % COLUMNS, high


def _four(*scalars: Value) -> Value:
    """Four numbers as a vector."""
    vector = zeros(scalars[0].type, 4)
    for place, scalar in enumerate(scalars):
        vector = insert(vector, place, scalar)
    return vector
