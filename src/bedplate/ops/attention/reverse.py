"""The kernel of attention's gradient: the weights are computed again, tile by tile.

With p[i, j] = exp(s[i, j] - lse[i]), o = out, g = grad_out, for all pairs that see each other:

    dv[j] = sum over i of p[i, j] g[i]
    dp[i, j] = g[i] . v[j]                 delta[i] = g[i] . o[i]
    ds[i, j] = scale * p[i, j] * (dp[i, j] - delta[i])
    dq[i] = sum over j of ds[i, j] k[j]    dk[j] = sum over i of ds[i, j] q[i]

An item is one key head of one batch with all query heads that share it. It walks over blocks of
queries, and for each over the tiles of keys that the block sees: five products a tile, of which
the forward pass does two. dq of a block rests in scratch, dk and dv of the head in memory. All
sums run in one fixed order, so the bits do not depend on the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32; float64
    flops            10 D a pair of query and key that it sees; bound by multiply-adds
    bytes            q, out, grad_out, dq once; k, v, dk, dv from the caches for each block
    source           Dao et al. 2022, arXiv:2205.14135, algorithm 4, with the loops exchanged
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
    fma,
    i64,
    kernel,
    load,
    local,
    loop,
    maths,
    minimum,
    ptr,
    select,
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
    TileRows,
    add_outer,
    add_weighted,
    clear,
    for_each,
    head_chunks,
    n_keys_there,
    pack_transposed,
    query_vectors,
    scores,
    span,
    store_transposed,
    tile_rows,
)

# Words of the task.
(
    Q, K, V, OUT, LSE, GRAD_OUT, DQ, DK, DV, SCRATCH, SCRATCH_BYTES, N_KEY_HEADS, GROUP,
    N_QUERIES, N_KEYS, Q_BATCH, Q_HEAD, Q_ROW, K_BATCH, K_HEAD, K_ROW, V_BATCH, V_HEAD, V_ROW,
    OUT_BATCH, OUT_HEAD, OUT_ROW, GRAD_BATCH, GRAD_HEAD, GRAD_ROW, DV_BATCH, DV_HEAD, DV_ROW,
    WINDOW, SCALE, LENGTH,
) = range(36)  # fmt: skip
LOG2_E = 1.0 / math.log(2.0)


@dataclass(frozen=True, slots=True)
class Scratch:
    """A worker's memory; in elements of the accumulator.

    queries, grads, dq   (D, queries)        transposed block
    weights, slopes      (KEYS, queries)     p and ds of a tile
    wide_*               narrow types only: rows of the block and the tile, widened
    dk, dv               (S, D)              narrow types only: sums of the head
    """

    queries: Value
    grads: Value
    dq: Value
    weights: Value
    slopes: Value
    wide_keys: Value
    wide_values: Value
    wide_queries: Value
    wide_grads: Value
    dk: Value
    dv: Value


def _scratch_sizes(g: Geometry, n_keys: Value | int) -> list[Value | int]:
    block, tile = g.head_dim * g.queries, KEYS * g.queries
    sizes: list[Value | int] = [block, block, block, tile, tile]
    if g.narrow:
        sizes += [KEYS * g.head_dim] * 2 + [block] * 2 + [n_keys * g.head_dim] * 2
    return sizes


def scratch_elements(g: Geometry, n_keys: int) -> int:
    """Elements of the accumulator's type that a worker needs."""
    return sum(size for size in _scratch_sizes(g, n_keys) if isinstance(size, int))


def scratch(g: Geometry, args: Value, worker: Value) -> Scratch:
    start = word_int(args, SCRATCH) + worker * word_int(args, SCRATCH_BYTES)
    places = [cast(start, ptr(g.accumulator))]
    for size in _scratch_sizes(g, word_int(args, N_KEYS)):
        places.append(places[-1] + size)
    places += places[-1:] * (11 - len(places))
    return Scratch(*places[:11])


@dataclass(frozen=True, slots=True)
class Keys:
    """One key head: keys and values, and the strides from row to row."""

    batch: Value
    index: Value
    k: Value
    v: Value
    k_row: Value
    v_row: Value


@dataclass(frozen=True, slots=True)
class KeyHead(Keys):
    """And where the sums of its gradients stand."""

    dk: Value
    dv: Value
    dv_row: Value


@dataclass(frozen=True, slots=True)
class QueryHead:
    """One query head: pointers to its first rows, and the strides from row to row."""

    q: Value
    out: Value
    grad: Value
    lse: Value
    dq: Value
    q_row: Value
    out_row: Value
    grad_row: Value


def key_head(g: Geometry, args: Value, own: Scratch, item: Value) -> KeyHead:
    n_heads = word_int(args, N_KEY_HEADS)
    batch, index = item // n_heads, item % n_heads
    rows = item * word_int(args, N_KEYS) * g.head_dim
    dk, dv, dv_row = own.dk, own.dv, constant(i64, g.head_dim)
    if not g.narrow:
        dk = word_pointer(args, DK, g.accumulator) + rows
        dv = _place(g, args, DV, (DV_BATCH, batch), (DV_HEAD, index))
        dv_row = word_int(args, DV_ROW)
    k = _place(g, args, K, (K_BATCH, batch), (K_HEAD, index))
    v = _place(g, args, V, (V_BATCH, batch), (V_HEAD, index))
    return KeyHead(batch, index, k, v, word_int(args, K_ROW), word_int(args, V_ROW), dk, dv, dv_row)


def query_head(g: Geometry, args: Value, keys: Keys, member: Value) -> QueryHead:
    """Query head number `member` of those that share a key head."""
    group = word_int(args, GROUP)
    index = keys.index * group + member
    flat = (keys.batch * word_int(args, N_KEY_HEADS) * group + index) * word_int(args, N_QUERIES)
    return QueryHead(
        _place(g, args, Q, (Q_BATCH, keys.batch), (Q_HEAD, index)),
        _place(g, args, OUT, (OUT_BATCH, keys.batch), (OUT_HEAD, index)),
        _place(g, args, GRAD_OUT, (GRAD_BATCH, keys.batch), (GRAD_HEAD, index)),
        word_pointer(args, LSE, g.accumulator) + flat,
        word_pointer(args, DQ, g.element) + flat * g.head_dim,
        word_int(args, Q_ROW), word_int(args, OUT_ROW), word_int(args, GRAD_ROW),
    )  # fmt: skip


def _place(g: Geometry, args: Value, base: int, *steps: tuple[int, Value]) -> Value:
    pointer = word_pointer(args, base, g.element)
    for word, index in steps:
        pointer = pointer + word_int(args, word) * index
    return pointer


@functools.cache
def backward_kernel(g: Geometry) -> Kernel:
    """The task kernel; an item is one key head of one batch."""

    @kernel
    def attention_backward(args: ptr(i64), begin: i64, end: i64, worker: i64):
        own = scratch(g, args, worker)
        n_keys = word_int(args, N_KEYS)
        for item in loop(begin, end):
            keys = key_head(g, args, own, item)
            clear_rows(g, keys.dk, constant(i64, g.head_dim), n_keys)
            clear_rows(g, keys.dv, keys.dv_row, n_keys)
            for member in loop(word_int(args, GROUP)):
                queries = query_head(g, args, keys, member)
                for first in loop(0, word_int(args, N_QUERIES), g.queries):
                    Block(g, args, own, keys, queries, first).run()
            if g.narrow:
                rows = item * n_keys * g.head_dim
                dk = word_pointer(args, DK, g.element) + rows
                dv = _place(g, args, DV, (DV_BATCH, keys.batch), (DV_HEAD, keys.index))
                narrow_rows(g, keys.dk, dk, constant(i64, g.head_dim), n_keys)
                narrow_rows(g, keys.dv, dv, word_int(args, DV_ROW), n_keys)

    return attention_backward


def clear_rows(g: Geometry, to: Value, to_row: Value, count: Value) -> None:
    for row in loop(count):
        head_chunks(
            g, lambda d, mask, row=row: store(
                to + row * to_row + d, zeros(g.accumulator, g.lanes), mask
            )
        )  # fmt: skip


def narrow_rows(g: Geometry, source: Value, to: Value, to_row: Value, count: Value) -> None:
    for row in loop(count):
        wide, narrow = source + row * g.head_dim, to + row * to_row

        def chunk(d: Value, mask: Value | None, wide: Value = wide, narrow: Value = narrow) -> None:
            value = load(wide + d, g.lanes, mask)
            store(narrow + d, cast(value, g.element), mask)

        head_chunks(g, chunk)


class Block:
    """One block of queries against all keys that it sees."""

    def __init__(
        self, g: Geometry, args: Value, own: Scratch, keys: KeyHead, queries: QueryHead,
        first: Value,
    ) -> None:  # fmt: skip
        self.g, self.own, self.keys, self.queries, self.first = g, own, keys, queries, first
        self.n_queries = word_int(args, N_QUERIES)
        self.scale = cast(word_float(args, SCALE), g.accumulator)
        n_keys = n_keys_there(g, args, N_KEYS, LENGTH)
        self.span = span(g, first, self.n_queries, n_keys, word_int(args, WINDOW))

    def run(self) -> None:
        g, own, heads = self.g, self.own, self.queries
        self._pack()
        deltas = self._deltas()
        shifts = self._shifts()
        clear(g, own.dq)
        query_rows = self._rows(heads.q, heads.q_row, own.wide_queries)
        grad_rows = self._rows(heads.grad, heads.grad_row, own.wide_grads)
        for tile in loop(self.span.first_tile(), self.span.high, KEYS):
            self._tile(tile, shifts, deltas, query_rows, grad_rows)
        ones = local(g.accumulator, g.queries)
        for v in range(N_VECTORS):
            store(ones + v * g.lanes, constant(g.accumulator, 1.0, g.lanes))
        store_transposed(
            g, own.dq, ones, heads.dq, constant(i64, g.head_dim), self.first,
            self.n_queries,
        )  # fmt: skip

    def _pack(self) -> None:
        """Transpose q, grad_out and out, the last to where dq is summed later."""
        g, own, heads = self.g, self.own, self.queries
        operands = [
            (heads.q, heads.q_row, self.scale * LOG2_E, own.queries),
            (heads.grad, heads.grad_row, self.scale, own.grads),
            (heads.out, heads.out_row, constant(g.accumulator, 1.0), own.dq),
        ]
        for_each(
            operands, lambda source, stride, scale, to: pack_transposed(
                g, source, stride, self.first, self.n_queries, scale, to
            )
        )  # fmt: skip

    def _rows(self, source: Value, stride: Value, staged: Value) -> TileRows:
        """The block's rows as they lie, for the products that sum over queries."""
        count = minimum(self.n_queries - self.first, self.g.queries)
        zero = constant(i64, 0)
        return tile_rows(self.g, source, stride, self.first, zero, count, staged)

    def _deltas(self) -> list[Value]:
        """scale * sum over d of grad_out * out, for each query."""
        g, own = self.g, self.own
        sums = [var(zeros(g.accumulator, g.lanes)) for _ in range(N_VECTORS)]
        for d in loop(g.head_dim):
            grads = query_vectors(g, own.grads + d * g.queries)
            outs = query_vectors(g, own.dq + d * g.queries)
            for total, grad, out in zip(sums, grads, outs, strict=True):
                total.set(fma(grad, out, total.get()))
        return [total.get() for total in sums]

    def _shifts(self) -> list[Value]:
        """lse in base 2; +infinity, which makes all weights zero, for queries that see no key
        and for those past the last."""
        g = self.g
        shifts = []
        for v in range(N_VECTORS):
            start = self.first + v * g.lanes
            mask = tail_mask(self.n_queries - start, g.lanes)
            lse = load(self.queries.lse + start, g.lanes, mask, math.inf)
            shifts.append(select(lse == -math.inf, math.inf, lse) * LOG2_E)
        return shifts

    def _tile(
        self, tile: Value, shifts: list[Value], deltas: list[Value], query_rows: TileRows,
        grad_rows: TileRows,
    ) -> None:  # fmt: skip
        g, own, keys = self.g, self.own, self.keys
        begin, end = self.span.within(tile)
        key_rows = tile_rows(g, keys.k, keys.k_row, tile, begin, end, own.wide_keys)
        value_rows = tile_rows(g, keys.v, keys.v_row, tile, begin, end, own.wide_values)
        last = end - 1
        for_each(
            [(key_rows.base, key_rows.stride, own.queries, own.weights),
             (value_rows.base, value_rows.stride, own.grads, own.slopes)],
            lambda base, stride, packed, to: scores(
                g, TileRows(base, stride, last), packed, begin, end, to
            ),
        )  # fmt: skip
        self.span.hide(own.weights, tile, begin, end)
        for key in loop(begin, end):
            for v in range(N_VECTORS):
                place = key * g.queries + v * g.lanes
                weight = maths.exp2_flushed(load(own.weights + place, g.lanes) - shifts[v])
                slope = load(own.slopes + place, g.lanes) - deltas[v]
                store(own.weights + place, weight)
                store(own.slopes + place, weight * slope)
        add_weighted(g, key_rows, own.slopes, begin, end, own.dq)
        last_query, dk_row = query_rows.last, constant(i64, g.head_dim)
        for_each(
            [(own.weights, grad_rows.base, grad_rows.stride, keys.dv, keys.dv_row),
             (own.slopes, query_rows.base, query_rows.stride, keys.dk, dk_row)],
            lambda weights, base, stride, to, to_row: add_outer(
                g, weights, TileRows(base, stride, last_query), begin, end, to + tile * to_row,
                to_row,
            ),
        )  # fmt: skip


__all__ = ["Geometry", "Span", "backward_kernel", "scratch_elements"]
