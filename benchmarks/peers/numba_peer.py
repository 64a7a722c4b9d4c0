"""Numba, parallel loops, as its users would write them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange

VERSION = numba.__version__


def as_arrays(results: Any) -> list[np.ndarray]:
    return [np.asarray(result) for result in results]


@njit(parallel=True, fastmath=False)
def _chain(a: Any, b: Any) -> Any:
    output = np.empty_like(a)
    for i in prange(a.size):
        output[i] = max((a[i] + b[i]) * np.float32(2), np.float32(0))
    return output


@njit(parallel=True, fastmath=True)
def _rms_norm(x: Any, weight: Any) -> Any:
    output = np.empty_like(x)
    for row in prange(x.shape[0]):
        total = np.float32(0)
        for column in range(x.shape[1]):
            total += x[row, column] * x[row, column]
        scale = np.float32(1) / np.sqrt(total / np.float32(x.shape[1]) + np.float32(1e-6))
        for column in range(x.shape[1]):
            output[row, column] = x[row, column] * scale * weight[column]
    return output


def chain(p: Any, inputs: Any) -> Any:
    return lambda: [_chain(*inputs)]


def rms_norm(p: Any, inputs: Any) -> Any:
    return None if p.get("backward") else lambda: [_rms_norm(*inputs)]
