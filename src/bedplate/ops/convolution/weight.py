"""The kernel of the gradient of convolution by its weights.

    dw[o, c, t] = sum over n, p of grad[n, o, p] * grid[n, c, p + offset[t]]

An item holds a tile of 4 channels o by 6 pairs (c, t): 24 vectors of partial sums along the
columns of rows, over all images and rows in order, added up across lanes at the end in a fixed
tree. The order of every sum is that of n, z, y, x whatever the number of threads.

    for n, z, y:
        for x by lanes:      4 vectors of grad, 6 of the grid, 24 multiply-adds
    accumulates in   float32 for bfloat16, float16 and float32; float64
    bytes            grad and the grid, read again for each tile: bound by the second cache
"""

from __future__ import annotations

import functools

from bedplate.kernel import (
    Kernel,
    Type,
    cast,
    fma,
    host,
    i64,
    kernel,
    load,
    loop,
    minimum,
    ptr,
    reduce_add,
    store,
    tail_mask,
    var,
    when,
    word_int,
    word_pointer,
    zeros,
)

# words of the task; the distance of each tap follows them
(
    GRID, GRAD, OUT, IMAGES, GROUPS, OUT_CHANNELS, CHANNELS, N_TAPS, PLANE, GRID_Y, GRID_X,
    OUT_Z, OUT_Y, OUT_X,
) = range(14)  # fmt: skip
N_WORDS = 14


def tile_of() -> tuple[int, int]:
    """(rows, pairs): 4 x 6 sums, 4 + 1 vectors in 32 registers; 3 x 3 and 3 + 1 in 16."""
    return (3, 3) if host().vector_bits == 256 else (4, 6)


@functools.cache
def by_weight_kernel(accumulate: Type, out: Type) -> Kernel:
    """The task; an item is one tile of one group; grad is a grid without padding."""
    rows, pairs = tile_of()
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_by_weight(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = functools.partial(word_int, args)
        plane, groups, out_channels = word(PLANE), word(GROUPS), word(OUT_CHANNELS)
        channels, n_taps = word(CHANNELS), word(N_TAPS)
        out_x, out_y, out_z = word(OUT_X), word(OUT_Y), word(OUT_Z)
        n_pairs, n_rows = channels * n_taps, out_z * out_y
        across, down = (n_pairs + (pairs - 1)) // pairs, (out_channels + (rows - 1)) // rows
        for item in loop(begin, end):
            first_pair, first_row = item % across * pairs, item // across % down * rows
            group = item // (across * down)
            sums = [[var(zeros(accumulate, lanes)) for _ in range(pairs)] for _ in range(rows)]
            taps, lines = [], []
            for j in range(pairs):
                pair = minimum(first_pair + j, n_pairs - 1)
                taps.append(pair // n_taps * plane + load(args + pair % n_taps + N_WORDS))
            for r in range(rows):
                lines.append(minimum(first_row + r, out_channels - 1) * (n_rows * out_x))
            for image in loop(word(IMAGES)):
                part = image * groups + group
                grid = word_pointer(args, GRID, accumulate) + part * channels * plane
                grad = word_pointer(args, GRAD, accumulate) + part * out_channels * n_rows * out_x
                for line in loop(n_rows):
                    y, z = line % out_y, line // out_y
                    here = grid + (z * word(GRID_Y) + y) * word(GRID_X)
                    for x in loop(0, out_x, lanes):
                        mask = tail_mask(out_x - x, lanes)
                        at = grad + line * out_x + x
                        left = [load(at + step, lanes, mask=mask) for step in lines]
                        for j, tap in enumerate(taps):
                            right = load(here + tap + x, lanes, mask=mask)
                            for r in range(rows):
                                sums[r][j].set(fma(left[r], right, sums[r][j].get()))
            to = word_pointer(args, OUT, out) + (group * out_channels + first_row) * n_pairs
            for r in range(rows):
                for j in range(pairs):
                    with when((first_row + r < out_channels) & (first_pair + j < n_pairs)):
                        total = cast(reduce_add(sums[r][j].get()), out)
                        store(to + n_pairs * r + first_pair + j, total)

    return convolution_by_weight
