"""What the CTC loss does step by step, as two records: both run through time within one kernel.

`ctc_paths` is the recursion of Graves et al. in logarithms: how likely all paths are that stand at
each label. Its gradient is a linear recurrence backwards in time, whose factors are the shares that
the three ways to a label have in it. `banded_recurrence` is that recurrence, in either direction;
each direction is the gradient of the other, so gradients of every order come from it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from bedplate.dtypes import DType, bool_, float32, float64, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.kernel import from_dtype
from bedplate.ops.build import Value, as_type, number, without_gradient
from bedplate.ops.losses.ctc_kernel import banded_kernel, paths_kernel
from bedplate.ops.pointwise.arithmetic import add, divide, multiply, subtract
from bedplate.ops.pointwise.comparison import (
    equal,
    greater,
    isfinite,
    less,
    logical_and,
    logical_or,
)
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import exp
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.record import Cost, Op, Sample, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats, mixed, rough
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.regions import narrow, pad, stack
from bedplate.ops.shape.views import expand_dims, reshape

# to each label: it stays, comes from the one before, or leaps over a blank
WAYS = 3
# exponentials and logarithms count as one
PATHS_FLOPS = 12.0


def _infer_paths(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    chances, leaps, ends = inputs
    named = {"chances": chances, "leaps": leaps, "ends": ends}
    if chances.dtype not in (float32, float64) or leaps.dtype is not bool_:
        refuse(DTypeError, "ctc_paths", "expected float32 or float64, and bool", named)
    shape = chances.shape
    fits = len(shape) == 3 and leaps.shape == shape[1:] and ends.shape == shape[1:2]
    if not fits or ends.dtype is not int64:
        refuse(ShapeError, "ctc_paths", "expected (T, N, L), (N, L) and (N,) int64", named)
    return shape, chances.dtype


def _paths_reference(chances: Any, leaps: Any, ends: Any) -> Any:
    paths = np.full(chances.shape, -math.inf, chances.dtype)
    paths[:1, :, :2] = chances[:1, :, :2]
    running = np.arange(len(chances))[:, None, None] < ends[:, None]
    for t in range(1, len(chances)):
        with np.errstate(invalid="ignore"):
            total = np.full(leaps.shape, -math.inf, chances.dtype)
            for way in range(WAYS):
                before = _moved(paths[t - 1], way, -math.inf)
                known = leaps if way == 2 else True
                total = np.logaddexp(total, np.where(known, before, -math.inf))
            paths[t] = np.where(running[t], total + chances[t], paths[t - 1])
    return paths


def _moved(x: Any, way: int, fill: float) -> Any:
    """An array whose last axis is shifted by `way` places."""
    result = np.full_like(x, fill)
    result[..., way:] = x[..., : max(x.shape[-1] - way, 0)]
    return result


def ctc_paths_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Value, None, None]:
    """What reaches a label, over all later steps; a step beyond the end is no step."""
    chances, leaps, ends = inputs
    running = _running(chances, ends)
    shares = _shares(leaps, running, output)
    reached = apply(BANDED, (shares, grad_out), {"backwards": True})
    alive = logical_and(running, greater(output, -math.inf))
    return where(alive, reached, number(reached, 0)), None, None


def _running(chances: Value, ends: Value) -> Value:
    """(T, N, 1): whether a step counts; the first one does."""
    step = index_along(chances, 0, (chances.shape[0], 1, 1))
    return logical_or(equal(step, 0), less(step, reshape(ends, (1, -1, 1))))


def _shares(leaps: Value, running: Value, paths: Value) -> Value:
    """(T, N, L, 3): the part each way has in the paths at a label; beyond the end all stays.

    Divided by their sum, so that no part is lost or won over many steps, however long the
    logarithms have become.
    """
    ways = [_before(paths, way, -math.inf) for way in range(WAYS)]
    ways[2] = where(expand_dims(leaps, 0), ways[2], number(paths, -math.inf))
    most = without_gradient(functools.reduce(maximum, ways))
    most = where(isfinite(most), most, number(most, 0))
    parts = [_exp_or_nothing(subtract(way, most)) for way in ways]
    total = functools.reduce(add, parts)
    total = where(greater(total, 0), total, number(total, 1))
    stays = [1.0, 0.0, 0.0]
    found = [
        where(running, divide(part, total), number(part, stay))
        for part, stay in zip(parts, stays, strict=True)
    ]
    return stack(found, axis=-1)


def _exp_or_nothing(x: Value) -> Value:
    """exp(x), whose gradients of every order are 0 at minus infinity."""
    known = greater(x, -math.inf)
    return where(known, exp(where(known, x, number(x, 0))), number(x, 0))


def _before(x: Value, way: int, fill: float) -> Value:
    """(T, N, L): x one step earlier, `way` labels before."""
    steps, _, size = x.shape
    cut = narrow(narrow(x, 0, 0, max(steps - 1, 0)), 2, 0, max(size - way, 0))
    return pad(cut, ((min(steps, 1), 0), (0, 0), (min(way, size), 0)), value=fill)


def _lower_paths(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    chances, leaps, ends = inputs
    (out,) = outputs
    if not out.size:
        return
    steps, batch, size = out.shape
    words = [out, chances, *chances.strides, leaps, *leaps.strides, ends, *ends.strides,
             steps, batch, size]  # fmt: skip
    builder.launch(
        paths_kernel(from_dtype(out.dtype)), words, batch,
        reads=[view.buffer for view in inputs], writes=[out.buffer],
        flops=PATHS_FLOPS * out.size, nbytes=2.0 * out.size * out.dtype.itemsize, name="ctc_paths",
    )  # fmt: skip


def _path_sample(steps: int, batch: int, size: int) -> Sample:
    def make(rng: Any) -> Any:
        leaps = (rng.random((batch, size)) < 0.6) & (np.arange(size) > 1)
        return [rng.uniform(-2, 0, (steps, batch, size)), leaps,
                rng.integers(1, steps + 2, (batch,))]  # fmt: skip

    # where no path leads, minus infinity has no central difference
    return (mixed if size <= 2 else rough)(make, f"{steps} {batch} {size}")


def _infer_banded(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    shares, b = inputs
    named = {"shares": shares, "b": b}
    if b.dtype not in (float32, float64) or shares.dtype is not b.dtype:
        refuse(DTypeError, "banded_recurrence", "expected one of float32 and float64", named)
    if len(b.shape) != 3 or shares.shape != (*b.shape, WAYS):
        refuse(ShapeError, "banded_recurrence", "expected (T, N, L, 3) and (T, N, L)", named)
    return b.shape, b.dtype


def _banded_reference(shares: Any, b: Any, *, backwards: bool) -> Any:
    y = np.array(b)
    for t in range(len(b) - 2, -1, -1) if backwards else range(1, len(b)):
        for way in range(min(WAYS, b.shape[-1])):
            stop = b.shape[-1] - way
            if backwards:
                y[t, :, :stop] += (shares[t + 1, ..., way] * y[t + 1])[:, way:]
            else:
                y[t, :, way:] += shares[t, :, way:, way] * y[t - 1, :, :stop]
    return y


def banded_gradient(
    grad_out: Value, inputs: Any, output: Value, *, backwards: bool
) -> tuple[Value, Value]:
    """The recurrence the other way; a share has what came through it times what waited there."""
    to_b = apply(BANDED, (inputs[0], grad_out), {"backwards": not backwards})
    late, early = (output, to_b) if backwards else (to_b, output)
    to_shares = [multiply(late, _before(early, way, 0.0)) for way in range(WAYS)]
    return stack(to_shares, axis=-1), to_b


def _lower_banded(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    (shares, b), (out,) = inputs, outputs
    if not out.size:
        return
    steps, batch, size = out.shape
    words = [out, shares, *shares.strides, b, *b.strides, steps, batch, size]
    builder.launch(
        banded_kernel(from_dtype(out.dtype), node.attributes["backwards"]), words, batch,
        reads=[shares.buffer, b.buffer], writes=[out.buffer], flops=2.0 * WAYS * out.size,
        nbytes=float((shares.size + 2 * out.size) * out.dtype.itemsize), name="banded_recurrence",
    )  # fmt: skip


def _output_flops(each: float) -> Any:
    return lambda inputs, output, attributes: each * math.prod(output.shape)


PATHS = register(
    Op(
        "ctc_paths",
        "kernel",
        _infer_paths,
        reference=_paths_reference,
        gradient=ctc_paths_gradient,
        cost=Cost("12 flops an element; input and output once", _output_flops(PATHS_FLOPS)),
        lower=_lower_paths,
        infinities=lambda: True,  # labels that no path has reached
        dtypes=(float32, float64),
        samples=(
            _path_sample(1, 2, 2),
            _path_sample(5, 3, 2),
            _path_sample(4, 2, 5),
            _path_sample(7, 1, 19),
            _path_sample(3, 0, 5),
        ),
        doc="Logarithms of how likely all paths are that stand at a label after each step.",
    )
)
BANDED = register(
    Op(
        "banded_recurrence",
        "kernel",
        _infer_banded,
        reference=_banded_reference,
        gradient=banded_gradient,
        cost=Cost("6 flops an element of b; inputs and output once", _output_flops(2.0 * WAYS)),
        lower=_lower_banded,
        dtypes=(float32, float64),
        samples=tuple(
            floats((*shape, WAYS), shape, low=-0.8, high=0.8, backwards=backwards)
            for shape in ((4, 2, 5), (1, 1, 3), (3, 2, 1), (5, 1, 19), (0, 2, 3))
            for backwards in (False, True)
        ),
        doc="y[t, s] = b[t, s] + sum over k of shares[t, s, k] y[t - 1, s - k], or its transpose.",
    )
)


def ctc_paths(chances: Value, leaps: Value, ends: Value) -> Value:
    """(T, N, L): the logarithm of how likely all paths are that stand at each label.

    chances  (T, N, L) float32 or float64  log-probability of each label at each step
    leaps    (N, L) bool                   whether a path may come from two labels before
    ends     (N,) integers                 how many steps count; later ones repeat the last
    """
    return apply(PATHS, (chances, leaps, as_type(ends, int64)))
