"""The shapes that a product is cut into, each with its reason.

    register tile    tile_rows x tile_vectors accumulators that stay in registers
    panel            tile_columns = tile_vectors * lanes columns of b, `depth` deep, side by side
    depth            how much of the reduction axis is done at a time

Sizes come from the register file and the caches by formula; none of them changes a result,
because every output element is one chain of multiply-adds over k = 0, 1, 2 ... whatever the cut.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from bedplate import dtypes
from bedplate.config import config
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.dtypes import DType
from bedplate.kernel import Type, f32, f64, from_dtype, host, i32, i64


@dataclass(frozen=True, slots=True)
class Tiles:
    """See the head of this file; `lanes` of the accumulator type fill a vector register."""

    lanes: int
    rows: int
    vectors: int
    depth: int
    panels: int
    tiles: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def tail_rows(self) -> int:
        """Height of the tiles for the rows that are left: 8 chains keep two multiply-adds busy."""
        return min(-(-8 // self.vectors), self.rows)


def accumulator(dtype: DType) -> Type:
    """The type that products of `dtype` are summed in.

    bfloat16 and float16 in float32 (their products are exact there); integers in 32 or 64 bits,
    from which the lower bits are the sum modulo 2**bits.
    """
    if dtype is dtypes.float64:
        return f64
    if dtype.is_float:
        return f32
    return i64 if dtype.itemsize == 8 else i32


def element(dtype: DType) -> Type:
    """The kernel type of `dtype` in memory; unsigned ones of 32 and 64 bits as signed."""
    return {dtypes.uint32: i32, dtypes.uint64: i64}.get(dtype) or from_dtype(dtype)


def goes_in_pairs(dtype: DType) -> bool:
    """Whether products take two k's at a time, by the processor's dot instruction of bfloat16.

    It adds the two products in turn, each rounded as a multiply-add rounds, so with the earlier
    k first the sums are the chains that they are without it; only subnormal numbers count as
    zeros. All kernels take it or none, so that a row has the same bits in any company.
    """
    is_narrow = dtype is dtypes.bfloat16
    return is_narrow and config.bfloat16_dot and host().has_fast_bfloat16_dot


def goes_by_bytes(a: DType, b: DType) -> bool:
    """Whether products take four k's at a time, by the processor's dot instruction of bytes.

    Integers are the same in any order, so kernels may take it or not.
    """
    are_bytes = all(dtype in (dtypes.int8, dtypes.uint8) for dtype in (a, b))
    return are_bytes and config.byte_dot and host().has_byte_dot(host().lanes(i32))


@functools.cache
def tiles(accumulate: Type, vector_bits: int = 0) -> Tiles:
    """The cut for an accumulator type on this machine, or for another width of vectors.

    Registers: a row of the tile needs `vectors` accumulators, and each step loads `vectors`
    of b and broadcasts one a. With 32 registers of 512 bits 14 x 2 + 2 + 1 = 31 are used,
    with 16 of 256 bits 6 x 2 + 2 + 1 = 15, with 32 of 128 bits 8 x 3 + 3 + 1 = 28. All give
    more independent chains than latency x ports (4 x 2) need, and 14 x 2 and 6 x 2 load
    16 / 28 and 8 / 12 words an operation, where two loads go with two operations.
    """
    bits = vector_bits or host().vector_bits
    lanes = bits // accumulate.bits
    rows, vectors = {512: (14, 2), 256: (6, 2)}.get(bits, (8, 3))
    row_bytes = lanes * vectors * accumulate.bits // 8
    # A panel of b is read again for every tile. It streams from the second cache, of which it
    # takes a quarter: 128 bytes in 14 cycles are little, and the deeper a panel, the less often
    # the accumulators are loaded and stored. Measured on Zen 5 at 2048 (peak 266 GFLOP/s a
    # core): panels of 32 KiB, which stay in the first cache, give 226; 64 KiB 233; 128 KiB 242;
    # 256 KiB 247. Two of them side by side make longer pieces of b's rows; a block of a takes
    # another quarter.
    quarter = cache_bytes(2) // 4
    depth = max(quarter // row_bytes // lanes * lanes, 4 * lanes)
    panels = 2
    n_tiles = max(quarter // (depth * rows * accumulate.bits // 8), 1)
    return Tiles(lanes, rows, vectors, depth, panels, n_tiles)
