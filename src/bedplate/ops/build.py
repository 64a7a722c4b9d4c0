"""How values are built from mixed arguments: numbers become constants, dtypes are promoted,
shapes broadcast.

A value is a graph node or a tensor: whatever has `_apply`, `_from_node` and `_lift`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from bedplate.dtypes import DType, bool_, float32, promote, real_dtype, scalar_dtype
from bedplate.errors import AxisError, DTypeError, ShapeError
from bedplate.graph.node import NO_ATTRIBUTES, Attributes, Shape
from bedplate.ops.leaves import constant
from bedplate.ops.record import REGISTRY, Op, refuse_foreign
from bedplate.ops.refusal import refuse_inputs

Value = Any  # a Tensor, a Node, or a Python number where another argument is a value


def broadcast_shapes(op: str, values: tuple[Any, ...]) -> Shape:
    """The shape to which the shapes of all values broadcast.

    raises ShapeError, naming each value
    """
    shapes = [value.shape for value in values]
    if len(shapes) == 2:
        long, short = shapes
        if len(long) < len(short):
            long, short = short, long
        if long[len(long) - len(short) :] == short:  # a row beside a matrix, a number
            return long
    rank = max([len(shape) for shape in shapes])
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and size != result[axis]:
                if result[axis] != 1:
                    _refuse_broadcast(op, values, axis - rank)
                result[axis] = size
    return tuple(result)


def _refuse_broadcast(op: str, values: tuple[Any, ...], axis: int) -> None:
    sizes = [v.shape[axis] if -axis <= len(v.shape) else 1 for v in values]
    refuse_inputs(
        ShapeError, op, "the shapes do not broadcast", values,
        f"sizes along axis {axis} are {', '.join(map(str, sizes))}; they must be equal or 1",
    )  # fmt: skip


def first_value(op: str, arguments: tuple[Any, ...]) -> Any:
    """The first argument that is a tensor or a node.

    raises TypeError if all are plain numbers or foreign objects
    """
    for argument in arguments:
        if hasattr(argument, "_apply"):
            return argument
    names = ", ".join(type(argument).__name__ for argument in arguments)
    raise TypeError(f"{op}: expected a tensor, got {names}; make one with bp.tensor(...)")


Number = bool | int | float | complex


def number(like: Value, scalar: Number, dtype: DType | None = None) -> Value:
    """A Python number as a value of the class, the device and (by default) the dtype of `like`."""
    wanted: DType = dtype or like.dtype
    if wanted.kind != "c":
        return like._from_node(constant(scalar, wanted, like.device))
    part = real_dtype(wanted)
    parts = [constant(x, part, like.device) for x in (scalar.real, scalar.imag)]
    return like._from_node(parts[0]._apply(REGISTRY["complex"], tuple(parts), NO_ATTRIBUTES))


def is_number(argument: Any) -> bool:
    return isinstance(argument, bool | int | float | complex)


def as_values(op: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with arrays made values; Python numbers stay as they are."""
    like = first_value(op, arguments)
    return tuple(
        argument if hasattr(argument, "_apply") or is_number(argument) else like._lift(argument)
        for argument in arguments
    )


def common_dtype(op: str, arguments: tuple[Any, ...]) -> DType:
    """The dtype that holds all arguments; Python numbers weigh less than values.

    raises DTypeError, naming each value
    """
    values = [argument for argument in arguments if not is_number(argument)]
    dtype = values[0].dtype
    try:
        for value in values[1:]:
            dtype = promote(dtype, value.dtype)
        for argument in arguments:
            if is_number(argument):
                dtype = scalar_dtype(argument, dtype)
    except DTypeError as error:
        refuse_inputs(DTypeError, op, str(error), tuple(values))
    return dtype


def promoted(op: str, arguments: tuple[Any, ...], to_float: bool = False) -> tuple[Any, ...]:
    """The arguments as values of their common dtype; casts are inserted where needed.

    to_float   bools and integers become float32
    """
    arguments = as_values(op, arguments)
    dtype = common_dtype(op, arguments)
    if to_float and dtype.kind in "biu":
        dtype = float32
    like = first_value(op, arguments)
    return tuple(
        number(like, argument, dtype) if is_number(argument) else as_type(argument, dtype)
        for argument in arguments
    )


def truths(op: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as bools: whether they differ from 0."""
    arguments = as_values(op, arguments)
    like = first_value(op, arguments)
    return tuple(
        number(like, bool(argument), bool_) if is_number(argument) else as_type(argument, bool_)
        for argument in arguments
    )


def as_type(value: Value, dtype: DType) -> Value:
    """`value` in `dtype`, cast if it has another."""
    return value if value.dtype is dtype else value.astype(dtype, False)


def as_float(value: Value) -> Value:
    """Bools and integers as float32, as functions of floats take them; others as they are."""
    return value.astype(float32, False) if value.dtype.kind in "biu" else value


def apply_promoted(
    op: Op, arguments: tuple[Any, ...], attributes: Attributes = NO_ATTRIBUTES
) -> Value:
    """Apply an elementwise op after the promotion that its record asks for."""
    if op.promote == "truth":
        values = truths(op.name, arguments)
    elif op.promote:
        values = promoted(op.name, arguments, op.promote == "float")
    else:
        values = as_values(op.name, arguments)
    return values[0]._apply(op, values, attributes)


def without_gradient(value: Value) -> Value:
    """`value`, through which no gradient passes; a node has no history as it is."""
    detach = getattr(value, "detach", None)
    return value if detach is None else detach()


def sum_to(value: Value, shape: Shape) -> Value:
    """Sum `value` over the axes along which `shape` was broadcast: the gradient of broadcasting."""
    if value.shape == shape:
        return value
    extra = len(value.shape) - len(shape)
    axes = tuple(range(extra)) + tuple(
        axis + extra
        for axis, size in enumerate(shape)
        if size == 1 and value.shape[axis + extra] != 1
    )
    return value.sum(axis=axes, keepdims=True).reshape(shape)


def is_index(given: Any) -> bool:
    """Whether it is one integer: Python's, NumPy's, or whatever stands for one."""
    if type(given) is int:
        return True
    if hasattr(given, "_apply"):
        return False
    try:
        operator.index(given)
    except TypeError:
        return False
    return True


def several(given: Any) -> tuple[int, ...]:
    """One integer, or several in a sequence or an array, as a tuple.

    raises TypeError if it is neither
    """
    try:
        if is_index(given):
            return (operator.index(given),)
        return tuple(operator.index(each) for each in given)
    except TypeError:
        raise TypeError(f"expected an integer or several, got {given!r:.80}") from None


def normalised_axis(op: str, axis: int, ndim: int, value: Any = None) -> int:
    """`axis` counted from the front.

    raises AxisError if there is no such axis
    """
    if type(axis) is not int:
        axis = operator.index(axis)
    if -ndim <= axis < ndim:
        return axis % ndim
    inputs = () if value is None else (value,)
    bounds = f"axes are {-ndim} to {ndim - 1}" if ndim else "a 0-d value has no axes"
    refuse_inputs(AxisError, op, f"axis {axis} is out of range", inputs, bounds)


def normalised_axes(op: str, axis: int | Sequence[int] | None, value: Any) -> tuple[int, ...]:
    """The axes as a sorted tuple counted from the front; None means all.

    raises AxisError for an axis that does not exist, ShapeError for one that comes twice
    """
    try:
        ndim = len(value.shape)
    except AttributeError:
        refuse_foreign(op, (value,))
        raise
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    given = several(axis)
    axes = sorted(normalised_axis(op, a, ndim, value) for a in given)
    if len(set(axes)) != len(axes):
        refuse_inputs(ShapeError, op, f"axes {given} name one axis twice", (value,))
    return tuple(axes)


def require(op: str, value: Any, dtypes: tuple[DType, ...], what: str = "a") -> None:
    """Refuse `value` if its dtype is not among `dtypes`."""
    if value.dtype not in dtypes:
        refuse_inputs(
            DTypeError, op, f"the dtype of {what} does not fit", (value,),
            f"expected one of {', '.join(d.name for d in dtypes)}",
        )  # fmt: skip


Function = Callable[..., Value]
