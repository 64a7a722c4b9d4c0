"""Promotion, broadcasting and axes, on nodes alone: nothing is computed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from bedplate import dtypes
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.build import broadcast_shapes, normalised_axes, sum_to
from bedplate.ops.leaves import constant, placeholder
from bedplate.ops.pointwise.arithmetic import add, divide
from bedplate.ops.pointwise.comparison import less
from bedplate.ops.pointwise.exponential import exp
from bedplate.ops.shape.views import permute, reshape


def node(shape: tuple[int, ...] = (), dtype: Any = dtypes.float32) -> Any:
    return placeholder(0, shape, dtype, "here")


SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (4, 1, 3), (0, 3), (1, 1, 1)]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, SHAPES)), ids=str)
def test_shapes_broadcast_as_in_numpy(a: Any, b: Any) -> None:
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="add: the shapes do not broadcast"):
            add(node(a), node(b))
        return
    assert broadcast_shapes("add", (node(a), node(b))) == wanted
    assert add(node(a), node(b)).shape == wanted


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient_of_broadcasting_has_the_shape_of_the_input(shape: Any) -> None:
    wide = np.broadcast_shapes(shape, (4, 1, 3)) if 0 not in shape else (4, 0, 3)
    assert sum_to(node(wide), shape).shape == shape


def test_equal_dtypes_insert_no_cast() -> None:
    a, b = node((2,)), node((2,))
    assert add(a, b).inputs == (a, b)


def test_promotion_inserts_casts() -> None:
    result = add(node((2,), dtypes.int32), node((2,), dtypes.float16))
    assert result.dtype is dtypes.float16
    assert [source.op.name for source in result.inputs] == ["cast", "placeholder"]


def test_numbers_take_the_dtype_of_the_value() -> None:
    result = add(node((2,), dtypes.bfloat16), 2)
    assert result.dtype is dtypes.bfloat16
    assert result.inputs[1].attributes == {"value": 2.0, "dtype": dtypes.bfloat16}
    assert less(2, node((2,), dtypes.int8)).dtype is dtypes.bool_


def test_integers_become_floats_where_the_op_needs_them() -> None:
    assert exp(node((2,), dtypes.int64)).dtype is dtypes.float32
    assert divide(node((2,), dtypes.int64), 2).dtype is dtypes.float32
    assert exp(node((2,), dtypes.float16)).dtype is dtypes.float16


def test_no_dtype_for_signed_and_uint64() -> None:
    with pytest.raises(DTypeError, match="add: no integer dtype holds both int32 and uint64"):
        add(node((), dtypes.int32), node((), dtypes.uint64))


def test_equal_constants_share_a_node() -> None:
    assert constant(2.0, dtypes.float32, "here") is constant(2, dtypes.float32, "here")
    assert constant(0.0, dtypes.float32, "here") is not constant(-0.0, dtypes.float32, "here")
    assert str(constant(-0.0, dtypes.float32, "here").attributes["value"]) == "-0.0"
    assert constant(2.0, dtypes.float32, "there").device == "there"


def test_zeros_of_both_signs_are_kept_apart_in_complex_numbers_too() -> None:
    parts = (complex(0.0, 0.0), complex(0.0, -0.0), complex(-0.0, 0.0), complex(1, -0.0))
    kept = [constant(part, dtypes.complex64, "here") for part in parts * 2]
    assert [str(node.attributes["value"]) for node in kept] == [str(part) for part in parts * 2]


def test_a_constant_that_was_read_is_not_shared() -> None:
    read = constant(3.0, dtypes.float32, "here")
    read.realise(object())
    again = constant(3.0, dtypes.float32, "here")
    assert again is not read
    assert again.block is None


def test_axes_are_sorted_and_counted_from_the_front() -> None:
    x = node((2, 3, 4))
    assert normalised_axes("sum", (-1, 0), x) == (0, 2)
    assert normalised_axes("sum", None, x) == (0, 1, 2)
    with pytest.raises(ShapeError, match="sum: axis 3 is out of range"):
        normalised_axes("sum", 3, x)
    with pytest.raises(ShapeError, match="name one axis twice"):
        normalised_axes("sum", (0, -3), x)


def test_views_that_change_nothing_add_no_node() -> None:
    x = node((2, 3))
    assert reshape(x, 2, 3) is x
    assert permute(x, 0, 1) is x
    assert reshape(x, -1).shape == (6,)
