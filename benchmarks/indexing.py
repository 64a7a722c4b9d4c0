"""Kinds of work that move elements: concatenation, rows by number and back, small transpositions.

This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.kinds import Arrays, Kind, Parameters, no_flops, normal


def _bytes(*shape: int) -> float:
    return 4.0 * math.prod(shape)


# concat: `parts` arrays of (rows, columns), joined along the last axis


def _concat_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [normal(rng, p["rows"], p["columns"]) for _ in range(p["parts"])]


def _concat_moved(p: Parameters) -> tuple[float, float]:
    one = _bytes(p["parts"], p["rows"], p["columns"])
    return one, one


# embedding: rows of a table (rows, columns) by `ids` numbers, and the table's gradient


def _ids(p: Parameters, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, p["rows"], p["ids"])


def _gather_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [normal(rng, p["rows"], p["columns"]), _ids(p, rng)]


def _gather_moved(p: Parameters) -> tuple[float, float]:
    one = _bytes(p["ids"], p["columns"])
    return one, one


def _scatter_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    return [normal(rng, p["ids"], p["columns"]), _ids(p, rng)]


def _scatter_answer(p: Parameters, inputs: Arrays) -> Arrays:
    table = np.zeros((p["rows"], p["columns"]))
    np.add.at(table, inputs[1], inputs[0])
    return [table]


def _scatter_moved(p: Parameters) -> tuple[float, float]:
    return _bytes(p["ids"], p["columns"]), _bytes(p["rows"], p["columns"])


# transpose: the last two axes of an array of `shape`


def _transpose_moved(p: Parameters) -> tuple[float, float]:
    return _bytes(*p["shape"]), _bytes(*p["shape"])


INDEXING = {
    "concat": Kind(
        _concat_inputs, lambda p, x: [np.concatenate(x, axis=-1)], no_flops, _concat_moved
    ),
    "gather": Kind(_gather_inputs, lambda p, x: [x[0][x[1]]], no_flops, _gather_moved),
    "scatter_add": Kind(_scatter_inputs, _scatter_answer, no_flops, _scatter_moved),
    "transpose": Kind(
        lambda p, rng: [normal(rng, *p["shape"])],
        lambda p, x: [x[0].swapaxes(-1, -2)],
        no_flops,
        _transpose_moved,
    ),
}
