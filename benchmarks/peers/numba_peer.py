"""Numba, parallel loops, as its users would write them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange

COMPILES = True
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


@njit
def _add(a: Any, b: Any) -> Any:
    return a + b


@njit(parallel=True, fastmath=True)
def _layer_norm(x: Any, weight: Any) -> Any:
    output = np.empty_like(x)
    for row in prange(x.shape[0]):
        total = np.float32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        mean = total / np.float32(x.shape[1])
        total = np.float32(0)
        for column in range(x.shape[1]):
            total += (x[row, column] - mean) ** 2
        scale = np.float32(1) / np.sqrt(total / np.float32(x.shape[1]) + np.float32(1e-5))
        for column in range(x.shape[1]):
            output[row, column] = (x[row, column] - mean) * scale * weight[column]
    return output


@njit(parallel=True, fastmath=True)
def _sum_rows(x: Any) -> Any:
    output = np.empty(x.shape[0], x.dtype)
    for row in prange(x.shape[0]):
        total = np.float32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        output[row] = total
    return output


@njit(parallel=True, fastmath=True)
def _sum_columns(x: Any) -> Any:
    blocks = 64  # columns that one turn of the parallel loop adds up
    output = np.zeros(x.shape[1], x.dtype)
    for block in prange(x.shape[1] // blocks):
        for row in range(x.shape[0]):
            for column in range(block * blocks, (block + 1) * blocks):
                output[column] += x[row, column]
    return output


@njit(fastmath=True)
def _cumsum(x: Any) -> Any:
    output = np.empty_like(x)
    total = np.float64(0)
    for i in range(x.size):
        total += x[i]
        output[i] = total
    return output


@njit(parallel=True)
def _gather(table: Any, ids: Any) -> Any:
    output = np.empty((ids.size, table.shape[1]), table.dtype)
    for row in prange(ids.size):
        output[row] = table[ids[row]]
    return output


def add(p: Any, inputs: Any) -> Any:
    return lambda: [_add(*inputs)]


def chain(p: Any, inputs: Any) -> Any:
    return lambda: [_chain(*inputs)]


def rms_norm(p: Any, inputs: Any) -> Any:
    return None if p.get("backward") else lambda: [_rms_norm(*inputs)]


def layer_norm(p: Any, inputs: Any) -> Any:
    return None if p.get("backward") else lambda: [_layer_norm(*inputs)]


def sum(p: Any, inputs: Any) -> Any:
    (x,) = inputs
    if x.ndim > 2:
        return None
    if p["axis"] is None:
        return lambda: [_sum_rows(x).sum()]
    return (lambda: [_sum_columns(x)]) if p["axis"] == 0 else lambda: [_sum_rows(x)]


def cumsum(p: Any, inputs: Any) -> Any:
    return lambda: [_cumsum(*inputs)]


def gather(p: Any, inputs: Any) -> Any:
    return lambda: [_gather(*inputs)]
