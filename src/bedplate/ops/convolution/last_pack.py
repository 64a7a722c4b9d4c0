"""How an input of a convolution comes to lie with its channels side by side.

    grid[n, z, y, x, c] = x[n, c, z, y, x]

Squares of lanes x lanes are transposed in registers. Bound by memory: each element is read once
and written once.
"""

from __future__ import annotations

import functools

from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    element,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    otherwise,
    prefetch,
    ptr,
    splat,
    store,
    tail_mask,
    when,
)
from bedplate.ops.convolution.tile import Reader, Words
from bedplate.ops.matmul.pack import transpose

GRID_WORDS = Words("source to channels room stride_n stride_c stride* size* cuts")
# So many that all workers end at about the same time: alone, on two cores of a Zen 4, 2 to 64 are
# within 2 % (`python -m benchmarks.convolutions last_pack`).
ITEMS_PER_WORKER = 16
# Cells of an item: their lines are written once for each 16 channels, and stay in the first cache
# until then.
LEAST_CELLS = 64


def grid_cuts(cells: int, lines: int) -> int:
    """Into how many items each of so many lines of cells is cut."""
    wanted = -(-ITEMS_PER_WORKER * n_workers() // max(lines, 1))
    return max(min(wanted, cells // LEAST_CELLS), 1)


@functools.cache
def last_grid_kernel(source_type: Type, accumulate: Type) -> Kernel:
    """Makes grids; an item is a part of one line of one image: all channels of its cells."""
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_grid(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = GRID_WORDS.of(args)
        size_z, size_y, size_x, cuts = word.size_z, word.size_y, word.size_x, word.cuts
        for item in loop(begin, end):
            part, line = item % cuts, item // cuts
            y, z, image = line % size_y, line // size_y % size_z, line // (size_y * size_z)
            source = word.pointer("source", source_type)
            source = source + (image * word.stride_n + z * word.stride_z + y * word.stride_y)
            to = word.pointer("to", accumulate) + line * size_x * word.room
            _pack_line(word, source, to, part * size_x // cuts, (part + 1) * size_x // cuts, lanes)

    return convolution_last_grid


def _pack_line(
    word: Reader, source: Value, to: Value, first: Value, last: Value, lanes: int
) -> None:
    """Cells first to last of a line."""
    channels = word.channels
    with when(word.stride_x == 1):
        for c in loop(0, channels, lanes):
            rows = [source + minimum(channels - 1, c + n) * word.stride_c for n in range(lanes)]
            keep = tail_mask(channels - c, lanes)
            ahead = word.stride_c * lanes
            for x in loop(first, last, lanes):
                # 16 rows far apart, which no hardware prefetcher follows
                for row in rows:
                    prefetch(row + (x + ahead))
                _pack_square(word, rows, to + c, x, last, keep)
    with otherwise():
        beside = iota(i64, lanes) * splat(word.stride_c, lanes)
        for x in loop(first, last):
            for c in loop(0, channels, lanes):
                mask = tail_mask(channels - c, lanes)
                at = source + (x * word.stride_x + c * word.stride_c)
                value = cast(gather(at, beside, mask=mask), element(to.type))
                store(to + x * word.room + c, value, mask=mask)


def _pack_square(
    word: Reader, rows: list[Value], to: Value, x: Value, last: Value, keep: Value
) -> None:
    """A vector of cells of as many channels, which `keep` names."""
    lanes, room = len(rows), word.room
    mask = tail_mask(last - x, lanes)
    block = [cast(load(row + x, lanes, mask=mask), element(to.type)) for row in rows]
    cells = transpose(block)
    with when(x + lanes <= last):
        for n, cell in enumerate(cells):
            store(to + (x + n) * room, cell, mask=keep)
    with otherwise():
        for n, cell in enumerate(cells):
            with when(x + n < last):
                store(to + (x + n) * room, cell, mask=keep)
