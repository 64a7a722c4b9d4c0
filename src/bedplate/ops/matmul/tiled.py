"""The tiled product: register tiles over packed panels, for all but the skinniest products.

    c[i, j] = sum over k of a[i, k] * b[k, j]       a (M, K), b (K, N), c (M, N); batches of them

The plain loop nest, and what becomes of it:

    for item in items:                        a block of rows x columns of one product
        for depth_block in K by depth:        b's panels of the block are packed: second cache
            for tiles in rows by tiles * rows:        a block of a that stays in the second cache
                for panel in columns by tile_columns:     a panel of b
                    for tile in tiles:                tile_rows x tile_columns accumulators
                        for k in depth_block:         in registers
                            c[tile, panel] += a[tile, k] * b[k, panel]

Each accumulator is one chain of multiply-adds over k = 0, 1, 2 ...; between depth blocks it
rests in memory unrounded. The bits of a row therefore depend on that row, b and K alone: not
on M, N, the batch, the cut, the layout of the operands or the number of threads.

    accumulates in   float32 for bfloat16, float16 and float32, float64; integers wrap
    bfloat16, bytes  two or four k's at a time where the processor does that faster: words.py
    flops            2 M N K; bound by multiply-adds from about 64 x 64 x 64 on
    bytes            a and b once, c once, plus the packed copies
    source           Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bedplate.kernel import (
    Kernel,
    Value,
    cast,
    constant,
    i32,
    i64,
    kernel,
    load,
    local,
    loop,
    maximum,
    minimum,
    otherwise,
    prefetch,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    var,
    when,
    word_int,
    zeros,
)
from bedplate.ops.matmul.pack import emit_pack, emit_pack_rows
from bedplate.ops.matmul.task import (
    COLUMN_BLOCKS,
    ROW_BLOCKS,
    Item,
    Variant,
    apply_epilogue,
    open_item,
)
from bedplate.ops.matmul.tiles import Tiles
from bedplate.ops.matmul.words import store_corrections


def make_kernel(variant: Variant, tiles: Tiles, emit: Callable[..., Any] | None) -> Kernel:
    """The task kernel of a variant; `emit` is the epilogue's, or None."""

    @kernel
    def matmul(args: ptr(i64), begin: i64, end: i64, worker: i64):
        row_blocks, column_blocks = word_int(args, ROW_BLOCKS), word_int(args, COLUMN_BLOCKS)
        for number in loop(begin, end):
            batch = number // (row_blocks * column_blocks)
            row_block = number // column_blocks % row_blocks
            column_block = number % column_blocks
            item = open_item(variant, tiles, args, batch, worker)
            n_tiles = (item.rows + (tiles.rows - 1)) // tiles.rows
            n_panels = (item.columns + (tiles.columns - 1)) // tiles.columns
            _emit_block(
                variant, tiles, emit, item,
                (row_block * n_tiles // row_blocks, (row_block + 1) * n_tiles // row_blocks),
                (column_block * n_panels // column_blocks,
                 (column_block + 1) * n_panels // column_blocks),
            )  # fmt: skip

    return matmul


def _emit_block(
    variant: Variant, tiles: Tiles, emit: Any, item: Item,
    tile_range: tuple[Value, Value], panel_range: tuple[Value, Value],
) -> None:  # fmt: skip
    """All of one item: depth blocks, blocks of tiles, panels, tiles."""
    first_tile, last_tile = tile_range
    first_panel, last_panel = panel_range
    # a depth of 0 takes one turn too: it stores zeros
    for start in loop(0, maximum(item.words, 1), tiles.depth):
        depth = minimum(item.words - start, tiles.depth)
        is_last = start + tiles.depth >= item.words
        for group in loop(first_panel, last_panel, tiles.panels):
            group_end = minimum(group + tiles.panels, last_panel)
            _pack_group(variant, tiles, item, start, group, group_end)
            for block in loop(first_tile, last_tile, tiles.tiles):
                block_end = minimum(block + tiles.tiles, last_tile)
                for panel in loop(group, group_end):
                    column = panel * tiles.columns
                    panel_b, step = _panel_of_b(variant, tiles, item, start, panel, group)
                    first = _corrections(tiles, item, panel - group) if variant.turned else None
                    for tile in loop(block, block_end):
                        _emit_tile(
                            variant, tiles, emit, item, tile, column, panel_b, step, first,
                            start, depth, is_last,
                        )  # fmt: skip


def _pack_group(
    variant: Variant, tiles: Tiles, item: Item, start: Value, group: Value, group_end: Value
) -> None:
    """Pack the panels of b that this turn needs: all, or only the last, partial one."""
    kind, size = variant.b_layout, _panel_size(tiles, item)
    step = variant.each
    there = item.b + start * step * item.b_k
    depth = minimum(item.depth - start * step, tiles.depth * step)
    scratch = cast(item.scratch, ptr(variant.packed))
    n_whole = minimum(group_end, item.columns // tiles.columns) - group
    # whole panels of contiguous rows are copied row by row, all panels at a time
    if kind == "across":
        emit_pack_rows(
            there + group * tiles.columns, item.b_k, n_whole, depth, scratch, tiles.columns,
            size, tiles.lanes,
        )  # fmt: skip
    first = group + (n_whole if kind in ("across", "direct") else 0)
    for panel in loop(first, group_end):
        column = panel * tiles.columns
        emit_pack(
            "across" if kind == "direct" else kind, there + column * item.b_column,
            item.b_column, item.b_k, item.columns - column, depth,
            scratch + (panel - group) * size, tiles.columns, tiles.lanes,
        )  # fmt: skip
    if variant.turned:
        words = minimum(item.words - start, tiles.depth)
        for panel in loop(group, group_end):
            store_corrections(
                scratch + (panel - group) * size, words, tiles.columns, tiles.lanes,
                variant.b.is_signed, _corrections(tiles, item, panel - group),
            )  # fmt: skip


def _panel_size(tiles: Tiles, item: Item) -> Value:
    """Room for one packed panel: as deep as the product, if that is less than `tiles.depth`."""
    deep = (item.words + (tiles.lanes - 1)) // tiles.lanes * tiles.lanes
    return minimum(deep, tiles.depth) * tiles.columns


def _corrections(tiles: Tiles, item: Item, place: Value) -> Value:
    """Where the numbers stand that the sums of a panel start from; behind all panels."""
    behind = _panel_size(tiles, item) * tiles.panels
    return cast(item.scratch, ptr(i32)) + (place * tiles.columns + behind)


def _panel_of_b(
    variant: Variant, tiles: Tiles, item: Item, start: Value, panel: Value, group: Value
) -> tuple[Value, Value]:
    """Where a panel starts, and how far apart its rows are."""
    packed = cast(item.scratch, ptr(variant.packed))
    packed = packed + (panel - group) * _panel_size(tiles, item)
    step = constant(i64, tiles.columns)
    if variant.b_layout != "direct":
        return packed, step
    column = panel * tiles.columns
    there = item.b + start * item.b_k + column
    is_whole = column + tiles.columns <= item.columns
    return select(is_whole, there, packed), select(is_whole, item.b_k, step)


def _emit_tile(
    variant: Variant, tiles: Tiles, emit: Any, item: Item, tile: Value, column: Value,
    panel: Value, step: Value, corrections: Value | None, start: Value, depth: Value,
    is_last: Value,
) -> None:  # fmt: skip
    """One register tile: a full one, or what the last rows leave, in smaller ones."""
    first = tile * tiles.rows
    left = item.rows - first
    place = _Place(variant, tiles, item, panel, step, corrections, start, depth, is_last, column)
    deep = (item.words + (tiles.lanes - 1)) // tiles.lanes * tiles.lanes
    place.next_rows = deep * tiles.rows
    if variant.a_layout == "packed":
        place.packed_a = item.a + (tile * deep + start) * tiles.rows
    with when(left >= tiles.rows):
        place.emit(tiles.rows, first, constant(i64, 0), None)
    with otherwise():
        for offset in loop(0, left, tiles.tail_rows):
            place.emit(tiles.tail_rows, first, offset, left - offset)
    if variant.finish:
        with when(is_last):
            _finish(
                variant, tiles, emit, item, first, minimum(left, tiles.rows), column, place.buffer
            )


class _Place:
    """Where the register tiles of one tile's rows read and write."""

    def __init__(
        self, variant: Variant, tiles: Tiles, item: Item, panel: Value, step: Value,
        corrections: Value | None, start: Value, depth: Value, is_last: Value, column: Value,
    ) -> None:  # fmt: skip
        self.variant, self.tiles, self.item = variant, tiles, item
        self.panel, self.step, self.start, self.depth = panel, step, start, depth
        self.corrections = corrections
        self.is_last, self.column = is_last, column
        self.packed_a: Any = None
        self.next_rows: Any = None
        # the last of the tail tiles may reach beyond the rows of a whole tile
        tall = -(-tiles.rows // tiles.tail_rows) * tiles.tail_rows
        self.buffer = local(variant.accumulate, tall * tiles.columns)

    def emit(self, height: int, first: Value, offset: Value, left: Value | None) -> None:
        """`height` rows from first + offset on; `left` of them exist (None: all)."""
        tiles, item = self.tiles, self.item
        first_sums = [self._first_sum(v) for v in range(tiles.vectors)]
        tile = [[var(each) for each in first_sums] for _ in range(height)]
        row = first + offset
        partial = item.partial + row * item.columns + self.column
        if left is None:
            self._prefetch(partial, height)
        with when(self.start > 0):
            self._load_partial(tile, partial, left)
        self._multiply(tile, row, offset, left)
        if self.variant.finish:
            with when(self.is_last):
                at = self.buffer + offset * tiles.columns
                whole = [None] * tiles.vectors
                _store_rows(tile, at, constant(i64, tiles.columns), None, tiles.lanes, whole)
            with otherwise():
                self._store(tile, partial, item.columns, left)
        else:
            self._store(tile, partial, item.columns, left)

    def _first_sum(self, v: int) -> Value:
        """What the sums of one vector of columns start from."""
        if self.corrections is None:
            return zeros(self.variant.accumulate, self.tiles.lanes)
        return load(self.corrections + v * self.tiles.lanes, self.tiles.lanes)

    def _prefetch(self, at: Value, height: int) -> None:
        """Fetch the lines that the tile will be stored to while it is computed."""
        line = 64 // self.variant.accumulate.itemsize
        for r in range(height):
            for first in range(0, self.tiles.columns, line):
                prefetch(at + self.item.columns * r + first, write=True)

    def _multiply(self, tile: Any, row: Value, offset: Value, left: Value | None) -> None:
        tiles, lanes = self.tiles, self.tiles.lanes
        read = self._reader(len(tile), row, offset, left)
        for k in loop(self.depth):
            at = self.panel + k * self.step
            columns = [load(at + v * lanes, lanes) for v in range(tiles.vectors)]
            if left is None:
                self._prefetch_a(row, k)
            for r, accumulators in enumerate(tile):
                factor = splat(read(r, k), lanes)
                for accumulator, b in zip(accumulators, columns, strict=True):
                    total = accumulator.get()
                    accumulator.set(self.variant.multiply_add(factor, b, total))

    def _prefetch_a(self, row: Value, k: Value) -> None:
        """Fetch a part of the next tile's rows of a.

        Without it a comes from the third cache at its latency: 165 against 225 GFLOP/s at 2048
        (float32, one core of Zen 5 with a peak of 266).
        """
        item, rows = self.item, self.tiles.rows
        if self.variant.a_layout == "packed":
            prefetch(self.packed_a + self.next_rows + k * rows)
            return
        following = item.a + (row + rows) * item.a_row + self.start * item.a_k
        if self.variant.a_layout == "along":
            # one line of one row at each step, of each row in turn
            turn = k & (64 // self.variant.a.itemsize - 1)
            prefetch(following + turn * item.a_row + (k - turn), locality=2)
        else:
            prefetch(following + k * item.a_k, locality=2)

    def _reader(self, height: int, row: Value, offset: Value, left: Value | None) -> Any:
        """A function (r, k) -> a[row + r, start + k]."""
        item, tiles = self.item, self.tiles
        # rows that are not there read the last one that is, and are never stored
        steps = [constant(i64, r) if left is None else minimum(left - 1, r) for r in range(height)]
        if self.variant.a_layout == "packed":
            rows = [self.packed_a + offset + n for n in steps]
            return lambda r, k: load(rows[r] + k * tiles.rows)
        there = item.a + row * item.a_row + self.start * item.a_k
        rows = [there + n * item.a_row for n in steps]
        return lambda r, k: load(rows[r] + k * item.a_k)

    def _load_partial(self, tile: Any, at: Value, left: Value | None) -> None:
        lanes, columns = self.tiles.lanes, self.item.columns
        n_columns = columns - self.column
        for r, accumulators in enumerate(tile):
            for v, accumulator in enumerate(accumulators):
                mask = tail_mask(n_columns - v * lanes, lanes)
                if left is not None:
                    mask = mask & splat(left > r, lanes)
                partial = load(at + columns * r + v * lanes, lanes, mask=mask)
                is_sum = self.corrections is not None
                accumulator.set(partial + accumulator.get() if is_sum else partial)

    def _store(self, tile: Any, at: Value, stride: Value, left: Value | None) -> None:
        """Store a tile where the columns that do not exist must not be touched."""
        lanes, height = self.tiles.lanes, len(tile)
        n_columns = self.item.columns - self.column
        masks = [tail_mask(n_columns - v * lanes, lanes) for v in range(self.tiles.vectors)]
        if height < self.tiles.rows:  # rare enough to be without a case for whole vectors
            _store_rows(tile, at, stride, left, lanes, masks)
            return
        with when(n_columns >= self.tiles.columns):
            _store_rows(tile, at, stride, left, lanes, [None] * self.tiles.vectors)
        with otherwise():
            _store_rows(tile, at, stride, left, lanes, masks)


def _store_rows(
    tile: Any, at: Value, stride: Value, left: Value | None, lanes: int, masks: Any
) -> None:
    for r, accumulators in enumerate(tile):
        target = at + stride * r
        if left is None:
            _store_row(accumulators, target, lanes, masks)
        else:
            with when(left > r):
                _store_row(accumulators, target, lanes, masks)


def _store_row(accumulators: Any, target: Value, lanes: int, masks: Any) -> None:
    for v, accumulator in enumerate(accumulators):
        store(target + v * lanes, accumulator.get(), mask=masks[v])


def _finish(
    variant: Variant, tiles: Tiles, emit: Any, item: Item, first: Value, count: Value,
    column: Value, buffer: Value,
) -> None:  # fmt: skip
    """Store a finished tile from its buffer: through the epilogue, or cast."""
    lanes = tiles.lanes
    for r in loop(count):
        row = first + r
        for v in range(tiles.vectors):
            at = column + v * lanes
            mask = tail_mask(item.columns - at, lanes)
            value = load(buffer + r * tiles.columns + v * lanes, lanes)
            value = apply_epilogue(variant, emit, item.args, item.batch, row, at, value, mask)
            store(item.c + row * item.columns + at, value, mask=mask)
