"""Calls of the kernel language: other kernels, addresses, functions of the C library."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

from bedplate.errors import KernelError
from bedplate.kernel.context import failure, line_of, tracer
from bedplate.kernel.ir import Program, all_instructions, all_programs
from bedplate.kernel.llvm import binding
from bedplate.kernel.types import Type, i64
from bedplate.kernel.values import Value, as_value


def call(kernel: Any, *args: Any) -> Value:
    """Call another kernel; it becomes part of this one's module and may be inlined.

    kernel   made by @kernel; its parameters may be vectors here
    returns  its result, or None
    """
    program = getattr(kernel, "ir", None)
    if program is None:
        raise failure("call needs a kernel", "a function made by @kernel", kernel=kernel)
    wanted = [p.type for p in program.parameters]
    if len(wanted) != len(args):
        types = ", ".join(map(str, wanted))
        raise failure(f"call {program.name}: {len(args)} arguments", f"{program.name}({types})")
    here = tracer()
    # the kernel is kept with its number, lest another take its identity
    _, place = here.callees.setdefault(id(kernel), (kernel, len(here.program.callees)))
    if place == len(here.program.callees):
        here.program.callees.append(program)
    operands = _arguments(program.name, wanted, args)
    return here.emit("call", program.result, operands, {"callee": place})


def _arguments(name: str, types: Sequence[Type], args: Sequence[Any]) -> tuple[Value, ...]:
    pairs = enumerate(zip(types, args, strict=True))
    return tuple(as_value(x, t, f"argument {i} of {name}") for i, (t, x) in pairs)


def call_pointer(
    address: Value, types: Sequence[Type], *args: Any, result: Type | None = None
) -> Value:
    """Call the native function at an address with the C calling convention.

    address  i64 or pointer
    types    of the arguments; result its type, or None
    """
    if not isinstance(address, Value) or not (address.type is i64 or address.type.is_pointer):
        raise failure("call_pointer needs an address", "an i64 or a pointer", address=address)
    if len(types) != len(args):
        raise failure(f"call_pointer: {len(types)} types, {len(args)} arguments", "one type each")
    operands = (address, *_arguments("call_pointer", types, args))
    return tracer().emit("call_pointer", result, operands)


def extern(name: str, result: Type | None, types: Sequence[Type]) -> Callable[..., Any]:
    """A function of the C library (any symbol of the process) that kernels can call.

    raises KernelError if that is no name of a C function
    >>> from bedplate.kernel.types import i32
    >>> getpid = extern("getpid", i32, ())
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise failure(f"extern: {name!r} is no name of a C function", "letters, digits and _")

    def function(*args: Any) -> Value:
        if len(args) != len(types):
            wanted = ", ".join(map(str, types))
            raise failure(f"extern {name}: {len(args)} arguments", f"{name}({wanted})")
        operands = _arguments(name, types, args)
        return tracer().emit("extern", result, operands, {"symbol": name})

    function.__name__ = name
    return function


def _is_known(symbol: str) -> bool:
    # before its first compilation LLVM has not looked at the process itself
    return bool(binding().address_of_symbol(symbol)) or hasattr(ctypes.pythonapi, symbol)


def check_symbols(program: Program) -> None:
    """Look up every C function that a program calls.

    raises KernelError naming the line that calls one which this process does not have
    """
    for each in all_programs(program):
        for instruction in all_instructions(each.body):
            if instruction.op != "extern":
                continue
            symbol = instruction.attributes["symbol"]
            if not _is_known(symbol):
                raise KernelError(
                    f"kernel {each.name}: there is no function {symbol!r} in this process\n"
                    f"  at {line_of(instruction.site)}\n"
                    "  legal: names of the C library and of libraries already loaded"
                )
