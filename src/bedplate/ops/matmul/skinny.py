"""Products with few rows: b is read once, in the order in which it lies in memory.

    c[i, j] = sum over k of a[i, k] * b[k, j]       up to MAX_ROWS rows i

The plain loop nest; `sums` has one row of accumulators for each i, in the caches:

    for block in columns by a share for each worker:  an item
        for k in depth by step:                       "across": rows of b are contiguous
            for j in block by lanes:
                for i in rows:
                    sums[i, j] += a[i, k] * b[k, j] + ... + a[i, k + step - 1] * b[k + step - 1, j]

    for block in columns by items:                    "along": columns of b are contiguous
        for j in block by lanes:
            for k in depth by lanes:
                square = transpose(b[k : k + lanes, j : j + lanes])      in registers
                for i in rows:                        the sums of one row stay in registers too
                    sums[i, j] += a[i, k] * square[0] + ... + a[i, k + lanes - 1] * square[-1]

Packing would read b once more and write it; here it is the only traffic that counts. In both
orders each output is one chain over k = 0, 1, 2 ..., as in tiled.py, so a row has the
same bits here and there. b in another layout is left to matmul_tiled.

This file says which products, and how they are cut; skinny_job.py has what both orders share,
skinny_across.py and skinny_along.py one each.

    flops   2 M N K
    bytes   b once; bound by memory up to about 10 rows of float32
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bedplate.devices.cpu.caches import cache_bytes
from bedplate.kernel import Kernel, i64, kernel, loop, ptr, word_int
from bedplate.ops.matmul.problem import Problem
from bedplate.ops.matmul.skinny_across import Across
from bedplate.ops.matmul.skinny_along import Along
from bedplate.ops.matmul.task import COLUMN_BLOCKS, Variant, open_item
from bedplate.ops.matmul.tiles import Tiles

# This kernel reads b while it computes, where matmul_tiled packs it first: 205 against 139 GFLOP/s
# at 32 x 4096 x 4096, 197 against 171 at 64 rows (2 threads of Zen 4, peak 219), but 203 against
# 207 at 64 x 512 x 512 and 184 against 192 at 96 x 1000 x 3000.
MAX_ROWS = 64
# Each item copies all of a (if it has more than ROWS_IN_PLACE rows), which must cost little beside
# its columns of b, or stay in the second cache: 16 x 65536 x 64 took 2.8 ms here, 1.4 tiled;
# 64 x 65536 x 64 9 against 5.5; but 16 x 4096 x 64 61 against 82 us.
ROWS_IN_PLACE, FEW_ROWS, COLUMNS_PER_ROW = 4, 16, 8
# Pairs of bfloat16 halve the multiply-adds, but not the transposition, which packing does once
# for all rows: 5.9 against 3.9 ms at 32 x 4096 x 4096, 3.5 against 3.1 at 16 rows.
PAIR_ROWS = 12
# Memory likes long pieces: an item takes at least so many bytes of each row of b, if there
# are enough of them for all workers; more items than workers only serve to balance.
PIECE_BYTES = 16 << 10
MOST_ROUNDS = 4
# Where columns are contiguous an item is one piece anyway, of so many bytes at least, and of so
# many times the bytes of a, which each item may copy.
ITEM_BYTES, ITEM_COPIES = 256 << 10, 32
MOST_ROUNDS_ALONG = 16


def is_skinny(problem: Problem, itemsize: int, in_pairs: bool) -> bool:
    """Whether this kernel is the better one, if it can read b at all."""
    rows = problem.rows
    if rows > MAX_ROWS or (in_pairs and problem.b_column != 1 and rows > PAIR_ROWS):
        return False
    if rows <= ROWS_IN_PLACE or problem.columns >= COLUMNS_PER_ROW * rows:
        return True
    return rows <= FEW_ROWS and rows * problem.depth * itemsize <= cache_bytes(2)


def n_blocks(problem: Problem, lanes: int, itemsize: int, n_workers: int) -> int:
    """Into how many blocks of columns a product is cut.

    Each worker streams its own columns of each row of b: as few pieces as keep all workers
    busy, because two pieces of 8 KiB a row come faster than four of 4 KiB (1.36 against 1.50 ms at
    1 x 4096 x 4096, 2 threads of Zen 4), unless the sums of a block would take more than a
    quarter of the second cache.
    """
    row_bytes = problem.columns * itemsize * problem.n_products
    piece, most = PIECE_BYTES, MOST_ROUNDS
    if problem.b_column != 1:
        copied = ITEM_COPIES * problem.rows * problem.depth * itemsize
        piece = max(ITEM_BYTES, copied) // max(problem.depth * itemsize, 1) * itemsize
        most = MOST_ROUNDS_ALONG
    rounds = min(max(row_bytes // (n_workers * max(piece, itemsize)), 1), most)
    sums_bytes = problem.rows * problem.columns * itemsize
    wanted = max(
        -(-n_workers * rounds // problem.n_products), -(-sums_bytes // (cache_bytes(2) // 4))
    )
    even = n_workers // math.gcd(n_workers, problem.n_products)  # as many items for each worker
    return min(-(-wanted // even) * even, -(-problem.columns // lanes))


def make_kernel(variant: Variant, tiles: Tiles, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel of a variant; `emit` is the epilogue's, or None."""
    lanes = tiles.lanes
    job_of = Across if variant.b_layout == "across" else Along

    @kernel
    def matmul_skinny(args: ptr(i64), begin: i64, end: i64, worker: i64):
        blocks = word_int(args, COLUMN_BLOCKS)
        for number in loop(begin, end):
            item = open_item(variant, tiles, args, number // blocks, worker)
            block = number % blocks
            units = (item.columns + (lanes - 1)) // lanes
            first = block * units // blocks * lanes
            width = (block + 1) * units // blocks * lanes - first
            job = job_of(variant, item, lanes, first, width)
            job.prepare()
            job.multiply()
            job.finish(emit)

    return matmul_skinny
