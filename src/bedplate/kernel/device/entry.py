"""What the texts for all devices share: the kernels that they are made of, and their entry.

The entry of a kernel is entered by each worker, with the address of the task's words, the number
of items and that of the workers. It computes the worker's share of the items, and calls the task.
"""

from __future__ import annotations

from bedplate.errors import KernelError
from bedplate.kernel.ir import Program
from bedplate.kernel.lower import Module
from bedplate.kernel.types import i64, ptr

TASK = (ptr(i64), i64, i64, i64)
# the entry from where %worker has the worker's number
SHARE = (
    "  %next = add i64 %worker, 1\n"
    "  %low = mul i64 %worker, %items\n"
    "  %high = mul i64 %next, %items\n"
    "  %begin = udiv i64 %low, %workers\n"
    "  %end = udiv i64 %high, %workers\n"
    "  %some = icmp ult i64 %begin, %end\n"
    "  br i1 %some, label %work, label %done\n"
    "work:\n"
    "  %args = inttoptr i64 %words to ptr\n"
    "  call void @{task}(ptr %args, i64 %begin, i64 %end, i64 %worker)\n"
    "  br label %done\n"
    "done:\n"
    "  ret void\n"
    "}}\n"
)


def require_task(program: Program) -> None:
    """raises KernelError unless it is a task kernel"""
    types = tuple(parameter.type for parameter in program.parameters)
    if types != TASK or program.result is not None:
        raise KernelError(
            f"kernel {program.name}: devices run tasks\n"
            "  legal: f(args: ptr(i64), begin: i64, end: i64, worker: i64), giving nothing back"
        )


class DeviceModule(Module):
    """Functions without the attributes of a CPU."""

    def text(self) -> str:
        parts = [f'target triple = "{self.target.triple}"', *self.declared.values()]
        parts += [*self.functions, "attributes #0 = { nounwind }"]
        parts.append("attributes #1 = { alwaysinline nounwind }\n")
        return "\n".join(parts)
