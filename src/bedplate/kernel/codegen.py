"""From LLVM text to machine code in this process: passes, code generation, linking.

Kernels are vectorised where they are written, so the pipeline has no vectoriser and no unroller:
an element-wise kernel takes 0.8 ms of passes and 3.3 ms of code generation, where LLVM's O2 takes
3.5 ms of passes for the same assembly. Loop invariants are hoisted by the code generator. That
runs at level 1: level 2 only schedules once more, which takes 10 to 30 % longer and ran neither a
matmul micro-kernel nor a gelu faster.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from typing import Any

from bedplate.errors import InternalError, KernelError
from bedplate.kernel.llvm import binding
from bedplate.kernel.repairs import may_need_repair, repair
from bedplate.kernel.target import Target, find_target

# Part of the disk cache's key: change it whenever the passes or the code generator's options do.
PIPELINE = "passes 1, opt 1, repairs 1"

# Tracing, compiling and linking happen under one lock: LLVM is used by one thread at a time, and
# each kernel is compiled once, whoever asks first. Held around fork so that a child finds it free.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )
_serial = itertools.count()


@functools.cache
def target_machine(target: Target) -> Any:
    """LLVM's code generator for a target."""
    return new_machine(target)


def new_machine(target: Target) -> Any:
    """A code generator for one thread: it is changed while it works."""
    return (
        binding()
        .Target.from_triple(target.triple)
        .create_target_machine(
            cpu=target.cpu, features=target.features, opt=1, reloc="pic", codemodel="small"
        )
    )


def optimise(text: str, machine: Any, context: Any = None) -> Any:
    """Parse LLVM text and run the passes.

    context  of LLVM, one for each thread; None: the one that is used under `lock`
    raises   InternalError if LLVM does not accept the text
    """
    llvm = binding()
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM does not accept a lowered kernel: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    _passes(text).run(module, llvm.create_pass_builder(machine, options))
    if may_need_repair(text):
        optimised = str(module)
        repaired = repair(optimised)
        if repaired != optimised:
            return llvm.parse_assembly(repaired, context)
    return module


def _passes(text: str) -> Any:
    passes = binding().create_new_module_pass_manager()
    if "\ndefine internal" in text:
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def make_object(text: str, target: Target) -> bytes:
    """The object file of an LLVM module."""
    with lock:
        machine = target_machine(target)
        return machine.emit_object(optimise(text, machine))


def make_assembly(text: str, target: Target) -> str:
    """The assembly text of an LLVM module."""
    with lock:
        machine = target_machine(target)
        return machine.emit_assembly(optimise(text, machine))


@functools.cache
def _jit() -> Any:
    # JITLink takes one range for all sections of an object. LLVM's older linker maps each section
    # by itself, and ends the process where two of them land more than 2 GiB apart, as happens in
    # a process with many threads (64 MiB of addresses each) or much memory mapped.
    return binding().create_lljit_compiler(target_machine(find_target(None)), use_jit_link=True)


def link(image: bytes, *symbols: str) -> tuple[Any, ...]:
    """Load an object file; (address of each symbol ..., what must be kept alive with them).

    raises KernelError if a function that the kernel calls is not in this process
    """
    with lock:
        builder = binding().JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        try:
            library = builder.link(_jit(), f"kernel{next(_serial)}")
        except RuntimeError as error:
            raise KernelError(
                f"a kernel cannot be linked: {error}\n"
                "  legal: extern names of the C library and of libraries already loaded"
            ) from error
        return *(library[symbol] for symbol in symbols), library
