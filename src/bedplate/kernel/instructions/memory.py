"""Memory instructions: load, store, masks, gather, scatter, prefetch, local arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.kernel.instructions.operation import define
from bedplate.kernel.types import Type


def memory_type(type_: Type) -> str:
    """How a value lies in memory, as LLVM spells it: i1 takes a byte."""
    scalar = "i8" if type_.scalar.bits == 1 else type_.scalar.llvm
    return f"<{type_.lanes} x {scalar}>" if type_.lanes else scalar


def _from_memory(lowering: Any, type_: Type, text: str) -> str:
    if type_.bits != 1:
        return text
    zero = "zeroinitializer" if type_.lanes else "0"
    return lowering.new(f"icmp ne {memory_type(type_)} {text}, {zero}")


def _to_memory(lowering: Any, type_: Type, text: str) -> str:
    if type_.bits != 1:
        return text
    return lowering.new(f"zext {type_.llvm} {text} to {memory_type(type_)}")


def _alignment(lowering: Any, instruction: Any, type_: Type) -> int:
    aligned = instruction.attributes.get("aligned", False) and lowering.trusts_alignment
    return type_.itemsize * (max(type_.lanes, 1) if aligned else 1)


def _hints(lowering: Any, instruction: Any, type_: Type) -> str:
    """`, align N`, and the non-temporal mark where the alignment lets the processor honour it."""
    text = f", align {_alignment(lowering, instruction, type_)}"
    attributes = instruction.attributes
    whole = attributes.get("aligned") and lowering.trusts_alignment
    if attributes.get("nontemporal") and (whole or not type_.lanes):
        lowering.module.declared.setdefault("!0", "!0 = !{i32 1}")
        text += ", !nontemporal !0"
    return text


def _is_local(instruction: Any) -> bool:
    """Whether a pointer leads into a local array, which is garbage until written."""
    while instruction.op == "offset":
        instruction = instruction.operands[0]
    return instruction.op == "local"


def _emit_load(lowering: Any, instruction: Any) -> str:
    type_ = instruction.type
    pointer = instruction.operands[0]
    hints = _hints(lowering, instruction, type_)
    loaded = lowering.new(f"load {memory_type(type_)}, {lowering.typed(pointer)}{hints}")
    if _is_local(pointer):
        loaded = lowering.new(f"freeze {memory_type(type_)} {loaded}")
    return _from_memory(lowering, type_, loaded)


def _emit_load_masked(lowering: Any, instruction: Any) -> str:
    type_ = instruction.type
    pointer, mask, other = instruction.operands
    if not type_.lanes:
        return _load_if(lowering, instruction)
    spare = _to_memory(lowering, type_, lowering.text(other))
    t = memory_type(type_)
    operands = [
        lowering.typed(pointer), f"i32 {_alignment(lowering, instruction, type_)}",
        lowering.typed(mask),
        f"{t} {spare}",
    ]  # fmt: skip
    name = f"llvm.masked.load.{_memory_suffix(type_)}.p0"

    def masked() -> str:
        return lowering.intrinsic(name, t, operands)

    if lowering.target.has_masks(type_.itemsize * 8):
        return _from_memory(lowering, type_, masked())
    alignment = _alignment(lowering, instruction, type_)
    labels, whole, part = _both_ways(
        lowering, mask, masked,
        lambda: lowering.new(f"load {t}, {lowering.typed(pointer)}, align {alignment}"),
    )  # fmt: skip
    merged = lowering.new(f"phi {t} [ {whole}, %{labels[0]} ], [ {part}, %{labels[1]} ]")
    return _from_memory(lowering, type_, merged)


def _both_ways(
    lowering: Any, mask: Any, masked: Callable[[], str], whole: Callable[[], str]
) -> tuple[tuple[str, str], str, str]:
    """Branch on a full mask, where a masked access would be a branch for each lane.

    returns  (labels that the two ways end in), value of the whole access, of the masked one
    """
    lanes = mask.type.lanes
    name = f"llvm.vector.reduce.and.v{lanes}i1"
    full = lowering.intrinsic(name, "i1", [lowering.typed(mask)])
    labels = [lowering.new_label(stem) for stem in ("full", "part", "end")]
    lowering.line(f"br i1 {full}, label %{labels[0]}, label %{labels[1]}")
    values, ends = [], []
    for label, access in zip(labels[:2], (whole, masked), strict=True):
        lowering.open_label(label)
        values.append(access())
        ends.append(lowering.label)
        lowering.line(f"br label %{labels[2]}")
    lowering.open_label(labels[2])
    return (ends[0], ends[1]), values[0], values[1]


def _load_if(lowering: Any, instruction: Any) -> str:
    """A scalar load under a condition: a branch around it."""
    type_ = instruction.type
    pointer, mask, other = instruction.operands
    spare = _to_memory(lowering, type_, lowering.text(other))
    before, then, end = lowering.label, lowering.new_label("then"), lowering.new_label("end")
    lowering.line(f"br {lowering.typed(mask)}, label %{then}, label %{end}")
    lowering.open_label(then)
    t = memory_type(type_)
    loaded = lowering.new(f"load {t}, {lowering.typed(pointer)}, align {type_.itemsize}")
    lowering.line(f"br label %{end}")
    lowering.open_label(end)
    merged = lowering.new(f"phi {t} [ {spare}, %{before} ], [ {loaded}, %{then} ]")
    return _from_memory(lowering, type_, merged)


def _emit_store(lowering: Any, instruction: Any) -> str:
    pointer, value = instruction.operands
    text = _to_memory(lowering, value.type, lowering.text(value))
    hints = _hints(lowering, instruction, value.type)
    lowering.line(f"store {memory_type(value.type)} {text}, {lowering.typed(pointer)}{hints}")
    return ""


def _emit_store_masked(lowering: Any, instruction: Any) -> str:
    pointer, value, mask = instruction.operands
    type_ = value.type
    text = _to_memory(lowering, type_, lowering.text(value))
    if not type_.lanes:
        then, end = lowering.new_label("then"), lowering.new_label("end")
        lowering.line(f"br {lowering.typed(mask)}, label %{then}, label %{end}")
        lowering.open_label(then)
        lowering.line(f"store {memory_type(type_)} {text}, {lowering.typed(pointer)}, "
                      f"align {type_.itemsize}")  # fmt: skip
        lowering.line(f"br label %{end}")
        lowering.open_label(end)
        return ""
    operands = [
        f"{memory_type(type_)} {text}", lowering.typed(pointer),
        f"i32 {_alignment(lowering, instruction, type_)}", lowering.typed(mask),
    ]  # fmt: skip

    def masked() -> str:
        name = f"llvm.masked.store.{_memory_suffix(type_)}.p0"
        return lowering.intrinsic(name, "void", operands)

    def whole() -> str:
        place = f"{operands[1]}, align {_alignment(lowering, instruction, type_)}"
        lowering.line(f"store {operands[0]}, {place}")
        return ""

    if lowering.target.has_masks(type_.itemsize * 8):
        return masked()
    _both_ways(lowering, mask, masked, whole)
    return ""


def _memory_suffix(type_: Type) -> str:
    scalar = type_.scalar
    letter = "f" if scalar.is_float and scalar.bits > 16 else "i"
    return f"v{type_.lanes}{letter}{max(scalar.bits, 8)}"


def _addresses(lowering: Any, pointer: Any, indices: Any) -> str:
    element = memory_type(pointer.type.element)
    text, type_ = lowering.text(indices), indices.type
    t = type_.llvm
    if not type_.is_signed and type_.bits < 64:
        wide = f"<{type_.lanes} x i64>"
        text, t = lowering.new(f"zext {t} {text} to {wide}"), wide
    pointers = lowering.new(f"getelementptr {element}, {lowering.typed(pointer)}, {t} {text}")
    return f"<{type_.lanes} x ptr> {pointers}"


def _emit_gather(lowering: Any, instruction: Any) -> str:
    pointer, indices, mask, other = instruction.operands
    type_ = instruction.type
    spare = _to_memory(lowering, type_, lowering.text(other))
    t = memory_type(type_)
    operands = [
        _addresses(lowering, pointer, indices), f"i32 {type_.itemsize}", lowering.typed(mask),
        f"{t} {spare}",
    ]  # fmt: skip
    name = f"llvm.masked.gather.{_memory_suffix(type_)}.v{type_.lanes}p0"
    return _from_memory(lowering, type_, lowering.intrinsic(name, t, operands))


def _emit_scatter(lowering: Any, instruction: Any) -> str:
    pointer, indices, value, mask = instruction.operands
    type_ = value.type
    text = _to_memory(lowering, type_, lowering.text(value))
    operands = [
        f"{memory_type(type_)} {text}", _addresses(lowering, pointer, indices),
        f"i32 {type_.itemsize}", lowering.typed(mask),
    ]  # fmt: skip
    name = f"llvm.masked.scatter.{_memory_suffix(type_)}.v{type_.lanes}p0"
    lowering.intrinsic(name, "void", operands)
    return ""


def _emit_prefetch(lowering: Any, instruction: Any) -> str:
    attributes = instruction.attributes
    flags = [f"i32 {int(attributes['write'])}", f"i32 {attributes['locality']}", "i32 1"]
    operands = [lowering.typed(instruction.operands[0]), *flags]
    return lowering.intrinsic("llvm.prefetch.p0", "void", operands)


def _emit_local(lowering: Any, instruction: Any) -> str:
    element = instruction.type.element
    return lowering.slot(memory_type(element), 64, instruction.attributes["count"])


def _emit_offset(lowering: Any, instruction: Any) -> str:
    pointer, count = instruction.operands
    element = memory_type(instruction.type.element)
    return lowering.new(
        f"getelementptr {element}, {lowering.typed(pointer)}, {lowering.typed(count)}"
    )


# Meanings. A machine reads and writes single elements, checked against the memory it knows.


def _load(machine: Any, instruction: Any, pointer: Any) -> Any:
    type_ = instruction.type
    if not type_.lanes:
        return machine.read(instruction, pointer, 0)
    lanes = [machine.read(instruction, pointer, i) for i in range(type_.lanes)]
    return np.array(lanes, machine.dtype(type_))


def _load_masked(machine: Any, instruction: Any, pointer: Any, mask: Any, other: Any) -> Any:
    if not instruction.type.lanes:
        return machine.read(instruction, pointer, 0) if mask else other
    result = other.copy()
    for lane in np.flatnonzero(mask):
        result[lane] = machine.read(instruction, pointer, int(lane))
    return result


def _store(machine: Any, instruction: Any, pointer: Any, value: Any) -> None:
    for lane, element in enumerate(np.ravel(value)):
        machine.write(instruction, pointer, lane, element)


def _store_masked(machine: Any, instruction: Any, pointer: Any, value: Any, mask: Any) -> None:
    for lane in np.flatnonzero(mask):
        machine.write(instruction, pointer, int(lane), np.ravel(value)[lane])


def _gather(
    machine: Any, instruction: Any, pointer: Any, indices: Any, mask: Any, other: Any
) -> Any:
    result = other.copy()
    for lane in np.flatnonzero(mask):
        result[lane] = machine.read(instruction, pointer, int(indices[lane]))
    return result


def _scatter(
    machine: Any, instruction: Any, pointer: Any, indices: Any, value: Any, mask: Any
) -> None:
    for lane in np.flatnonzero(mask):
        machine.write(instruction, pointer, int(indices[lane]), value[lane])


def _local(machine: Any, instruction: Any) -> Any:
    return machine.local(instruction, instruction.type.element, instruction.attributes["count"])


def _offset(machine: Any, instruction: Any, pointer: Any, count: Any) -> Any:
    return pointer.moved(int(count) * instruction.type.element.itemsize)


define("load", _emit_load, _load)
define("load_masked", _emit_load_masked, _load_masked)
define("store", _emit_store, _store)
define("store_masked", _emit_store_masked, _store_masked)
define("gather", _emit_gather, _gather)
define("scatter", _emit_scatter, _scatter)
define("prefetch", _emit_prefetch, lambda machine, instruction, pointer: None)
define("local", _emit_local, _local)
define("offset", _emit_offset, _offset)
