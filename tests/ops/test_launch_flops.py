"""What explain and BEDPLATE_DEBUG print as arithmetic is what the record says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices.cpu.runner import BYTES_PER_NS, Task
from bedplate.ops import cost
from bedplate.ops.record import REGISTRY, Sample, apply
from bedplate.ops.shape.views import outputs

# joining the parts of blocks, and outputs at borders, are not told to the last addition
WITHIN = 1.5
JOIN = 8
CASES = [
    (op, sample)
    for op in REGISTRY.values() if op.kind == "kernel"
    for sample in op.samples[:3]
]  # fmt: skip


@pytest.mark.parametrize("op, sample", CASES, ids=[f"{op.name} {s.name}" for op, s in CASES])
def test_launches_count_what_the_record_counts(op: Any, sample: Sample) -> None:
    arrays = [np.asarray(array) for array in sample.inputs(np.random.default_rng(0))]
    inputs = tuple(bp.Tensor(array) for array in arrays)
    result = apply(op, inputs, sample.attributes)
    several = outputs(result) if op.n_outputs > 1 else (result,)
    launches = bp.explain(several[0]).launches()
    counted = sum(launch.flops for launch in launches)
    said = cost.flops(op, inputs, several if op.n_outputs > 1 else result, sample.attributes)
    assert counted <= (said + JOIN) * WITHIN
    assert not launches or said <= max(counted, 1) * WITHIN


def test_a_weight_is_for_the_scheduler_alone() -> None:
    task = Task(None, [], 10, "task", flops=1.0, nbytes=BYTES_PER_NS, weight_ns=5000.0)
    assert task.cost_ns == 5000
    assert Task(None, [], 10, "task", nbytes=1e9, weight_ns=2.0).cost_ns == 1e9 // BYTES_PER_NS
    x = bp.tensor(np.random.default_rng(0).normal(size=(3, 100)), dtype=bp.float32)
    x.numpy()
    (launch,) = bp.explain(bp.sort(x)).launches()
    assert launch.flops == 300 * 4 and launch.weight_ns > launch.flops
    assert "1200 flops" in bp.explain(bp.sort(x)).schedule()
