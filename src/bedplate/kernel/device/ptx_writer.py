"""The helper that turns LLVM text into PTX; a script that imports nothing of Bedplate.

LLVM ends the process at an instruction that it cannot select, so it works in a process of its own.
"""

import struct
import sys

from llvmlite import binding as llvm

_HEAD = struct.Struct("<cQ")  # as in apart.py


def make(text: str) -> bytes:
    """The PTX of an LLVM text, for the architecture of its first line."""
    triple = text.split('target triple = "', 1)[1].split('"', 1)[0]
    cpu = text.split("\n", 1)[0].strip("; ")
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
    module = llvm.parse_assembly(text)
    module.verify()
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, llvm.create_pass_builder(machine, options))
    return machine.emit_assembly(module).encode()


def answer(text: str) -> tuple[bytes, bytes]:
    """(b"+", PTX) or (b"-", what went wrong)."""
    try:
        return b"+", make(text)
    except Exception as error:
        return b"-", f"{type(error).__name__}: {error}".encode()


def main() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        kind, content = answer(source.read(_HEAD.unpack(head)[1]).decode())
        target.write(_HEAD.pack(kind, len(content)) + content)
        target.flush()


if __name__ == "__main__":
    main()
