"""What is not zero, and where: counts, places, and elements chosen by a mask.

How many places there are depends on the values, so these functions compute their input at once and
read the count; the places stay on the device. In a step that jit captures they raise CaptureError.
"""

from __future__ import annotations

import math

from bedplate.dtypes import bool_, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.build import Value, as_type, as_values, broadcast_shapes
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.indexing.true_places import true_places
from bedplate.ops.pointwise.arithmetic import floor_divide, remainder
from bedplate.ops.pointwise.comparison import not_equal
from bedplate.ops.record import apply
from bedplate.ops.reduction.reduce import Axis, sum_
from bedplate.ops.refusal import refuse, refuse_inputs
from bedplate.ops.shape.creation import full
from bedplate.ops.shape.regions import stack
from bedplate.ops.shape.views import broadcast_to, reshape


def count_nonzero(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """How many elements over axes are not zero; NaN is not zero.

    axis     one, several, or None for all; `dim` and `keepdim` work too
    returns  int64; no gradient, since counts are integers
    >>> import bedplate as bp
    >>> bp.count_nonzero(bp.tensor([[0, 5], [3, 4]]), axis=1).tolist()
    [1, 2]
    """
    return sum_(as_type(_mask(x), int64), axis, keepdims)


def _mask(x: Value) -> Value:
    return x if x.dtype is bool_ else not_equal(x, 0)


def nonzero(x: Value) -> tuple[Value, ...]:
    """The places of the elements that are not zero, row by row; x is computed at once.

    x        at least one axis; NaN is not zero
    returns  for each axis the indices, (n,) int64, so that x[nonzero(x)] are these elements
             (as a matrix: `argwhere`); no gradient, since places are integers
    raises   ShapeError for a 0-d value; CaptureError within jit
    >>> import bedplate as bp
    >>> [indices.tolist() for indices in bp.nonzero(bp.tensor([[0, 5], [3, 0]]))]
    [[0, 1], [1, 0]]
    """
    if not x.shape:
        refuse_inputs(ShapeError, "nonzero", "a 0-d value has no places", (x,))
    return tuple(_places(x))


def argwhere(x: Value) -> Value:
    """The places of the elements that are not zero as rows of a matrix; x is computed at once.

    returns  (n, ndim) int64, row by row; `nonzero` gives one value an axis
    raises   CaptureError within jit
    >>> import bedplate as bp
    >>> bp.argwhere(bp.tensor([[0, 5], [3, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    places = _places(x)
    if not places:
        return full(x, (int(_mask(x).item()), 0), 0, int64)
    return stack(places, axis=-1)


def masked_select(x: Value, mask: Value) -> Value:
    """The elements where a mask is true, row by row; the mask is computed at once.

    mask     bool; broadcasts with x
    returns  (n,) dtype of x; the gradient goes to the elements that were chosen
    raises   DTypeError if the mask is not bool; CaptureError within jit
    >>> import bedplate as bp
    >>> bp.masked_select(bp.tensor([1, 2, 3]), bp.tensor([True, False, True])).tolist()
    [1, 3]
    """
    x, mask = as_values("masked_select", (x, mask))
    if mask.dtype is not bool_:
        refuse(DTypeError, "masked_select", "the mask must be bool", {"x": x, "mask": mask})
    shape = broadcast_shapes("masked_select", (x, mask))
    flat = reshape(broadcast_to(x, shape), (math.prod(shape),))
    return apply(TAKE, (flat, true_places(broadcast_to(mask, shape))), {"axis": 0})


def _places(x: Value) -> list[Value]:
    """For each axis the indices of the elements that are not zero."""
    rest = true_places(_mask(x))
    found = []
    for size in reversed(x.shape[1:]):
        found.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return [rest, *reversed(found)] if x.shape else []
