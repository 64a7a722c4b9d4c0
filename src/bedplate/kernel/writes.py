"""Which pointer parameters a traced kernel stores to.

A pointer is followed from its parameter through offsets, casts, selections, `var`s and the results
of other kernels, whatever order they run in, so that what is found holds for every run. Only an
address that was loaded from memory, and native code that is given one, can reach more: such a
program is called blind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bedplate.kernel.ir import Instruction, Program, all_instructions, all_programs

STORES = frozenset(
    ("store", "store_masked", "scatter", "atomic_store", "atomic_add", "atomic_exchange",
     "atomic_cas")
)  # fmt: skip
NATIVE = frozenset(("extern", "call_pointer"))
# what gives the value at an address, which does not lead where the address does
LOADS = frozenset(("load", "load_masked", "gather", "atomic_load"))
# the operands that an address comes from, where it is not all of them
ORIGINS = {"offset": slice(0, 1), "select": slice(1, 3)}
NOWHERE: frozenset[int] = frozenset()


@dataclass
class Writes:
    """What a program does with its parameters, each by its place.

    stores  (instruction, site) of the first store through each that it writes
    blind   it may also write through an address of which nobody knows where it leads
    result  those that what it gives back may lead to
    """

    stores: dict[int, tuple[str, Any]] = field(default_factory=dict)
    blind: bool = False
    result: frozenset[int] = NOWHERE


def find_writes(program: Program) -> Writes:
    """What a program and all that it calls write."""
    found: dict[int, Writes] = {}
    for each in all_programs(program):
        found[id(each)] = _writes_of(each, [found[id(callee)] for callee in each.callees])
    return found[id(program)]


def _writes_of(program: Program, callees: list[Writes]) -> Writes:
    instructions = list(all_instructions(program.body))
    leads = _origins(program, instructions, callees)
    writes = Writes()

    def of(operand: Instruction) -> frozenset[int]:
        return leads.get(operand.number, NOWHERE)

    for each in instructions:
        if each.op in STORES:
            _note(writes, (each.op, each.site), of(each.operands[0]), each.operands[0])
        elif each.op in NATIVE:
            writes.blind |= any(of(x) or x.type.is_pointer for x in each.operands)
        elif each.op == "give_back" and each.operands:
            writes.result |= of(each.operands[0])
        elif each.op == "call":
            inner = callees[each.attributes["callee"]]
            writes.blind |= inner.blind
            for place, store in inner.stores.items():
                operand = each.operands[place]
                _note(writes, store, of(operand), operand)
    return writes


def _note(
    writes: Writes, store: tuple[str, Any], leads: frozenset[int], pointer: Instruction
) -> None:
    for place in leads:
        writes.stores.setdefault(place, store)
    writes.blind |= not leads and not _is_own(pointer)


def _is_own(pointer: Instruction) -> bool:
    """Whether a pointer that comes from no parameter leads into an array of the kernel's own."""
    while pointer.op in ("offset", "cast") and pointer.operands[0].type.is_pointer:
        pointer = pointer.operands[0]
    return pointer.op == "local"


def _origins(
    program: Program, instructions: list[Instruction], callees: list[Writes]
) -> dict[int, frozenset[int]]:
    """For the number of each value, the parameters whose memory it may lead to."""
    leads = {
        parameter.number: frozenset((place,))
        for place, parameter in enumerate(program.parameters)
        if parameter.type.is_pointer
    }
    growing = True
    while growing:  # a `var` may be read before the store that stands below it in a loop
        growing = False
        for each in instructions:
            target, origins = _flow(each, callees)
            before = leads.get(target, NOWHERE)
            after = before.union(*(leads.get(value.number, NOWHERE) for value in origins))
            if target and after != before:
                leads[target] = after
                growing = True
    return leads


def _flow(each: Instruction, callees: list[Writes]) -> tuple[int, tuple[Any, ...]]:
    """(the number of the value that an instruction makes or sets, what its address comes from)."""
    if each.op == "set":
        return each.operands[0].number, each.operands[1:]
    if each.op in LOADS or each.op in STORES:
        return 0, ()
    if each.op == "call":
        places = callees[each.attributes["callee"]].result
        return each.number, tuple(each.operands[place] for place in places)
    return each.number, each.operands[ORIGINS.get(each.op, slice(None))]
