"""The kernels of compensated sums and products: each adds up in pairs of numbers.

    high, low = 0, 0                            sum      x    (rows, length)    any strides
    for each term t (a number, or a product):            out  (rows,)
        high, e = two_sum(high, t)              product  a    (batch, M, K)     any strides
        low += e + what rounding t lost                  b    (batch, K, N)     any strides
    out = high + low                                     out  (batch, M, N)

`two_sum` gives a sum and what rounding lost of it, `two_product` the same of a product by a fused
multiply-add, so the pair carries twice the digits of its dtype: the error is that of one rounding,
unless terms cancel to a part in 1e14 (float32) or 1e32 (float64). Lanes and blocks are the same on
every machine and depend on the length alone, hence so do the bits. A sum is bound by memory up to
float32 (7 flops an element), a product by its 10 flops for each multiply-add.

source  Ogita, Rump, Oishi 2005, "Accurate sum and dot product", algorithms 4.4 and 5.3
"""

from __future__ import annotations

import functools
import math
from typing import Any

from bedplate.kernel import (
    Value,
    cast,
    constant,
    element,
    extract,
    f32,
    from_dtype,
    gather,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    minimum,
    ptr,
    scatter,
    select,
    splat,
    store,
    tail_mask,
    var,
    word_int,
    word_pointer,
    zeros,
)
from bedplate.kernel.maths.double_word import Pair, two_product, two_sum
from bedplate.kernel.types import Type

# terms that one pair of vectors takes; the pairs of blocks are joined in order
BLOCK = 16384
# a cache line of numbers, on every machine
LINE_BYTES = 64
# vectors in flight: an addition waits for the one before
UNROLL = 4


def lower_sum(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter two launches: the pair of each block, and the result of each row."""
    (x,), (out,) = inputs, outputs
    rows, length = x.shape
    if not rows:
        return
    blocks = max(-(-length // BLOCK), 1)
    given = from_dtype(x.dtype)
    pairs = builder.temp(2 * rows * blocks * _wide(given).itemsize, "pairs")
    across = x.strides[0] == 1 != x.strides[1] and rows > 1  # neighbours are of different rows
    groups = -(-rows // _lanes(given)) if across else rows
    kernel = make_column_sums(given) if across else make_block_sums(given, x.strides[1] == 1)
    builder.launch(
        kernel, [x, *x.strides, length, blocks, pairs, rows], groups * blocks,
        reads=[x.buffer], writes=[pairs], flops=7.0 * rows * length,
        nbytes=float(rows * length * x.dtype.itemsize), name="compensated_sum",
    )  # fmt: skip
    builder.launch(
        make_row_sums(given), [pairs, blocks, out], rows, reads=[pairs], writes=[out.buffer],
        flops=8.0 * rows * blocks, name="compensated_join",
    )  # fmt: skip


def lower_product(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter one launch whose items are rows of the result."""
    (a, b), (out,) = inputs, outputs
    batch, rows, columns = out.shape
    if not batch * rows * columns:
        return
    depth = a.shape[2]
    builder.launch(
        make_products(from_dtype(a.dtype), b.strides[2] == 1),
        [a, *a.strides, b, *b.strides, out, rows, columns, depth], batch * rows,
        reads=[a.buffer, b.buffer], writes=[out.buffer],
        flops=10.0 * batch * rows * columns * depth,
        nbytes=float((a.size + b.size + out.size) * a.dtype.itemsize), name="compensated_matmul",
    )  # fmt: skip


def _wide(given: Type) -> Type:
    """The type of the numbers of a pair."""
    return f32 if given.bits == 16 else given


def _lanes(given: Type) -> int:
    return LINE_BYTES // _wide(given).itemsize


def _joined(x: Pair, y: Pair) -> Pair:
    """The sum of two pairs."""
    high, lost = two_sum(x[0], y[0])
    return high, lost + (x[1] + y[1])


def _result(pair: Pair, lanes: int | None = None) -> Value:
    """high + low; of infinities and NaN high alone, since nothing is lost of them."""
    high, low = pair
    bound = constant(high.type.scalar, math.inf, lanes)
    return select(abs(high) < bound, high + low, high)


def _lanes_joined(pair: Pair, lanes: int) -> Pair:
    return _tree([(extract(pair[0], i), extract(pair[1], i)) for i in range(lanes)])


def _tree(parts: list[Pair]) -> Pair:
    while len(parts) > 1:
        parts = [_joined(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
    return parts[0]


def _vector(place: Value, step: Value | None, lanes: int, mask: Value) -> Value:
    """Numbers `step` apart (None: neighbours), as pairs take them; 0 where the mask is off."""
    if step is None:
        found = load(place, lanes, mask=mask, other=0)
    else:
        found = gather(place, iota(i64, lanes) * splat(step, lanes), mask=mask, other=0)
    return cast(found, _wide(element(found.type)))


@functools.cache
def make_block_sums(given: Type, adjacent: bool) -> Any:
    """pairs[item] = the sum of a block of a row."""
    wide, lanes = _wide(given), _lanes(given)

    @kernel
    def block_sums(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x, row_step, step = word_pointer(args, 0, given), word_int(args, 1), word_int(args, 2)
        length, blocks = word_int(args, 3), word_int(args, 4)
        pairs = word_pointer(args, 5, wide)
        zero = constant(wide, 0, lanes)
        for item in loop(begin, end):
            row, first = item // blocks, item % blocks * BLOCK
            last = minimum(first + BLOCK, length)
            highs = [var(zero) for _ in range(UNROLL)]
            lows = [var(zero) for _ in range(UNROLL)]
            for column in loop(first, last, lanes * UNROLL):
                for i, (high, low) in enumerate(zip(highs, lows, strict=True)):
                    here = column + i * lanes
                    place = x + row * row_step + here * step
                    mask = tail_mask(last - here, lanes)
                    term = _vector(place, None if adjacent else step, lanes, mask)
                    total, lost = two_sum(high.get(), term)
                    high.set(total)
                    low.set(low.get() + lost)
            parts = [(h.get(), low.get()) for h, low in zip(highs, lows, strict=True)]
            joined = _lanes_joined(functools.reduce(_joined, parts), lanes)
            store(pairs + 2 * item, joined[0])
            store(pairs + 2 * item + 1, joined[1])

    return block_sums


@functools.cache
def make_column_sums(given: Type) -> Any:
    """The same sums, to the bit, for rows whose elements are neighbours: a vector takes many rows.

    The pair that a lane of a vector has there is a place in a local array here.
    """
    wide, lanes = _wide(given), _lanes(given)
    places = lanes * UNROLL

    @kernel
    def column_sums(args: ptr(i64), begin: i64, end: i64, worker: i64):
        x, step = word_pointer(args, 0, given), word_int(args, 2)
        length, blocks, rows = word_int(args, 3), word_int(args, 4), word_int(args, 6)
        pairs = word_pointer(args, 5, wide)
        highs, lows = local(wide, places * lanes), local(wide, places * lanes)
        for item in loop(begin, end):
            row, first = item // blocks * lanes, item % blocks * BLOCK
            mask = tail_mask(rows - row, lanes)
            for place in loop(places):
                store(highs + place * lanes, zeros(wide, lanes))
                store(lows + place * lanes, zeros(wide, lanes))
            for column in loop(first, minimum(first + BLOCK, length)):
                term = _vector(x + (row + column * step), None, lanes, mask)
                place = (column - first) % places * lanes
                total, lost = two_sum(load(highs + place, lanes), term)
                store(highs + place, total)
                store(lows + place, load(lows + place, lanes) + lost)
            parts = []
            for lane in range(lanes):
                here = [(lane + u * lanes) * lanes for u in range(UNROLL)]
                known = [(load(highs + at, lanes), load(lows + at, lanes)) for at in here]
                parts.append(functools.reduce(_joined, known))
            target = pairs + 2 * (row * blocks + item % blocks)
            for offset, part in enumerate(_tree(parts)):
                scatter(target + offset, iota(i64, lanes) * splat(2 * blocks, lanes), part, mask)

    return column_sums


@functools.cache
def make_row_sums(given: Type) -> Any:
    """out[row] = the sum of the row's pairs, in order."""
    wide = _wide(given)

    @kernel
    def row_sums(args: ptr(i64), begin: i64, end: i64, worker: i64):
        pairs, blocks = word_pointer(args, 0, wide), word_int(args, 1)
        out = word_pointer(args, 2, given)
        for row in loop(begin, end):
            high, low = var(constant(wide, 0)), var(constant(wide, 0))
            for block in loop(blocks):
                place = pairs + 2 * (row * blocks + block)
                total = _joined((high.get(), low.get()), (load(place), load(place + 1)))
                high.set(total[0])
                low.set(total[1])
            store(out + row, cast(_result((high.get(), low.get())), given))

    return row_sums


@functools.cache
def make_products(given: Type, adjacent: bool) -> Any:
    """A row of the product: vectors of neighbouring columns, each added up over k in order."""
    wide, lanes = _wide(given), _lanes(given)

    @kernel
    def products(args: ptr(i64), begin: i64, end: i64, worker: i64):
        a, b = word_pointer(args, 0, given), word_pointer(args, 4, given)
        a_batch, a_row, a_step = (word_int(args, i) for i in (1, 2, 3))
        b_batch, b_step, b_column = (word_int(args, i) for i in (5, 6, 7))
        out = word_pointer(args, 8, given)
        rows, columns, depth = (word_int(args, i) for i in (9, 10, 11))
        zero = constant(wide, 0, lanes)
        for item in loop(begin, end):
            left = a + (item // rows * a_batch + item % rows * a_row)
            right = b + item // rows * b_batch
            for column in loop(0, columns, lanes * UNROLL):
                here = [column + i * lanes for i in range(UNROLL)]
                masks = [tail_mask(columns - place, lanes) for place in here]
                highs = [var(zero) for _ in here]
                lows = [var(zero) for _ in here]
                for k in loop(depth):
                    factor = splat(cast(load(left + k * a_step), wide), lanes)
                    for place, mask, high, low in zip(here, masks, highs, lows, strict=True):
                        start = right + (k * b_step + place * b_column)
                        other = _vector(start, None if adjacent else b_column, lanes, mask)
                        term, rounded = two_product(factor, other)
                        total, lost = two_sum(high.get(), term)
                        high.set(total)
                        low.set(low.get() + (lost + rounded))
                for place, mask, high, low in zip(here, masks, highs, lows, strict=True):
                    value = _result((high.get(), low.get()), lanes)
                    store(out + (item * columns + place), cast(value, given), mask)

    return products
