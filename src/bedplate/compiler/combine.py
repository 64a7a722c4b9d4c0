"""combine: join the partial results of a reduction in the order of its parts.

out[o, c] = finish(combine(partial[o, 0, c], partial[o, 1, c], ...))
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.compiler.cost import register_type
from bedplate.compiler.program import Reduce
from bedplate.compiler.reductions import (
    accumulator_type,
    combine,
    finished,
    initial_value,
)
from bedplate.kernel import (
    constant,
    f32,
    host,
    i64,
    kernel,
    load,
    loop,
    ptr,
    quotient,
    store,
    tail_mask,
    var,
)
from bedplate.kernel.task import word_int, word_pointer

VECTORS = 8  # of columns in one work item


@functools.cache
def combine_kernel(op: Any, dtype: Any, accumulate: Any) -> tuple[Any, int]:
    """The kernel for one reduction, and how many columns one item takes."""
    reduce = Reduce(op, 0, dtype, accumulate, "column")
    lanes = host().lanes(f32)
    chunk = VECTORS * lanes

    @kernel
    def combine_parts(args: ptr(i64), begin: i64, end: i64, worker: i64) -> None:
        partial = word_pointer(args, 0, accumulator_type(reduce))
        out = word_pointer(args, 1, register_type(dtype))
        parts, columns, chunks = word_int(args, 2), word_int(args, 3), word_int(args, 4)
        for item in loop(begin, end):
            outer = quotient(item, chunks)
            first = (item - outer * chunks) * chunk
            for v in range(VECTORS):
                column = first + v * lanes
                mask = tail_mask(columns - column, lanes)
                total = var(constant(accumulator_type(reduce), initial_value(reduce), lanes))
                for part in loop(parts):
                    here = load(partial + ((outer * parts + part) * columns + column), lanes, mask)
                    total.set(combine(reduce, [total.get()], [here])[0])
                store(out + (outer * columns + column), finished(reduce, [total.get()]), mask)

    return combine_parts, chunk
