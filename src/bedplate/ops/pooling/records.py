"""The records of pooling: max_pool, window_sum, and its transpose window_spread.

    max_pool(x)[n, c, p]      = max over k of x[n, c, p * stride + k * dilation - before]
    window_sum(x)[n, c, p]    = sum over k of the same
    window_spread(g)[n, c, i] = sum of g[n, c, p] over p, k: p * stride + k * dilation - before = i

What lies outside of x is left out. `out` says how many windows there are along each axis, so that
padding behind the end, and rounding up, need no words of their own. The kernels are in
kernel.py, the gradient of max_pool in row_choice.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, int32
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value
from bedplate.ops.convolution.windows import lifted
from bedplate.ops.elementwise import NARROW_FLOATS, NUMBERS, widened
from bedplate.ops.indexing.row_choice import row_add
from bedplate.ops.pooling import kernel as pooling_kernel
from bedplate.ops.pooling.kernel import (
    LEAST_ELEMENTS,
    MOST_ELEMENTS,
    MOST_WRITTEN_OUT,
    pool_of,
)
from bedplate.ops.record import Cost, Op, Sample, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats, integers, rough
from bedplate.ops.shape.views import outputs, reshape


def _check(op: str, x: Any, accepted: tuple[DType, ...], rank: int) -> None:
    if x.dtype not in accepted:
        refuse(DTypeError, op, "no such op for this dtype", {"x": x},
               f"expected one of {', '.join(d.name for d in accepted)}")  # fmt: skip
    if len(x.shape) != rank + 2 or math.prod(x.shape[2:]) > MOST_ELEMENTS:
        refuse(ShapeError, op, f"{rank} axes of space are needed", {"x": x},
               "expected (N, C, *space), fewer than 2^31 elements a plane")  # fmt: skip


def _max_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Any, Any]:
    (x,) = inputs
    _check("max_pool", x, NUMBERS, len(attributes["out"]))
    shape = (*x.shape[:2], *attributes["out"])
    return (shape, shape), (x.dtype, int32)


def _sum_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    _check("window_sum", x, FLOATS, len(attributes["out"]))
    return (*x.shape[:2], *attributes["out"]), x.dtype


def _spread_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (grad,) = inputs
    _check("window_spread", grad, FLOATS, len(attributes["out"]))
    if grad.shape[2:] != attributes["out"]:
        refuse(ShapeError, "window_spread", f"expected {attributes['out']} windows", {"x": grad})
    return (*grad.shape[:2], *attributes["space"]), grad.dtype


def _meetings(space: Shape, attributes: Attributes) -> Iterator[tuple[Any, Any, Any]]:
    """Tap by tap: (index arrays of what the windows meet, its place in a plane, whether inside)."""
    named = (attributes[name] for name in ("out", "stride", "before", "dilation"))
    axes = list(zip(*named, space, strict=True))
    for tap in itertools.product(*(range(k) for k in attributes["window"])):
        places = [
            np.arange(out) * step - before + k * apart
            for k, (out, step, before, apart, _) in zip(tap, axes, strict=True)
        ]
        meshes = np.meshgrid(*places, indexing="ij")
        inside = np.ones(meshes[0].shape, bool)
        flat = np.zeros(meshes[0].shape, np.int64)
        for mesh, size in zip(meshes, space, strict=True):
            inside &= (mesh >= 0) & (mesh < size)
            flat = flat * size + mesh
        clipped = [np.clip(m, 0, size - 1) for m, size in zip(meshes, space, strict=True)]
        yield (slice(None), slice(None), *clipped), flat.astype(np.int32), inside


def _max_reference(x: Any, **attributes: Any) -> tuple[Any, Any]:
    """Tap by tap: a later one wins if it is greater, or the first NaN."""
    wide = x.astype(np.float32) if x.dtype in NARROW_FLOATS else x
    floating = wide.dtype.kind == "f"
    lowest = -np.inf if floating else np.iinfo(x.dtype).min
    best = np.full((*x.shape[:2], *attributes["out"]), lowest, wide.dtype)
    places = np.full(best.shape, -1, np.int32)
    for met, place, inside in _meetings(x.shape[2:], attributes):
        value = wide[met]
        with np.errstate(invalid="ignore"):
            better = (value > best) | (places < 0)
        if floating:
            better |= np.isnan(value) & ~np.isnan(best)
        better &= inside
        best = np.where(better, value, best)
        places = np.where(better, place, places)
    return best.astype(x.dtype), places


def _sum_reference(x: Any, **attributes: Any) -> Any:
    total = np.zeros((*x.shape[:2], *attributes["out"]), x.dtype)
    for met, _, inside in _meetings(x.shape[2:], attributes):
        total += np.where(inside, x[met], 0)
    return total


def _spread_reference(grad: Any, *, space: Shape, **attributes: Any) -> Any:
    total = np.zeros((*grad.shape[:2], *space), grad.dtype)
    for met, _, inside in _meetings(space, attributes):
        np.add.at(total, met, np.where(inside, grad, 0))
    return total


def max_pool_gradient(
    grad_out: Any, inputs: Any, output: Value, **attributes: Any
) -> tuple[Value | None]:
    """The gradient of each window goes to the element that it chose."""
    (x,) = inputs
    grad, _ = grad_out
    if grad is None:
        return (None,)
    rows, width = math.prod(x.shape[:2]), math.prod(x.shape[2:])
    flat = (rows, math.prod(attributes["out"]))
    places = reshape(outputs(output)[1], flat)
    return (reshape(row_add(reshape(grad, flat), places, width), x.shape),)


def sum_gradient(grad_out: Value, inputs: Any, output: Value, **attributes: Any) -> tuple[Value]:
    """Each element gets the gradients of the windows that it is in."""
    space = inputs[0].shape[2:]
    return (apply(WINDOW_SPREAD, (grad_out,), {**attributes, "space": space}),)


def spread_gradient(
    grad_out: Value, inputs: Any, output: Value, *, space: Shape, **attributes: Any
) -> tuple[Value]:
    """The sums over the windows."""
    return (apply(WINDOW_SUM, (grad_out,), attributes),)


def _geometry(attributes: Attributes) -> list[int]:
    """The words from OUT_Z to APART_X."""
    return [
        *lifted(attributes["out"], 1), *lifted(attributes["window"], 1),
        *lifted(attributes["stride"], 1), *lifted(attributes["before"], 0),
        *lifted(attributes["dilation"], 1),
    ]  # fmt: skip


def _enter(
    builder: Any, name: str, kernel: Any, view: Any, space: Shape, out: Any, more: list[Any],
    writes: list[Any], attributes: Attributes,
) -> None:  # fmt: skip
    """Enter one launch over the rows of `out`, which has the planes of `view`."""
    planes = out.shape[0] * out.shape[1]
    lines = math.prod(out.shape[2:-1])
    rows = min(max(-(-LEAST_ELEMENTS // max(out.shape[-1], 1)), 1), lines)
    blocks = -(-lines // rows)
    words = [
        view, view.shape[1], blocks, rows, *view.strides[:2], *lifted(view.strides[2:], 0),
        *lifted(space, 1), *_geometry(attributes), out, *more,
    ]  # fmt: skip
    taps = math.prod(attributes["window"])
    builder.launch(
        kernel, words, planes * blocks, reads=[view.buffer], writes=writes,
        flops=float(taps * planes * math.prod(attributes["out"])),
        nbytes=float((view.size + out.size) * out.dtype.itemsize), name=name,
    )  # fmt: skip


def _lower_max(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (x,), (out, places) = inputs, outputs
    if out.size:
        attributes = node.attributes
        pool = pool_of("greatest", x, lifted(attributes["window"], 1),
                       lifted(attributes["stride"], 1))  # fmt: skip
        _enter(builder, "max_pool", pooling_kernel.window_kernel(pool), x, x.shape[2:], out,
               [places], [out.buffer, places.buffer], attributes)  # fmt: skip


def _lower_sum(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (x,), (out,) = inputs, outputs
    if out.size:
        attributes = node.attributes
        pool = pool_of("sum", x, lifted(attributes["window"], 1),
                       lifted(attributes["stride"], 1))  # fmt: skip
        _enter(builder, "window_sum", pooling_kernel.window_kernel(pool), x, x.shape[2:], out,
               [], [out.buffer], attributes)  # fmt: skip


def _lower_spread(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (grad,), (out,) = inputs, outputs
    if not out.size:
        return
    pool = pool_of("sum", grad, (1, 1, 0), (1, 1, 1))
    window, step, apart = (node.attributes[name][-1] for name in ("window", "stride", "dilation"))
    if step == 2 and apart == 1 and window <= MOST_WRITTEN_OUT:
        pool = dataclasses.replace(pool, taps=window, pairs=True)
    elements = -(-(grad.shape[-1] + out.shape[-1]) // 16) * 16
    scratch = builder.scratch(elements * pool.state.itemsize)
    _enter(builder, "window_spread", pooling_kernel.spread_kernel(pool), grad, out.shape[2:], out,
           [scratch, elements], [out.buffer, scratch], node.attributes)  # fmt: skip


# (N, C, *space), window, stride, before, dilation, out
_CASES = (
    ((2, 3, 5, 6), (3, 2), (2, 1), (1, 0), (1, 1), (3, 5)),
    ((1, 2, 37), (3,), (2,), (1,), (1,), (19,)),
    ((1, 2, 7, 40), (2, 5), (1, 3), (0, 2), (2, 1), (5, 14)),
    ((1, 1, 3, 4, 5), (2, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 2), (2, 3, 2)),
    ((0, 2, 5), (2,), (1,), (0,), (1,), (4,)),
    ((1, 1, 37), (3,), (2,), (2,), (1,), (20,)),
    ((1, 1, 40), (4,), (2,), (0,), (1,), (19,)),
    ((1, 1, 1), (2,), (1,), (2,), (3,), (2,)),
)


def _samples(spread: bool = False) -> tuple[Sample, ...]:
    found = []
    for x, window, stride, before, dilation, out in _CASES:
        attributes: dict[str, Any] = dict(
            window=window, stride=stride, before=before, dilation=dilation, out=out
        )
        if spread:
            found.append(floats((*x[:2], *out), **attributes, space=x[2:]))
        else:
            found.append(floats(x, **attributes))
    return tuple(found)


_LINE: dict[str, Any] = dict(window=(3,), stride=(2,), before=(1,), dilation=(1,), out=(4,))


def _tap_flops(inputs: Any, output: Any, attributes: Attributes) -> float:
    planes = math.prod(inputs[0].shape[:2])
    return float(planes * math.prod(attributes["out"]) * math.prod(attributes["window"]))


MAX_POOL = register(
    Op(
        "max_pool",
        "kernel",
        _max_infer,
        reference=_max_reference,
        gradient=max_pool_gradient,
        cost=Cost("1 comparison a tap and output; input and outputs once", _tap_flops),
        lower=_lower_max,
        n_outputs=2,
        dtypes=NUMBERS,
        samples=(
            *_samples()[:-1],
            # the last case has a window that meets nothing: -inf
            dataclasses.replace(_samples()[-1], smooth=False),
            integers((1, 2, 7), **_LINE),
            rough(lambda r: [r.integers(0, 2, (1, 3, 7)) * 1.0], "ties", **_LINE),
            rough(
                lambda r: [np.array([[[1, np.nan, 3, 2, 5, np.nan, 1], [-np.inf] * 7]])],
                "NaN",
                **_LINE,
            ),
        ),
        doc="The greatest element of each window, and its place in the plane (-1: none inside).",
    )
)
WINDOW_SUM = register(
    Op(
        "window_sum",
        "kernel",
        _sum_infer,
        reference=widened(_sum_reference),
        gradient=sum_gradient,
        cost=Cost("1 flop a tap and output; input and output once", _tap_flops),
        lower=_lower_sum,
        dtypes=FLOATS,
        samples=_samples(),
        doc="The sum over each window; what lies outside counts as 0.",
    )
)
WINDOW_SPREAD = register(
    Op(
        "window_spread",
        "kernel",
        _spread_infer,
        reference=widened(_spread_reference),
        gradient=spread_gradient,
        cost=Cost("1 flop a tap and element of x; input and output once", _tap_flops),
        lower=_lower_spread,
        dtypes=FLOATS,
        samples=_samples(spread=True),
        doc="Each element the sum over the windows that it is in: the transpose of window_sum.",
    )
)
