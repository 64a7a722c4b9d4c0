"""The interpreter: runs a program step by step in Python, checking every access to memory.

Values are NumPy scalars and arrays of the element's type, so that float32 arithmetic rounds after
each operation as the processor does; what an instruction means stands in its record. Memory is
the arrays that were passed, arrays named with `memory=`, and local arrays; any other address is
an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.errors import KernelBoundsError, KernelError
from bedplate.kernel.arguments import Convention, ctype_of, numpy_dtype
from bedplate.kernel.context import line_of
from bedplate.kernel.instructions import OPERATIONS
from bedplate.kernel.ir import Block, Instruction, Loop, Program, While
from bedplate.kernel.types import Type, element

Watch = Callable[[Instruction, Any], None]


@dataclass(slots=True, eq=False)
class Region:
    """A piece of memory that a program may use; `written` marks the bytes of a local array."""

    name: str
    address: int
    memory: Any
    written: Any = None

    @property
    def end(self) -> int:
        return self.address + len(self.memory)


@dataclass(slots=True)
class Pointer:
    """An address, and the region that it was made for."""

    address: int
    region: Region | None

    def moved(self, n_bytes: int) -> Pointer:
        return Pointer((self.address + n_bytes) % (1 << 64), self.region)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pointer) and self.address == other.address

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Pointer) -> bool:
        return self.address < other.address

    def __le__(self, other: Pointer) -> bool:
        return self.address <= other.address

    def __gt__(self, other: Pointer) -> bool:
        return self.address > other.address

    def __ge__(self, other: Pointer) -> bool:
        return self.address >= other.address


class _GiveBack(Exception):
    """Unwinds a program that returned."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Machine:
    """Runs programs; the meanings of instructions read and write memory through it."""

    def __init__(self, watch: Watch | None = None) -> None:
        self.regions: list[Region] = []
        self.watch = watch
        self.program: Program | None = None
        self.values: dict[int, Any] = {}

    # Memory

    def add_array(self, name: str, array: np.ndarray[Any, Any]) -> Region:
        """Let programs use an array's memory."""
        flat = array.reshape(-1).view(np.uint8)
        region = Region(name, array.ctypes.data, flat)
        self.regions.append(region)
        return region

    def local(self, instruction: Instruction, pointee: Type, count: int) -> Pointer:
        memory = np.zeros(count * pointee.itemsize + 64, np.uint8)
        start = -memory.ctypes.data % 64
        memory = memory[start : start + count * pointee.itemsize]
        region = Region("local", memory.ctypes.data, memory, np.zeros(len(memory), bool))
        self.regions.append(region)
        return Pointer(region.address, region)

    def find(self, address: int) -> Region | None:
        """The region that an address lies in (or right behind)."""
        for region in self.regions:
            if region.address <= address < region.end:
                return region
        return None

    def _place(self, instruction: Instruction, pointer: Pointer, lane: int) -> tuple[Region, slice]:
        size = element(instruction.operands[0].type).itemsize
        if instruction.attributes.get("aligned"):
            self._check_alignment(instruction, pointer.address, size)
        address = pointer.address + lane * size
        region = pointer.region or self.find(address)
        if region is None or not region.address <= address <= region.end - size:
            raise self.outside(instruction, address, size, region)
        start = address - region.address
        return region, slice(start, start + size)

    def _check_alignment(self, instruction: Instruction, address: int, size: int) -> None:
        value = instruction.type or instruction.operands[1].type
        n_bytes = size * max(value.lanes, 1)
        if address % n_bytes:
            raise KernelError(
                f"{self.where(instruction)}: aligned=True, but the address is {address % n_bytes} "
                f"past a multiple of {n_bytes} bytes\n  legal: leave aligned=True out"
            )

    def read(self, instruction: Instruction, pointer: Pointer, lane: int) -> Any:
        region, place = self._place(instruction, pointer, lane)
        if region.written is not None and not region.written[place].all():
            raise KernelError(
                f"{self.where(instruction)}: reads a {region.name} array before it is written\n"
                "  legal: store to every element first"
            )
        pointee = element(instruction.operands[0].type)
        word = region.memory[place]
        if pointee.is_pointer:
            address = int(word.view(np.uint64)[0])
            return Pointer(address, self.find(address))
        return word[0] != 0 if pointee.name == "i1" else word.view(numpy_dtype(pointee))[0]

    def write(self, instruction: Instruction, pointer: Pointer, lane: int, value: Any) -> None:
        region, place = self._place(instruction, pointer, lane)
        if isinstance(value, Pointer):
            value = np.uint64(value.address)
        pointee = element(instruction.operands[0].type)
        dtype = np.dtype(np.uint64) if pointee.is_pointer else numpy_dtype(pointee)
        region.memory[place] = np.array([value]).astype(dtype).view(np.uint8)
        if region.written is not None:
            region.written[place] = True

    def outside(
        self, instruction: Instruction, address: int, size: int, region: Region | None
    ) -> KernelBoundsError:
        return KernelBoundsError(
            out_of_bounds_text(
                self.where(instruction), instruction, address, size,
                region.name if region else "", region.address if region else 0,
                region.end if region else 0,
            )
        )  # fmt: skip

    def where(self, instruction: Instruction) -> str:
        name = self.program.name if self.program else "?"
        return f"kernel {name}: {instruction.op} at {line_of(instruction.site)}"

    # What meanings ask for

    def dtype(self, type_: Type) -> Any:
        return numpy_dtype(type_)

    def cast_pointer(self, value: Any, source: Type, target: Type) -> Any:
        if source.is_pointer:
            return value if target.is_pointer else np.array(value.address).astype(target_of(target))
        address = int(value) % (1 << 64)
        return Pointer(address, self.find(address))

    def give_back(self, value: Any = None) -> None:
        raise _GiveBack(value)

    def call(self, instruction: Instruction, values: Sequence[Any]) -> Any:
        program = self.program
        if program is None:
            return None
        return self.run(program.callees[instruction.attributes["callee"]], values)

    def call_symbol(self, instruction: Instruction, values: Sequence[Any]) -> Any:
        symbol = instruction.attributes["symbol"]
        function = getattr(ctypes.CDLL(None), symbol)
        address = ctypes.cast(function, ctypes.c_void_p).value
        return self._native(address or 0, instruction, instruction.operands, values)

    def call_native(self, instruction: Instruction, address: Any, values: Sequence[Any]) -> Any:
        number = address.address if isinstance(address, Pointer) else int(address)
        return self._native(number, instruction, instruction.operands[1:], values)

    def _native(self, address: int, instruction: Instruction, operands: Any, values: Any) -> Any:
        types = [operand.type for operand in operands]
        prototype = ctypes.CFUNCTYPE(ctype_of(instruction.type), *map(ctype_of, types))
        words = [native_word(type_, value) for type_, value in zip(types, values, strict=True)]
        result = prototype(address)(*words)
        if instruction.type is not None and instruction.type.is_pointer:
            return Pointer(result or 0, self.find(result or 0))
        if instruction.type is not None and instruction.type.is_narrow_float:
            return np.array(result, np.uint16).view(numpy_dtype(instruction.type))
        return result

    # Running

    def run(self, program: Program, values: Sequence[Any]) -> Any:
        """Run a program on values; its result as a NumPy scalar, or None."""
        outer = self.program, self.values
        self.program = program
        self.values = {p.number: v for p, v in zip(program.parameters, values, strict=True)}
        n_regions = len(self.regions)
        result = settle(program.result, 0) if program.result else None
        try:
            self.block(program.body)
        except _GiveBack as returned:
            result = returned.value
        finally:
            del self.regions[n_regions:]
            self.program, self.values = outer
        return result

    def block(self, block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Instruction):
                self.instruction(statement)
            elif isinstance(statement, Loop):
                self.loop(statement)
            elif isinstance(statement, While):
                self.block(statement.test)
                while self.value(statement.condition):
                    self.block(statement.body)
                    self.block(statement.test)
            elif self.value(statement.condition):
                self.block(statement.body)
            elif statement.otherwise is not None:
                self.block(statement.otherwise)

    def loop(self, loop: Loop) -> None:
        start, stop, step = (int(self.value(x)) for x in (loop.start, loop.stop, loop.step))
        if step <= 0 and loop.step.op != "literal":
            return
        for index in range(start, stop, step):
            self.values[loop.index.number] = np.int64(index)
            self.block(loop.body)

    def instruction(self, instruction: Instruction) -> None:
        operands = [self.value(operand) for operand in instruction.operands]
        result = OPERATIONS[instruction.op].meaning(self, instruction, *operands)
        if instruction.number:
            if instruction.op != "var":
                result = settle(instruction.type, result)
            self.values[instruction.number] = result
        if self.watch is not None:
            self.watch(instruction, result[0] if instruction.op == "var" else result)

    def value(self, operand: Instruction) -> Any:
        if operand.op == "literal":
            return settle(operand.type, operand.attributes["value"])
        return self.values[operand.number]


def target_of(type_: Type) -> Any:
    return np.uint64 if type_.name == "u64" else np.int64


def native_word(type_: Type, value: Any) -> Any:
    """A value of the interpreter as ctypes passes it to native code."""
    if isinstance(value, Pointer):
        return value.address
    if type_.is_narrow_float:
        return int(np.asarray(value).view(np.uint16))
    return value.item()


def settle(type_: Type, value: Any) -> Any:
    """A computed value as a NumPy scalar or array of exactly `type_`."""
    if type_.is_pointer:
        return value if isinstance(value, Pointer) else Pointer(int(value), None)
    dtype = numpy_dtype(type_)
    if type_.lanes:
        array = np.asarray(value)
        if array.shape != (type_.lanes,):
            array = np.full(type_.lanes, value)
        return array.astype(dtype)
    if isinstance(value, np.generic) and value.dtype == dtype:
        return value
    return np.asarray(value).astype(dtype).reshape(-1)[0]


def out_of_bounds_text(
    where: str, instruction: Instruction, address: int, size: int, name: str, low: int, high: int
) -> str:
    """The message for an access outside a region [low, high) of the given name."""
    word = "write" if instruction.type is None else "access"
    lines = [f"{where}: {word} out of range"]
    if not high:
        lines.append(f"  address  {address:#x}, in no array that is known")
        lines.append("  legal: addresses inside the arrays passed, or named with memory=[...]")
        return "\n".join(lines)
    index = (address - low) // size
    lines.append(f"  {name or 'array'}  {(high - low) // size} elements of {size} bytes")
    lines.append(f"  index  {index}")
    lines.append(f"  legal: 0 to {(high - low) // size - 1}")
    return "\n".join(lines)


def interpret(
    program: Program, args: tuple[Any, ...], memory: Sequence[Any] = (), watch: Watch | None = None
) -> Any:
    """Run a program on Python arguments as the compiled kernel would.

    memory  further arrays that the program may reach through addresses stored in its arguments
    watch   called with each instruction and its value after it ran
    raises  KernelBoundsError for an access outside every known array
    """
    machine = Machine(watch)
    values = bind(machine, program, args, memory)
    with np.errstate(all="ignore"):
        return plain(machine.run(program, values))


def bind(
    machine: Machine, program: Program, args: tuple[Any, ...], memory: Sequence[Any]
) -> list[Any]:
    """The arguments as values of a machine, which may use the arrays among them and `memory`."""
    convention = Convention(program.name, program)
    words = convention.convert(args)
    for i, array in enumerate(memory):
        machine.add_array(f"memory[{i}]", array)
    values: list[Any] = []
    for name, type_, arg, word in zip(convention.names, convention.types, args, words, strict=True):
        if isinstance(arg, np.ndarray):
            region = machine.add_array(name, arg)
            values.append(Pointer(region.address, region))
        elif type_.is_pointer:
            values.append(Pointer(word, machine.find(word)))
        elif type_.is_narrow_float:
            values.append(np.array([word], np.uint16).view(numpy_dtype(type_))[0])
        else:
            values.append(settle(type_, word))
    return values


def plain(result: Any) -> Any:
    """A value of the interpreter as a Python number."""
    if isinstance(result, Pointer):
        return result.address
    return result.item() if isinstance(result, np.generic) else result
