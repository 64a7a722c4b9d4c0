"""The tiled forward kernel of attention by tensor cores, of bfloat16 and float16.

What it computes and the running softmax are those of forward.py. A block of four warps does 64
queries of a head, each warp 16 of them:

    the fragments of the queries are read once
    for each tile of 64 keys that the block sees:
        stage the tile's rows of k and v in shared memory
        s = q k^T                    by mma, (16, 64) float32 in registers, 32 numbers a lane
        m' = max(m, max s);  p = 2^(s - m');  l = l 2^(m - m') + sum p
        o = o 2^(m - m') + p v       by mma; p rounded to the type of v is a fragment as it lies
    out = o / l;  lse = (m + log2(l)) log(2)

A row of s lies in four lanes, which exchange their greatest scores; their sums of p meet at the
end. Tiles start at multiples of 64 keys, so a row's bits depend on it, the keys and values alone.

    accumulates in   float32; weights are rounded to 16 bits before they meet v, which the kernel of
                     forward.py does not do
    shared memory    2 x 64 x (D + 8) x 2 bytes: 34 KiB at D = 128, the largest there is room for
                     in the registers: 64 of o, 32 of q, 32 of s of 255
    source           Dao 2023, arXiv:2307.08691, for how warps share a block
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
    Value,
    block_barrier,
    cast,
    constant,
    extract,
    f32,
    from_lane,
    i32,
    i64,
    insert,
    kernel,
    loop,
    maths,
    maximum,
    minimum,
    mma,
    ptr,
    raw_max,
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
    zeros,
)
from bedplate.ops.attention.forward import (
    BLOCKS,
    LENGTH,
    LOG2_E,
    N_KEYS,
    N_QUERIES,
    SCALE,
    WINDOW,
    Head,
    head,
)
from bedplate.ops.attention.tiles import KEYS, Geometry, n_keys_there
from bedplate.ops.matmul.fragments import EIGHT, Copier, Fragments, Layout, Source

WARPS = 4
ROWS = 16  # queries of a warp: of a fragment
QUERIES = ROWS * WARPS
LARGEST_HEAD = 128
LOWEST = -(2.0 - 2.0**-23) * 2.0**127  # finite: -infinity minus it is no NaN


@dataclass(frozen=True, slots=True)
class Staging:
    """How rows of queries, keys and values are copied and lie; heads are filled up with zeros.

    warps  of a block
    """

    warps: int
    queries: Layout
    keys: Layout
    values: Layout

    @property
    def size(self) -> int:
        """Elements of shared memory; the queries lie where the keys come to lie."""
        return max(self.keys.size, self.queries.size) + self.values.size

    @property
    def n_queries(self) -> int:
        return self.warps * ROWS

    @property
    def n_threads(self) -> int:
        return self.warps * 32


def staging(g: Geometry, aligned: bool, warps: int) -> Staging:
    wide = -(-g.head_dim // ROWS) * ROWS
    return Staging(
        warps,
        Layout(g.element, warps * ROWS, wide, "along", aligned),
        Layout(g.element, KEYS, wide, "along", aligned),
        Layout(g.element, wide, KEYS, "across", aligned),
    )


@functools.cache
def forward_kernel(g: Geometry, aligned: bool, warps: int = WARPS) -> Kernel:
    """The task kernel; an item is a block of 16 queries a warp of one head, the last block first.

    aligned  rows of q, k, v and out start at multiples of 16 bytes
    """
    staged = staging(g, aligned, warps)

    @kernel
    def attention_tensor_cores(args: ptr(i64), begin: i64, end: i64, worker: i64):
        warp = thread_warp(warps)
        memory = shared(g.element, staged.size)
        blocks = word_int(args, BLOCKS)
        for item in loop(begin, end):
            first = (blocks - 1 - item % blocks) * staged.n_queries
            _Block(g, args, staged, memory, warp, head(g, args, item // blocks), first).run()

    return attention_tensor_cores


class _Block:
    """What a thread does for one block of queries."""

    def __init__(
        self, g: Geometry, args: Value, staged: Staging, memory: Value, warp: Value, here: Head,
        first: Value,
    ) -> None:  # fmt: skip
        self.g, self.args, self.staged, self.memory = g, args, staged, memory
        self.here, self.first = here, first
        self.lane = thread_lane()
        self.warp, self.thread = warp, warp * 32 + self.lane
        self.n_queries = word_int(args, N_QUERIES)
        self.n_keys = n_keys_there(g, args, N_KEYS, LENGTH)
        self.window = word_int(args, WINDOW)
        # this lane's first row; the other is 8 further
        self.query = first + warp * ROWS + self.lane // 4
        self.scale = cast(word_float(args, SCALE) * LOG2_E, f32)
        wide = staged.queries.depth
        self.sums = [var(zeros(f32, 4)) for _ in range(wide // EIGHT)]
        self.greatest = [var(constant(f32, LOWEST)) for _ in range(2)]
        self.total = [var(constant(f32, 0.0)) for _ in range(2)]

    def run(self) -> None:
        staged, here = self.staged, self.here
        keys, values = (
            Copier(x, self.thread, staged.n_threads) for x in (staged.keys, staged.values)
        )
        of_keys, of_values = Fragments(staged.keys), Fragments(staged.values)
        queries = self._queries()
        to_values = self.memory + (staged.size - staged.values.size)
        low, high = self._span()
        for tile in loop(low, high, KEYS):
            left = self.n_keys - tile
            k = Source(here.k + tile * here.k_row, here.k_row, _one(), left, self._head_dim())
            v = Source(here.v + tile * here.v_row, _one(), here.v_row, self._head_dim(), left)
            keys.put(keys.fetch(k), self.memory)
            values.put(values.fetch(v), to_values)
            block_barrier()
            weights = self._absorb(self._scores(queries, of_keys, tile))
            self._add_weighted(weights, of_values, to_values)
            block_barrier()
        self._finish()

    def _head_dim(self) -> Value:
        return constant(i64, self.g.head_dim)

    def _queries(self) -> list[Value]:
        """This warp's fragments, by 16 d's."""
        layout, here = self.staged.queries, self.here
        copier, fragments = Copier(layout, self.thread, self.staged.n_threads), Fragments(layout)
        source = Source(
            here.q + self.first * here.q_row, here.q_row, _one(), self.n_queries - self.first,
            self._head_dim(),
        )  # fmt: skip
        copier.put(copier.fetch(source), self.memory)
        block_barrier()
        row = self.warp * ROWS
        found = [fragments.a(self.memory, row, d) for d in range(0, layout.depth, ROWS)]
        block_barrier()
        return found

    def _span(self) -> tuple[Value, Value]:
        """The first tile and the end of the keys that any query of the block sees."""
        shift, low, high = self.n_keys - self.n_queries, constant(i64, 0), self.n_keys
        if self.g.causal:
            high = minimum(self.first + self.staged.n_queries, self.n_queries) + shift
        if self.g.windowed:
            low = maximum(self.first + shift - self.window + 1, 0)
        return low - low % KEYS, high

    def _scores(self, queries: list[Value], of_keys: Fragments, tile: Value) -> list[Value]:
        """Of 8 keys each: scores times log2(e), -infinity for keys that a query does not see."""
        scores = [zeros(f32, 4) for _ in range(KEYS // EIGHT)]
        for d, query in enumerate(queries):
            for pair in range(KEYS // ROWS):
                both = of_keys.b(self.memory, pair * ROWS, d * ROWS)
                for half, b in enumerate(both):
                    place = 2 * pair + half
                    scores[place] = mma(query, b, scores[place])
        key = tile + self.lane % 4 * 2  # this lane's first
        left = _four(*(cast(self.n_keys - key - e, i32) for e in (0, 1, 0, 1)))
        position = self.query + self.n_keys - self.n_queries
        behind = _four(*(cast(position + r - key - e, i32) for r in (0, 8) for e in (0, 1)))
        scale = splat(self.scale, 4)
        return [
            select(self._sees(left - 8 * j, behind - 8 * j), score * scale, -math.inf)
            for j, score in enumerate(scores)
        ]

    def _sees(self, left: Value, behind: Value) -> Value:
        """Whether a query sees a key: `left` counts the keys from it on, `behind` how far it is."""
        sees = left > 0
        if self.g.causal:
            sees = sees & (behind >= 0)
        if self.g.windowed:
            sees = sees & (behind < cast(self.window, i32))
        return sees

    def _absorb(self, scores: list[Value]) -> list[Value]:
        """The weights of a tile; what was summed before is scaled to the new greatest score."""
        shifts, factors = [], []
        for half, greatest in enumerate(self.greatest):
            parts = [extract(score, 2 * half + e) for score in scores for e in range(2)]
            before = greatest.get()
            now = raw_max(self._over_row(raw_max, functools.reduce(raw_max, parts)), before)
            greatest.set(now)
            shifts.append(now)
            factors.append(maths.exp2_flushed(before - now))
        shift, factor = (_four(x, x, y, y) for x, y in (shifts, factors))
        weights = [maths.exp2_flushed(score - shift) for score in scores]
        added = functools.reduce(lambda a, b: a + b, weights)
        for half, total in enumerate(self.total):
            pair = extract(added, 2 * half) + extract(added, 2 * half + 1)
            total.set(total.get() * factors[half] + pair)
        for each in self.sums:
            each.set(each.get() * factor)
        return weights

    def _over_row(self, join: Any, value: Value) -> Value:
        """What the four lanes of a row have, joined: the same in each."""
        for step in (1, 2):
            value = join(value, from_lane(value, self.lane ^ step))
        return value

    def _add_weighted(self, weights: list[Value], of_values: Fragments, staged: Value) -> None:
        for pair in range(KEYS // ROWS):
            both = shuffle(weights[2 * pair], weights[2 * pair + 1], range(8))
            a = cast(both, self.g.element)
            for d in range(0, self.staged.values.outer, ROWS):
                fragments = of_values.b(staged, d, pair * ROWS)
                for half, b in enumerate(fragments):
                    total = self.sums[d // EIGHT + half]
                    total.set(mma(a, b, total.get()))

    def _finish(self) -> None:
        """Divide by the sums; a query that sees no key gives zeros and -infinity."""
        for half in range(2):
            total = self._over_row(lambda a, b: a + b, self.total[half].get())
            seen = ~(total == 0.0)
            factor = splat(select(seen, 1.0 / total, 0.0), 2)
            query = self.query + 8 * half
            lse = maths.log(total) + self.greatest[half].get() * math.log(2.0)
            with when(query < self.n_queries):
                with when(self.lane % 4 == 0):
                    store(self.here.lse + query, select(seen, lse, -math.inf))
                row = self.here.out + query * self.here.out_row + self.lane % 4 * 2
                for j, each in enumerate(self.sums):
                    pair = shuffle(each.get(), None, (2 * half, 2 * half + 1)) * factor
                    self._store(row, j * EIGHT, cast(pair, self.g.element))

    def _store(self, row: Value, d: int, pair: Value) -> None:
        if d + EIGHT <= self.g.head_dim:
            store(row + d, pair, aligned=self.staged.queries.aligned)
        else:
            store(row + d, pair, tail_mask(self.g.head_dim - d - self.lane % 4 * 2, 2))


def _one() -> Value:
    return constant(i64, 1)


def _four(*scalars: Value) -> Value:
    """Four numbers as a vector."""
    vector = zeros(scalars[0].type, 4)
    for place, scalar in enumerate(scalars):
        vector = insert(vector, place, scalar)
    return vector
