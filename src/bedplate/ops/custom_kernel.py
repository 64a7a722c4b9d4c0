"""run_kernel: a user's own kernel as an op of the graph.

The kernel is called by a task that reads its arguments from the words of the launch, so that it is
planned, captured and run on the worker threads like any other. On the reference device the
kernel's interpreter runs it. With `config.check` it runs at once, on copies of its inputs, with
every access tested against the memory of the argument that it was made from.

Tensors are values, so a kernel may not write to its inputs. Its traced program tells what it
writes; where that cannot be known (kernel/writes.py) it is given copies. Outputs start as zeros, so
memory that somebody else has let go of is never handed out.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.config import config
from bedplate.dtypes import DType, as_dtype, int64
from bedplate.errors import DTypeError, KernelError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import Kernel, call, cast, i64, loop, ptr, word_float, word_int, word_pointer
from bedplate.kernel.context import line_of
from bedplate.kernel.values import integer_range
from bedplate.kernel.writes import Writes, find_writes
from bedplate.later import deferred
from bedplate.ops.build import Value, several
from bedplate.ops.custom_kernel_memory import clear, contiguous
from bedplate.ops.record import NoGradient, Op, each_element, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import integers
from bedplate.ops.shape.views import outputs

stored = deferred("bedplate.devices.transfer", "stored")
SPLIT = ("begin", "end")  # the parameters of a kernel whose work is handed out in parts
Argument = tuple[str, Any]  # ("input" or "output", number), ("int", value), ("float", its bits)


@dataclass(frozen=True)
class Output:
    """Memory that a kernel fills: what becomes a result of `run_kernel`."""

    shape: Shape
    dtype: DType


def kernel_output(shape: int | Sequence[int], dtype: Any) -> object:
    """Stand for a result among the arguments of `run_kernel`: zeros that the kernel writes over.

    shape   sizes, or one size
    dtype   of the result; the kernel's parameter is a pointer to it
    raises  ShapeError for a negative size
    >>> import bedplate as bp
    >>> bp.kernel_output((2, 3), bp.float32).shape
    (2, 3)
    """
    sizes = several(shape)
    if any(size < 0 for size in sizes):
        raise ShapeError(f"kernel_output: {shape!r} is no shape\n  expected integers from 0 on")
    return Output(sizes, as_dtype(dtype))


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Any, Any]:
    results = attributes["results"]
    if len(results) == 1:
        return results[0].shape, results[0].dtype
    return tuple(r.shape for r in results), tuple(r.dtype for r in results)


def _reference(*arrays: Any, kernel: Kernel, arguments: Any, results: Any, items: Any) -> Any:
    return _run(kernel.interpret, arrays, arguments, results, items)


def _run(execute: Any, arrays: Any, arguments: Any, results: Any, items: int | None) -> Any:
    """Call a kernel on copies of the inputs; gives what it wrote to the outputs."""
    given = [np.array(array, order="C") for array in arrays]
    made = [np.zeros(result.shape, result.dtype.numpy) for result in results]
    places = {"input": given, "output": made}
    values = [
        places[kind][value] if kind in places else _number(kind, value) for kind, value in arguments
    ]
    execute(*values, *([] if items is None else [0, items]))
    return made[0] if len(made) == 1 else tuple(made)


def _number(kind: str, value: Any) -> Any:
    return struct.unpack("d", value)[0] if kind == "float" else value


def _lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    attributes = node.attributes
    copied = _writes(attributes["kernel"]).blind
    whole = [contiguous(builder, view, copied) for view in inputs]
    for view in outputs:
        clear(builder, view)
    places = {"input": whole, "output": outputs}
    words = [
        places[kind][value] if kind in places else _word(kind, value)
        for kind, value in attributes["arguments"]
    ]
    kernel, items = attributes["kernel"], attributes["items"]
    builder.launch(
        make_task(kernel, items is not None), words, 1 if items is None else items,
        reads=[getattr(place, "buffer", place) for place in (*whole, *outputs)],
        writes=[view.buffer for view in outputs], name=kernel.name,
        nbytes=float(sum(view.size * view.dtype.itemsize for view in (*inputs, *outputs))),
    )  # fmt: skip


def _word(kind: str, value: Any) -> Any:
    if kind == "float":
        return _number(kind, value)
    return value - (1 << 64) if value >= 1 << 63 else value


@functools.lru_cache(maxsize=256)
def make_task(kernel: Kernel, split: bool) -> Kernel:
    """The task that calls a kernel with the words of a launch."""
    types = list(kernel.parameters.values())

    def task(args: Any, begin: Any, end: Any, worker: Any) -> None:
        known = types[:-2] if split else types
        values = [_from_word(args, i, type_) for i, type_ in enumerate(known)]
        if split:
            call(kernel, *values, begin, end)
        else:
            for _ in loop(begin, end):
                call(kernel, *values)

    task.__name__ = task.__qualname__ = kernel.name
    task.__annotations__ = {"args": ptr(i64), "begin": i64, "end": i64, "worker": i64}
    return language.kernel(task)


def _from_word(args: Any, index: int, type_: Any) -> Any:
    if type_.is_pointer:
        return word_pointer(args, index, language.element(type_))
    if type_.is_float:
        return cast(word_float(args, index), type_)
    return (
        word_int(args, index) != 0 if type_ is language.i1 else cast(word_int(args, index), type_)
    )


NO_GRADIENT = NoGradient(
    "it is a kernel of a user's own; call it in the forward of a bp.Operation, whose grad_fn says "
    "what its gradient is"
)


@language.kernel
def _plus(n: i64, x: ptr(i64), k: i64, y: ptr(i64)):
    for i in loop(n):
        language.store(y + i, language.load(x + i) + k)


RUN_KERNEL = register(
    Op(
        "run_kernel",
        "kernel",
        _infer,
        reference=_reference,
        gradient=NO_GRADIENT,
        cost=each_element(0, "what its author wrote, which is not counted"),
        lower=_lower,
        dtypes=(int64,),
        samples=(
            integers(
                (3, 5),
                kernel=_plus,
                arguments=(("int", 15), ("input", 0), ("int", 7), ("output", 0)),
                results=(Output((5, 3), int64),),
                items=None,
            ),
        ),
        doc="A kernel of a user's own.",
    )
)


@functools.cache
def _record(n_outputs: int) -> Op:
    """The op of kernels with so many outputs."""
    if n_outputs == 1:
        return RUN_KERNEL
    return dataclasses.replace(
        RUN_KERNEL, name=f"run_kernel_{n_outputs}", n_outputs=n_outputs, samples=()
    )


def run_kernel(kernel: Any, *arguments: Any, items: int | None = None) -> Any:
    """Run a kernel of your own on tensors, as a lazy operation of the graph.

    kernel     made by `@bp.kernel.kernel`; it writes to its outputs only, which start as zeros
    arguments  one for each parameter: a tensor for a pointer that is read (its elements lie in
               order, whatever view it is), `bp.kernel_output(shape, dtype)` for a pointer that is
               written, a Python number for any other
    items      the kernel's last two parameters are `begin: i64, end: i64`: it is called for parts
               of range(items), which may run at the same time; leave these two out
    returns    a tensor, or a tuple of them for several outputs. There is no gradient: call it in
               the forward of a `bp.Operation` that has one.
    raises     KernelError, DTypeError where an argument does not fit, a tensor is bound to a
               pointer that the kernel writes, or an output to one that it never does; with
               config.check at once a KernelBoundsError for an access outside an argument
    cost       of its own, and of setting the outputs to zero
    >>> import bedplate as bp
    >>> from bedplate.kernel import f32, i64, kernel, load, loop, ptr, store
    >>> @kernel
    ... def double(x: ptr(f32), y: ptr(f32), begin: i64, end: i64):
    ...     for i in loop(begin, end):
    ...         store(y + i, load(x + i) * 2)
    >>> x = bp.tensor([1.0, 2.0])
    >>> bp.run_kernel(double, x, bp.kernel_output(x.shape, x.dtype), items=x.size).tolist()
    [2.0, 4.0]
    """
    _check_kernel(kernel, arguments, items)
    tensors: list[Value] = []
    results: list[Output] = []
    written: list[Argument] = []
    for (name, type_), argument in zip(kernel.parameters.items(), arguments, strict=False):
        if isinstance(argument, Output):
            _check_pointer(kernel, name, type_, argument)
            written.append(("output", len(results)))
            results.append(argument)
        elif hasattr(argument, "_apply"):
            _check_pointer(kernel, name, type_, argument)
            written.append(("input", len(tensors)))
            tensors.append(argument)
        else:
            written.append(_checked_number(kernel, name, type_, argument))
    if not tensors or not results:
        missing = "bp.kernel_output(shape, dtype)" if tensors else "a tensor"
        raise KernelError(f"run_kernel {kernel.name}: {missing} is missing among the arguments")
    _check_writes(kernel, arguments)
    attributes = {
        "kernel": kernel, "arguments": tuple(written), "results": tuple(results), "items": items
    }  # fmt: skip
    made = tensors[0]._apply(_record(len(results)), tuple(tensors), attributes)
    if config.check and hasattr(made, "realise"):
        _run_checked(made, tensors, attributes)
    return made if len(results) == 1 else outputs(made)


def _run_checked(made: Value, tensors: list[Value], attributes: Attributes) -> None:
    """Give the value now, by a call that knows the extent of every argument."""
    node = made._node
    if not node.device.is_planned:
        return  # the interpreter checks by itself
    # without history: this is no reading of a value that a gradient would have to know of
    arrays = [x._from_node(x._node).realise()._node.array() for x in tensors]
    parts = (attributes[name] for name in ("arguments", "results", "items"))
    found = _run(attributes["kernel"], arrays, *parts)
    found = found if isinstance(found, tuple) else (found,)
    blocks = [stored(node.device, array, node.site) for array in found]
    node.realise(tuple(blocks) if len(blocks) > 1 else blocks[0])


def _check_kernel(kernel: Any, arguments: tuple[Any, ...], items: int | None) -> None:
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"run_kernel: expected a kernel, got {type(kernel).__name__}\n"
            "  make one with @bedplate.kernel.kernel"
        )
    names, types = list(kernel.parameters), list(kernel.parameters.values())
    wanted = ", ".join(f"{n}: {t}" for n, t in kernel.parameters.items())
    head = f"run_kernel {kernel.name}"
    if kernel.result is not None or any(type_.lanes for type_ in types):
        raise KernelError(f"{head}: only kernels without vectors and results\n  ({wanted})")
    if items is not None:
        if type(items) is not int or items < 0:
            raise KernelError(f"{head}: items={items!r}\n  expected an integer from 0 on")
        if tuple(names[-2:]) != SPLIT or any(type_ is not i64 for type_ in types[-2:]):
            raise KernelError(
                f"{head}: items needs a kernel whose last parameters are begin: i64, end: i64\n"
                f"  ({wanted})"
            )
        names = names[:-2]
    if len(names) != len(arguments):
        raise KernelError(
            f"{head}: {len(arguments)} arguments for {len(names)} parameters\n  ({wanted})"
        )


@functools.lru_cache(maxsize=256)
def _writes(kernel: Kernel) -> Writes:
    """What a kernel writes."""
    return find_writes(kernel.ir)


def _check_writes(kernel: Kernel, arguments: tuple[Any, ...]) -> None:
    """raises KernelError unless the kernel writes its outputs, and none of its inputs"""
    writes = _writes(kernel)
    for place, (name, argument) in enumerate(zip(kernel.parameters, arguments, strict=False)):
        store = writes.stores.get(place)
        if isinstance(argument, Output):
            if store is None and not writes.blind:
                raise KernelError(
                    f"run_kernel {kernel.name}: an output is bound to {name}, which the kernel "
                    f"never writes\n  it writes {_names(kernel, writes)}\n"
                    "  give a tensor for what is read, bp.kernel_output for what is written"
                )
        elif store is not None and hasattr(argument, "_apply"):
            refuse(
                KernelError, f"run_kernel {kernel.name}",
                f"an input is bound to {name}, which the kernel writes: {store[0]} at "
                f"{line_of(store[1])}",
                {name: argument}, "tensors are values: bind bp.kernel_output(shape, dtype) there",
            )  # fmt: skip


def _names(kernel: Kernel, writes: Writes) -> str:
    names = list(kernel.parameters)
    return ", ".join(names[place] for place in sorted(writes.stores)) or "nothing"


def _check_pointer(kernel: Kernel, name: str, type_: Any, given: Any) -> None:
    if type_.is_pointer and language.element(type_) is language.from_dtype(given.dtype):
        return
    if isinstance(given, Output):
        raise DTypeError(
            f"run_kernel {kernel.name}: an output of {given.dtype} does not fit {name}: {type_}"
        )
    refuse(
        DTypeError, f"run_kernel {kernel.name}", f"a tensor does not fit {name}: {type_}",
        {name: given}, "cast it first: x.astype(dtype)",
    )  # fmt: skip


def _checked_number(kernel: Kernel, name: str, type_: Any, given: Any) -> Argument:
    head = f"run_kernel {kernel.name}: {name}: {type_} does not take {given!r}"
    if type_.is_pointer:
        raise KernelError(f"{head}\n  expected a tensor or bp.kernel_output(shape, dtype)")
    if type_.is_float:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return "float", struct.pack("d", float(given))
        raise KernelError(f"{head}\n  expected a Python number")
    if not isinstance(given, int):
        raise KernelError(f"{head}\n  expected a Python int")
    low, high = integer_range(type_)
    if not low <= given <= high:
        raise KernelError(f"{head}\n  expected {low} to {high}")
    return "int", int(given)
