"""Tiles whose rows are walked in a loop give what unrolled ones and gathers give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp

SIZES = [(1, 1), (16, 16), (17, 33), (31, 5), (64, 100), (129, 48)]


def heavy(x: Any, y: Any) -> Any:
    return bp.special.gammaln(x.T * 0.5 + 3) * y + bp.cos(x.T)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_loop_over_rows_has_the_bits_of_gathers(size: tuple[int, int], dtype: str) -> None:
    generator = np.random.default_rng(9)
    x = bp.tensor(generator.random(size), dtype=dtype)
    y = bp.tensor(generator.random(size[::-1]), dtype=dtype)
    with bp.config(tiling=False):
        expected = heavy(x, y).to("float64").numpy()
    for change in ({}, {"check": True}, {"threads": False}):
        with bp.config(**change):
            np.testing.assert_array_equal(heavy(x, y).to("float64").numpy(), expected)


def test_code_of_a_long_row_stands_once() -> None:
    x, y = bp.ones((64, 48)).realise(), bp.ones((48, 64)).realise()
    tiled = bp.explain(heavy(x, y)).llvm()
    with bp.config(tiling=False):
        gathered = bp.explain(heavy(x, y)).llvm()
    assert "shufflevector" in tiled
    assert len(tiled) < 4 * len(gathered)
