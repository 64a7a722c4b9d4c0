"""Dot instructions: the products of what two words hold, added to each number.

**bfloat16**: two products for each float32, added in turn. On AMD's Zen 4 it is two fused
multiply-adds, the upper halves first, with subnormal numbers taken and given as zeros; all of 4096
random words of each kind agreed with the meaning below.

**bytes**: four products for each int32, of an unsigned byte and a signed one, modulo 2**32. Sums of
integers are the same in any order, so where the processor lacks it plain multiplications do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.kernel.instructions.floats import fused
from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type, f32, with_element


def _splat(type_: Type, word: int) -> str:
    return f"splat ({type_.scalar.llvm} {word})"


def _halves(lowering: Any, words: Type, text: str) -> tuple[str, str]:
    """The lower and the upper bfloat16 of each word, as f32."""
    t, wide = words.llvm, with_element(words, f32).llvm
    lower = lowering.new(f"shl {t} {text}, {_splat(words, 16)}")
    upper = lowering.new(f"and {t} {text}, {_splat(words, -65536)}")
    return tuple(lowering.new(f"bitcast {t} {half} to {wide}") for half in (lower, upper))


def _emit_bfloat16_dot(lowering: Any, instruction: Any) -> str:
    a, b, c = instruction.operands
    lanes, wide = c.type.lanes, c.type.llvm
    texts = [lowering.text(x) for x in (a, b)]
    if lowering.target.has_bfloat16_dot and lanes in (4, 8, 16):
        pairs = f"<{2 * lanes} x bfloat>"
        operands = [f"{wide} {lowering.text(c)}"]
        operands += [
            f"{pairs} {lowering.new(f'bitcast {a.type.llvm} {text} to {pairs}')}" for text in texts
        ]
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return lowering.intrinsic(name, wide, operands)
    (a_low, a_high), (b_low, b_high) = (_halves(lowering, a.type, text) for text in texts)
    total = lowering.text(c)
    for x, y in ((a_high, b_high), (a_low, b_low)):
        operands = [f"{wide} {text}" for text in (x, y, total)]
        total = lowering.intrinsic(f"llvm.fma.v{lanes}f32", wide, operands)
    return total


def _flushed(x: Any) -> Any:
    """Subnormals as zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def _bfloat16_dot(machine: Any, instruction: Any, a: Any, b: Any, c: Any) -> Any:
    total = _flushed(c)
    for keep in (lambda words: words & 0xFFFF0000, lambda words: words << 16):
        x, y = (keep(words).astype(np.uint32).view(np.float32) for words in (a, b))
        total = _flushed(fused(_flushed(x), _flushed(y), total))
    return total


define("bfloat16_dot", _emit_bfloat16_dot, _bfloat16_dot)


def _emit_byte_dot(lowering: Any, instruction: Any) -> str:
    a, b, c = instruction.operands
    lanes, numbers = c.type.lanes, c.type.llvm
    texts = [lowering.text(x) for x in (a, b)]
    if lowering.target.has_byte_dot(lanes):
        operands = [f"{numbers} {text}" for text in (lowering.text(c), *texts)]
        return lowering.intrinsic(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", numbers, operands)
    total = lowering.text(c)
    for place in range(4):
        x, y = (_byte(lowering, c.type, text, place, signed) for signed, text in enumerate(texts))
        product = lowering.new(f"mul {numbers} {x}, {y}")
        total = lowering.new(f"add {numbers} {total}, {product}")
    return total


def _byte(lowering: Any, type_: Type, text: str, place: int, signed: int) -> str:
    """One byte of each word as a number of 32 bits."""
    t = type_.llvm
    top = lowering.new(f"shl {t} {text}, {_splat(type_, 24 - 8 * place)}")
    return lowering.new(f"{'ashr' if signed else 'lshr'} {t} {top}, {_splat(type_, 24)}")


def _byte_dot(machine: Any, instruction: Any, a: Any, b: Any, c: Any) -> Any:
    total = c.astype(np.int64)
    for place in range(0, 32, 8):
        x = ((a >> place) & 0xFF).astype(np.int64)
        y = ((b >> place) & 0xFF).astype(np.uint8).astype(np.int8).astype(np.int64)
        total = total + x * y
    return total.astype(np.int32)


define("byte_dot", _emit_byte_dot, _byte_dot)
