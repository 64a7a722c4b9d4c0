"""SPIR-V: a traced task kernel as the binary that OpenCL drivers compile.

LLVM writes it, from the same text that a CPU's code comes from, with three differences:

- pointers are generic (address space 4), made from 64-bit words: what a kernel is given are raw
  addresses of memory that host and device share;
- the entry is a `spir_kernel` that each worker enters with its number, and that calls the task
  with the worker's share of the items;
- LLVM only promotes locals to values: what is worth optimising, the driver's compiler optimises.
  It works in another process: see spirv_writer.py.

The module asks for no contraction of a * b + c, as all text of this package; division and roots
are rounded correctly only with the driver's option for it.
"""

from __future__ import annotations

import re
from pathlib import Path

from bedplate.errors import InternalError
from bedplate.kernel.device.apart import Ended, Helpers, Refused
from bedplate.kernel.device.entry import SHARE, DeviceModule, require_task
from bedplate.kernel.device.legalise import legalise
from bedplate.kernel.ir import Instruction, Program, all_programs
from bedplate.kernel.lower import FunctionLowering, symbol_of
from bedplate.kernel.target import Processor, Target

SPIRV = Target("spirv", 512, Processor("spirv64v1.4-unknown-unknown", ""))

# A name in the text that is a pointer to a mutable local, in the address space of the stack.
_POINTER = re.compile(r"\bptr\b(?! %s\d)")
_ENTRY = (
    "declare spir_func i64 @_Z13get_global_idj(i32)\n"
    "define spir_kernel void @{symbol}(i64 %words, i64 %items, i64 %workers) {{\n"
    "entry:\n"
    "  %worker = call spir_func i64 @_Z13get_global_idj(i32 0)\n"
) + SHARE


def spirv_text(program: Program, symbol: str) -> str:
    """The LLVM text that SPIR-V is made of.

    symbol  of the entry f(words, items, workers), three 64-bit integers: the address of the
            task's words, the number of items, and how many work items run it side by side
    raises  KernelError if this is no task kernel, or for what no device can do
    """
    require_task(program)
    legal = legalise(program)
    module = DeviceModule(SPIRV)
    programs = all_programs(legal)
    for index, each in enumerate(programs):
        module.symbols[id(each)] = f"{symbol_of(each.name)}.{index}"
    for each in programs:
        _SpirvLowering(module, each, True).run()
    task = module.symbols[id(legal)]
    module.functions.append(_ENTRY.format(symbol=symbol, task=task))
    return _POINTER.sub("ptr addrspace(4)", module.text())


class _SpirvLowering(FunctionLowering):
    """Local arrays are on the stack, and are seen through generic pointers like all memory."""

    def slot(self, llvm_type: str, alignment: int, count: int = 1) -> str:
        """An array type, where a CPU allocates several of one type."""
        return super().slot(f"[{count} x {llvm_type}]" if count != 1 else llvm_type, alignment)

    def instruction(self, instruction: Instruction) -> str:
        text = super().instruction(instruction)
        if instruction.op != "local":
            return text
        self.temporaries += 1
        generic = f"%t{self.temporaries}"
        self.slots.append(f"  {generic} = addrspacecast ptr {text} to ptr")
        return generic


def make_spirv(text: str) -> bytes:
    """The SPIR-V binary of an LLVM text.

    raises InternalError if LLVM does not accept the text or fails at it
    """
    try:
        return _writer.ask(text.encode())
    except (Ended, Refused) as error:
        raise InternalError(f"LLVM makes no SPIR-V of a lowered kernel: {error}") from error


_writer = Helpers(str(Path(__file__).with_name("spirv_writer.py")))
