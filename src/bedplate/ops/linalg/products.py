"""Products of vectors, matrices and tensors: tensordot, vecdot, dot, inner, outer, cross, kron."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from bedplate.errors import ShapeError
from bedplate.ops.build import (
    Value,
    as_type,
    as_values,
    broadcast_shapes,
    is_index,
    normalised_axis,
    promoted,
    several,
)
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.linalg.einsum import contract
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import multiply, subtract
from bedplate.ops.reduction.reduce import accumulator, sum_
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import expand_dims, moveaxis, reshape


def tensordot(x1: Value, x2: Value, /, *, axes: Any = 2) -> Value:
    """Sum products over pairs of axes.

    x1, x2   numbers; dtypes are promoted
    axes     a number n: the last n axes of x1 with the first n of x2; or two sequences: the axes
             of x1, and those of x2 in the same order
    returns  the other axes of x1, then those of x2. float16 and bfloat16 are summed in float32
    raises   ShapeError if sizes or numbers of axes differ
    cost     one product of matrices; see `einsum` for when an operand is copied
    >>> import bedplate as bp
    >>> x = bp.tensor([[1, 2], [3, 4]])
    >>> bp.tensordot(x, x, axes=1).tolist(), bp.linalg.tensordot(x, x).item()
    ([[7, 10], [15, 22]], 30)
    """
    x1, x2 = promoted("tensordot", (x1, x2))
    named = {"x1": x1, "x2": x2}
    if is_index(axes):
        axes = operator.index(axes)
        if not 0 <= axes <= min(len(x1.shape), len(x2.shape)):
            refuse(ShapeError, "tensordot", f"there are not {axes} axes to sum over", named)
        first = list(range(len(x1.shape) - axes, len(x1.shape)))
        second = list(range(axes))
    else:
        if not isinstance(axes, tuple | list) or len(axes) != 2:
            refuse(ShapeError, "tensordot", f"axes={axes!r}", named,
                   "expected a number, or two sequences: axes of x1, axes of x2")  # fmt: skip
        first, second = (_axes(each, x) for each, x in zip(axes, (x1, x2), strict=True))
    pairs = list(zip(first, second, strict=False))
    if len(first) != len(second) or any(x1.shape[i] != x2.shape[j] for i, j in pairs):
        refuse(
            ShapeError, "tensordot", f"axes {first} of x1 do not fit axes {second} of x2", named,
            "expected as many axes, with the same sizes",
        )  # fmt: skip
    left = [f"a{i}" for i in range(len(x1.shape))]
    right = [f"b{i}" for i in range(len(x2.shape))]
    for i, j in pairs:
        right[j] = left[i]
    result = [x for x in left if x not in right] + [x for x in right if x not in left]
    return contract(x1, x2, left, right, result)


def _axes(given: Any, x: Value) -> list[int]:
    axes = several(given)
    found = [normalised_axis("tensordot", axis, len(x.shape), x) for axis in axes]
    if len(set(found)) < len(found):
        refuse(ShapeError, "tensordot", f"axes {list(axes)} name one axis twice", {"x": x})
    return found


def vecdot(x1: Value, x2: Value, /, *, axis: int = -1) -> Value:
    """The dot product of vectors: sum of conj(x1) x2 along an axis.

    x1, x2   numbers; shapes broadcast, but for the size along the axis, which must be the same
    axis     counted in each shape from the end (negative), or in both alike
    returns  without the axis, in the promoted dtype; float16 and bfloat16 are summed in float32
    raises   ShapeError if the sizes along the axis differ
    >>> import bedplate as bp
    >>> bp.vecdot(bp.tensor([1, 2, 3]), bp.tensor([4, 5, 6])).item()
    32
    >>> bp.linalg.vecdot(bp.tensor([[1, 2], [3, 4]]), bp.tensor([1, 1])).tolist()
    [3, 7]
    """
    x1, x2 = promoted("vecdot", (x1, x2))
    places = [normalised_axis("vecdot", axis, len(x.shape), x) for x in (x1, x2)]
    if x1.shape[places[0]] != x2.shape[places[1]]:
        refuse(
            ShapeError, "vecdot", "the vectors differ in size", {"x1": x1, "x2": x2},
            f"axis {axis} has sizes {x1.shape[places[0]]} and {x2.shape[places[1]]}",
        )  # fmt: skip
    dtype = x1.dtype
    x1, x2 = (
        as_type(moveaxis(x, place, -1), accumulator(dtype))
        for x, place in zip((x1, x2), places, strict=True)
    )
    broadcast_shapes("vecdot", (x1, x2))
    products = multiply(conj(x1), x2)
    return as_type(sum_(products, axis=-1, dtype=products.dtype), dtype)


def outer(x1: Value, x2: Value, /) -> Value:
    """All products of two vectors: y[i, j] = x1[i] x2[j].

    x1, x2   (M,) and (N,)
    returns  (M, N)
    raises   ShapeError for other shapes
    >>> import bedplate as bp
    >>> bp.outer(bp.tensor([1, 2]), bp.tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    >>> bp.linalg.outer(bp.tensor([1, 2]), bp.tensor([5])).tolist()
    [[5], [10]]
    """
    x1, x2 = promoted("outer", (x1, x2))
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        refuse(ShapeError, "outer", "both must be vectors", {"x1": x1, "x2": x2},
               "try x1[..., None] * x2 for more axes")  # fmt: skip
    return multiply(expand_dims(x1, 1), x2)


def cross(x1: Value, x2: Value, /, *, axis: int = -1) -> Value:
    """The cross product of vectors of three elements.

    x1, x2   numbers; shapes broadcast; both have size 3 along the axis
    axis     of the result's shape
    returns  their common shape: at right angles to both
    raises   ShapeError for another size
    >>> import bedplate as bp
    >>> bp.cross(bp.tensor([1, 0, 0]), bp.tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    >>> bp.linalg.cross(bp.tensor([0, 1, 0]), bp.tensor([1, 0, 0])).tolist()
    [0, 0, -1]
    """
    x1, x2 = promoted("cross", (x1, x2))
    shape = broadcast_shapes("cross", (x1, x2))
    place = normalised_axis("cross", axis, len(shape), x1) - len(shape)
    if any(-place > len(x.shape) or x.shape[place] != 3 for x in (x1, x2)):
        refuse(ShapeError, "cross", f"both must have size 3 along axis {axis}",
               {"x1": x1, "x2": x2})  # fmt: skip
    a, b = ([narrow(x, place, i, 1) for i in range(3)] for x in (x1, x2))
    parts = [
        subtract(multiply(a[i], b[j]), multiply(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return concat(parts, place)


def kron(x1: Value, x2: Value, /) -> Value:
    """The Kronecker product: x2 times each element of x1, put in that element's place.

    x1, x2   numbers of any shapes; the shorter shape gets axes of size 1 in front
    returns  along each axis the product of both sizes
    >>> import bedplate as bp
    >>> bp.kron(bp.tensor([1, 10]), bp.tensor([1, 2, 3])).tolist()
    [1, 2, 3, 10, 20, 30]
    """
    x1, x2 = promoted("kron", (x1, x2))
    ndim = max(len(x1.shape), len(x2.shape))
    a, b = ((1,) * (ndim - len(x.shape)) + tuple(x.shape) for x in (x1, x2))
    left = reshape(x1, tuple(size for pair in zip(a, (1,) * ndim, strict=True) for size in pair))
    right = reshape(x2, tuple(size for pair in zip((1,) * ndim, b, strict=True) for size in pair))
    product = multiply(left, right)
    return reshape(product, tuple(m * n for m, n in zip(a, b, strict=True)))


def dot(a: Value, b: Value) -> Value:
    """The sum of products of two vectors, as PyTorch's `dot`.

    a, b     (N,) both; dtypes are promoted. Complex numbers are not conjugated: see `vdot`
    returns  ()
    raises   ShapeError for other shapes
    >>> import bedplate as bp
    >>> bp.dot(bp.tensor([1, 2]), bp.tensor([3, 4])).item()
    11
    """
    _require_vectors("dot", a, b)
    return matmul(a, b)


def vdot(a: Value, b: Value) -> Value:
    """The sum of conj(a) b over two vectors.

    a, b     (N,) both; dtypes are promoted
    returns  ()
    raises   ShapeError for other shapes
    >>> import bedplate as bp
    >>> bp.vdot(bp.tensor([1j, 2.0]), bp.tensor([1j, 3.0])).item()
    (7+0j)
    """
    _require_vectors("vdot", a, b)
    return vecdot(a, b)


def _require_vectors(op: str, a: Value, b: Value) -> None:
    a, b = as_values(op, (a, b))
    if len(a.shape) != 1 or len(b.shape) != 1:
        refuse(ShapeError, op, "both must be vectors", {"a": a, "b": b}, "try a @ b for matrices")


def inner(a: Value, b: Value) -> Value:
    """The sums of products along the last axes: y[i, j] = sum over k of a[i, k] b[j, k].

    a, b     any number of axes, the last of one size; a 0-d value multiplies
    returns  the other axes of a, then those of b
    raises   ShapeError if the sizes differ
    >>> import bedplate as bp
    >>> bp.inner(bp.tensor([[1, 2], [3, 4]]), bp.tensor([1, 1])).tolist()
    [3, 7]
    """
    a, b = promoted("inner", (a, b))
    if not a.shape or not b.shape:
        return multiply(a, b)
    return tensordot(a, b, axes=([-1], [-1]))


def multi_dot(tensors: Sequence[Value]) -> Value:
    """The product of several matrices, in the order that takes the least arithmetic.

    tensors  matrices whose sizes follow each other, two or more; the first and the last may be
             vectors
    returns  as `matmul` from the first to the last
    raises   ShapeError, ValueError for fewer than two
    cost     2 flops for each multiply-add of the best order, found in n^3 steps for n matrices
    source   Cormen et al., Introduction to Algorithms, 15.2
    >>> import bedplate as bp
    >>> bp.linalg.multi_dot([bp.ones((2, 3)), bp.ones((3, 4)), bp.ones(4)]).tolist()
    [12.0, 12.0]
    """
    values = as_values("multi_dot", tuple(tensors))
    if len(values) < 2:
        raise ValueError(f"multi_dot: {len(values)} matrices\n  give two or more")
    for place, value in enumerate(values):
        inside = 0 < place < len(values) - 1
        if len(value.shape) != 2 and (inside or len(value.shape) != 1):
            refuse(ShapeError, "multi_dot", f"operand {place} is no matrix", {"x": value},
                   "the first and the last may be vectors")  # fmt: skip
    sizes = [1 if len(values[0].shape) == 1 else values[0].shape[0]]
    sizes += [v.shape[-1] for v in values[:-1]]
    sizes += [1 if len(values[-1].shape) == 1 else values[-1].shape[1]]
    return _chained(values, _best_cuts(sizes), 0, len(values) - 1)


def _best_cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut the chain of matrices i to j, whose sizes are sizes[i] x sizes[i + 1]."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            cost[i, j] = min(options)
            cuts[i, j] = i + options.index(cost[i, j])
    return cuts


def _chained(values: Any, cuts: dict[tuple[int, int], int], first: int, last: int) -> Value:
    if first == last:
        return values[first]
    cut = cuts[first, last]
    return matmul(_chained(values, cuts, first, cut), _chained(values, cuts, cut + 1, last))
