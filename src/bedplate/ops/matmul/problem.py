"""A product as the kernels see it: sizes and strides, with the batch made as flat as it gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """c[batch, i, j] = sum over k of a[batch, i, k] * b[batch, k, j].

    batch      (size, stride of a, stride of b) of each dimension that is left, outermost first
    rows       M, with the products that share one b merged into it
    one_rows   M of one product
    strides    in elements; c is contiguous
    """

    batch: tuple[tuple[int, int, int], ...]
    rows: int
    columns: int
    depth: int
    one_rows: int
    a_row: int
    a_k: int
    b_k: int
    b_column: int

    @property
    def n_products(self) -> int:
        return math.prod(size for size, _, _ in self.batch)

    @property
    def flops(self) -> float:
        return 2.0 * self.n_products * self.rows * self.columns * self.depth

    @property
    def is_split(self) -> bool:
        """Whether a row number stands for a product and a row."""
        return self.rows != self.one_rows

    def swapped(self) -> Problem:
        """c^T = b^T a^T, for one column: c^T lies in memory as c does."""
        batch = tuple((size, b, a) for size, a, b in self.batch)
        return Problem(
            batch, 1, self.rows, self.depth, 1, 0, self.b_k, self.a_k, self.a_row
        )  # fmt: skip

    def nbytes(self, a_size: int, b_size: int, c_size: int) -> float:
        """Memory traffic if each element is touched once, by bytes an element."""
        a = self.rows * self.depth * math.prod(n for n, stride, _ in self.batch if stride)
        b = self.columns * self.depth * math.prod(n for n, _, stride in self.batch if stride)
        return a * a_size + b * b_size + self.n_products * self.rows * self.columns * c_size


def make_problem(a: Any, b: Any, out: Any) -> Problem:
    """The problem of two strided views (..., M, K), (..., K, N) and a contiguous (..., M, N)."""
    batch_shape = out.shape[:-2]
    a_strides, b_strides = (_batch_strides(view, batch_shape) for view in (a, b))
    batch = [d for d in zip(batch_shape, a_strides, b_strides, strict=True) if d[0] != 1]
    rows, depth = a.shape[-2:]
    a_row, one_rows = a.strides[-2], rows
    # products that share b and whose rows of a follow each other are one taller product
    while batch and batch[-1][2] == 0 and (rows == 1 or batch[-1][1] == rows * a_row):
        size, stride, _ = batch.pop()
        a_row = stride if rows == 1 else a_row
        rows *= size
    return Problem(
        _merged(batch), rows, out.shape[-1], depth, one_rows,
        a_row, a.strides[-1], b.strides[-2], b.strides[-1],
    )  # fmt: skip


def _batch_strides(view: Any, batch_shape: tuple[int, ...]) -> list[int]:
    """Strides along the result's batch dimensions; 0 where the view is repeated."""
    missing = len(batch_shape) - (len(view.shape) - 2)
    sizes = (1,) * missing + tuple(view.shape[:-2])
    strides = (0,) * missing + tuple(view.strides[:-2])
    return [stride if size != 1 else 0 for size, stride in zip(sizes, strides, strict=True)]


def _merged(batch: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Join neighbouring dimensions that both operands walk as if they were one."""
    merged: list[tuple[int, int, int]] = []
    for size, a, b in batch:
        if merged and merged[-1][1] == a * size and merged[-1][2] == b * size:
            size *= merged.pop()[0]
        merged.append((size, a, b))
    return tuple(merged)
