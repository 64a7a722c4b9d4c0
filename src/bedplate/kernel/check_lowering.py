"""How a program is lowered in check mode: every access asks first; see checks.py."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.checks import pointer_count, shared, sites
from bedplate.kernel.instructions import OPERATIONS
from bedplate.kernel.ir import NO_ATTRIBUTES, Instruction, Program, While, all_programs
from bedplate.kernel.lower import FunctionLowering, Module, constant_text, symbol_of
from bedplate.kernel.target import Target
from bedplate.kernel.types import element

_PLAIN = ("load", "atomic_load", "atomic_add", "atomic_exchange", "atomic_cas", "store",
          "atomic_store")  # fmt: skip
# Instructions with a mask, and where it stands among the operands.
_MASKED = {"load_masked": 1, "store_masked": 2, "gather": 2, "scatter": 3}


def lower_checked(program: Program, target: Target) -> str:
    """The LLVM text of a program in check mode: a checked twin, and an entry with the plain
    signature that uses the shared record."""
    module = Module(target)
    programs = all_programs(program)
    for index, each in enumerate(programs):
        module.symbols[id(each)] = f"{checked_symbol(each.name)}.{index}"
    module.symbols[id(program)] = checked_symbol(program.name)
    for each in programs:
        _CheckedLowering(module, each, each is not program).run()
    module.functions.append(_entry(program))
    module.declared.setdefault("llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
    return module.text() + _HELPER


def checked_symbol(name: str) -> str:
    return symbol_of(name) + "_checked"


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


# bedplate_check(address, size, low, high, record, site): whether an access may happen.
# bedplate_check_lanes(base, size, indices or null, mask, low, high, record, site): its good lanes.
_HELPER = """define internal i1 @bedplate_check(
    i64 %a, i64 %n, i64 %low, i64 %high, ptr %r, i64 %s) {
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
define internal i64 @bedplate_check_lanes(
    i64 %base, i64 %n, ptr %at, i64 %mask, i64 %low, i64 %high, ptr %r, i64 %s) {
entry:
  %plain = icmp eq ptr %at, null
  br label %head
head:
  %left = phi i64 [ %mask, %entry ], [ %rest, %next ]
  %good = phi i64 [ 0, %entry ], [ %more, %next ]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %end, label %lane
lane:
  %i = call i64 @llvm.cttz.i64(i64 %left, i1 false)
  br i1 %plain, label %test, label %index
index:
  %p = getelementptr i64, ptr %at, i64 %i
  %k = load i64, ptr %p
  br label %test
test:
  %j = phi i64 [ %i, %lane ], [ %k, %index ]
  %offset = mul i64 %j, %n
  %a = add i64 %base, %offset
  %ok = call i1 @bedplate_check(i64 %a, i64 %n, i64 %low, i64 %high, ptr %r, i64 %s)
  br label %next
next:
  %bit = zext i1 %ok to i64
  %set = shl i64 %bit, %i
  %more = or i64 %good, %set
  %below = sub i64 %left, 1
  %rest = and i64 %left, %below
  br label %head
end:
  ret i64 %good
}
"""


class _CheckedLowering(FunctionLowering):
    """Writes a function whose every access asks `bedplate_check` first.

    What `aligned=True` promises is not relied on; the interpreter finds out whether it holds.
    """

    trusts_alignment = False

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
        """The mask without the lanes that must not happen: one call for every 64 lanes."""
        pointer, lanes = instruction.operands[0], mask.type.lanes
        size = element(pointer.type).itemsize
        low, high, name = self.extents(pointer)
        site = sites.add(self.program, instruction, name)
        base = self.new(f"ptrtoint ptr {self.text(pointer)} to i64")
        indices = self.indices_in_memory(instruction)
        bits = self.new(f"bitcast {self.typed(mask)} to i{lanes}")
        good = "0"
        for first in range(0, lanes, 64):
            word = self.resized(self.new(f"lshr i{lanes} {bits}, {first}"), lanes, 64)
            at = self.new(f"add i64 {base}, {0 if indices != 'null' else first * size}")
            here = self.new(f"getelementptr i64, ptr {indices}, i64 {first}")
            here = "null" if indices == "null" else here
            word = self.new(
                f"call i64 @bedplate_check_lanes(i64 {at}, i64 {size}, ptr {here}, i64 {word}, "
                f"i64 {low}, i64 {high}, ptr %check, i64 {site})"
            )
            part = self.new(f"shl i{lanes} {self.resized(word, 64, lanes)}, {first}")
            good = self.new(f"or i{lanes} {good}, {part}")
        return self.new(f"bitcast i{lanes} {good} to {mask.type.llvm}")

    def resized(self, word: str, bits: int, wanted: int) -> str:
        """An integer of some bits as one of another width, without sign."""
        if bits == wanted:
            return word
        return self.new(f"{'trunc' if bits > wanted else 'zext'} i{bits} {word} to i{wanted}")

    def indices_in_memory(self, instruction: Instruction) -> str:
        """The indices of a gather or scatter as an array of i64; "null" for lanes side by side."""
        if instruction.op not in ("gather", "scatter"):
            return "null"
        indices = instruction.operands[1]
        type_, text = indices.type, self.text(indices)
        wide = f"<{type_.lanes} x i64>"
        if type_.bits < 64:
            extend = "sext" if type_.is_signed else "zext"
            text = self.new(f"{extend} {type_.llvm} {text} to {wide}")
        slot = self.slot(wide, 64)
        self.line(f"store {wide} {text}, ptr {slot}")
        return slot

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
