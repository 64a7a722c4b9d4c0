"""Views: the same elements under another shape. Values never alias, so a view is only a rule
of indices, which the compiler folds into whatever reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bedplate.dtypes import ALL, DType
from bedplate.errors import InternalError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, normalised_axes, normalised_axis, several
from bedplate.ops.record import Op, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats

Axes = int | Sequence[int]


def reshape_gradient(grad_out: Value, inputs: Any, output: Value, *, shape: Shape) -> tuple[Any]:
    """The same elements under the shape of the input."""
    return (reshape(grad_out, inputs[0].shape),)


def _reshape_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    shape = attributes["shape"]
    if shape and min(shape) < 0:
        refuse_inputs(ShapeError, "reshape", f"sizes must not be negative, got {shape}", inputs)
    if math.prod(shape) != math.prod(x.shape):
        refuse_inputs(
            ShapeError, "reshape", f"{tuple(x.shape)} does not fit {shape}", inputs,
            f"the number of elements must stay {math.prod(x.shape)}, not {math.prod(shape)}",
        )  # fmt: skip
    return shape, x.dtype


RESHAPE = register(
    Op(
        "reshape",
        "view",
        _reshape_infer,
        reference=lambda x, *, shape: np.reshape(x, shape),
        gradient=reshape_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            floats((3, 4), shape=(2, 6)),
            floats((1,), shape=()),
            floats((0, 3), shape=(5, 0)),
        ),
        doc="The same elements, row by row, under another shape.",
    )
)


def as_sizes(op: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given as one tuple or one after the other, as a tuple of ints."""
    try:
        if len(shape) == 1 and type(shape[0]) is not int and not hasattr(shape[0], "__index__"):
            shape = tuple(shape[0])
        return tuple([size.__index__() for size in shape])
    except (AttributeError, TypeError):
        raise TypeError(f"{op}: sizes are integers, got {shape!r}") from None


def reshape(x: Value, shape: Any = (), *more: int, copy: bool | None = None) -> Value:
    """The same elements, row by row, under another shape.

    shape    sizes, as one tuple or one after the other; one may be -1: what is left
    copy     values never alias, so a copy and a view are the same; accepted for the Array API
    returns  prod(shape) = prod(x.shape)
    raises   ShapeError if the number of elements differs
    cost     none if the elements of x lie row by row; else who reads it looks them up
    >>> import bedplate as bp
    >>> bp.reshape(bp.tensor([[1, 2], [3, 4]]), (-1,)).tolist()
    [1, 2, 3, 4]
    """
    sizes = as_sizes("reshape", (shape, *more))
    if -1 in sizes:
        known = -math.prod(sizes)
        if sizes.count(-1) > 1 or known == 0 or math.prod(x.shape) % known:
            refuse_inputs(
                ShapeError, "reshape", f"the size -1 in {sizes} cannot be told", (x,),
                f"{math.prod(x.shape)} elements must divide evenly over the other sizes",
            )  # fmt: skip
        sizes = tuple(math.prod(x.shape) // known if size == -1 else size for size in sizes)
    if sizes == x.shape:
        return x._alias()
    return apply(RESHAPE, (x,), {"shape": sizes})


def permute_gradient(grad_out: Value, inputs: Any, output: Value, *, axes: Any) -> tuple[Any]:
    """The axes back in their old order."""
    inverse = tuple(axes.index(axis) for axis in range(len(axes)))
    return (apply(PERMUTE, (grad_out,), {"axes": inverse}),)


def _permute_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    shape = x.shape
    return tuple([shape[axis] for axis in attributes["axes"]]), x.dtype


PERMUTE = register(
    Op(
        "permute",
        "view",
        _permute_infer,
        reference=lambda x, *, axes: np.transpose(x, axes),
        gradient=permute_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            floats((3, 4), axes=(1, 0)),
            floats((2, 3, 4), axes=(2, 0, 1)),
            floats((0, 2, 1), axes=(1, 2, 0)),
        ),
        doc="The axes in another order.",
    )
)


def permute(x: Value, *axes: Any) -> Value:
    """The axes in another order: axis i of the result is axis axes[i] of x.

    axes     every axis once, as one tuple or one after the other; negative ones from the end
    returns  y.shape[i] = x.shape[axes[i]]
    raises   ShapeError if they do not name every axis once
    cost     none: whoever reads the result reads x by other indices
    >>> import bedplate as bp
    >>> bp.permute(bp.tensor([[1, 2], [3, 4]]), (1, 0)).tolist()
    [[1, 3], [2, 4]]
    """
    given = as_sizes("permute", axes)
    ndim = len(x.shape)
    order = tuple([a if 0 <= a < ndim else normalised_axis("permute", a, ndim, x) for a in given])
    if sorted(order) != list(range(ndim)):
        refuse_inputs(ShapeError, "permute", f"{given} does not name every axis once", (x,))
    if order == tuple(range(ndim)):
        return x._alias()
    return apply(PERMUTE, (x,), {"axes": order})


def permute_dims(x: Value, axes: Any) -> Value:
    """The axes in another order: axis i of the result is axis axes[i] of x.

    axes     every axis once, as a tuple; negative ones from the end
    returns  y.shape[i] = x.shape[axes[i]]
    raises   ShapeError if they do not name every axis once
    cost     none: whoever reads the result reads x by other indices
    >>> import bedplate as bp
    >>> bp.permute_dims(bp.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return permute(x, axes)


def transpose(x: Value, *axes: Any) -> Value:
    """Exchange two axes; without arguments reverse all; with a tuple as `permute`.

    axes     none, two, or a tuple of all
    returns  shape of x with its sizes in that order
    raises   ShapeError for axes that do not exist, or come twice
    cost     none
    >>> import bedplate as bp
    >>> bp.transpose(bp.tensor([[1, 2], [3, 4]]), 0, 1).tolist()
    [[1, 3], [2, 4]]
    """
    if not axes or axes == (None,):
        return permute(x, tuple(reversed(range(len(x.shape)))))
    return swapaxes(x, *axes) if len(axes) == 2 else permute(x, *axes)


def swapaxes(x: Value, first: int, second: int) -> Value:
    """Exchange two axes.

    first, second  axes of x; negative ones from the end
    raises         ShapeError for an axis that does not exist
    cost           none
    >>> import bedplate as bp
    >>> bp.swapaxes(bp.tensor([[1, 2], [3, 4]]), 0, -1).tolist()
    [[1, 3], [2, 4]]
    """
    order = list(range(len(x.shape)))
    i = normalised_axis("swapaxes", first, len(order), x)
    j = normalised_axis("swapaxes", second, len(order), x)
    if i == j:
        return x._alias()
    order[i], order[j] = order[j], order[i]
    return apply(PERMUTE, (x,), {"axes": tuple(order)})


def moveaxis(x: Value, source: Axes, destination: Axes) -> Value:
    """Move axes to other places; the others keep their order.

    destination  as many places in the result
    raises       ShapeError if an axis does not exist, or comes twice
    cost         none
    source       axes of x, one or several
    >>> import bedplate as bp
    >>> bp.moveaxis(bp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = len(x.shape)
    sources = [normalised_axis("moveaxis", a, ndim, x) for a in several(source)]
    targets = [normalised_axis("moveaxis", a, ndim, x) for a in several(destination)]
    if len(set(sources)) != len(targets) or len(set(targets)) != len(sources):
        refuse_inputs(ShapeError, "moveaxis", f"{source} and {destination} do not pair", (x,))
    order = [axis for axis in range(ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute(x, tuple(order))


def matrix_transpose(x: Value) -> Value:
    """Exchange the last two axes.

    x        (..., m, n)
    returns  (..., n, m)
    cost     none: whoever reads the result reads x by other indices
    >>> import bedplate as bp
    >>> bp.matrix_transpose(bp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    >>> bp.linalg.matrix_transpose(bp.tensor([[1, 2]])).tolist()
    [[1], [2]]
    """
    return swapaxes(x, -2, -1)


def expand_gradient(grad_out: Value, inputs: Any, output: Value, *, shape: Shape) -> tuple[Any]:
    """The sum over the axes that were repeated."""
    before = inputs[0].shape
    axes = tuple(axis for axis, size in enumerate(before) if size != shape[axis])
    return (grad_out.sum(axis=axes, keepdims=True),)


def _expand_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    shape = attributes["shape"]
    if len(shape) != len(x.shape) or any(
        a not in (1, b) or b < 0 for a, b in zip(x.shape, shape, strict=True)
    ):
        refuse_inputs(
            ShapeError, "broadcast_to", f"{tuple(x.shape)} does not broadcast to {shape}", inputs,
            "sizes must be equal, or 1 where they are repeated",
        )  # fmt: skip
    return shape, x.dtype


EXPAND = register(
    Op(
        "expand",
        "view",
        _expand_infer,
        reference=lambda x, *, shape: np.broadcast_to(x, shape),
        gradient=expand_gradient,
        by_parts=True,
        dtypes=ALL,
        samples=(
            floats((3, 1), shape=(3, 4)),
            floats((1, 2, 1), shape=(5, 2, 3)),
            floats((1,), shape=(0,)),
        ),
        doc="Repeat axes of size 1, without copying; the rank stays.",
    )
)


def broadcast_to(x: Value, shape: Any = (), *more: int) -> Value:
    """Repeat x to a larger shape, without copying.

    shape    ends with the sizes of x, where a size 1 of x may be any; -1 keeps a size
    returns  the new shape; the gradient is summed over what was repeated
    raises   ShapeError if x does not broadcast to it
    cost     none: whoever reads the result reads x by other indices
    >>> import bedplate as bp
    >>> bp.broadcast_to(bp.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    sizes = as_sizes("broadcast_to", (shape, *more))
    extra = len(sizes) - len(x.shape)
    if extra < 0:
        refuse_inputs(ShapeError, "broadcast_to", f"{sizes} has fewer axes than the value", (x,))
    sizes = tuple(x.shape[i - extra] if s == -1 and i >= extra else s for i, s in enumerate(sizes))
    if extra:
        x = reshape(x, (1,) * extra + tuple(x.shape))
    if sizes == x.shape:
        return x._alias()
    return apply(EXPAND, (x,), {"shape": sizes})


def expand_dims(x: Value, axis: Axes = 0) -> Value:
    """Insert axes of size 1 at the given places of the result.

    axis     places in the result, one or several; negative ones from the end
    returns  shape of x with sizes of 1 put in
    raises   ShapeError for a place that does not exist, or comes twice
    cost     none
    >>> import bedplate as bp
    >>> bp.expand_dims(bp.tensor([1, 2]), 0).shape
    (1, 2)
    """
    given = as_sizes("expand_dims", (axis,))
    ndim = len(x.shape) + len(given)
    places = {normalised_axis("expand_dims", a, ndim, x) for a in given}
    if len(places) != len(given):
        refuse_inputs(ShapeError, "expand_dims", f"{axis} names one axis twice", (x,))
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in places else next(sizes) for i in range(ndim)))


def squeeze(x: Value, axis: Axes | None = None) -> Value:
    """Remove axes of size 1.

    axis     which; None for all of size 1
    returns  shape of x without these axes
    raises   ShapeError if an axis has another size
    cost     none
    >>> import bedplate as bp
    >>> bp.squeeze(bp.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    if axis is None:
        return reshape(x, tuple(size for size in x.shape if size != 1))
    axes = normalised_axes("squeeze", several(axis), x)
    for a in axes:
        if x.shape[a] != 1:
            refuse_inputs(ShapeError, "squeeze", f"axis {a} has size {x.shape[a]}, not 1", (x,))
    return reshape(x, tuple(size for a, size in enumerate(x.shape) if a not in axes))


def flatten(x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Join the axes from start_dim to end_dim (counted in) into one.

    start_dim, end_dim  axes of x; negative ones from the end
    returns             prod(sizes that were joined) in their place
    cost                none
    >>> import bedplate as bp
    >>> bp.flatten(bp.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    if not x.shape:
        return reshape(x, (1,))
    first = normalised_axis("flatten", start_dim, len(x.shape), x)
    last = normalised_axis("flatten", end_dim, len(x.shape), x)
    joined = math.prod(x.shape[first : last + 1])
    return reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


def output_gradient(grad_out: Value, inputs: Any, output: Value, *, index: int) -> tuple[Any]:
    """One gradient an output of the op: this one's, and None for the others."""
    count = len(inputs[0].shape)
    return (tuple(grad_out if i == index else None for i in range(count)),)


def _output_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    index, order = attributes["index"], attributes.get("order")
    shape = inputs[0].shape[index]
    return _permuted(shape, order) if order else shape, inputs[0].dtype[index]


def _permuted(shape: Shape, order: tuple[int, ...]) -> Shape:
    return tuple([shape[axis] for axis in order])


def _output_reference(values: Any, *, index: int, order: tuple[int, ...] | None = None) -> Any:
    return values[index] if order is None else values[index].transpose(order)


OUTPUT = register(
    Op(
        "output",
        "view",
        _output_infer,
        reference=_output_reference,
        gradient=output_gradient,
        dtypes=ALL,
        doc="One of the values of an op that gives several, in an `order` of its axes if the "
        "compiler stores it so.",
    )
)


def outputs(value: Value) -> tuple[Value, ...]:
    """The values of an op that gives several, one by one.

    value    shape and dtype are tuples of shapes and dtypes
    """
    if not value.shape or not isinstance(value.shape[0], tuple):
        raise InternalError("outputs() is for ops with several outputs")
    return tuple(apply(OUTPUT, (value,), {"index": index}) for index in range(len(value.shape)))
