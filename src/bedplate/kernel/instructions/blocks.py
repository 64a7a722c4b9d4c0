"""Instructions of a block of threads that do one item together, as GPUs have them.

A block is some warps of 32 threads. Each thread runs the whole kernel, and knows its warp and its
lane (its number in the warp); the threads share memory that only they see, and meet at barriers.
The lanes of a warp exchange values, read matrices together and multiply them: `mma` is one
16 x 8 x 16 product of matrices whose elements are spread over the 32 lanes.

All threads that an instruction is for must come to it, the same one, together: the interpreter
says who did not. On hardware that is undefined.

    source   PTX ISA 8.5, 9.7.13.4.8 (elements of m16n8k16), 9.7.13.4.15 (ldmatrix)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bedplate.errors import KernelError
from bedplate.kernel.context import line_of
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import bf16, f32

WARP = 32
BLOCK_OPS = (
    "thread_warp", "thread_lane", "shared", "block_barrier", "warp_barrier", "from_lane",
    "load_matrices", "mma",
)  # fmt: skip
MATRICES = 4  # that load_matrices reads: 8 x 8 elements of 16 bits each
ROW = 8  # elements of a row of such a matrix

# Where element i of a lane's operand stands in its matrix: (32, elements of a lane).
_LANE = np.arange(WARP)[:, None]
_OF_8, _OF_4 = np.arange(8)[None], np.arange(4)[None]
A_ROW, A_K = _LANE // 4 + _OF_8 // 2 % 2 * 8, _LANE % 4 * 2 + _OF_8 % 2 + _OF_8 // 4 * 8
B_K, B_COLUMN = _LANE % 4 * 2 + _OF_4 % 2 + _OF_4 // 2 * 8, _LANE // 4 + 0 * _OF_4
C_ROW, C_COLUMN = _LANE // 4 + _OF_4 // 2 * 8, _LANE % 4 * 2 + _OF_4 % 2


def _require_gpu(lowering: Any, instruction: Any) -> None:
    """raises KernelError for a target without warps"""
    if not lowering.target.triple.startswith("nvptx"):
        raise KernelError(
            f"kernel {lowering.program.name}: {instruction.op}: {lowering.target.name} has no "
            f"warps\n  at {line_of(instruction.site)}\n"
            "  legal: on NVIDIA's GPUs, and in kernel.interpret(...)"
        )


def _thread(lowering: Any) -> str:
    return lowering.intrinsic("llvm.nvvm.read.ptx.sreg.tid.x", "i32", [])


def _emit_warp(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    number = lowering.new(f"lshr i32 {_thread(lowering)}, 5")
    return lowering.new(f"zext i32 {number} to i64")


def _emit_lane(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    number = lowering.new(f"and i32 {_thread(lowering)}, 31")
    return lowering.new(f"zext i32 {number} to i64")


def _emit_shared(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    declared = lowering.module.declared
    name = f"shared_{len(declared)}"
    n_bytes = instruction.attributes["count"] * instruction.type.element.itemsize
    declared[name] = f"@{name} = internal addrspace(3) global [{n_bytes} x i8] poison, align 64"
    return lowering.new(f"addrspacecast ptr addrspace(3) @{name} to ptr")


def _emit_barrier(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    return lowering.intrinsic("llvm.nvvm.barrier0", "void", [])


def _emit_warp_barrier(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    return lowering.intrinsic("llvm.nvvm.bar.warp.sync", "void", ["i32 -1"])


def _emit_from_lane(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    value, lane = instruction.operands
    text = lowering.text(value)
    if value.type is f32:
        text = lowering.new(f"bitcast float {text} to i32")
    operands = ["i32 -1", f"i32 {text}", lowering.typed(lane), "i32 31"]
    given = lowering.intrinsic("llvm.nvvm.shfl.sync.idx.i32", "i32", operands)
    return lowering.new(f"bitcast i32 {given} to float") if value.type is f32 else given


def _emit_load_matrices(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    pointer = lowering.typed(instruction.operands[0])
    place = lowering.new(f"addrspacecast {pointer} to ptr addrspace(3)")
    turned = ".trans" if instruction.attributes["transposed"] else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{turned}.b16.p3"
    words = "{ i32, i32, i32, i32 }"
    lowering.declare(name, f"{words} @{name}(ptr addrspace(3))")
    given = lowering.new(f"call {words} @{name}(ptr addrspace(3) {place})")
    joined = _joined(lowering, given, words, "i32")
    return lowering.new(f"bitcast <4 x i32> {joined} to {instruction.type.llvm}")


def _joined(lowering: Any, given: str, kind: str, scalar: str) -> str:
    """The four members of a structure as a vector."""
    vector = "poison"
    for place in range(4):
        part = lowering.new(f"extractvalue {kind} {given}, {place}")
        vector = lowering.new(
            f"insertelement <4 x {scalar}> {vector}, {scalar} {part}, i64 {place}"
        )
    return vector


def _emit_mma(lowering: Any, instruction: Any) -> str:
    _require_gpu(lowering, instruction)
    a, b, c = instruction.operands
    operands = [*_words(lowering, a), *_words(lowering, b)]
    for place in range(4):
        part = lowering.new(f"extractelement {lowering.typed(c)}, i64 {place}")
        operands.append(f"float {part}")
    kinds = "bf16" if a.type.scalar is bf16 else "f32.f32"
    floats = "{ float, float, float, float }"
    given = lowering.intrinsic(f"llvm.nvvm.mma.m16n8k16.row.col.{kinds}", floats, operands)
    return _joined(lowering, given, floats, "float")


def _words(lowering: Any, operand: Any) -> list[str]:
    """A vector of 16-bit floats as typed operands of two each, as LLVM's `mma` wants them."""
    count = operand.type.lanes // 2
    words = lowering.new(f"bitcast {lowering.typed(operand)} to <{count} x i32>")
    typed = []
    for place in range(count):
        word = lowering.new(f"extractelement <{count} x i32> {words}, i64 {place}")
        if operand.type.scalar is bf16:
            typed.append(f"i32 {word}")
        else:
            typed.append(f"<2 x half> {lowering.new(f'bitcast i32 {word} to <2 x half>')}")
    return typed


# Meanings. `machine.meet` gives a thread its part of what those of its warp make together.


def _wait(instruction: Any, given: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [None] * len(given)


def _exchange(instruction: Any, given: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [given[int(lane) % WARP][0] for _, lane in given]


def multiply(a: Any, b: Any, c: Any) -> Any:
    """The product of matrices spread over lanes: (32, 8), (32, 4) and (32, 4) give (32, 4).

    The sum is exact and rounded once; in which order the hardware adds is not documented.
    """
    left, right, total = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    left[A_ROW, A_K], right[B_K, B_COLUMN], total[C_ROW, C_COLUMN] = a, b, c
    total = total + (left[:, :, None] * right[None]).sum(1)
    return total.astype(np.float32)[C_ROW, C_COLUMN]


def _multiply(instruction: Any, given: Sequence[tuple[Any, ...]]) -> list[Any]:
    parts = (np.array([values[i] for values in given]).astype(np.float64) for i in range(3))
    return list(multiply(*parts))


def _load_matrices(machine: Any, instruction: Any, pointer: Any) -> Any:
    """Lane 8 m + r names row r of matrix m; each lane gets two elements of every matrix."""
    row = [machine.read(instruction, pointer, place) for place in range(ROW)]
    return machine.meet(instruction, (np.array(row, machine.dtype(instruction.type)),), _deal)


def _deal(instruction: Any, given: Sequence[tuple[Any, ...]]) -> list[Any]:
    matrices = np.array([row for (row,) in given]).reshape(MATRICES, ROW, ROW)
    if instruction.attributes["transposed"]:
        matrices = matrices.transpose(0, 2, 1)
    lane = np.arange(WARP)[:, None]
    pair = np.arange(2)[None]
    dealt = matrices[:, lane // 4, lane % 4 * 2 + pair]  # (matrix, lane, 2)
    return list(dealt.transpose(1, 0, 2).reshape(WARP, 2 * MATRICES))


def _meeting(together: Any) -> Any:
    """The meaning of what threads do together: each brings its values."""
    return lambda machine, instruction, *values: machine.meet(instruction, values, together)


define("thread_warp", _emit_warp, lambda machine, instruction: np.int64(machine.thread // WARP))
define("thread_lane", _emit_lane, lambda machine, instruction: np.int64(machine.thread % WARP))
define("shared", _emit_shared, lambda machine, instruction: machine.shared(instruction))
define("block_barrier", _emit_barrier, _meeting(None))
define("warp_barrier", _emit_warp_barrier, _meeting(_wait))
define("from_lane", _emit_from_lane, _meeting(_exchange))
define("load_matrices", _emit_load_matrices, _load_matrices)
define("mma", _emit_mma, _meeting(_multiply))
