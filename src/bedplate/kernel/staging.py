"""Kernel: an annotated Python function, traced once, compiled once, called from Python.

`@kernel` reads the annotations; the function runs when the program is first needed. Compiling is
done exactly once per kernel, whoever asks first.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bedplate.config import config
from bedplate.errors import KernelError
from bedplate.kernel import check_lowering, checks, codegen, context, report
from bedplate.kernel.arguments import Convention
from bedplate.kernel.blocks import interpret_block, warps_of
from bedplate.kernel.context import line_of
from bedplate.kernel.exits import check_exits
from bedplate.kernel.ir import Program
from bedplate.kernel.language.calls import call, check_symbols
from bedplate.kernel.lower import lower, symbol_of
from bedplate.kernel.machine import Watch, interpret
from bedplate.kernel.native import CheckedCompiled, Compiled, forget_ahead, load_code, make_ahead
from bedplate.kernel.target import Target, find_target, host
from bedplate.kernel.trace import Tracer
from bedplate.kernel.types import Type
from bedplate.observer import hooks


class Kernel:
    """A kernel; see docs/kernel-language.md.

    ir                the traced program; `print(kernel.ir)` shows it
    llvm, assembly    text for a target
    compile           to machine code of this machine, once
    interpret         the same program step by step in Python, every access checked
    """

    def __init__(self, function: Callable[..., Any], names: dict[str, Any], name: str = "") -> None:
        _check_function(function)
        self.name = name or function.__name__
        self.function = function
        self.__doc__ = function.__doc__
        self._site = (function.__code__, 0)
        self._types, self._result = _signature(self, function, names)
        self._ir: Program | None = None
        self._text: str | None = None  # LLVM's, while the object is made
        self._compiled: Compiled | None = None
        self._checked: CheckedCompiled | None = None
        self._is_being_traced = False

    def __repr__(self) -> str:
        types = ", ".join(f"{name}: {type_}" for name, type_ in self._types.items())
        return f"<Kernel {self.name}({types})>"

    @property
    def parameters(self) -> dict[str, Type]:
        """The type of each parameter, by name, in order."""
        return dict(self._types)

    @property
    def result(self) -> Type | None:
        """The type of what it gives back, or None."""
        return self._result

    @property
    def ir(self) -> Program:
        """The traced program.

        raises KernelError if the function breaks a rule of the language
        """
        found = self._ir
        if found is None:
            with codegen.lock:
                found = self._ir = self._ir or self._trace()
        return found

    def _trace(self) -> Program:
        if self._is_being_traced:
            raise KernelError(
                f"kernel {self.name}: a kernel cannot call itself, nor one that calls it\n"
                f"  at {line_of(self._site)}\n  legal: loop(n), while_(lambda: go.get())"
            )
        check_exits(self.function, {**self.function.__globals__, **_closure(self.function)})
        outer = context.state.tracer
        tracer = Tracer(self.name, self.function.__code__, self._result)
        values = {name: tracer.parameter(name, type_) for name, type_ in self._types.items()}
        context.state.tracer, self._is_being_traced = tracer, True
        try:
            returned = self.function(**values)
        except NameError as error:
            raise self._undefined(error) from error
        finally:
            context.state.tracer, self._is_being_traced = outer, False
        if returned is not None:
            raise KernelError(
                f"kernel {self.name}: return gives a value at trace time\n"
                f"  at {line_of(self._site)}\n  legal: give_back(value)"
            )
        return tracer.finish()

    def _undefined(self, error: NameError) -> KernelError:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        where = line_of(self._site)
        if traceback is not None:
            where = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        return KernelError(
            f"kernel {self.name}: {error}\n  at {where}\n"
            "  legal: parameters, locals, closures and globals of the function"
        )

    def llvm(self, target: Target | str | None = None) -> str:
        """The LLVM text before optimisation, for a target (None: this machine)."""
        return lower(self.ir, find_target(target))

    def assembly(self, target: Target | str | None = None) -> str:
        """The assembly text for a target: None, "avx2", "avx512", "aarch64" or a Target."""
        return codegen.make_assembly(self.llvm(target), find_target(target))

    def compile(self, target: Target | str | None = None) -> Compiled:
        """Machine code for this machine, made at the first call and kept.

        With BEDPLATE_CHECK=1 (config.check) the code tests every access; see checks.py.
        target  another target that this machine can run, such as "avx2" on one with AVX-512
        raises  KernelError if the target is of another kind of machine
        """
        if target is not None and find_target(target) is not host():
            return self._compile_for(find_target(target))
        if config.check:
            return self._compile_checked()
        if self._compiled is None:
            with codegen.lock:
                if self._compiled is None:
                    begin = time.perf_counter_ns()
                    self._compiled = self._compile_for(host())
                    self._ir = self._text = None  # large; traced again if asked for
                    if (compiled := hooks.compiled) is not None:
                        compiled(self.name, begin, time.perf_counter_ns())
        return self._compiled

    def _compile_for(self, target: Target) -> Compiled:
        if not target.runs_here:
            raise KernelError(
                f"kernel {self.name}: {target.name} is another kind of machine\n"
                "  legal: assembly(target), llvm(target)"
            )
        convention = Convention(self.name, self.ir)
        text = self._checked_text(target)
        report.show(self, text)
        address, keep = load_code(text, symbol_of(self.name), target)
        return Compiled(self.name, address, keep, convention)

    def _checked_text(self, target: Target) -> str:
        """The LLVM text; that for this machine is kept until it is compiled."""
        if self._text is not None and target is host():
            return self._text
        check_symbols(self.ir)
        text = self.llvm(target)
        if target is host():
            self._text = text
        return text

    def _compile_checked(self) -> Compiled:
        with codegen.lock:
            if self._checked is None:
                target = host()
                convention = Convention(self.name, self.ir)
                check_symbols(self.ir)
                image = codegen.make_object(check_lowering.lower_checked(self.ir, target), target)
                symbols = symbol_of(self.name), check_lowering.checked_symbol(self.name)
                plain, checked, keep = codegen.link(image, *symbols)
                hidden = checks.hidden_types(self.ir)
                self._checked = CheckedCompiled(
                    self.name, (plain, checked), keep, convention, hidden
                )
            return self._checked

    def interpret(self, *args: Any, memory: Sequence[Any] = (), watch: Watch | None = None) -> Any:
        """Run the program in Python, every access checked, with the same results.

        args    as for a call: numbers and NumPy arrays
        memory  further arrays that the program may reach through addresses in its arguments
        watch   called as watch(instruction, value) after each step; of a block, of thread 0
        raises  KernelBoundsError at the first access outside the arrays
        """
        run = interpret_block if warps_of(self.ir) else interpret
        return run(self.ir, args, memory, watch)

    def __call__(self, *args: Any) -> Any:
        if context.state.tracer is not None:
            return call(self, *args)
        return self.compile()(*args)


def compile_together(kernels: Iterable[Kernel]) -> None:
    """Compile several kernels as `compile` does, those that are in no cache side by side.

    raises KernelError if a function breaks a rule of the language
    """
    begin = time.perf_counter_ns()
    with codegen.lock:
        new = [each for each in dict.fromkeys(kernels) if each._compiled is None]
        try:
            if len(new) > 1 and not config.check:
                target = host()
                texts = ((each._checked_text(target), symbol_of(each.name)) for each in new)
                make_ahead(texts, target)
            for each in new:
                each.compile()
        finally:
            forget_ahead()
    if (together := hooks.together) is not None:
        together(begin, time.perf_counter_ns())


def _check_function(function: Any) -> None:
    """raises KernelError unless this is a function whose body runs when it is called"""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise KernelError(
            f"kernel: {function!r} is no Python function\n"
            "  legal: def or lambda, its parameters annotated; partial: a factory around the kernel"
        )
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if function.__code__.co_flags & flags:
        raise KernelError(
            f"kernel {function.__name__}: a generator or coroutine does not run when it is called\n"
            f"  at {line_of((function.__code__, 0))}\n  legal: no yield and no async"
        )


def _signature(
    kernel: Kernel, function: Callable[..., Any], names: dict[str, Any]
) -> tuple[dict[str, Type], Type | None]:
    """Parameter types in order, and the result type, from the annotations."""
    types: dict[str, Type] = {}
    where = line_of(kernel._site)
    for name, parameter in _parameters(kernel, function).items():
        annotation = _evaluate(parameter.annotation, function, names)
        absent = annotation is inspect.Parameter.empty
        if absent and parameter.default is not inspect.Parameter.empty:
            continue  # a Python constant of the trace
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise KernelError(
                f"kernel {kernel.name}: parameter {name} has no name outside\n  at {where}\n"
                "  legal: parameters without / behind them"
            )
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise KernelError(
                f"kernel {kernel.name}: a variable number of parameters\n  at {where}\n"
                "  legal: one parameter each; a factory that makes a kernel for each number"
            )
        if not isinstance(annotation, Type):
            shown = "no annotation" if absent else repr(annotation)
            raise KernelError(
                f"kernel {kernel.name}: parameter {name} has {shown}\n  at {where}\n"
                f"  legal: {name}: i64, {name}: f32, {name}: ptr(f32), {name}: vec(f32, 16) ..., "
                f"or {name}=VALUE for a Python constant"
            )
        types[name] = annotation
    result = function.__annotations__.get("return")
    result = _evaluate(result, function, names)
    if result is not None and not isinstance(result, Type):
        raise KernelError(
            f"kernel {kernel.name}: the result is annotated {result!r}\n  at {where}\n"
            "  legal: `-> i64` or another type of the kernel language, or nothing"
        )
    return types, result


def _parameters(kernel: Kernel, function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except NameError as error:  # annotations are evaluated late since Python 3.14
        raise KernelError(
            f"kernel {kernel.name}: an annotation fails: {error}\n  at {line_of(kernel._site)}"
        ) from error


def _evaluate(annotation: Any, function: Callable[..., Any], names: dict[str, Any]) -> Any:
    """An annotation as an object; a string (from __future__ annotations) is evaluated."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__, {**names, **_closure(function)})
    except Exception as error:
        raise KernelError(
            f"kernel {function.__name__}: the annotation {annotation!r} fails: {error}"
        ) from error


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """The function's free variables that have a value already."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell: assigned later
            values[name] = cell.cell_contents
    return values


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a function whose parameters are annotated with types of the language.

    raises KernelError if an annotation is missing or is no type of the language
    >>> import numpy as np
    >>> from bedplate.kernel import f32, i64, load, loop, ptr, store
    >>> @kernel
    ... def double(n: i64, x: ptr(f32)):
    ...     for i in loop(n):
    ...         store(x + i, load(x + i) * 2)
    >>> x = np.array([1.0, 2.0], np.float32)
    >>> double(2, x)
    >>> x
    array([2., 4.], dtype=float32)
    """
    return Kernel(function, sys._getframe(1).f_locals)
