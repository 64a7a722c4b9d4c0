"""Launches of one kernel side by side run as one task over a table, with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import optim
from bedplate.compiler.compile_plan import compile_plan
from bedplate.compiler.plan import Plan
from bedplate.compiler.signature import Signature
from bedplate.graph.node import topological_order
from bedplate.nn import Parameter

SIZES = [(1,), (7,), (64,), (40000,), (3, 5), (), (0,), (129, 127)]


def trained(optimiser: str, merging: bool, steps: int = 3, **settings: Any) -> list[Any]:
    """The parameters after a few steps on fixed gradients."""
    generator = np.random.default_rng(5)
    with bp.config(merging=merging):
        arrays = [np.asarray(generator.standard_normal(s), np.float32) for s in SIZES]
        parameters = [Parameter(array) for array in arrays]
        optimizer = getattr(optim, optimiser)(parameters, **settings)
        for _ in range(steps):
            for p, array in zip(parameters, arrays, strict=True):
                p.grad = bp.tensor(array * 3)
            optim.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        return [p.numpy() for p in parameters]


@pytest.mark.parametrize("optimiser", ["AdamW", "Adam", "SGD"])
def test_merged_updates_have_the_bits_of_single_ones(optimiser: str) -> None:
    merged = trained(optimiser, True, lr=0.1)
    for threads in (True, False):
        with bp.config(threads=threads):
            single = trained(optimiser, False, lr=0.1)
        for a, b in zip(merged, single, strict=True):
            np.testing.assert_array_equal(a, b)


def plan_of(*tensors: Any) -> Plan:
    roots = [t._node for t in tensors]
    signature = Signature(topological_order(roots), roots)
    return compile_plan(signature.lifted(), len(signature.inputs), len(signature.scalars))


def many(n: int) -> list[Any]:
    return [(bp.tensor(np.full(i + 2, i, np.float32)) * 3 + 1).exp() for i in range(n)]


def test_updates_side_by_side_are_one_task() -> None:
    plan = plan_of(*many(50))
    assert sum(len(region) for region in plan.regions) == 50
    assert [len(tasks) for tasks in plan.native.regions] == [1]
    assert plan.native.regions[0][0].items == 50
    assert len(plan.native.regions[0][0].parts) == 50


def test_the_switch_leaves_them_apart() -> None:
    with bp.config(merging=False):
        plan = plan_of(*many(50))
    assert [len(tasks) for tasks in plan.native.regions] == [50]


def test_rows_of_many_items_are_cut_across_launches() -> None:
    arrays = [np.arange(n, dtype=np.float32) for n in (100_000, 3, 17_000, 1, 65_536)]
    inputs = [bp.tensor(array) for array in arrays]
    results = [x * 2 + 1 for x in inputs]
    bp.synchronize()
    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(result.numpy(), array * 2 + 1)


def test_merged_kernels_stay_within_their_memory() -> None:
    with bp.config(check=True):
        for i, value in enumerate(many(20)):
            np.testing.assert_allclose(value.numpy(), np.exp(np.full(i + 2, i * 3 + 1, "f")), 1e-5)
        inputs = [bp.tensor(np.ones(n, np.float32)) for n in (1, 17, 20_001)]
        results = [x / 3 for x in inputs]
        bp.synchronize()
        assert all((r.numpy() == np.float32(1) / 3).all() for r in results)
