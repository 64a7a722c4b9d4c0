"""How a product of 16-bit floats is computed by tensor cores: how its operands lie, which tile.

All sizes go this way, one row too, so that a row has the same bits in any company.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bedplate.config import config
from bedplate.dtypes import DType, bfloat16, float16
from bedplate.kernel import Kernel, from_dtype
from bedplate.ops.matmul import tensor_cores
from bedplate.ops.matmul.fragments import EIGHT
from bedplate.ops.matmul.pack import layout
from bedplate.ops.matmul.problem import Problem
from bedplate.ops.matmul.tensor_cores import FLAT, LARGE, SMALL, WARPS, Cut, Kind

WARP = 32

_kernels: dict[Any, Kernel] = {}


def on_tensor_cores(builder: Any, dtype: DType) -> bool:
    """Whether products of a dtype are computed by tensor cores where this plan runs."""
    target = builder.target
    has_them = target is not None and target.has_tensor_cores
    return has_them and config.tensor_cores and dtype in (bfloat16, float16)


def lower_tensor_cores(
    builder: Any, a: Any, b: Any, out: Any, epilogue: Any, problem: Problem
) -> None:
    """Enter the launch of a product; see compiler/builder.py for what the arguments are."""
    kind = _kind(a, b, out, epilogue, problem)
    cut = _cut(problem, kind, builder.n_workers)
    grid = (-(-problem.rows // cut.rows), -(-problem.columns // cut.columns))
    words = [
        a, b, out, 0, 0, 0, problem.rows, problem.columns, problem.depth, problem.a_row,
        problem.a_k, problem.b_k, problem.b_column, *grid, 0, 0, problem.rows, problem.one_rows,
        *(word for dimension in problem.batch for word in dimension),
    ]  # fmt: skip
    builder.launch(
        _kernel(kind, cut, epilogue), words + ([] if epilogue is None else list(epilogue.words)),
        problem.n_products * grid[0] * grid[1], reads=[a.buffer, b.buffer], writes=[out.buffer],
        flops=problem.flops, nbytes=problem.nbytes(2, 2, kind.out.itemsize), name="matmul",
    )  # fmt: skip


def _kernel(kind: Kind, cut: Cut, epilogue: Any) -> Kernel:
    """The kernel of a kind, a cut and an epilogue, made once."""
    key = (kind, cut, None if epilogue is None else epilogue.key)
    found = _kernels.get(key)
    if found is None:
        emit = None if epilogue is None else epilogue.emit
        found = _kernels.setdefault(key, tensor_cores.make_kernel(kind, cut, emit))
    return found


def _kind(a: Any, b: Any, out: Any, epilogue: Any, problem: Problem) -> Kind:
    a_kind = layout(problem.a_row, problem.a_k)
    b_kind = layout(problem.b_column, problem.b_k)
    a_line = problem.a_row if a_kind == "along" else problem.a_k
    b_line = problem.b_column if b_kind == "along" else problem.b_k
    aligned = (
        _aligned([a.offset, a_line, *(step for _, step, _ in problem.batch)]),
        _aligned([b.offset, b_line, *(step for _, _, step in problem.batch)]),
        _aligned([out.offset, problem.columns]),
    )
    is_split = epilogue is not None and problem.is_split
    element, to = from_dtype(a.dtype), from_dtype(out.dtype)
    return Kind(element, to, a_kind, b_kind, aligned, len(problem.batch), is_split)


def _aligned(steps: Sequence[int]) -> bool:
    """Whether all of these lead from eight to eight; buffers start at multiples of 64 bytes."""
    return not any(step % EIGHT for step in steps)


def _cut(problem: Problem, kind: Kind, n_workers: int) -> Cut:
    """The largest tile of which there are enough to give every warp of the device a part."""
    if problem.rows <= FLAT.rows:
        return FLAT
    if "general" in (kind.a_kind, kind.b_kind):
        return SMALL  # addresses of single elements and large tiles do not fit the registers
    tiles = -(-problem.rows // LARGE.rows) * -(-problem.columns // LARGE.columns)
    enough = problem.n_products * tiles * WARPS >= n_workers // WARP
    return LARGE if enough else SMALL
