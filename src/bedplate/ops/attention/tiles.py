"""The staged pieces that attention's forward and backward kernels are put together from.

Lanes hold queries: a block of `queries` queries stands transposed, (D, queries), in scratch, and
keys and values are read as single numbers from where they lie, each multiplied into all lanes.
So keys and values are never packed or transposed, the softmax runs down the lanes without any
horizontal step, and rows of scores are stored and read side by side.

Both products have one shape, `left` numbers times vectors over queries:

    scores      s[key, query]   = sum over d   of  k[key, d] * q[d, query]      D steps
    weighted    o[d, query]    += sum over key of  v[key, d] * p[key, query]    keys of the tile

with a register tile of `rows` numbers x 2 vectors of accumulators. The file is a little long,
because its pieces share these layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Type,
    Value,
    cast,
    constant,
    f32,
    f64,
    fma,
    host,
    i32,
    i64,
    iota,
    load,
    loop,
    maximum,
    minimum,
    select,
    shuffle,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)

INFINITY = float("inf")
# 16 accumulators hide the latency of the multiply-adds; with 16 registers only 8 fit.
WIDE_ROWS, NARROW_ROWS = 8, 4
N_VECTORS = 2
# Scores of 64 keys x 32 queries take 8 KiB: with the queries, the accumulators and one tile of
# keys or values they stay in a first cache of 48 KiB. (Zen 5: 32 and 128 keys are within 5 %.)
KEYS = 64


@dataclass(frozen=True, slots=True)
class Geometry:
    """What specialises an attention kernel; all sizes but the head's are run-time words.

    element    type of q, k, v and the results
    head_dim   D
    causal     query i sees keys up to i + S - T
    windowed   ... and of these the last `window`
    counted    S is no more than a bound: how many keys there are is a number in memory
    """

    element: Type
    head_dim: int
    causal: bool
    windowed: bool
    counted: bool = False

    @property
    def accumulator(self) -> Type:
        return f64 if self.element is f64 else f32

    @property
    def narrow(self) -> bool:
        """Whether keys and values must be widened before use."""
        return self.element is not self.accumulator

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulator)

    @property
    def queries(self) -> int:
        return N_VECTORS * self.lanes

    @property
    def rows(self) -> int:
        return WIDE_ROWS if host().vector_bits >= 512 else NARROW_ROWS


def for_each(operands: Sequence[tuple[Value, ...]], body: Callable[..., None]) -> None:
    """body(*operand) for each operand in a run-time loop: the body is compiled once."""
    for which in loop(len(operands)):
        chosen = operands[-1]
        for i, operand in enumerate(operands[:-1]):
            here = which == i
            chosen = tuple(select(here, a, b) for a, b in zip(operand, chosen, strict=True))
        body(*chosen)


def transpose(rows: list[Value]) -> list[Value]:
    """n vectors of n lanes as the n columns, in n log2(n) shuffles."""
    n = len(rows)
    step = 1
    while step < n:
        keep = [lane if not lane & step else n + lane - step for lane in range(n)]
        swap = [lane + step if not lane & step else n + lane for lane in range(n)]
        result = list(rows)
        for i in range(n):
            if not i & step:
                result[i] = shuffle(rows[i], rows[i + step], keep)
                result[i + step] = shuffle(rows[i], rows[i + step], swap)
        rows = result
        step *= 2
    return rows


def head_chunks(g: Geometry, body: Callable[[Any, Any], None]) -> None:
    """body(first, mask) for each vector of a head: a loop over whole ones, then the tail."""
    whole = g.head_dim // g.lanes * g.lanes
    if whole:
        for first in loop(0, whole, g.lanes):
            body(first, None)
    if whole < g.head_dim:
        left = min(g.head_dim - whole, g.lanes)
        body(whole, tail_mask(left, g.lanes))


def pack_transposed(
    g: Geometry, source: Value, stride: Value, first: Value, count: Value, scale: Value, to: Value
) -> None:
    """to[d, query] = source[first + query, d] * scale; rows past the last repeat it.

    source  ptr(element) to row 0; `stride` elements from row to row
    count   rows there are, at least 1
    to      ptr(accumulator), (D, queries)
    """
    last = count - 1

    def chunk(d: Any, mask: Any) -> None:
        for half in loop(0, g.queries, g.lanes):
            rows = []
            for r in range(g.lanes):
                row = source + minimum(first + half + r, last) * stride + d
                rows.append(cast(load(row, g.lanes, mask), g.accumulator))
            for c, column in enumerate(transpose(rows)[: _columns(g, mask)]):
                store(to + (d + c) * g.queries + half, column * scale)

    head_chunks(g, chunk)


def _columns(g: Geometry, mask: Any) -> int:
    return g.lanes if mask is None else g.head_dim % g.lanes


def store_transposed(
    g: Geometry, source: Value, factors: Value, to: Value, stride: Value, first: Value,
    count: Value,
) -> None:  # fmt: skip
    """to[first + query, d] = source[d, query] * factors[query] for the rows that exist.

    factors  ptr(accumulator), (queries,)
    """

    def chunk(d: Any, mask: Any) -> None:
        for half in loop(0, g.queries, g.lanes):
            factor = load(factors + half, g.lanes)
            columns = [
                load(source + (d + c) * g.queries + half, g.lanes) * factor
                for c in range(_columns(g, mask))
            ]
            columns += [zeros(g.accumulator, g.lanes)] * (g.lanes - len(columns))
            for r, row in enumerate(transpose(columns)):
                query = first + half + r
                with when(query < count):
                    store(to + query * stride + d, cast(row, g.element), mask)

    head_chunks(g, chunk)


@dataclass(frozen=True, slots=True)
class TileRows:
    """Rows of keys or values of one tile, as pointers to the accumulator's type.

    base     row 0 of the tile
    stride   elements from row to row
    last     the last row that may be read
    """

    base: Value
    stride: Value
    last: Value

    def row(self, index: Any) -> Value:
        """A row that is known to exist."""
        return self.base + index * self.stride

    def row_or_last(self, index: Any) -> Value:
        return self.base + minimum(index, self.last) * self.stride


def tile_rows(
    g: Geometry, source: Value, stride: Value, tile: Value, begin: Value, end: Value, staged: Value
) -> TileRows:
    """Rows tile + begin ... tile + end of `source`; narrow ones are widened into `staged`."""
    start = source + tile * stride
    if not g.narrow:
        return TileRows(start, stride, end - 1)
    for key in loop(begin, end):

        def chunk(d: Any, mask: Any, key: Value = key) -> None:
            wide = cast(load(start + key * stride + d, g.lanes, mask), g.accumulator)
            store(staged + key * g.head_dim + d, wide, mask)

        head_chunks(g, chunk)
    return TileRows(staged, constant(i64, g.head_dim), end - 1)


def query_vectors(g: Geometry, place: Value) -> list[Value]:
    """One number for each query of a block, as vectors."""
    return [load(place + v * g.lanes, g.lanes) for v in range(N_VECTORS)]


def clear(g: Geometry, to: Value) -> None:
    """to[d, query] = 0."""
    for d in loop(g.head_dim):
        for v in range(N_VECTORS):
            store(to + d * g.queries + v * g.lanes, zeros(g.accumulator, g.lanes))


def scores(g: Geometry, rows: TileRows, packed: Value, begin: Value, end: Value, to: Value) -> None:
    """to[key, query] = sum over d of rows[key, d] * packed[d, query] for keys begin to end.

    Whole groups of g.rows keys are written: up to g.rows - 1 rows past `end` hold repeats.
    """
    for group in loop(begin, end, g.rows):
        pointers = [rows.row_or_last(group + r) for r in range(g.rows)]
        sums = [[var(zeros(g.accumulator, g.lanes)) for _ in range(N_VECTORS)] for _ in pointers]
        for d in loop(g.head_dim):
            vectors = query_vectors(g, packed + d * g.queries)
            for r, pointer in enumerate(pointers):
                number = splat(load(pointer + d), g.lanes)
                for v, vector in enumerate(vectors):
                    sums[r][v].set(fma(number, vector, sums[r][v].get()))
        for r, row in enumerate(sums):
            for v, total in enumerate(row):
                store(to + (group + r) * g.queries + v * g.lanes, total.get())


def add_weighted(
    g: Geometry, rows: TileRows, weights: Value, begin: Value, end: Value, to: Value,
    factors: Sequence[Value] | None = None,
) -> None:  # fmt: skip
    """to[d, query] = to * factor + sum over key of rows[key, d] * weights[key, query]."""
    whole = g.head_dim // g.rows * g.rows

    def chunk(d: Any, count: int) -> None:
        places = [[to + (d + c) * g.queries + v * g.lanes for v in range(N_VECTORS)]
                  for c in range(count)]  # fmt: skip
        sums = []
        for line in places:
            values = [load(place, g.lanes) for place in line]
            if factors is not None:
                values = [x * factor for x, factor in zip(values, factors, strict=True)]
            sums.append([var(value) for value in values])
        for key in loop(begin, end):
            vectors = query_vectors(g, weights + key * g.queries)
            row = rows.row(key) + d
            for c in range(count):
                number = splat(load(row + c), g.lanes)
                for v, vector in enumerate(vectors):
                    sums[c][v].set(fma(number, vector, sums[c][v].get()))
        for line, totals in zip(places, sums, strict=True):
            for place, total in zip(line, totals, strict=True):
                store(place, total.get())

    if whole:
        for d in loop(0, whole, g.rows):
            chunk(d, g.rows)
    if whole < g.head_dim:
        chunk(whole, g.head_dim - whole)


def add_outer(
    g: Geometry, weights: Value, rows: TileRows, begin: Value, end: Value, to: Value, to_row: Value
) -> None:
    """to[key, d] += sum over query of weights[key, query] * rows[query, d].

    Here lanes hold d and the sum runs over the queries that exist: `rows.last` + 1 of them.
    to   ptr(accumulator), rows `to_row` apart; keys begin to end
    """
    whole = begin + (end - begin) // g.rows * g.rows

    def chunk(d: Any, masks: list[Any]) -> None:
        for key in loop(begin, whole, g.rows):
            _outer_tile(g, weights, rows, key, d, masks, g.rows, to, to_row)
        for key in loop(whole, end):
            _outer_tile(g, weights, rows, key, d, masks, 1, to, to_row)

    pair = N_VECTORS * g.lanes
    pairs = g.head_dim // pair * pair
    if pairs:
        for d in loop(0, pairs, pair):
            chunk(d, [None] * N_VECTORS)
    for d in range(pairs, g.head_dim, g.lanes):
        left = g.head_dim - d
        chunk(d, [tail_mask(left, g.lanes) if left < g.lanes else None])


def _outer_tile(
    g: Geometry, weights: Value, rows: TileRows, key: Value, d: Any, masks: list[Any], count: int,
    to: Value, to_row: Value,
) -> None:  # fmt: skip
    places = [[to + (key + r) * to_row + d + v * g.lanes for v in range(len(masks))]
              for r in range(count)]  # fmt: skip
    sums = [
        [var(load(place, g.lanes, mask)) for place, mask in zip(line, masks, strict=True)]
        for line in places
    ]
    numbers = [weights + (key + r) * g.queries for r in range(count)]
    for query in loop(rows.last + 1):
        row = rows.row(query) + d
        vectors = [load(row + v * g.lanes, g.lanes, mask) for v, mask in enumerate(masks)]
        for line, pointer in zip(sums, numbers, strict=True):
            number = splat(load(pointer + query), g.lanes)
            for total, vector in zip(line, vectors, strict=True):
                total.set(fma(number, vector, total.get()))
    for line, totals in zip(places, sums, strict=True):
        for place, total, mask in zip(line, totals, masks, strict=True):
            store(place, total.get(), mask)


@dataclass(frozen=True, slots=True)
class Span:
    """The keys that a block of queries sees: none outside [low, high).

    position   the key that the block's first query is aligned to
    window     how many keys up to its position a query sees (if windowed)
    """

    g: Geometry
    low: Value
    high: Value
    position: Value
    window: Value

    def first_tile(self) -> Value:
        """Tiles start at multiples of KEYS, so that a row's sums do not depend on the block."""
        return self.low - self.low % KEYS

    def within(self, tile: Value) -> tuple[Value, Value]:
        """[begin, end) of the rows of a tile that any query sees; begin a multiple of g.rows."""
        begin = self.low - self.low % self.g.rows - tile
        return maximum(begin, 0), minimum(self.high - tile, KEYS)

    def hide(self, values: Value, tile: Value, begin: Value, end: Value) -> None:
        """Set the scores of keys that a query does not see to -infinity."""
        g = self.g
        if g.causal:  # keys behind the first query's position
            self._hide_rows(values, tile, maximum(begin, self.position + 1 - tile), end)
        if g.windowed:  # keys before the last query's window
            last = self.position + g.queries - self.window
            self._hide_rows(values, tile, begin, minimum(last - tile, end))

    def _hide_rows(self, values: Value, tile: Value, begin: Value, end: Value) -> None:
        g = self.g
        for key in loop(begin, end):
            for v in range(N_VECTORS):
                place = values + key * g.queries + v * g.lanes
                store(place, select(self._sees(tile + key, v), load(place, g.lanes), -INFINITY))

    def _sees(self, key: Value, v: int) -> Value:
        # How far the key lies behind each query's position; a query sees 0 to window - 1.
        first = cast(self.position + v * self.g.lanes - key, i32)
        behind = iota(i32, self.g.lanes) + first
        sees = behind >= 0
        if self.g.windowed:
            sees = sees & (behind < cast(self.window, i32))
        return sees


def n_keys_there(g: Geometry, args: Value, bound: int, length: int) -> Value:
    """How many keys there are, from the words for S and for where the number lies."""
    most = word_int(args, bound)
    if not g.counted:
        return most
    return minimum(maximum(load(word_pointer(args, length, i64)), 0), most)


def span(g: Geometry, first: Value, n_queries: Value, n_keys: Value, window: Value) -> Span:
    """The keys that queries first ... first + g.queries see; the last query sees the last key."""
    shift = n_keys - n_queries
    low, high = constant(i64, 0), n_keys
    if g.causal:
        high = minimum(first + g.queries, n_queries) + shift
    if g.windowed:
        low = maximum(first + shift - window + 1, 0)
    return Span(g, low, high, first + shift, window)
