"""The linear recurrence y[i] = a[i] y[i - 1] + b[i]: a scan, and the gradient of other scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import COMPLEX
from bedplate.errors import ShapeError
from bedplate.ops.build import Value, normalised_axis
from bedplate.ops.complex_numbers.parts import conj
from bedplate.ops.elementwise import NUMBERS
from bedplate.ops.pointwise.arithmetic import multiply
from bedplate.ops.record import Op, apply, each_element, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import floats
from bedplate.ops.scan.kernel import Scan
from bedplate.ops.scan.records import backwards, following, in_float64, lowering, scan_rule, shifted
from bedplate.ops.shape.views import moveaxis, reshape


def linear_recurrence_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, Value]:
    """db[i] = g[i] + a[i + 1] db[i + 1], the recurrence backwards; da[i] = db[i] y[i - 1]"""
    to_b = backwards(LINEAR_RECURRENCE, conj(following(inputs[0])), grad_out)
    return multiply(to_b, conj(shifted(output, 0))), to_b


def _recurrence_reference(a: Any, b: Any) -> Any:
    y = np.zeros_like(b)
    for i in range(b.shape[1]):
        y[:, i] = b[:, i] + (a[:, i] * y[:, i - 1] if i else 0)
    return y


# not cut into blocks: the product of the factors of a block may overflow where y does not
LINEAR_RECURRENCE = register(
    Op(
        "linear_recurrence",
        "kernel",
        scan_rule("linear_recurrence", NUMBERS + COMPLEX),
        reference=in_float64(_recurrence_reference),
        gradient=linear_recurrence_gradient,
        cost=each_element(2, "2 flops an element; inputs twice, output once"),
        lower=lowering(
            Scan(
                "linear_recurrence",
                lambda t: (1, 0),
                lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]),
                blocked=False,
                flops=2.0,
                lane_ns=0.4,
            )
        ),
        dtypes=NUMBERS + COMPLEX,
        samples=tuple(
            floats(shape, shape, low=-1.2, high=1.2)
            for shape in ((3, 7), (2, 37), (1, 1), (4, 8), (0, 3), (3, 0))
        ),
        doc="y[i] = a[i] y[i - 1] + b[i] along each row, from y[-1] = 0.",
    )
)


def linear_recurrence(a: Value, b: Value, axis: int = -1) -> Value:
    """Solve y[i] = a[i] y[i - 1] + b[i] along an axis, from nothing: y[0] = b[0].

    a, b     one shape, one dtype; floats are computed in float64
    axis     `dim` works too
    returns  shape of b; its gradient is the same recurrence backwards
    raises   ShapeError, DTypeError if a and b differ
    source   Blelloch 1990, "Prefix sums and their applications", section 1.4
    >>> import bedplate as bp
    >>> bp.linear_recurrence(bp.full_like(bp.ones(4), 0.5), bp.ones(4)).tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    if a.shape != b.shape:
        refuse_inputs(ShapeError, "linear_recurrence", "the shapes differ", (a, b))
    axis = normalised_axis("linear_recurrence", axis, len(b.shape), b)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    rows = (math.prod(b.shape[:-1]), b.shape[-1])
    result = apply(LINEAR_RECURRENCE, (reshape(a, rows), reshape(b, rows)))
    return moveaxis(reshape(result, b.shape), -1, axis)
