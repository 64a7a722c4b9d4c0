"""Every gradient on every device against central differences of the reference, in float64 and
complex128."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import bedplate as bp

# the error of a central difference with the step of conftest.py, relative to the values
TOLERANCE = 1e-6


def gradients(case: Any, arrays: list[Any], weights: Any, device: Any) -> list[Any]:
    """The gradient of the sum of weights and op(inputs) by the tape; None for integers."""
    tensors = [bp.Tensor(array, device, requires_grad=varies(array)) for array in arrays]
    total = weighed(bp.Tensor(weights, device), case.run(*tensors))
    if total.requires_grad:
        total.backward()
    return [_value(tensor) for tensor in tensors]


def varies(array: Any) -> bool:
    return array.dtype in (np.float64, np.complex128)


def weighed(weights: Any, values: Any) -> Any:
    """The sum of the products of all parts: a real number."""
    if values.dtype.kind != "c":
        return (values * weights).sum()
    return (values.real * weights.real).sum() + (values.imag * weights.imag).sum()


def _value(tensor: Any) -> Any:
    if not tensor.requires_grad:
        return None
    return bp.zeros_like(tensor).numpy() if tensor.grad is None else tensor.grad.numpy()


def check(case: Any, device: Any, toolbox: Any) -> None:
    """Refuse a gradient that differs from the central difference."""
    arrays = case.arrays()
    weights = toolbox.weights_for(case, arrays)
    found = gradients(case, arrays, weights, device)
    wanted = toolbox.numeric_gradients(case, arrays, weights)
    for number, (got, expected) in enumerate(zip(found, wanted, strict=True)):
        if expected is not None:
            toolbox.assert_close(got, expected, TOLERANCE, f"{case}: input {number}")


def test_gradient_agrees_with_differences(smooth_case: Any, device: Any, toolbox: Any) -> None:
    check(smooth_case, device, toolbox)


def test_a_gradient_wrong_by_a_thousandth_is_refused(sloped_case: Any, toolbox: Any) -> None:
    """The checker itself: every gradient, made wrong by 0.1 %, must fail."""
    true_gradient = sloped_case.op.gradient

    def wrong(*arguments: Any, **attributes: Any) -> Any:
        grads = true_gradient(*arguments, **attributes)
        return tuple(g * 1.001 if hasattr(g, "shape") else g for g in grads)

    broken = dataclasses.replace(sloped_case.op, gradient=wrong)
    with pytest.raises(AssertionError):
        check(dataclasses.replace(sloped_case, op=broken), bp.Device("reference"), toolbox)


def test_gradient_in_bfloat16(bfloat16_case: Any, device: Any, toolbox: Any) -> None:
    """Two digits are what bfloat16 has; the dtypes must be those of the inputs."""
    narrow = dataclasses.replace(bfloat16_case, dtype=bp.bfloat16).arrays()
    wide = [a.astype(np.float64) if a.dtype == bp.bfloat16.numpy else a for a in narrow]
    weights = np.random.default_rng(1).integers(-4, 5, bfloat16_case.oracle(*wide).shape) / 4
    found = tape_gradients(bfloat16_case, narrow, weights, device)
    exact = tape_gradients(bfloat16_case, wide, weights, device)
    wanted = toolbox.numeric_gradients(bfloat16_case, wide, weights)
    for number, (got, reaches, expected) in enumerate(zip(found, exact, wanted, strict=True)):
        # an input has a gradient exactly if it has one in float64, which the tests above hold
        assert (got is None) == (reaches is None), f"input {number} lost its gradient"
        if got is not None:
            assert got.dtype is bp.bfloat16
            toolbox.assert_close(got.numpy(), expected, 0.04, f"input {number}")


def tape_gradients(case: Any, arrays: list[Any], weights: Any, device: Any) -> list[Any]:
    """As `gradients`, but None where no gradient flows, in any float dtype."""
    floats = (np.float64, bp.bfloat16.numpy)
    tensors = [bp.Tensor(a, device, requires_grad=a.dtype in floats) for a in arrays]
    result = case.run(*tensors)
    (result * bp.Tensor(weights.astype(result.dtype.numpy), device)).sum().backward()
    return [tensor.grad for tensor in tensors]


def directional(
    case: Any, arrays: list[Any], weights: Any, create_graph: bool
) -> tuple[Any, list[Any]]:
    """The derivative of the weighed sum of op(inputs) along random directions, and the inputs."""
    generator = np.random.default_rng(2)
    tensors = [bp.Tensor(array, "reference", requires_grad=varies(array)) for array in arrays]
    total = weighed(bp.Tensor(weights, "reference"), case.run(*tensors))
    total.backward(create_graph=create_graph)
    slope = bp.zeros((), dtype=bp.float64, device="reference")
    for tensor, array in zip(tensors, arrays, strict=True):
        direction = bp.Tensor(_like(array, generator), "reference")
        if tensor.grad is not None:
            slope = slope + weighed(direction, tensor.grad)
            tensor.grad = None
    return slope, tensors


def _like(array: Any, generator: Any) -> Any:
    """Random numbers of the shape and kind of an array."""
    found = generator.normal(size=array.shape)
    return found + 1j * generator.normal(size=array.shape) if array.dtype.kind == "c" else found


def test_second_gradient_agrees_with_differences(sloped_case: Any, toolbox: Any) -> None:
    """Differences of the first gradient, which the tests above hold, against the second."""
    arrays = sloped_case.arrays()
    weights = toolbox.weights_for(sloped_case, arrays, seed=2)
    slope, tensors = directional(sloped_case, arrays, weights, create_graph=True)
    if slope.requires_grad:
        slope.backward()
    generator = np.random.default_rng(3)
    for i, array in enumerate(arrays):
        if varies(array):
            probe = _like(array, generator)
            ends = [
                directional(
                    sloped_case,
                    [*arrays[:i], array + step * probe, *arrays[i + 1 :]],
                    weights,
                    False,
                )
                for step in (1e-5, -1e-5)
            ]
            wanted = (ends[0][0].item() - ends[1][0].item()) / 2e-5
            got = float(weighed(probe, _value(tensors[i])))
            assert got == pytest.approx(wanted, rel=1e-5, abs=1e-5), f"{sloped_case}: input {i}"
