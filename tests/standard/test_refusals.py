"""What the standard's functions refuse, with the text; and copies, which it leaves open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import AxisError, DTypeError, ShapeError

X = np.arange(6.0).reshape(2, 3)


def x() -> Any:
    return bp.tensor(X)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: bp.take(x(), bp.tensor([0])), ShapeError, "take: an axis is needed unless"),
    (lambda: bp.tril(bp.ones(3)), ShapeError, "tril: at least two axes are needed"),
    (lambda: bp.triu(bp.ones(3)), ShapeError, "triu: at least two axes are needed"),
    (lambda: bp.meshgrid(x()), ShapeError, "meshgrid: an array has more than one axis"),
    (lambda: bp.meshgrid(bp.ones(2), indexing="yx"), ValueError, "indexing is 'xy' or 'ij', got"),
    (lambda: bp.roll(x(), (1, 2, 3), axis=(0, 1)), ShapeError, "do not pair"),
    (lambda: bp.roll(x(), 1, axis=2), AxisError, "roll: axis 2 is out of range"),
    (lambda: bp.tile(x(), (-1,)), ValueError, "tile: a count must not be negative"),
    (lambda: bp.repeat(x(), -1), ValueError, "repeat: a count must not be negative, got -1"),
    (lambda: bp.repeat(x(), 1.5), DTypeError, "repeat: counts are integers, got float64"),
    (lambda: bp.repeat(x(), [1, 2], axis=1), ShapeError, r"\(2,\) counts do not match axis 1"),
    (lambda: bp.diff(x(), n=-1), ValueError, "diff: n must not be negative"),
    (lambda: bp.diff(bp.ones(())), AxisError, "diff: axis -1 is out of range"),
    (lambda: bp.broadcast_arrays(x(), bp.ones(2)), ShapeError, "the shapes do not broadcast"),
    (lambda: bp.expand_dims(x(), 5), IndexError, "expand_dims: axis 5 is out of range"),
    (lambda: bp.permute_dims(x(), (0, 0)), ShapeError, "does not name every axis once"),
    (lambda: bp.arange(3, step=0), ValueError, "the step must not be 0"),
    (lambda: bp.eye(-1), ShapeError, "eye: sizes must not be negative"),
    (lambda: bp.hypot(x(), 1j), DTypeError, "hypot: no such op for this dtype"),
    (lambda: bp.bitwise_left_shift(x(), 1), DTypeError, "no such op for this dtype"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_nextafter_has_no_gradient() -> None:
    a = bp.ones(2).requires_grad_()
    with pytest.raises(bp.errors.GradientError, match="it steps from one float to the next"):
        bp.nextafter(a, 2.0).sum().backward()


NO_COPY: list[Callable[[], Any]] = [
    lambda: bp.asarray([1.0], copy=False),
    lambda: bp.asarray(X, dtype=bp.float32, copy=False),
    lambda: bp.asarray(x(), dtype=bp.float32, copy=False),
    lambda: bp.asarray(np.ones((4, 4))[::2, ::2], copy=False),
]


@pytest.mark.parametrize("call", NO_COPY)
def test_asarray_that_would_copy(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="cannot become this tensor without a copy"):
        call()


def test_asarray_without_a_copy() -> None:
    tensor = x()
    assert bp.asarray(tensor, copy=False) is tensor
    array = X.copy()
    assert np.shares_memory(np.from_dlpack(bp.asarray(array, copy=False)), array)


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: bp.asarray(x, copy=True),
        lambda x: bp.astype(x, x.dtype),
        lambda x: bp.reshape(x, x.shape, copy=True),
    ],
)
def test_a_copy_is_bound_alone_and_keeps_its_history(copy: Callable[[Any], Any]) -> None:
    leaf = x().requires_grad_()
    copied = copy(leaf)
    (copied * 3).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == np.full(X.shape, 3.0).tolist()
    plain = x()
    copied = copy(plain)
    copied += 1
    assert plain.tolist() == X.tolist()
