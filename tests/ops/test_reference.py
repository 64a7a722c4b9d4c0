"""Every op on every device against its NumPy reference in float64: dtypes, shapes, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

import bedplate as bp


def test_device_agrees_with_reference(case: Any, device: Any, toolbox: Any) -> None:
    arrays = case.arrays()
    result = case.run(*[bp.Tensor(array, device) for array in arrays])
    wanted = case.oracle(*arrays)
    with np.errstate(over="ignore"):
        limited = wanted.astype(result.dtype.numpy).astype(wanted.dtype)
    overflowed = np.isinf(limited) & np.isfinite(wanted)
    tolerance = case.tolerance(result.dtype, arrays)
    toolbox.assert_close(
        result.numpy(), np.where(overflowed, limited, wanted), tolerance, str(case)
    )


def _laid_out(array: Any, layout: str, device: Any) -> tuple[Any, Any]:
    """A tensor that reads its values through a view, and the values."""
    if not array.ndim:
        return bp.Tensor(array, device), array
    if layout == "transposed":
        return bp.Tensor(array.T.copy(), device).permute(*reversed(range(array.ndim))), array
    if layout == "stepped":
        return bp.Tensor(np.repeat(array, 2, axis=-1), device)[..., ::2], array
    if layout == "reversed":
        return bp.Tensor(array[::-1].copy(), device).flip(0), array
    expanded = np.broadcast_to(array[:1], array.shape)
    return bp.Tensor(array[:1], device).broadcast_to(array.shape), expanded


def test_views_are_read_by_their_strides(
    array_case: Any, layout: str, device: Any, toolbox: Any
) -> None:
    pairs = [_laid_out(array, layout, device) for array in array_case.arrays()]
    result = array_case.run(*[tensor for tensor, _ in pairs])
    arrays = [array for _, array in pairs]
    tolerance = array_case.tolerance(result.dtype, arrays)
    toolbox.assert_close(result.numpy(), array_case.oracle(*arrays), tolerance, str(array_case))


def test_composed_ops_expand_to_their_reference(composed_case: Any, toolbox: Any) -> None:
    arrays = composed_case.arrays()
    tensors = [bp.Tensor(array, "reference") for array in arrays]
    result = composed_case.op.expand(tuple(tensors), composed_case.sample.attributes)
    toolbox.assert_close(result.numpy(), composed_case.oracle(*arrays), 1e-12, str(composed_case))
