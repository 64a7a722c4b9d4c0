"""Check mode (BEDPLATE_CHECK=1): machine code that tests every access to memory first.

A checked kernel takes hidden parameters: a record, and for each pointer parameter the memory
[low, high) that it may reach. An access through a pointer that was made from a parameter or a
local array by adding offsets must stay in that memory; any other access (through an address
loaded from memory, or a pointer held in a `var`) must lie in one of the record's ranges, if it
has any. An access that fails is left out (it reads 0), the first failure is noted in the record,
`while_` loops end, and the caller raises KernelBoundsError naming the kernel and the line.

Called from Python, the memory of NumPy arguments is known exactly. Native code that calls
`Compiled.address` (the plan runner) has no extents to pass: it names its memory with `watch`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bedplate.errors import KernelBoundsError
from bedplate.kernel.context import line_of
from bedplate.kernel.instructions import OPERATIONS
from bedplate.kernel.ir import NO_ATTRIBUTES, Instruction, Program, While, all_programs
from bedplate.kernel.lower import FunctionLowering, Module, constant_text, symbol_of
from bedplate.kernel.machine import out_of_bounds_text
from bedplate.kernel.target import Target
from bedplate.kernel.types import element, i1, vec

# The record: failure (0 or a site's number + 1), address, low, high, number of ranges, then
# (low, high) of each.
HEAD_WORDS = 5
MAX_RANGES = 65536

_PLAIN = ("load", "atomic_load", "atomic_add", "atomic_exchange", "atomic_cas", "store",
          "atomic_store")  # fmt: skip
# Instructions with a mask, and where it stands among the operands.
_MASKED = {"load_masked": 1, "store_masked": 2, "gather": 2, "scatter": 3}


class Sites:
    """Every access that checked code can fail at, by number, process-wide."""

    def __init__(self) -> None:
        self.known: list[tuple[str, Instruction, str]] = []
        self.lock = threading.Lock()

    def add(self, program: Program, instruction: Instruction, name: str) -> int:
        with self.lock:
            self.known.append((program.name, instruction, name))
            return len(self.known) - 1


sites = Sites()


class Record:
    """The memory of a check record."""

    def __init__(self, n_ranges: int) -> None:
        self.words = np.zeros(HEAD_WORDS + 2 * n_ranges, np.int64)

    @property
    def address(self) -> int:
        return self.words.ctypes.data

    def set_ranges(self, ranges: list[tuple[int, int]]) -> None:
        flat = [word for low, n_bytes in ranges for word in (low, low + n_bytes)]
        self.words[HEAD_WORDS : HEAD_WORDS + len(flat)] = flat
        self.words[HEAD_WORDS - 1] = len(ranges)

    def raise_failure(self) -> None:
        """Raise what was noted, once.

        raises KernelBoundsError if an access was out of range
        """
        failure, address, low, high = (int(word) for word in self.words[:4])
        if not failure:
            return
        self.words[0] = 0
        name, instruction, what = sites.known[failure - 1]
        where = f"kernel {name}: {instruction.op} at {line_of(instruction.site)}"
        size = element(instruction.operands[0].type).itemsize
        raise KernelBoundsError(
            out_of_bounds_text(where, instruction, address, size, what, low, high)
        )


# The record of kernels that are called by address, from native code.
shared = Record(MAX_RANGES)
_shared_lock = threading.RLock()


@contextmanager
def watch(ranges: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Let checked kernels called by address use the memory (address, bytes) of `ranges` only.

    raises KernelBoundsError at the end if one of them read or wrote outside
    """
    with _shared_lock:
        shared.set_ranges(list(ranges)[:MAX_RANGES])
        try:
            yield
        finally:
            shared.words[HEAD_WORDS - 1] = 0
        shared.raise_failure()


def lower_checked(program: Program, target: Target) -> str:
    """The LLVM text of a program in check mode: a checked twin, and an entry with the plain
    signature that uses the shared record."""
    module = Module(target)
    programs = all_programs(program)
    for index, each in enumerate(programs):
        module.symbols[id(each)] = f"{checked_symbol(each.name)}_{index}"
    module.symbols[id(program)] = checked_symbol(program.name)
    for each in programs:
        _CheckedLowering(module, each, each is not program).run()
    module.functions.append(_entry(program))
    return module.text() + _HELPER


def checked_symbol(name: str) -> str:
    return symbol_of(name) + "_checked"


def pointer_count(program: Program) -> int:
    """How many pairs of extents the checked twin of a program takes."""
    return sum(parameter.type.is_pointer for parameter in program.parameters)


def _entry(program: Program) -> str:
    types = [parameter.type.llvm for parameter in program.parameters]
    plain = ", ".join(f"{t} %a{i}" for i, t in enumerate(types))
    extents = ["i64 0"] * (2 * pointer_count(program))
    record = f"ptr inttoptr (i64 {shared.address} to ptr)"
    passed = ", ".join([f"{t} %a{i}" for i, t in enumerate(types)] + [*extents, record])
    result = program.result.llvm if program.result else "void"
    call = f"call {result} @{checked_symbol(program.name)}({passed})"
    body = f"  %r = {call}\n  ret {result} %r" if program.result else f"  {call}\n  ret void"
    return f"define {result} @{symbol_of(program.name)}({plain}) #0 {{\nentry:\n{body}\n}}\n"


# i1 bedplate_check(address, size, low, high, record, site): whether an access may happen.
_HELPER = """define internal i1 @bedplate_check(i64 %a, i64 %n, i64 %low, i64 %high, ptr %r, i64 %s) {
entry:
  %end = add i64 %a, %n
  %known = icmp ne i64 %low, 0
  br i1 %known, label %one, label %search
one:
  %above = icmp uge i64 %a, %low
  %below = icmp ule i64 %end, %high
  %inside = and i1 %above, %below
  br i1 %inside, label %good, label %bad
search:
  %np = getelementptr i64, ptr %r, i64 4
  %count = load i64, ptr %np
  %none = icmp eq i64 %count, 0
  br i1 %none, label %good, label %head
head:
  %i = phi i64 [ 0, %search ], [ %next, %step ]
  %two = shl i64 %i, 1
  %at = add i64 %two, 5
  %lp = getelementptr i64, ptr %r, i64 %at
  %l = load i64, ptr %lp
  %hp = getelementptr i64, ptr %lp, i64 1
  %h = load i64, ptr %hp
  %ge = icmp uge i64 %a, %l
  %le = icmp ule i64 %end, %h
  %in = and i1 %ge, %le
  br i1 %in, label %good, label %step
step:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %head, label %bad
bad:
  %code = add i64 %s, 1
  %pair = cmpxchg ptr %r, i64 0, i64 %code seq_cst seq_cst
  %first = extractvalue { i64, i1 } %pair, 1
  br i1 %first, label %note, label %done
note:
  %ap = getelementptr i64, ptr %r, i64 1
  store i64 %a, ptr %ap
  %lowp = getelementptr i64, ptr %r, i64 2
  store i64 %low, ptr %lowp
  %highp = getelementptr i64, ptr %r, i64 3
  store i64 %high, ptr %highp
  br label %done
done:
  ret i1 false
good:
  ret i1 true
}
"""  # noqa: E501


class _CheckedLowering(FunctionLowering):
    """Writes a function whose every access asks `bedplate_check` first."""

    def hidden_parameters(self) -> list[str]:
        numbers = [p.number for p in self.program.parameters if p.type.is_pointer]
        return [*(f"i64 %{end}{n}" for n in numbers for end in ("low", "high")), "ptr %check"]

    def instruction(self, instruction: Instruction) -> str:
        if instruction.op in _PLAIN:
            return self.plain(instruction)
        if instruction.op in _MASKED:
            return self.masked(instruction)
        if instruction.op == "call":
            return self.checked_call(instruction)
        return super().instruction(instruction)

    def extents(self, pointer: Instruction) -> tuple[str, str, str]:
        """(low, high, name) of the memory that a pointer was made for; "0" if unknown."""
        while pointer.op in ("offset", "cast") and pointer.operands[0].type.is_pointer:
            pointer = pointer.operands[0]
        if pointer.op == "parameter":
            place = [p.number for p in self.program.parameters].index(pointer.number)
            return f"%low{pointer.number}", f"%high{pointer.number}", self.program.names[place]
        if pointer.op == "local" and pointer.type.element is not None:
            low = self.new(f"ptrtoint ptr {self.text(pointer)} to i64")
            n_bytes = pointer.attributes["count"] * pointer.type.element.itemsize
            return low, self.new(f"add i64 {low}, {n_bytes}"), "local"
        return "0", "0", ""

    def check(self, instruction: Instruction, address: str, n_bytes: int, extents: Any) -> str:
        low, high, name = extents
        site = sites.add(self.program, instruction, name)
        return self.new(
            f"call i1 @bedplate_check(i64 {address}, i64 {n_bytes}, i64 {low}, i64 {high}, "
            f"ptr %check, i64 {site})"
        )

    def plain(self, instruction: Instruction) -> str:
        """The access under a branch; what it would have given is 0 if it must not happen."""
        pointer = instruction.operands[0]
        value = instruction if instruction.number else instruction.operands[1]
        n_bytes = value.type.itemsize * max(value.type.lanes, 1)
        address = self.new(f"ptrtoint ptr {self.text(pointer)} to i64")
        good = self.check(instruction, address, n_bytes, self.extents(pointer))
        before, then, end = self.label, self.new_label("then"), self.new_label("end")
        self.line(f"br i1 {good}, label %{then}, label %{end}")
        self.open_label(then)
        result = OPERATIONS[instruction.op].emit(self, instruction)
        after = self.label
        self.line(f"br label %{end}")
        self.open_label(end)
        if not instruction.number:
            return ""
        t = instruction.type.llvm
        zero = constant_text(instruction.type, 0)
        return self.new(f"phi {t} [ {zero}, %{before} ], [ {result}, %{after} ]")

    def masked(self, instruction: Instruction) -> str:
        """The access with a mask that leaves out the lanes that must not happen."""
        place = _MASKED[instruction.op]
        mask = instruction.operands[place]
        good = self.scalar_mask(instruction, mask) if not mask.type.lanes else \
            self.lane_masks(instruction, mask)  # fmt: skip
        self.temporaries += 1
        safe = Instruction("safe_mask", mask.type, (), NO_ATTRIBUTES, -self.temporaries)
        self.names[safe.number] = good
        operands = (*instruction.operands[:place], safe, *instruction.operands[place + 1 :])
        twin = Instruction(
            instruction.op, instruction.type, operands, instruction.attributes, instruction.number
        )
        return OPERATIONS[twin.op].emit(self, twin)

    def scalar_mask(self, instruction: Instruction, mask: Instruction) -> str:
        pointer = instruction.operands[0]
        address = self.new(f"ptrtoint ptr {self.text(pointer)} to i64")
        return self.lane_check(instruction, self.text(mask), address, self.extents(pointer))

    def lane_masks(self, instruction: Instruction, mask: Instruction) -> str:
        pointer, t, lanes = instruction.operands[0], mask.type.llvm, mask.type.lanes
        extents = self.extents(pointer)
        base = self.new(f"ptrtoint ptr {self.text(pointer)} to i64")
        good = "zeroinitializer"
        for lane in range(lanes):
            active = self.new(f"extractelement {t} {self.text(mask)}, i64 {lane}")
            address = self.lane_address(instruction, base, lane)
            good_lane = self.lane_check(instruction, active, address, extents)
            good = self.new(
                f"insertelement {vec(i1, lanes).llvm} {good}, i1 {good_lane}, i64 {lane}"
            )
        return good

    def lane_address(self, instruction: Instruction, base: str, lane: int) -> str:
        size = element(instruction.operands[0].type).itemsize
        if instruction.op not in ("gather", "scatter"):
            return self.new(f"add i64 {base}, {lane * size}")
        indices = instruction.operands[1]
        index = self.new(f"extractelement {self.typed(indices)}, i64 {lane}")
        if indices.type.bits < 64:
            extend = "sext" if indices.type.is_signed else "zext"
            index = self.new(f"{extend} {indices.type.scalar.llvm} {index} to i64")
        return self.new(f"add i64 {base}, {self.new(f'mul i64 {index}, {size}')}")

    def lane_check(self, instruction: Instruction, active: str, address: str, extents: Any) -> str:
        """Whether a lane is active and its access may happen."""
        before, then, end = self.label, self.new_label("then"), self.new_label("end")
        self.line(f"br i1 {active}, label %{then}, label %{end}")
        self.open_label(then)
        size = element(instruction.operands[0].type).itemsize
        good = self.check(instruction, address, size, extents)
        self.line(f"br label %{end}")
        self.open_label(end)
        return self.new(f"phi i1 [ false, %{before} ], [ {good}, %{then} ]")

    def checked_call(self, instruction: Instruction) -> str:
        """A call that passes on the extents of its pointer arguments and the record."""
        callee = self.program.callees[instruction.attributes["callee"]]
        words = [self.typed(operand) for operand in instruction.operands]
        for operand in instruction.operands:
            if operand.type.is_pointer:
                low, high, _ = self.extents(operand)
                words += [f"i64 {low}", f"i64 {high}"]
        words.append("ptr %check")
        result = instruction.type.llvm if instruction.type else "void"
        text = f"call {result} @{self.module.symbols[id(callee)]}({', '.join(words)})"
        if instruction.type is None:
            self.line(text)
            return ""
        return self.new(text)

    def while_condition(self, statement: While) -> str:
        failed = self.new("load atomic i64, ptr %check monotonic, align 8")
        fine = self.new(f"icmp eq i64 {failed}, 0")
        return self.new(f"and i1 {fine}, {self.text(statement.condition)}")


def hidden_arguments(arrays: list[tuple[bool, Any]], record: Record) -> list[int]:
    """The words after a checked kernel's own: extents of its pointers, then the record.

    arrays  for each parameter: whether it is a pointer, and the argument given
    """
    words: list[int] = []
    ranges: list[tuple[int, int]] = []
    for is_pointer, value in arrays:
        if not is_pointer:
            continue
        if isinstance(value, np.ndarray):
            words += [value.ctypes.data, value.ctypes.data + value.nbytes]
            ranges.append((value.ctypes.data, value.nbytes))
        else:
            words += [0, 0]
    if len(ranges) == len(words) // 2:
        record.set_ranges(ranges)
    return [*words, record.address]


def hidden_types(program: Program) -> list[Any]:
    """The ctypes types of those words."""
    return [ctypes.c_int64] * (2 * pointer_count(program)) + [ctypes.c_void_p]
