"""Host ops: what NumPy computes for us (LAPACK, pocketfft), as records like any other.

The record sees real arrays only. A complex value goes in and comes out as pairs of floats along
a last axis of 2, which the NumPy function and the gradient are shown as complex numbers: both
are written once, for real and for complex values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.dtypes import float32, float64
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_type, promoted
from bedplate.ops.complex_numbers.parts import as_complex, as_real, real
from bedplate.ops.record import Cost, NoGradient, Op, Sample, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.shape.views import outputs

# kinds of inputs and outputs: as the first input is; always real; always complex
SAME, REAL, COMPLEX = "s", "r", "c"
Array = np.ndarray[Any, Any]
Narrow = Callable[[Value], Value]
Counted = tuple[str, Callable[..., float]]
COMPLEX_FLOPS = 4  # of a product of complex numbers, to one of real numbers


def host_op(
    name: str,
    shapes: Callable[..., Any],
    function: Callable[..., Any],
    gradient: Callable[..., Any] | NoGradient,
    samples: tuple[Sample, ...],
    doc: str,
    takes: str = SAME,
    gives: str = SAME,
    cost: Counted | None = None,
) -> Callable[..., Any]:
    """Register an op that a NumPy function computes.

    shapes    (shape of each input, **attributes) -> tuple of the outputs' shapes; pairs are not
              seen: a complex value has its own shape
    function  (*arrays, **attributes) -> array, or a tuple for several outputs
    gradient  (gradients, inputs, outputs, **attributes) -> one or None per input, where all are
              tuples of real or complex values, and a gradient that is not wanted is None
    samples   with the attribute `pairs`: whether the arrays stand for complex numbers
    takes     one kind for each input, the last for all that follow
    gives     one kind for each output
    cost      words, and (shape of each input, **attributes) -> flops on real numbers
    returns   a function of real or complex values and the attributes
    """
    n_outputs = len(gives)
    op = register(
        Op(
            name,
            "host",
            _rule(name, shapes, takes, gives),
            reference=_reference(function, takes, gives),
            gradient=gradient
            if isinstance(gradient, NoGradient)
            else _on_pairs(gradient, takes, gives),
            n_outputs=n_outputs,
            cost=None if cost is None else _cost(*cost, takes),
            dtypes=(float32, float64),
            samples=samples,
            doc=doc,
        )
    )

    def call(*values: Value, **attributes: Any) -> Any:
        pairs = values[0].dtype.kind == "c"
        kinds = _kinds(takes, len(values))
        inputs = tuple(
            as_real(v) if _paired(k, pairs) else v for v, k in zip(values, kinds, strict=True)
        )
        result = apply(op, inputs, {**attributes, "pairs": pairs})
        if n_outputs == 1:
            return _shown((result,), gives, pairs)[0]
        return _shown(outputs(result), gives, pairs)

    return call


def cubic(factor: float, words: str) -> Counted:
    """factor M N min(M, N) flops for each matrix of the first input."""
    shown = f"{factor:.2g} {words} flops a matrix, by LAPACK"
    return shown, lambda x, *_, **__: factor * math.prod(x) * min(x[-2:])


def _cost(words: str, flops: Callable[..., float], takes: str) -> Cost:
    def counted(inputs: Any, output: Any, attributes: Attributes) -> float:
        shapes, rest, pairs = _natural(inputs, attributes, takes)
        return flops(*shapes, **rest) * (COMPLEX_FLOPS if pairs else 1)

    return Cost(words, counted)


def _natural(
    inputs: tuple[Any, ...], attributes: Attributes, takes: str
) -> tuple[list[Shape], Attributes, bool]:
    """Shapes in which a complex number counts once, the other attributes, and `pairs`."""
    rest = dict(attributes)
    pairs = rest.pop("pairs")
    kinds = _kinds(takes, len(inputs))
    shapes = [
        tuple(x.shape[:-1] if _paired(kind, pairs) else x.shape)
        for x, kind in zip(inputs, kinds, strict=True)
    ]
    return shapes, rest, pairs


def _rule(name: str, shapes: Callable[..., Any], takes: str, gives: str) -> Callable[..., Any]:
    def infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Any, Any]:
        shapes_seen, rest, pairs = _natural(inputs, attributes, takes)
        dtype = inputs[0].dtype
        if any(x.dtype is not dtype for x in inputs) or dtype not in (float32, float64):
            refuse_inputs(
                DTypeError, name, "no such op for these dtypes", inputs,
                "expected float32, float64 or complex numbers of them",
            )  # fmt: skip
        found = shapes(*shapes_seen, **rest)
        stored = tuple(
            (*shape, 2) if _paired(kind, pairs) else tuple(shape)
            for shape, kind in zip(found, gives, strict=True)
        )
        return (stored[0], dtype) if len(gives) == 1 else (stored, (dtype,) * len(gives))

    return infer


def _reference(function: Callable[..., Any], takes: str, gives: str) -> Callable[..., Any]:
    def reference(*arrays: Array, pairs: bool, **attributes: Any) -> Any:
        kinds = _kinds(takes, len(arrays))
        numbers = [
            _complex_array(array) if _paired(kind, pairs) else array
            for array, kind in zip(arrays, kinds, strict=True)
        ]
        try:
            found = function(*numbers, **attributes)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(f"{error}{_which(function, numbers, attributes)}") from None
        parts = found if len(gives) > 1 else (found,)
        stored = tuple(
            _pair_array(part) if _paired(kind, pairs) else part
            for part, kind in zip(parts, gives, strict=True)
        )
        return stored if len(gives) > 1 else stored[0]

    return reference


def _which(function: Callable[..., Any], numbers: list[Array], attributes: Attributes) -> str:
    """Which matrix of a stack an algorithm could not treat, as words."""
    stack = numbers[0].shape[:-2]
    for index in np.ndindex(stack):
        try:
            function(*[array[index] for array in numbers], **attributes)
        except np.linalg.LinAlgError:
            return f", matrix {index} of the stack {stack}" if stack else ""
    return ""


def _kinds(takes: str, count: int) -> str:
    return (takes + takes[-1] * count)[:count]


def _paired(kind: str, pairs: bool) -> bool:
    return kind == COMPLEX or (kind == SAME and pairs)


def _complex_array(array: Array) -> Array:
    """Pairs as complex numbers, without a copy where the two lie side by side."""
    twin = np.complex128 if array.dtype == np.float64 else np.complex64
    if array.strides[-1] != array.itemsize:
        array = np.ascontiguousarray(array)
    return array.view(twin)[..., 0]


def _pair_array(array: Array) -> Array:
    """Complex numbers as pairs; real ones (of a result that may be either) get zeros."""
    if array.dtype.kind != "c":
        array = array.astype(np.complex128 if array.dtype == np.float64 else np.complex64)
    twin = np.float64 if array.dtype == np.complex128 else np.float32
    return np.ascontiguousarray(array).reshape((*array.shape, 1)).view(twin)


def _on_pairs(gradient: Callable[..., Any], takes: str, gives: str) -> Callable[..., Any]:
    """The gradient of the record: shows complex numbers to `gradient`, takes pairs from it."""

    @functools.wraps(gradient)
    def on_pairs(
        grad_out: Any, inputs: Any, output: Value, *, pairs: bool, **attributes: Any
    ) -> Any:
        kinds = _kinds(takes, len(inputs))
        several = len(gives) > 1
        grads = _shown(grad_out if several else (grad_out,), gives, pairs)
        values = _shown(outputs(output) if several else (output,), gives, pairs)
        found = gradient(grads, _shown(inputs, kinds, pairs), values, **attributes)
        return tuple(_stored(g, _paired(k, pairs)) for g, k in zip(found, kinds, strict=True))

    return on_pairs


def _shown(values: Any, kinds: str, pairs: bool) -> tuple[Any, ...]:
    return tuple(
        as_complex(value) if value is not None and _paired(kind, pairs) else value
        for value, kind in zip(values, kinds, strict=True)
    )


def _stored(gradient: Value | None, paired: bool) -> Value | None:
    """A gradient for an input: the real part of a complex one, if the input is real."""
    if gradient is None:
        return None
    return as_real(gradient) if paired else real(gradient)


def widened(name: str, *values: Any) -> tuple[tuple[Value, ...], Narrow]:
    """The values in their common dtype, in which NumPy can compute, and what to do with a result.

    bools and integers become float32; float16 and bfloat16 are computed in float32, and a result
    is rounded to them once.
    """
    common = promoted(name, values, to_float=True)
    dtype = common[0].dtype
    if dtype.kind == "c" or dtype in (float32, float64):
        return common, lambda result: result
    wide = tuple(as_type(value, float32) for value in common)
    return wide, lambda y: as_type(y, dtype) if y.dtype.is_float else y
