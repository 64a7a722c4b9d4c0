"""The helper that turns LLVM text into SPIR-V; a script that imports nothing of Bedplate.

LLVM's writer of SPIR-V keeps what it knows of basic blocks, by their addresses, from one module to
the next (LLVM 22: SPIRVModuleAnalysis has one table for the process): a module that
comes to lie where an earlier one was gets a number twice, which is no SPIR-V. So each module is
written by a child of its own, forked from this process, which never wrote one.
"""

import os
import struct
import sys
import tempfile

from llvmlite import binding as llvm

_HEAD = struct.Struct("<cQ")  # as in apart.py


def make(text: str) -> bytes:
    """The SPIR-V of an LLVM text, with locals promoted to values and small calls in place."""
    triple = text.split('target triple = "', 1)[1].split('"', 1)[0]
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=0)
    module = llvm.parse_assembly(text)
    module.verify()
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, llvm.create_pass_builder(machine, options))
    return machine.emit_object(module)


def _in_child(text: str, pipe: int, words: int) -> None:
    """Write the answer to the pipe, what LLVM says to `words`; never returns."""
    os.dup2(words, 2)
    status = 1
    try:
        content = make(text)
        with os.fdopen(pipe, "wb") as file:
            file.write(content)
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def answer(text: str) -> tuple[bytes, bytes]:
    """(b"+", SPIR-V) or (b"-", what went wrong)."""
    source, target = os.pipe()
    with tempfile.TemporaryFile() as words:
        child = os.fork()
        if child == 0:
            os.close(source)
            _in_child(text, target, words.fileno())
        os.close(target)
        with os.fdopen(source, "rb") as file:
            content = file.read()
        _, status = os.waitpid(child, 0)
        if status == 0:
            return b"+", content
        words.seek(0)
        said = words.read(2000).decode(errors="replace").strip()
    code = os.waitstatus_to_exitcode(status)
    return b"-", f"LLVM ended with {code}: {said}".encode()


def main() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        text = source.read(_HEAD.unpack(head)[1]).decode()
        kind, content = answer(text)
        target.write(_HEAD.pack(kind, len(content)) + content)
        target.flush()


if __name__ == "__main__":
    main()
