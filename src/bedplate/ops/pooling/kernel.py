"""The kernels of pooling: the greatest or the sum over a window that moves over planes.

    for item in items:                      a plane (an image's channel), some rows of outputs
        for z, y in rows of the item:
            for x by lanes:                 one vector of windows side by side
                for tap in window:          kz, ky, kx in this order
                    state = join(state, plane[(z, y, x) * stride + tap * dilation - padding])

What a window meets outside of the plane is left out, by mask. `greatest` keeps the value and its
place in the plane: a later one must be greater, or be the first NaN, so ties go to the first.
`spread` is the transpose of the sum: each input takes the gradients of the windows that it is in,
rows first into one row of scratch, then along x. No two items write the same element, and each
output is one chain, so the bits do not depend on the number of threads.

    accumulates in   float32 for bfloat16 and float16, else as it is
    bytes            the plane once (its rows stay in the cache from window to window), outputs once
    bound            by loads for stride 1 and 2 (a stride of 2 reads two vectors and takes every
                     second lane), by gathers for other strides

One and two dimensions run as three, with leading sizes of 1.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    constant,
    f32,
    from_dtype,
    gather,
    host,
    i32,
    i64,
    iota,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    otherwise,
    ptr,
    scatter,
    select,
    shuffle,
    splat,
    store,
    tail_mask,
    u32,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)

Triple = tuple[int, ...]

# words of both tasks; outputs follow
(
    PLANE, CHANNELS, BLOCKS, ROWS, STRIDE_N, STRIDE_C, STRIDE_Z, STRIDE_Y, STRIDE_X,
    SIZE_Z, SIZE_Y, SIZE_X, OUT_Z, OUT_Y, OUT_X, TAPS_Z, TAPS_Y, TAPS_X,
    STEP_Z, STEP_Y, STEP_X, BEFORE_Z, BEFORE_Y, BEFORE_X, APART_Z, APART_Y, APART_X, OUT, PLACES,
) = range(29)  # fmt: skip
SCRATCH, SCRATCH_STEP = PLACES, PLACES + 1

# rows of outputs an item has at least, about 10 us of work
LEAST_ELEMENTS = 4096
# taps along x up to which they are written out one by one
MOST_WRITTEN_OUT = 4
# places are 32-bit numbers
MOST_ELEMENTS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Pool:
    """What specialises a pooling kernel.

    keeps    "greatest" or "sum"
    reading  how a vector of windows reads a tap: "side" by side, every second of a "pair" of
             vectors, or "apart"
    taps     along x, if they are few enough to be written out; else 0
    pairs    of a spread: windows move by 2 along x, so that outputs of even and odd places are
             vectors of windows each, and the two are interleaved
    """

    keeps: str
    element: Type
    reading: str
    taps: int
    pairs: bool = False

    @property
    def state(self) -> Type:
        """The type in which values are compared or added."""
        return f32 if self.element.is_narrow_float else self.element

    @property
    def lanes(self) -> int:
        return host().lanes(self.state) if self.state.bits > 32 else host().lanes(f32)


def pool_of(keeps: str, view: Any, window: Triple, stride: Triple) -> Pool:
    """The kernel for a view of (N, C, *space)."""
    beside = view.strides[-1] == 1 or view.shape[-1] == 1
    reading = {1: "side", 2: "pair"}.get(stride[2], "apart") if beside else "apart"
    taps = window[2] if window[2] <= MOST_WRITTEN_OUT else 0
    return Pool(keeps, from_dtype(view.dtype), reading, taps)


@functools.cache
def window_kernel(pool: Pool) -> Kernel:
    """The greatest elements with their places, or the sums, of the windows of some rows."""

    @kernel
    def pooling(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        blocks, rows, out_y, out_x = word(BLOCKS), word(ROWS), word(OUT_Y), word(OUT_X)
        n_lines = word(OUT_Z) * out_y
        for item in loop(begin, end):
            plane, first = item // blocks, item % blocks * rows
            source = _plane(pool, args, plane)
            for line in loop(first, minimum(first + rows, n_lines)):
                to = (plane * n_lines + line) * out_x
                for x in loop(0, out_x, pool.lanes):
                    _emit_windows(pool, args, source, line // out_y, line % out_y, x, to + x)

    return pooling


def _plane(pool: Pool, args: Value, plane: Value) -> Value:
    channels = word_int(args, CHANNELS)
    at = plane // channels * word_int(args, STRIDE_N) + plane % channels * word_int(args, STRIDE_C)
    return word_pointer(args, PLANE, pool.element) + at


def _reach(args: Value, place: Value, axis: int) -> tuple[Value, Value, Value]:
    """(where the window `place` starts, its first tap inside, the one behind its last inside)."""
    start = place * word_int(args, STEP_Z + axis) - word_int(args, BEFORE_Z + axis)
    apart, size = word_int(args, APART_Z + axis), word_int(args, SIZE_Z + axis)
    low = maximum((apart - 1 - start) // apart, 0)
    high = minimum((size + apart - 1 - start) // apart, word_int(args, TAPS_Z + axis))
    return start, low, high


def _emit_windows(
    pool: Pool, args: Value, source: Value, z: Value, y: Value, x: Value, to: Value
) -> None:
    """One vector of windows."""
    lanes, state = pool.lanes, pool.state
    best = var(_initial(pool))
    places = var(constant(i32, -1, lanes))
    (z0, z_low, z_high), (y0, y_low, y_high) = _reach(args, z, 0), _reach(args, y, 1)
    start = x * word_int(args, STEP_X) - word_int(args, BEFORE_X)
    size_y, size_x = word_int(args, SIZE_Y), word_int(args, SIZE_X)
    apart = word_int(args, APART_X)

    def visit(row: Value, number: Value, first: Value) -> None:
        value, place, inside = _read(pool, args, row, first)
        if pool.keeps == "sum":
            best.set(best.get() + value)
            return
        better = (value > best.get()) | (places.get() < 0)
        if state.is_float:
            better = better | ((value != value) & (best.get() == best.get()))
        better = better & inside
        best.set(select(better, value, best.get()))
        here = place + splat(cast(number * size_x, i32), lanes)
        places.set(select(better, here, places.get()))

    for kz in loop(z_low, z_high):
        in_z = z0 + kz * word_int(args, APART_Z)
        for ky in loop(y_low, y_high):
            in_y = y0 + ky * word_int(args, APART_Y)
            row = source + in_z * word_int(args, STRIDE_Z) + in_y * word_int(args, STRIDE_Y)
            number = in_z * size_y + in_y
            if pool.taps:
                for kx in range(pool.taps):
                    visit(row, number, start + apart * kx)
            else:
                for kx in loop(word_int(args, TAPS_X)):
                    visit(row, number, start + apart * kx)
    mask = tail_mask(word_int(args, OUT_X) - x, lanes)
    store(word_pointer(args, OUT, pool.element) + to, cast(best.get(), pool.element), mask=mask)
    if pool.keeps == "greatest":
        store(word_pointer(args, PLACES, i32) + to, places.get(), mask=mask)


def _initial(pool: Pool) -> Value:
    state = pool.state
    if pool.keeps == "sum":
        return zeros(state, pool.lanes)
    if state.is_float:
        return constant(state, float("-inf"), pool.lanes)
    return constant(state, -(2 ** (state.bits - 1)) if state.is_signed else 0, pool.lanes)


def _inside(args: Value, place: Value, lanes: int) -> Value:
    """Which columns are in the plane: one unsigned comparison for both ends."""
    return cast(place, u32) < splat(cast(word_int(args, SIZE_X), u32), lanes)


def _read(pool: Pool, args: Value, row: Value, first: Value) -> tuple[Value, Value, Value]:
    """Columns first, first + stride, ... of a row: (values, columns, which are inside)."""
    lanes = pool.lanes
    step = splat(cast(word_int(args, STEP_X), i32), lanes)
    place = splat(cast(first, i32), lanes) + iota(i32, lanes) * step
    inside = _inside(args, place, lanes)
    if pool.reading == "side":
        value = load(row + first, lanes, mask=inside)
    elif pool.reading == "pair":
        halves = []
        for start in (first, first + lanes):
            column = splat(cast(start, i32), lanes) + iota(i32, lanes)
            halves.append(load(row + start, lanes, mask=_inside(args, column, lanes)))
        value = shuffle(halves[0], halves[1], range(0, 2 * lanes, 2))
    else:
        wide = cast(place, i64) * splat(word_int(args, STRIDE_X), lanes)
        value = gather(row, wide, mask=inside)
    return cast(value, pool.state), place, inside


@functools.cache
def spread_kernel(pool: Pool) -> Kernel:
    """The transpose of the sums: PLANE is the gradient of the windows, OUT that of the planes.

    SIZE stands for the plane that is written, OUT_X for the windows; an item is some rows of it.
    """

    @kernel
    def pooling_spread(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        blocks, rows, size_y, size_x = word(BLOCKS), word(ROWS), word(SIZE_Y), word(SIZE_X)
        n_lines, n_windows = word(SIZE_Z) * size_y, word(OUT_X)
        scratch = word_pointer(args, SCRATCH, pool.state) + worker * word(SCRATCH_STEP)
        # behind the row of sums over windows: the row that is made of it
        made = scratch + n_windows
        for item in loop(begin, end):
            plane, first = item // blocks, item % blocks * rows
            source = _plane(pool, args, plane)
            to = word_pointer(args, OUT, pool.element) + plane * n_lines * size_x
            for line in loop(first, minimum(first + rows, n_lines)):
                _sum_rows(pool, args, source, line // size_y, line % size_y, scratch)
                if pool.pairs:
                    _spread_pairs(pool, args, scratch, to + line * size_x)
                else:
                    _spread_row(pool, args, scratch, made)
                    for x in loop(0, size_x, pool.lanes):
                        mask = tail_mask(size_x - x, pool.lanes)
                        value = cast(load(made + x, pool.lanes, mask=mask), pool.element)
                        store(to + line * size_x + x, value, mask=mask)

    return pooling_spread


def _sum_rows(pool: Pool, args: Value, source: Value, z: Value, y: Value, scratch: Value) -> None:
    """scratch = the sum of all rows of windows that reach row (z, y) of the plane."""
    lanes, n_windows = pool.lanes, word_int(args, OUT_X)
    for x in loop(0, n_windows, lanes):
        mask = tail_mask(n_windows - x, lanes)
        total = var(zeros(pool.state, lanes))
        for kz in loop(word_int(args, TAPS_Z)):
            at_z, there_z = _window_at(args, z, kz, 0)
            for ky in loop(word_int(args, TAPS_Y)):
                at_y, there_y = _window_at(args, y, ky, 1)
                with when(there_z & there_y):
                    row = at_z * word_int(args, STRIDE_Z) + at_y * word_int(args, STRIDE_Y)
                    value = _row_vector(pool, args, source + row, x, mask)
                    total.set(total.get() + cast(value, pool.state))
        store(scratch + x, total.get(), mask=mask)


def _row_vector(pool: Pool, args: Value, row: Value, x: Value, mask: Value) -> Value:
    """The elements of a row from x on."""
    if pool.reading == "side":
        return load(row + x, pool.lanes, mask=mask)
    column = iota(i64, pool.lanes) + splat(x, pool.lanes)
    return gather(row, column * splat(word_int(args, STRIDE_X), pool.lanes), mask=mask)


def _window_at(args: Value, place: Value, tap: Value, axis: int) -> tuple[Value, Value]:
    """(the window whose `tap` meets the place, whether there is one)."""
    step = word_int(args, STEP_Z + axis)
    place = place + word_int(args, BEFORE_Z + axis) - tap * word_int(args, APART_Z + axis)
    window = place // step
    known = (window >= 0) & (window < word_int(args, OUT_Z + axis))
    return window, known & (window * step == place)


def _spread_row(pool: Pool, args: Value, scratch: Value, made: Value) -> None:
    """made[x] = the sum of scratch over the windows along x that reach x."""
    lanes, step, n_windows = pool.lanes, word_int(args, STEP_X), word_int(args, OUT_X)
    size = word_int(args, SIZE_X)
    for x in loop(0, size, lanes):
        store(made + x, zeros(pool.state, lanes), mask=tail_mask(size - x, lanes))
    for kx in loop(word_int(args, TAPS_X)):
        start = kx * word_int(args, APART_X) - word_int(args, BEFORE_X)
        for x in loop(0, n_windows, lanes):
            known = tail_mask(n_windows - x, lanes)
            value = load(scratch + x, lanes, mask=known)
            first = start + x * step
            place = splat(cast(first, i32), lanes)
            place = place + iota(i32, lanes) * splat(cast(step, i32), lanes)
            mask = _inside(args, place, lanes) & known
            with when(step == 1):
                sum_ = load(made + first, lanes, mask=mask) + value
                store(made + first, sum_, mask=mask)
            with otherwise():
                sum_ = gather(made, place, mask=mask) + value
                scatter(made, place, sum_, mask=mask)


def _spread_pairs(pool: Pool, args: Value, scratch: Value, to: Value) -> None:
    """to[x] = the sum of scratch over the windows along x that reach x, for a step of 2.

    Places before + x = 2 m are reached by the windows m, m - 1 ... with taps 0, 2 ..., those behind
    them by the same windows with taps 1, 3 ...
    """
    lanes, n_windows = pool.lanes, word_int(args, OUT_X)
    before, size = word_int(args, BEFORE_X), word_int(args, SIZE_X)
    for m in loop(before // 2, (size + before + 1) // 2, lanes):
        sums = []
        for parity in range(2):
            total = zeros(pool.state, lanes)
            for tap in range(parity, pool.taps, 2):
                window = m - tap // 2
                known = tail_mask(n_windows - window, lanes) & ~tail_mask(-window, lanes)
                total = total + load(scratch + window, lanes, mask=known)
            sums.append(total)
        places = [place for lane in range(lanes) for place in (lane, lanes + lane)]
        for part in range(2):
            first = m * 2 - before + part * lanes
            row = shuffle(sums[0], sums[1], places[part * lanes : (part + 1) * lanes])
            inside = tail_mask(size - first, lanes) & ~tail_mask(-first, lanes)
            store(to + first, cast(row, pool.element), mask=inside)
