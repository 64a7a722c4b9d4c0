"""What the Array API asks of data types: their limits, their kinds, and what holds what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from bedplate.dtypes import DType, as_dtype, promote, real_dtype, scalar_dtype
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import is_number

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


@dataclass(frozen=True)
class FloatLimits:
    """What a floating point dtype can hold, as Python floats.

    bits             of one number; of one part of a complex one
    eps              the distance from 1 to the next number
    max, min         the greatest and the least finite number
    smallest_normal  the smallest positive number of full precision
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(value: Any) -> DType:
    """The dtype of a tensor or an array, or the dtype that `value` is."""
    return as_dtype(getattr(value, "dtype", value))


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating point dtype.

    type     a dtype, or a tensor for its dtype; of a complex one the limits of its parts
    raises   DTypeError for what is not floating point
    >>> import bedplate as bp
    >>> bp.finfo(bp.float32).eps, bp.finfo(bp.bfloat16).bits
    (1.1920928955078125e-07, 16)
    """
    dtype = real_dtype(_dtype_of(type))
    if not dtype.is_float:
        raise DTypeError(f"finfo: {dtype} is not floating point; see iinfo for integers")
    info = ml_dtypes.finfo(dtype.numpy)
    eps, most, least = float(info.eps), float(info.max), float(info.min)
    return FloatLimits(info.bits, eps, most, least, float(info.smallest_normal), dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype.

    type     a dtype, or a tensor for its dtype
    raises   DTypeError for what is no integer dtype
    >>> import bedplate as bp
    >>> bp.iinfo(bp.int8).min, bp.iinfo(bp.uint16).max
    (-128, 65535)
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo: {dtype} is no integer dtype; see finfo for floats")
    info = np.iinfo(dtype.numpy)
    return IntegerLimits(info.bits, int(info.max), int(info.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    kind     "bool", "signed integer", "unsigned integer", "integral", "real floating",
             "complex floating", "numeric"; or a dtype; or a tuple of these: any of them
    raises   ValueError for another word; DTypeError for what is no dtype
    >>> import bedplate as bp
    >>> bp.isdtype(bp.int8, "integral"), bp.isdtype(bp.bfloat16, ("bool", "real floating"))
    (True, True)
    """
    known = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(known, one) for one in kind)
    if not isinstance(kind, str):
        return known is as_dtype(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: unknown kind {kind!r}; there are {', '.join(KINDS)}")
    return known.kind in KINDS[kind]


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion takes one dtype to another: `to` holds both.

    from_    a dtype or a tensor
    raises   DTypeError for what is no dtype
    >>> import bedplate as bp
    >>> bp.can_cast(bp.int8, bp.int16), bp.can_cast(bp.float64, bp.float32)
    (True, False)
    """
    target = as_dtype(to)
    try:
        return promote(_dtype_of(from_), target) is target
    except DTypeError:
        as_dtype(getattr(from_, "dtype", from_))  # one that is no dtype is told so
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that an operation on all of these has.

    arrays_and_dtypes  tensors, arrays, dtypes, and Python numbers, which weigh less
    raises             ValueError if there are only numbers; DTypeError if no dtype holds all
    >>> import bedplate as bp
    >>> bp.result_type(bp.int8, bp.uint8), bp.result_type(bp.float64, 1)
    (bedplate.int16, bedplate.float64)
    """
    numbers = [value for value in arrays_and_dtypes if is_number(value)]
    dtypes = [_dtype_of(value) for value in arrays_and_dtypes if not is_number(value)]
    if not dtypes:
        raise ValueError("result_type: at least one tensor or dtype is needed")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote(result, dtype)
    for value in numbers:
        result = scalar_dtype(value, result)
    return result


def broadcast_shapes(*shapes: tuple[int, ...]) -> Shape:
    """The shape to which values of the given shapes broadcast.

    raises   ShapeError if they do not: sizes along an axis must be equal or 1
    >>> import bedplate as bp
    >>> bp.broadcast_shapes((3, 1), (4,)), bp.broadcast_shapes()
    ((3, 4), ())
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[axis] not in (1, size):
                raise ShapeError(
                    f"broadcast_shapes: {', '.join(map(str, shapes))} do not broadcast\n"
                    f"  sizes along axis {axis - rank} are {result[axis]} and {size}; "
                    "they must be equal or 1"
                )
            result[axis] = size if size != 1 else result[axis]
    return tuple(result)
