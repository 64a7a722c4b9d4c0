"""What makes tensors: the device and the dtype that are asked for, the defaults, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bedplate as bp

MAKERS: dict[str, Callable[..., Any]] = {
    "arange": lambda **named: bp.arange(3.0, **named),
    "asarray": lambda **named: bp.asarray([1.0, 2.0], **named),
    "empty": lambda **named: bp.empty((2,), **named),
    "eye": lambda **named: bp.eye(2, **named),
    "full": lambda **named: bp.full((2,), 1.5, **named),
    "linspace": lambda **named: bp.linspace(0, 1, 3, **named),
    "ones": lambda **named: bp.ones((2,), **named),
    "zeros": lambda **named: bp.zeros((2,), **named),
}
ALIKE: dict[str, Callable[..., Any]] = {
    "empty_like": bp.empty_like,
    "full_like": lambda x, **named: bp.full_like(x, 1, **named),
    "ones_like": bp.ones_like,
    "zeros_like": bp.zeros_like,
}


@pytest.mark.parametrize("name", MAKERS)
def test_device_dtype_and_gradient(name: str) -> None:
    make = MAKERS[name]
    assert (make().dtype, make().device) == (bp.float32, bp.Device("cpu"))
    made = make(dtype=bp.float64, device="reference")
    assert (made.dtype, made.device) == (bp.float64, bp.Device("reference"))
    assert made.tolist() == make(dtype=bp.float64).tolist()
    with bp.default_device("reference"):
        assert make().device == bp.Device("reference")
    if name != "asarray":
        assert make(requires_grad=True).requires_grad


@pytest.mark.parametrize("name", ALIKE)
def test_like_another(name: str) -> None:
    x = bp.ones((2, 3), dtype=bp.int16, device="reference")
    made = ALIKE[name](x)
    assert (made.shape, made.dtype, made.device) == (x.shape, x.dtype, x.device)
    made = ALIKE[name](x, dtype=bp.float64, device="cpu", requires_grad=True)
    assert (made.dtype, made.device, made.requires_grad) == (bp.float64, bp.Device("cpu"), True)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(True, bp.bool), (3, bp.int64), (1.5, bp.float32), (1j, bp.complex64)],
)
def test_the_dtype_of_a_python_number(number: Any, dtype: Any) -> None:
    assert bp.asarray(number).dtype is bp.asarray([number]).dtype is dtype
    assert bp.full((2,), number).dtype is dtype


def test_whole_numbers_are_counted_exactly() -> None:
    for start in (-(2**63), 2**62, 2**63 - 8):
        assert bp.arange(start, start + 8, 3).tolist() == [start, start + 3, start + 6]
    top = 2**64
    assert bp.arange(top - 8, top, 3, dtype=bp.uint64).tolist() == [top - 8, top - 5, top - 2]
    assert bp.arange(top - 1, top - 8, -3, dtype=bp.uint64).tolist() == [top - 1, top - 4, top - 7]
    assert bp.arange(bp.tensor(3)).tolist() == [0, 1, 2]


def test_another_device_and_dtype_of_a_tensor() -> None:
    x = bp.ones(2, requires_grad=True)
    moved = bp.astype(x, bp.float64, device="reference")
    assert (moved.device, moved.dtype) == (bp.Device("reference"), bp.float64)
    moved.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]
    assert bp.from_dlpack(x.detach(), device="reference").device == bp.Device("reference")
    assert bp.asarray(x, device="reference").device == bp.Device("reference")


def test_shapes_that_depend_on_values_in_a_captured_step() -> None:
    def step(x: Any, counts: Any) -> Any:
        return bp.repeat(x, counts)

    with pytest.raises(bp.errors.CaptureError, match="a value was read inside a captured step"):
        bp.jit(step)(bp.ones(2), bp.tensor([1, 2]))
