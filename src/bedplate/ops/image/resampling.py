"""interpolate: sequences, images and volumes in another resolution.

Every mode is a weighted sum along one axis at a time: the record `resample` with a table of places
and weights (resampling_tables.py) as its second input and the transposed table, which its
gradient takes, as its third.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bedplate.dtypes import DType, float32, float64, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import from_dtype, host
from bedplate.later import deferred
from bedplate.ops.build import Value, as_type, is_index, is_number
from bedplate.ops.image.resample_kernel import resample_kernel, resample_rows_kernel
from bedplate.ops.image.resampling_tables import (
    Resampling,
    counts_of,
    table,
    tables,
    untabled,
)
from bedplate.ops.indexing.gather import TAKE
from bedplate.ops.pooling.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from bedplate.ops.record import Cost, Op, Sample, apply, register
from bedplate.ops.reduction.statistics import wide
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import mixed
from bedplate.ops.shape.views import reshape

cache_bytes = deferred("bedplate.devices.cpu.caches", "cache_bytes")

# places of one item at least: some microseconds of work
LEAST_ELEMENTS = 4096
LINE_BYTES = 64
# rows are transposed while as many as a vector has lanes take no more than so many second caches
MOST_TURNED = 2


def _infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    x, rows, back = inputs
    if x.dtype not in (float32, float64):
        refuse(DTypeError, "resample", "expected float32 or float64", {"x": x})
    if any(value.dtype is not int64 or len(value.shape) != 2 for value in (rows, back)):
        refuse(DTypeError, "resample", "expected tables (2 taps, places) of int64",
               {"table": rows, "back": back})  # fmt: skip
    before, after = back.shape[1], rows.shape[1]
    if len(x.shape) != 3 or x.shape[1] != before:
        refuse(ShapeError, "resample", f"expected (outer, {before}, inner)", {"x": x})
    return (x.shape[0], after, x.shape[2]), x.dtype


def _reference(x: Any, rows: Any, back: Any) -> Any:
    places, weights = untabled(rows)
    total = np.zeros((x.shape[0], rows.shape[1], x.shape[2]), x.dtype)
    for tap in range(places.shape[1]):
        known = places[:, tap] >= 0
        met = x[:, places[known, tap]] * weights[known, tap, None].astype(x.dtype)
        total[:, known] += met
    return total


def resample_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, None, None]:
    """Each place gets the weighted gradients of the outputs that it is in."""
    _, rows, back = inputs
    return apply(RESAMPLE, (grad_out, back, rows)), None, None


def _lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (x, rows, _), (out,) = inputs, outputs
    if not out.size:
        return
    taps = rows.shape[0] // 2
    outer, count, inner = out.shape
    block = min(max(-(-LEAST_ELEMENTS // inner), 1), count)
    blocks = -(-count // block)
    words = [x, out, blocks, block, taps, count, inner, *x.strides, rows, *rows.strides]
    numbers: dict[str, Any] = {
        "reads": [x.buffer, rows.buffer], "flops": 2.0 * taps * out.size,
        "nbytes": float((x.size + out.size) * out.dtype.itemsize + rows.size * 8),
        "name": "resample",
    }  # fmt: skip
    element = from_dtype(x.dtype)
    lanes = host().lanes(element)
    turned = -(-x.shape[1] * lanes * element.itemsize // LINE_BYTES) * LINE_BYTES
    if inner == 1 and 2 * outer >= lanes and turned <= MOST_TURNED * cache_bytes(2):
        scratch = builder.scratch(turned)
        words += [scratch, turned // element.itemsize, outer, x.shape[1]]
        builder.launch(resample_rows_kernel(element), words, -(-outer // lanes),
                       writes=[out.buffer, scratch], **numbers)  # fmt: skip
        return
    beside = inner > 1 and x.strides[2] == 1
    builder.launch(resample_kernel(element, beside), words, outer * blocks, writes=[out.buffer],
                   **numbers)  # fmt: skip


def _flops(inputs: Any, output: Any, attributes: Attributes) -> float:
    return 2.0 * math.prod(output.shape) * (inputs[1].shape[0] // 2)


def _tables(how: Resampling) -> tuple[Any, Any]:
    """The table of a resampling and that of its gradient."""
    return table(how), table(replace(how, transposed=not how.transposed))


def _sample(outer: int, inner: int, how: Resampling) -> Sample:
    shape = (outer, how.sizes[0], inner)
    return mixed(lambda r: [r.uniform(-2, 2, shape), *_tables(how)], f"{shape} {how}")


RESAMPLE = register(
    Op(
        "resample",
        "kernel",
        _infer,
        reference=_reference,
        gradient=resample_gradient,
        cost=Cost("2 flops a tap and output; inputs and output once", _flops),
        lower=_lower,
        dtypes=(float32, float64),
        samples=(
            _sample(2, 3, Resampling("linear", 4, 7)),
            _sample(3, 1, Resampling("cubic", 5, 23)),
            _sample(1, 37, Resampling("linear", 9, 4, antialias=True)),
            _sample(2, 1, Resampling("nearest", 5, 3)),
            _sample(2, 2, Resampling("nearest-exact", 3, 8, transposed=True)),
            _sample(1, 4, Resampling("linear", 3, 5, align=True, transposed=True)),
            _sample(0, 2, Resampling("linear", 3, 5)),
            _sample(19, 1, Resampling("cubic", 5, 19)),
            _sample(33, 1, Resampling("linear", 18, 7, transposed=True)),
        ),
        doc="Weighted sums of places along the middle axis, by a table and its transpose.",
    )
)

# mode of interpolate -> (mode of a table, ranks that it has)
MODES = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
    "area": ("area", (1, 2, 3)),
}
AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
Numbers = float | Sequence[float]


def _mode(x: Value, mode: str, align_corners: bool | None, antialias: bool) -> str:
    """The mode of the tables; refuses what does not belong together."""
    rank = len(x.shape) - 2
    if mode not in MODES:
        raise ValueError(f"interpolate: unknown mode {mode!r}; there are {', '.join(MODES)}")
    found, ranks = MODES[mode]
    if rank not in ranks:
        refuse(ShapeError, "interpolate", f"mode {mode!r} does not fit the axes of x", {"x": x},
               f"expected (N, C, ...) of {' or '.join(map(str, ranks))} axes of space")  # fmt: skip
    if align_corners is not None and found not in ("linear", "cubic"):
        raise ValueError(f"interpolate: mode {mode!r} has no align_corners")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: mode {mode!r} has no antialias, only bilinear and bicubic")
    if antialias and align_corners:
        raise ValueError("interpolate: antialias needs align_corners=False: pixels are areas")
    return found


def _targets(
    x: Value, size: Any, scale_factor: Any, recompute_scale_factor: bool | None
) -> tuple[Shape, tuple[float | None, ...]]:
    """(sizes, the factors if they are given and hold)."""
    rank = len(x.shape) - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor")
    given = scale_factor if size is None else size
    several = tuple(given) if isinstance(given, Sequence) else (given,) * rank
    fits = is_number if size is None else is_index
    if len(several) != rank or any(not fits(number) or not number > 0 for number in several):
        kind = "number" if size is None else "integer"
        raise ShapeError(f"interpolate: {given!r} does not fit\n"
                         f"  expected one positive {kind}, or {rank}")  # fmt: skip
    if size is not None:
        return tuple(operator.index(number) for number in several), (None,) * rank
    counts = counts_of(x.shape[2:], several)
    if min(counts) < 1:
        refuse(ShapeError, "interpolate", f"nothing is left: sizes {counts}", {"x": x})
    return counts, (None,) * rank if recompute_scale_factor else tuple(map(float, several))


def _along(x: Value, axis: int, how: Resampling) -> Value:
    """x with one axis resampled; what is no float is only taken.

    The table of the gradient takes longer to make than that of the values, so it is left empty
    where no gradient can be asked for.
    """
    if how.mode.startswith("nearest") and x.dtype not in (float32, float64):
        places = x._lift(tables(how)[0][:, 0].astype(int64.numpy))
        return apply(TAKE, (x, places), {"axis": axis})
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    nothing = np.empty((0, how.size), np.int64)
    rows, back = _tables(how) if x.requires_grad else (table(how), nothing)
    given = (reshape(x, (outer, x.shape[axis], inner)), x._lift(rows), x._lift(back))
    y = apply(RESAMPLE, given)
    return reshape(y, (*x.shape[:axis], how.count, *x.shape[axis + 1 :]))


def interpolate(
    x: Value, size: int | Sequence[int] | None = None, scale_factor: Numbers | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Value:  # fmt: skip
    """Bring sequences, images or volumes to another resolution.

    y[n, c, i] = sum over t of weight[i, t] x[n, c, place[i, t]], along each axis of space. Output
    i lies at (i + 1/2) step - 1/2 among the inputs, with step = old size / new size.

    x              (N, C, L), (N, C, H, W) or (N, C, D, H, W)  floats; "nearest" takes any dtype
    size           the new sizes, one number or one an axis
    scale_factor   instead of size: new = floor(old factor), and step = 1 / factor
    mode           "nearest": floor(i step); "nearest-exact": the nearest;
                   "linear", "bilinear", "trilinear" (by rank): the two neighbours, by distance;
                   "bicubic": four neighbours, Keys' cubic with a = -0.75;
                   "area": the mean of what an output covers (`adaptive_avg_pool2d`)
    align_corners  for linear and cubic modes: output i lies at i (old - 1) / (new - 1)
    recompute_scale_factor  step = old size / new size even where a factor is given
    antialias      for "bilinear" and "bicubic" to fewer pixels: the filter grows with the step, so
                   that all inputs count (with a = -0.5 as other image libraries have it)
    returns        (N, C, *sizes), dtype of x; computed in float32 or better, narrowed once
    gradient       the transposed table: each input adds up the outputs that it is in
    raises         ShapeError, ValueError for arguments that do not belong together; DTypeError for
                   integers where values are mixed
    cost           one pass for each axis, 2 flops a tap: 1 (nearest), 2, 4 (bicubic)
    source         Keys 1981, Cubic convolution interpolation for digital image processing
    >>> import bedplate as bp
    >>> x = bp.tensor([[[0.0, 2.0]]])
    >>> bp.nn.functional.interpolate(x, 4, mode="linear").tolist()
    [[[0.0, 0.5, 1.5, 2.0]]]
    >>> bp.nn.functional.interpolate(x, scale_factor=2).tolist()
    [[[0.0, 0.0, 2.0, 2.0]]]
    """
    kind = _mode(x, mode, align_corners, antialias)
    sizes, factors = _targets(x, size, scale_factor, recompute_scale_factor)
    if 0 in x.shape[1:]:
        refuse(ShapeError, "interpolate", "there is nothing to interpolate", {"x": x})
    if kind == "area":
        return AREA[len(sizes) - 1](x, sizes)
    if not x.dtype.is_float and not kind.startswith("nearest"):
        refuse(DTypeError, "interpolate", f"mode {mode!r} is for floats", {"x": x},
               "cast first: x.astype(bp.float32)")  # fmt: skip
    y = wide(x) if x.dtype.is_float else x
    # what shrinks comes first, then the last axis, whose rows are transposed: fewer of them so
    for axis in sorted(range(2, len(x.shape)), key=lambda i: (sizes[i - 2] / x.shape[i], -i)):
        count, factor = sizes[axis - 2], factors[axis - 2]
        how = Resampling(kind, x.shape[axis], count, factor, bool(align_corners), antialias)
        if count != x.shape[axis] or factor not in (None, 1.0):
            y = _along(y, axis, how)
    return as_type(y, x.dtype)
