"""Elementwise ops on mixed dtypes: cast, where, checked_index."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.devices.device import Device
from bedplate.dtypes import COMPLEX, DType, as_dtype, bool_, int64, rounded, uint64
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_values, broadcast_shapes, number, promoted, sum_to
from bedplate.ops.complex_numbers.parts import real
from bedplate.ops.elementwise import ANY
from bedplate.ops.record import REGISTRY, NoGradient, Op, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import bools, floats, integers, mixed

LARGEST = np.iinfo(np.int64).max


def cast_gradient(grad_out: Value, inputs: Any, output: Value, *, dtype: DType) -> tuple[Any]:
    """The gradient goes back in the dtype of the input, a real one has the real part; integers
    have none."""
    source = inputs[0].dtype
    if source.kind not in "fc" or dtype.kind not in "fc":
        return (None,)
    return (astype(grad_out if source.kind == "c" else real(grad_out), source),)


def _cast_reference(x: Any, *, dtype: DType) -> Any:
    target = dtype.numpy
    with np.errstate(all="ignore"):
        if dtype.is_integer and np.dtype(x.dtype).kind not in "iub":
            return _saturated(x, target)
        return rounded(x, target)


def _saturated(x: Any, target: np.dtype[Any]) -> Any:
    """Floats to integers as the kernel language has it: towards zero, clamped, NaN to 0."""
    info = np.iinfo(target)
    wide = np.trunc(x.astype(np.float64))
    result = np.where(np.isfinite(wide) & (np.abs(wide) < 2.0**64), wide, 0).astype(object)
    result = np.where(wide >= float(info.max), info.max, result)
    result = np.where(wide <= float(info.min), info.min, result)
    return (
        np.vectorize(int, otypes=[object])(result).astype(target)
        if result.size
        else result.astype(target)
    )


def _cast_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    dtype = attributes["dtype"]
    if inputs[0].dtype.kind == "c" and dtype.kind not in "cb":
        refuse_inputs(
            DTypeError, "astype", f"a complex value does not become {dtype}", inputs,
            "the imaginary part would be lost: take bp.real(x), or bp.abs(x), first",
        )  # fmt: skip
    return inputs[0].shape, dtype


def _cast_emit(dtype: Any, values: Any, attributes: Attributes) -> Any:
    return values[0] != 0 if dtype.name == "i1" else language.cast(values[0], dtype)


CAST = register(
    Op(
        "cast",
        "elementwise",
        _cast_infer,
        reference=_cast_reference,
        gradient=cast_gradient,
        emit=_cast_emit,
        dtypes=ANY + COMPLEX,
        samples=tuple(
            sample(shape, dtype=as_dtype(name))
            for name in ("float64", "float32", "bfloat16", "float16", "int32", "uint8", "bool")
            for sample, shape in ((floats, (3, 7)), (integers, (9,)), (bools, ()))
        ),
        doc="Convert each element to another dtype.",
    )
)


def astype(x: Value, dtype: Any, copy: bool = True, device: Any = None) -> Value:
    """Convert each element to `dtype`.

    Floats become integers by rounding towards zero; what is out of range becomes the nearest
    integer that is there, NaN becomes 0. Between integers the low bits are kept.

    x        any shape
    dtype    a bedplate or NumPy dtype, a name, or bool, int, float, complex
    copy     False: x itself if it has this dtype already. Values never alias; what a copy adds
             is that `y += 1` binds y alone
    device   of the result, by default that of x
    returns  shape of x; between floats the gradient passes, converted back
    raises   DTypeError for an unknown dtype, and for complex numbers as real ones; DeviceError
             for an unknown device
    >>> import bedplate as bp
    >>> bp.astype(bp.tensor([1.7, -1.7, float("nan")]), bp.int32).tolist()
    [1, -1, 0]
    """
    target = as_dtype(dtype)
    if device is not None:
        x = x.to(Device(device))
    if x.dtype is target:
        return x._alias() if copy else x
    return apply(CAST, (x,), {"dtype": target})


def where_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any, Any]:
    """The gradient goes to the side that was taken."""
    condition, a, b = inputs
    zero = number(grad_out, 0.0)
    return (
        None,
        sum_to(where(condition, grad_out, zero), a.shape),
        sum_to(where(condition, zero, grad_out), b.shape),
    )


def _where_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    condition, a, b = inputs
    if condition.dtype is not bool_:
        refuse_inputs(DTypeError, "where", "the condition must be bool", inputs)
    if a.dtype is not b.dtype:
        refuse_inputs(DTypeError, "where", "the dtypes of the two sides differ", inputs)
    return broadcast_shapes("where", inputs), a.dtype


WHERE = register(
    Op(
        "where",
        "elementwise",
        _where_infer,
        reference=np.where,
        gradient=where_gradient,
        by_parts=True,
        emit=lambda dtype, values, attributes: language.select(*values),
        dtypes=(bool_,),
        samples=(
            mixed(
                lambda r: [r.random((3, 5)) < 0.5, r.random((3, 5)), r.random((3, 5))],
                "equal shapes",
            ),
            mixed(lambda r: [r.random((3, 1)) < 0.5, r.random((1, 7)), r.random(())], "broadcast"),
            mixed(
                lambda r: [r.random((4,)) < 0.5, r.integers(0, 9, (4,)), r.integers(0, 9, 4)],
                "integers",
            ),
            mixed(lambda r: [r.random((0, 4)) < 0.5, r.random((4,)), r.random(())], "empty"),
        ),
        doc="Choose between two values, element by element.",
    )
)


def where(condition: Value, a: Value, b: Value) -> Value:
    """Choose between two values: y = a where condition else b.

    condition, a, b  shapes broadcast; condition bool, a and b of one dtype after promotion
    returns          their common shape and dtype; a NaN on the side not taken has no effect
    >>> import bedplate as bp
    >>> bp.where(bp.tensor([True, False]), bp.tensor([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    dtype = getattr(a, "dtype", None)
    values = type(dtype) is DType and getattr(b, "dtype", None) is dtype
    if values and getattr(condition, "dtype", None) is bool_:
        return apply(WHERE, (condition, a, b))
    condition, a, b = as_values("where", (condition, a, b))
    if isinstance(condition, bool):
        condition = number(a if hasattr(a, "_apply") else b, condition, bool_)
    if not (hasattr(a, "_apply") or hasattr(b, "_apply")):
        a = number(condition, a, as_dtype(type(a)))
    a, b = promoted("where", (a, b))
    return apply(WHERE, (condition, a, b))


def _checked_index_reference(index: Any, *, size: int, what: str, wrap: bool) -> Any:
    index = index if index.dtype.itemsize == 8 else index.astype(np.int64)  # holds any size
    wrong = (index < (-size if wrap else 0)) | (index >= size)
    if wrong.any():
        first = index.reshape(-1)[int(np.argmax(wrong))]
        raise IndexError(f"{what}: index {first} is out of range for size {size}")
    return np.where(index < 0, index + size, index).astype(np.int64)


def _checked_index_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    if not inputs[0].dtype.is_integer:
        refuse_inputs(DTypeError, attributes["what"], "indices must be integers", inputs)
    return inputs[0].shape, int64


def _checked_index_emit(dtype: Any, values: Any, attributes: Attributes) -> Any:
    """The index wrapped and clamped; the compiler adds the report of what was out of range."""
    size = attributes["size"]
    index = language.cast(values[0], dtype)
    wrapped = language.select(index < 0, index + size, index) if attributes["wrap"] else index
    return language.minimum(language.maximum(wrapped, 0), max(size - 1, 0))


CHECKED_INDEX = register(
    Op(
        "checked_index",
        "elementwise",
        _checked_index_infer,
        reference=_checked_index_reference,
        gradient=NoGradient("indices are integers"),
        emit=_checked_index_emit,
        dtypes=tuple(d for d in ANY if d.is_integer),
        samples=(integers((7,), low=-5, high=5, size=5, what="take: axis 0", wrap=True),),
        doc="Wrap negative indices if `wrap`; what is out of range is an IndexError after the run.",
    )
)


def checked_index(index: Value, size: int, what: str, wrap: bool = True) -> Value:
    """Wrap negative indices and check the range [-size, size).

    what     the op and the axis, for the message
    wrap     negative indices count from the end; otherwise they are out of range
    returns  int64, in [0, size)
    raises   IndexError when the value is computed, with index, axis and size; at once if there
             are indices into nothing
    """
    if size == 0 and 0 not in index.shape:
        raise IndexError(f"{what}: every index is out of range for size 0")
    if index.dtype is uint64:  # what is too large for int64 must not become a negative index
        index = apply(REGISTRY["minimum"], (index, number(index, int(LARGEST))))
    return apply(CHECKED_INDEX, (index,), {"size": size, "what": what, "wrap": wrap})
