"""PTX: a traced task kernel as the text that NVIDIA's driver compiles.

LLVM writes it, from the same text that a CPU's code comes from. The entry is a `ptx_kernel` in
which each thread is a worker, and calls the task with its share of the items. What is a vector
on a CPU is so many registers of one thread.

Nothing is contracted: sums and products are written with their rounding (`.rn`), which the
driver's compiler leaves as they are, and division and roots are those of IEEE 754.
"""

from __future__ import annotations

from pathlib import Path

from bedplate.errors import InternalError, KernelError
from bedplate.kernel.blocks import warps_of
from bedplate.kernel.device.apart import Ended, Helpers, Refused
from bedplate.kernel.device.entry import SHARE, DeviceModule, require_task
from bedplate.kernel.device.legalise import legalise
from bedplate.kernel.ir import Program, all_programs
from bedplate.kernel.lower import FunctionLowering, symbol_of
from bedplate.kernel.target import Processor, Target

TRIPLE = "nvptx64-nvidia-cuda"
# A device is given the PTX of the newest of these that is no newer than itself: its driver
# compiles PTX of older architectures too.
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

_ENTRY = (
    "define ptx_kernel void @{symbol}(i64 %words, i64 %items, i64 %workers) {{\n"
    "entry:\n"
    "  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
    "  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()\n"
    "  %before = mul i32 %block, %threads\n"
    "  %number = add i32 %before, %thread\n"
    "  %worker = zext i32 %number to i64\n"
) + SHARE
# Neighbouring blocks do neighbouring items at the same time, so that they find in the cache what
# the others read. The barrier keeps memory that a block shares until its slowest thread is done.
_BLOCK_ENTRY = (
    "define ptx_kernel void @{symbol}(i64 %words, i64 %items, i64 %workers) #2 {{\n"
    "entry:\n"
    "  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "  %worker = zext i32 %block to i64\n"
    "  %args = inttoptr i64 %words to ptr\n"
    "  %some = icmp slt i64 %worker, %items\n"
    "  br i1 %some, label %work, label %done\n"
    "work:\n"
    "  %item = phi i64 [ %worker, %entry ], [ %following, %work ]\n"
    "  %next = add i64 %item, 1\n"
    "  call void @{task}(ptr %args, i64 %item, i64 %next, i64 %worker)\n"
    "  call void @llvm.nvvm.barrier0()\n"
    "  %following = add i64 %item, %workers\n"
    "  %more = icmp slt i64 %following, %items\n"
    "  br i1 %more, label %work, label %done\n"
    "done:\n"
    "  ret void\n"
    "}}\n"
)
_DECLARED = {
    "llvm.nvvm.read.ptx.sreg.tid.x": "i32",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "i32",
    "llvm.nvvm.read.ptx.sreg.ntid.x": "i32",
    "llvm.nvvm.barrier0": "void",
}


def architecture(major: int, minor: int) -> str:
    """The architecture of which a device of a compute capability takes the PTX.

    raises  KernelError for a device that is older than all of them
    >>> architecture(8, 6), architecture(9, 0), architecture(12, 0)
    ('sm_80', 'sm_90', 'sm_100')
    """
    fitting = [name for name in ARCHITECTURES if int(name[3:]) <= 10 * major + minor]
    if not fitting:
        raise KernelError(
            f"PTX: compute capability {major}.{minor} is too old\n  legal: 8.0 or newer"
        )
    return fitting[-1]


def target_of(name: str) -> Target:
    """The target of an architecture."""
    return Target(name, 512, Processor(TRIPLE, name))


def ptx_text(program: Program, symbol: str, name: str) -> str:
    """The LLVM text that PTX is made of.

    symbol  of the entry f(words, items, workers), three 64-bit integers: the address of the
            task's words, the number of items, and how many threads (of a kernel for blocks: how
            many blocks) share them
    name    of the architecture
    raises  KernelError if this is no task kernel, or for what no device can do
    """
    require_task(program)
    legal = legalise(program)
    warps = warps_of(program)
    module = _PtxModule(target_of(name), warps)
    for intrinsic, result in _DECLARED.items():
        module.declared[intrinsic] = f"declare {result} @{intrinsic}()"
    programs = all_programs(legal)
    for index, each in enumerate(programs):
        module.symbols[id(each)] = f"{symbol_of(each.name)}_{index}"
    for each in programs:
        FunctionLowering(module, each, True).run()
    entry = _BLOCK_ENTRY if warps else _ENTRY
    module.functions.append(entry.format(symbol=symbol, task=module.symbols[id(legal)]))
    return module.text()


class _PtxModule(DeviceModule):
    """The first line names the architecture, for the helper."""

    def __init__(self, target: Target, warps: int) -> None:
        super().__init__(target)
        self.warps = warps

    def text(self) -> str:
        text = f"; {self.target.cpu}\n{super().text()}"
        if not self.warps:
            return text
        # what threads do together may not move to where some of them do not come
        text = text.replace("nounwind }", "convergent nounwind }")
        return f'{text}attributes #2 = {{ convergent "nvvm.reqntid"="{32 * self.warps}" }}\n'


def make_ptx(text: str) -> str:
    """The PTX of an LLVM text that `ptx_text` gave.

    raises InternalError if LLVM does not accept the text or fails at it
    """
    try:
        return _writer.ask(text.encode()).decode()
    except (Ended, Refused) as error:
        raise InternalError(f"LLVM makes no PTX of a lowered kernel: {error}") from error


_writer = Helpers(str(Path(__file__).with_name("ptx_writer.py")))
