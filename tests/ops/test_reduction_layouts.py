"""Every reduction along every kind of axis: rows, columns, both, in one part and in several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.ops.record import REGISTRY, apply

REDUCTIONS = sorted(name for name, op in REGISTRY.items() if op.kind == "reduce")
# (shape, axes): columns of one item, of several, a row in chunks, axes on both sides, the middle
LAYOUTS = (
    ((3, 5), (0,)),
    ((300, 70), (0,)),
    ((2, 70_000), (1,)),
    ((9, 4, 35), (0, 2)),
    ((5, 40, 3), (1,)),
    ((1, 40_000), (0,)),
)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(("shape", "axes"), LAYOUTS)
def test_reductions_along_every_axis(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...], device: Any, toolbox: Any
) -> None:
    op = REGISTRY[name]
    rng = np.random.default_rng(5)
    for dtype in (d for d in (bp.bool_, bp.int32, bp.float32, bp.float64) if d in op.dtypes):
        # few elements that are not 1: products stay small, `all` and `any` find something
        array = np.ones(shape, dtype.numpy)
        places = rng.integers(0, array.size, 4)
        array.flat[places] = rng.integers(0, 3, 4).astype(dtype.numpy)
        if len(axes) > 1 and name.startswith("arg"):
            continue
        result = apply(op, (bp.Tensor(array, device),), {"axes": axes}).numpy()
        wanted = op.reference(array, axes=axes)
        toolbox.assert_close(result, np.asarray(wanted), 1e-6, f"{name} {dtype} {shape} {axes}")
