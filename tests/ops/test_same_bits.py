"""Every op and every gradient on devices that run our kernels: the bits of the CPU.

That the CPU agrees with the references is what the other tests say. Kernels are built without the
driver's optimiser, which has no say in the bits and takes three quarters of the time; it works in
the tests of the language on the device, and in the sweep of tests/integration/test_opencl.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import bedplate as bp


def assert_same_bits(got: Any, wanted: Any, what: str) -> None:
    """Equal bit by bit, but for the payload of NaN."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), what
    if got.dtype.kind in "fcV":
        both = np.isnan(got) & np.isnan(wanted)
        got, wanted = np.where(both, 0, got), np.where(both, 0, wanted)
    assert got.astype(got.dtype).tobytes() == wanted.astype(got.dtype).tobytes(), what


def test_values(case: Any, planned_device: Any) -> None:
    arrays = case.arrays()
    results = [
        case.run(*[bp.Tensor(array, device) for array in arrays]).numpy()
        for device in (planned_device, "cpu")
    ]
    assert_same_bits(*results, str(case))


def test_gradients(smooth_case: Any, planned_device: Any) -> None:
    arrays = smooth_case.arrays()
    found = []
    for device in (planned_device, "cpu"):
        tensors = [
            bp.Tensor(array, device, requires_grad=array.dtype.kind in "fc") for array in arrays
        ]
        result = smooth_case.run(*tensors)
        weights = np.random.default_rng(1).normal(size=result.shape)
        total = (result * bp.Tensor(weights, device)).sum()
        (total if total.dtype.kind == "f" else total.real).backward()
        found.append([x.grad for x in tensors])
    for got, wanted in zip(*found, strict=True):
        assert (got is None) == (wanted is None)
        if got is not None:
            assert_same_bits(got.numpy(), wanted.numpy(), str(smooth_case))
