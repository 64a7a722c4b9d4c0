"""The table of all ops: what it says of gradients and costs is so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.dtypes import as_dtype
from bedplate.ops import table
from bedplate.ops.cost import BY_KIND, cost_of, flops, nbytes
from bedplate.ops.record import REGISTRY, NoGradient, Op, apply


def test_the_table_has_a_row_for_each_op() -> None:
    rows = table.rows()
    assert {cells[0] for cells in rows} == set(REGISTRY)
    assert all(len(cells) == len(table.HEADINGS) for cells in rows)
    assert table.table().count("\n") == len(REGISTRY)
    assert f"{len(REGISTRY)} ops" in table.summary()


def test_every_gradient_is_differentiable_again() -> None:
    found = {op.name: table.second_order(op) for op in REGISTRY.values()}
    assert not {name for name, order in found.items() if order.startswith("no:")}
    # without a sample that is smooth nothing is known; other ops' gradients use these
    silent = [REGISTRY[name] for name, order in found.items() if order == "not sampled"]
    assert not [op for op in silent if any(sample.smooth for sample in op.samples)]


def test_second_orders_that_are_missing_or_zero_are_told() -> None:
    assert table.second_order(REGISTRY["exp"]) == "yes"
    assert table.second_order(REGISTRY["add"]) == "zero"
    assert table.second_order(REGISTRY["equal"]) == ""
    exp = REGISTRY["exp"]
    made = {name: getattr(exp, name) for name in ("reference", "samples")}
    through_bits = Op(
        "odd", "elementwise", exp.infer,
        gradient=lambda grad_out, inputs, output: (bp.nextafter(grad_out, inputs[0]),), **made,
    )  # fmt: skip
    assert table.second_order(through_bits) == "no: nextafter has none"


SAMPLED = [op for op in REGISTRY.values() if op.samples and op.kind != "leaf"]


@pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)
def test_costs_are_numbers(op: Op) -> None:
    for sample in op.samples:
        arrays = [np.asarray(a) for a in sample.inputs(np.random.default_rng(0))]
        inputs = [Shaped(a.shape, as_dtype(a.dtype)) for a in arrays]
        shape, dtype = op.infer(tuple(inputs), sample.attributes)
        several = op.n_outputs > 1
        output = tuple(map(Shaped, shape, dtype)) if several else Shaped(shape, dtype)
        assert 0 <= flops(op, inputs, output, sample.attributes) < 1e12
        assert 0 <= nbytes(op, inputs, output, sample.attributes) < 1e12
    assert cost_of(op).words


class Shaped:
    """The least that a rule of shapes or of costs is given: no size, no ndim, no values."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), dtype


def cost(name: str, *inputs: bp.Tensor, **attributes: Any) -> tuple[float, float]:
    op = REGISTRY[name]
    output = apply(op, inputs, attributes)
    return flops(op, inputs, output, attributes), nbytes(op, inputs, output, attributes)


def test_costs() -> None:
    x, w = bp.ones((4, 6)), bp.ones((6, 5))
    assert cost("matmul", x, w) == (2 * 4 * 6 * 5, 4 * (24 + 30 + 20))
    assert cost("exp", x) == (24, 2 * 4 * 24)
    assert cost("sum", x, axes=(1,)) == (24, 4 * (24 + 4))
    assert cost("reshape", x, shape=(24,)) == (0, 0)
    assert cost("softmax", x, axis=1)[1] == 2 * 4 * 24
    assert 3 * 24 < cost("softmax", x, axis=1)[0] < 10 * 24
    image, kernel = bp.ones((2, 3, 8, 8)), bp.ones((5, 3, 3, 3))
    given = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    assert cost("convolution", image, kernel, **given)[0] == 2 * 27 * 2 * 5 * 36
    q = bp.ones((1, 2, 4, 8))
    seen = {"causal": True, "window": None, "scale": 1.0}
    assert flops(REGISTRY["attention"], (q, q, q), q, seen) == 4 * 8 * 2 * 10


def test_kernels_say_what_they_take() -> None:
    silent = [op.name for op in REGISTRY.values() if op.kind == "kernel" and op.cost is None]
    assert not silent, f"give {silent} a cost"
    assert {op.kind for op in REGISTRY.values()} - {"composed"} == set(BY_KIND)
    assert all(
        isinstance(op.gradient, NoGradient) or callable(op.gradient) for op in REGISTRY.values()
    )
