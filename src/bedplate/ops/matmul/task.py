"""What the kernels of a product share: their argument words, what specialises them, one item.

A task computes some products, or some rows of one, cut into row_blocks x column_blocks items
each. The words are named below; the batch table and the epilogue's words follow them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.kernel import (
    Type,
    Value,
    cast,
    u32,
    word_int,
    word_pointer,
)
from bedplate.ops.matmul.pack import batch_offset
from bedplate.ops.matmul.tiles import Tiles
from bedplate.ops.matmul.words import multiply_add

# words of the task; the batch table of (size, stride of a, stride of b) follows, then whatever
# the epilogue wants
(
    A, B, C, PARTIAL, SCRATCH, SCRATCH_BYTES, ROWS, COLUMNS, DEPTH, A_ROW, A_K, B_K, B_COLUMN,
    ROW_BLOCKS, COLUMN_BLOCKS, FIRST_BATCH, FIRST_ROW, ALL_ROWS, ONE_ROWS,
) = range(19)  # fmt: skip
N_WORDS = 19


@dataclass(frozen=True, slots=True)
class Variant:
    """What specialises the kernel; sizes and strides are words.

    a, b, accumulate, out   element types
    a_layout                "packed": a lies in tiles made by matmul_pack; else it is read where
                            it is, "along" if its rows are contiguous, "other" if not
    b_layout                "direct": rows of b are read where they are; else how it is packed
    rank                    batch dimensions
    copy_a                  matmul_skinny: a is copied to scratch memory, widened, first
    one_row                 matmul_skinny: a is one row, so no loop goes over its rows
    few_rows                matmul_skinny: a has at most ROWS_IN_PLACE rows
    swapped                 matmul_skinny: a and b are exchanged; the one row is a column of c
    split_rows              rows of several products were merged: the epilogue wants them apart
    each                    k's of a step: 2 bfloat16 or 4 bytes, as words (words.py), else 1
    finish                  values are cast or go through an epilogue before they are stored
    """

    a: Type
    b: Type
    accumulate: Type
    out: Type
    a_layout: str
    b_layout: str
    rank: int
    split_rows: bool
    finish: bool
    copy_a: bool = False
    swapped: bool = False
    one_row: bool = False
    each: int = 1
    few_rows: bool = False

    @property
    def packed(self) -> Type:
        """What a packed copy is made of: the accumulator type, or words of several k's."""
        return u32 if self.each > 1 else self.accumulate

    @property
    def pairs(self) -> bool:
        """Whether bfloat16 goes two by two."""
        return self.each == 2

    @property
    def turned(self) -> bool:
        """Whether the sign bits of a's bytes are turned over, so that b's sums are to be added."""
        return self.each == 4 and self.a.is_signed == self.b.is_signed

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, of all products that two words hold."""
        return multiply_add(a, b, c, self.b.is_signed)


def words_before_epilogue(rank: int) -> int:
    return N_WORDS + 3 * rank


@dataclass(slots=True)
class Item:
    """What one work item knows while it is staged: pointers and sizes, all run-time values.

    depth   k's of the product
    words   steps over them: as many, or fewer where several go in one
    """

    args: Value
    batch: Value
    a: Value
    b: Value
    c: Value
    partial: Value
    scratch: Value
    rows: Value
    columns: Value
    depth: Value
    words: Value
    a_row: Value
    a_k: Value
    b_k: Value
    b_column: Value


def open_item(variant: Variant, tiles: Tiles, args: Value, batch: Value, worker: Value) -> Item:
    """Read the words of the task; pointers lead to the item's product."""
    rows, columns, depth = (word_int(args, w) for w in (ROWS, COLUMNS, DEPTH))
    whole_batch = batch + word_int(args, FIRST_BATCH)
    words = (depth + (variant.each - 1)) // variant.each
    a = word_pointer(args, A, variant.packed if variant.a_layout == "packed" else variant.a)
    if variant.a_layout == "packed":
        deep = (words + (tiles.lanes - 1)) // tiles.lanes * tiles.lanes
        n_tiles = (rows + (tiles.rows - 1)) // tiles.rows
        a = a + batch * n_tiles * deep * tiles.rows
    else:
        a = a + batch_offset(args, whole_batch, N_WORDS, variant.rank, 1, 3)
    b = word_pointer(args, B, variant.b) + batch_offset(
        args, whole_batch, N_WORDS, variant.rank, 2, 3
    )
    first = batch * rows * columns
    scratch = word_pointer(args, SCRATCH, variant.accumulate)
    scratch = scratch + worker * (word_int(args, SCRATCH_BYTES) // variant.accumulate.itemsize)
    return Item(
        args, whole_batch, a, b,
        word_pointer(args, C, variant.out) + first,
        word_pointer(args, PARTIAL, variant.accumulate) + first,
        scratch, rows, columns, depth, words,
        *(word_int(args, w) for w in (A_ROW, A_K, B_K, B_COLUMN)),
    )  # fmt: skip


def apply_epilogue(
    variant: Variant, emit: Any, args: Value, batch: Value, row: Value, column: Value,
    value: Value, mask: Any,
) -> Value:  # fmt: skip
    """The value to store: what the epilogue makes of it, or the value cast."""
    if emit is None:
        return cast(value, variant.out)
    row = row + word_int(args, FIRST_ROW)
    if variant.split_rows:
        rows = word_int(args, ONE_ROWS)
        batch = batch * (word_int(args, ALL_ROWS) // rows) + row // rows
        row = row % rows
    first = words_before_epilogue(variant.rank)
    lanes = value.type.lanes or None
    return emit(value, batch, row, column, lanes, mask, args, first)
