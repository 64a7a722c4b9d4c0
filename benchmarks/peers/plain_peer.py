"""The plain order of a matrix product, in our kernel language: what blocking and packing are worth.

For each row of a and each element in it, the row of b times that element is added to the row of the
result: vectors, all workers, a chain of fused multiply-adds over k in each output, hence the same
bits as the product's own; but no tile of sums in registers, no panel of b in the first cache.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from bedplate.devices.cpu.runner import Slot
from bedplate.inspect.limits import aligned, plan_of
from bedplate.kernel import f32, fma, host, i64, kernel, load, loop, ptr, splat, store, zeros
from bedplate.kernel.task import word_int, word_pointer

COMPILES = True
VERSION = version("bedplate")


def as_arrays(results: Any) -> list[np.ndarray]:
    return results


def _product() -> Any:
    lanes = host().lanes(f32)

    @kernel
    def plain_product(args: ptr(i64), begin: i64, end: i64, worker: i64):  # type: ignore[valid-type] - a call
        a, b, out = (word_pointer(args, word, f32) for word in range(3))
        depth, columns = word_int(args, 3), word_int(args, 4)
        for row in loop(begin, end):
            target = out + row * columns
            for column in loop(0, columns, lanes):
                store(target + column, zeros(f32, lanes))
            for k in loop(depth):
                factor = splat(load(a + row * depth + k), lanes)
                for column in loop(0, columns, lanes):
                    here = target + column
                    store(
                        here, fma(factor, load(b + k * columns + column, lanes), load(here, lanes))
                    )

    return plain_product


def matmul(p: Any, inputs: Any) -> Any:
    """float32 whose rows are whole vectors."""
    if set(p) != {"m", "k", "n"} or p["n"] % host().lanes(f32):
        return None
    arrays = [aligned(4 * size) for size in (p["m"] * p["k"], p["k"] * p["n"], p["m"] * p["n"])]
    for array, given in zip(arrays, inputs, strict=False):
        array[:] = given.reshape(-1)
    words = [Slot(2), Slot(3), Slot(4), p["k"], p["n"]]
    run = plan_of(_product(), words, p["m"], arrays, 2.0 * p["m"] * p["k"] * p["n"])

    def product() -> Any:
        run()
        return [arrays[2]]

    return product
