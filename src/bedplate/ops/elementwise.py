"""The two decorators that turn a row (reference, emission, gradient) into an elementwise op.

`@unary(...)` or `@binary(...)` stands on a function of which only name, arguments and docstring
count; it registers the record and gives back the function that users call, with the record as
its attribute `op`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import COMPLEX, FLOATS, INTEGERS, DType, bfloat16, bool_, float16, float32
from bedplate.errors import DTypeError
from bedplate.graph.node import NO_ATTRIBUTES, Attributes, Shape
from bedplate.ops.build import (
    Function,
    Value,
    apply_promoted,
    as_type,
    broadcast_shapes,
    common_dtype,
    promoted,
)
from bedplate.ops.leaves import constant
from bedplate.ops.record import Gradient, NoGradient, Op, Sample, refuse_foreign, register
from bedplate.ops.refusal import refuse_inputs

NUMBERS = INTEGERS + FLOATS
INEXACT = FLOATS + COMPLEX
ANY = (bool_, *INTEGERS, *FLOATS)
PLAIN_NUMBERS = (float, int)
NARROW_FLOATS = (float16.numpy, bfloat16.numpy)
WIDER = {dtype: np.float32 for dtype in NARROW_FLOATS} | {np.dtype(np.complex64): np.complex128}

Result = DType | Callable[[DType], DType] | None

NOT_DIFFERENTIABLE = NoGradient("its values are not real numbers that vary smoothly")


def flat_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, ...]:
    """The gradient of what is constant almost everywhere: none comes back."""
    return (None,) * len(inputs)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function that computes float16 and bfloat16 in float32, without warnings.

    complex64 is computed in complex128, since NumPy's complex64 functions lose digits. The result
    has the dtype of the first array, unless it is bool or the part of a complex number.
    """

    @functools.wraps(function)
    def reference(*arrays: Any, **attributes: Any) -> Any:
        dtype = arrays[0].dtype
        wide = WIDER.get(dtype)
        if wide is not None:
            arrays = tuple(a.astype(wide) if a.dtype == dtype else a for a in arrays)
        with np.errstate(all="ignore"):
            result = np.asarray(function(*arrays, **attributes))
            return result.astype(_narrowed(result.dtype, dtype), copy=False)

    return reference


def _narrowed(result: np.dtype[Any], dtype: np.dtype[Any]) -> Any:
    """The dtype of a result that was computed for inputs of `dtype`."""
    if result == np.bool_:
        return result
    if (result.kind == "c") == (dtype.kind == "c"):
        return dtype
    return np.float32 if dtype == np.complex64 else result


def parted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function of real arrays that does the same to both parts of complex ones."""

    @functools.wraps(function)
    def reference(*arrays: Any, **attributes: Any) -> Any:
        if all(array.dtype.kind != "c" for array in arrays):
            return function(*arrays, **attributes)
        parts = [
            function(*[part(a) if a.dtype.kind == "c" else a for a in arrays], **attributes)
            for part in (np.real, np.imag)
        ]
        result = np.empty(parts[0].shape, np.result_type(parts[0].dtype, np.complex64))
        result.real, result.imag = parts
        return result

    return reference


def emit_wide(emit: Callable[..., Any], dtype: Any, values: Any, attributes: Attributes) -> Any:
    """Emit in float32 what is float16 or bfloat16, and narrow once: as the reference does."""
    if not _is_narrow(language.element(values[0].type)):
        return emit(dtype, *values)
    wide = [language.cast(value, language.f32) for value in values]
    result = emit(language.f32 if _is_narrow(dtype) else dtype, *wide)
    return language.cast(result, dtype) if _is_narrow(dtype) else result


def _is_narrow(type_: Any) -> bool:
    return type_.is_float and type_.bits == 16


def in_float32(gradient: Gradient) -> Gradient:
    """A gradient that runs in float32 for float16 and bfloat16, and narrows what it gives once."""

    @functools.wraps(gradient)
    def widened_gradient(grad_out: Value, inputs: Any, output: Value, **attributes: Any) -> Any:
        dtype = grad_out.dtype
        if dtype is not float16 and dtype is not bfloat16:
            return gradient(grad_out, inputs, output, **attributes)
        inputs = tuple(as_type(value, float32) for value in inputs)
        output = as_type(output, float32)
        grads = gradient(as_type(grad_out, float32), inputs, output, **attributes)
        return tuple(grad if grad is None else as_type(grad, dtype) for grad in grads)

    return widened_gradient


def rounded_once(function: Function) -> Function:
    """A function composed of ops that computes float16 and bfloat16 in float32 and narrows once.

    Its first argument and its result have the dtype that holds all float arguments, in whichever
    order they come; where there is none the first is promoted as by `promote="float"`.
    """

    @functools.wraps(function)
    def computed(x: Value, *arguments: Any, **named: Any) -> Value:
        given = (x, *arguments, *named.values())
        floats = [value for value in given if getattr(value, "dtype", None) in FLOATS]
        if not floats:
            (x,) = promoted(function.__name__, (x,), to_float=True)
            return function(x, *arguments, **named)
        dtype = common_dtype(function.__name__, tuple(floats))
        narrow = dtype is float16 or dtype is bfloat16
        if hasattr(x, "_apply") and x.dtype not in COMPLEX:
            x = as_type(x, float32 if narrow else dtype)
        result = function(x, *arguments, **named)
        return as_type(result, dtype) if narrow else result

    return computed


def rule(name: str, accepted: tuple[DType, ...], result: Result) -> Callable[..., Any]:
    """The shape and dtype rule: inputs of one dtype broadcast; the result has it, or `result`."""
    allowed = frozenset(accepted)

    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
        first, last = inputs[0], inputs[-1]
        shape = first.shape
        dtype = first.dtype
        if len(inputs) > 2 or last.dtype is not dtype:
            shape = _common(name, inputs)
        elif last.shape != shape:
            shape = broadcast_shapes(name, inputs)
        if dtype not in allowed:
            refuse_dtype(name, inputs, accepted)
        if result is None:
            return shape, dtype
        return shape, result if isinstance(result, DType) else result(dtype)

    return infer


def _common(name: str, inputs: tuple[Any, ...]) -> Shape:
    """The shape to which inputs of one dtype broadcast."""
    first = inputs[0]
    if any(other.dtype is not first.dtype for other in inputs):
        refuse_inputs(DTypeError, name, "the dtypes differ", inputs)
    if all(other.shape == first.shape for other in inputs):
        return first.shape
    return broadcast_shapes(name, inputs)


def refuse_dtype(name: str, inputs: tuple[Any, ...], accepted: tuple[DType, ...]) -> NoReturn:
    """Refuse the dtype of the first input, with what would be accepted."""
    advice = [f"expected one of {', '.join(d.name for d in accepted)}"]
    if inputs[0].dtype.kind == "c":
        advice.append(
            "it is not defined for complex numbers: take bp.real(z), bp.imag(z) or bp.abs(z) first"
        )
    refuse_inputs(DTypeError, name, "no such op for this dtype", inputs, *advice)


def row(
    *,
    name: str,
    doc: str,
    reference: Callable[..., Any],
    emit: Callable[..., Any] | None,
    gradient: Gradient | NoGradient,
    samples: tuple[Sample, ...],
    dtypes: tuple[DType, ...],
    promote: str = "",
    result: Result = None,
) -> Op:
    """The registered record of an elementwise op; `emit` takes type and values.

    emit     None for an op that only complex numbers have: it is gone before kernels are made
    result   the dtype of the result, or a function that gives it of the inputs'; None: theirs
    """
    return register(
        Op(
            name,
            "elementwise",
            rule(name, dtypes, result),
            reference=widened(reference),
            gradient=gradient,
            emit=None if emit is None else functools.partial(emit_wide, emit),
            promote=promote,
            dtypes=dtypes,
            samples=samples,
            doc=doc,
        )
    )


def by_place(declared: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function whose arguments are given by their places alone."""
    signature = inspect.signature(declared)
    parameters = [p.replace(kind=p.POSITIONAL_ONLY) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters)


def unary(
    *,
    reference: Callable[..., Any],
    emit: Callable[..., Any] | None,
    gradient: Gradient | NoGradient,
    samples: tuple[Sample, ...],
    dtypes: tuple[DType, ...] = FLOATS,
    promote: str = "float",
    result: Result = None,
) -> Callable[[Callable[[Any], Any]], Callable[[Value], Value]]:
    """Make an op of one input; its arguments are the fields of the record."""

    def decorate(declared: Callable[[Any], Any]) -> Callable[[Value], Value]:
        op = row(
            name=declared.__name__.strip("_"), doc=declared.__doc__ or "", reference=reference,
            emit=emit, gradient=gradient, samples=samples, dtypes=dtypes, promote=promote,
            result=result,
        )  # fmt: skip
        accepted = frozenset(dtypes)

        @functools.wraps(declared)
        def function(x: Value, /) -> Value:
            if getattr(x, "dtype", None) in accepted:
                return x._apply(op, (x,), NO_ATTRIBUTES)
            return apply_promoted(op, (x,))

        function.op = op  # type: ignore[attr-defined]
        function.__signature__ = by_place(declared)  # type: ignore[attr-defined]
        return function

    return decorate


def binary(
    *,
    reference: Callable[..., Any],
    emit: Callable[..., Any] | None,
    gradient: Gradient | NoGradient,
    samples: tuple[Sample, ...],
    dtypes: tuple[DType, ...] = NUMBERS,
    promote: str = "common",
    result: Result = None,
) -> Callable[[Callable[[Any, Any], Any]], Callable[[Value, Value], Value]]:
    """Make an op of two inputs; its arguments are the fields of the record."""

    def decorate(declared: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
        op = row(
            name=declared.__name__.strip("_"), doc=declared.__doc__ or "", reference=reference,
            emit=emit, gradient=gradient, samples=samples, dtypes=dtypes, promote=promote,
            result=result,
        )  # fmt: skip
        accepted = frozenset(dtypes)
        floats = accepted.intersection(FLOATS)

        @functools.wraps(declared)
        def function(a: Value, b: Value, /) -> Value:
            if type(a) is type(b):
                pass
            elif type(b) in PLAIN_NUMBERS and getattr(a, "dtype", None) in floats:
                b = a._from_node(constant(b, a.dtype, a.device))
                return a._apply(op, (a, b), NO_ATTRIBUTES)
            elif type(a) in PLAIN_NUMBERS and getattr(b, "dtype", None) in floats:
                a = b._from_node(constant(a, b.dtype, b.device))
                return b._apply(op, (a, b), NO_ATTRIBUTES)
            try:
                dtype = a.dtype
                direct = dtype is b.dtype and dtype in accepted
            except AttributeError:
                direct = False
            if not direct:
                return apply_promoted(op, (a, b))
            try:
                return a._apply(op, (a, b), NO_ATTRIBUTES)
            except AttributeError:
                refuse_foreign(op.name, (a, b))
                raise

        # what a function says of itself: attributes that the type of functions does not know
        function.op = op  # type: ignore[attr-defined]
        function.accepted = accepted  # type: ignore[attr-defined]
        function.__signature__ = by_place(declared)  # type: ignore[attr-defined]
        return function

    return decorate
