"""The reference device computes by the ops' references, and holds them to their rules."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices import reference
from bedplate.dtypes import float32
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.ops.record import Op


def test_it_agrees_with_the_cpu() -> None:
    source = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    results = []
    for device in ("cpu", "reference"):
        x = bp.tensor(source, device=device, requires_grad=True)
        y = ((x * 2).exp() + x.tanh()).sum(axis=0)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.device == bp.Device(device)
        results.append((y.numpy(), x.grad.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5)


def wrong(name: str, value: object) -> Op:
    return Op(name, "elementwise", lambda i, a: ((2,), float32), reference=lambda **_: value)


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (
            wrong("wrong_shape", np.zeros(3, np.float32)),
            r"gave \(3,\) float32, the rule says \(2,\)",
        ),
        (wrong("wrong_dtype", np.zeros(2)), "gave .*float64"),
        (Op("none", "elementwise", lambda i, a: ((2,), float32)), "none has no reference"),
    ],
)
def test_a_reference_that_breaks_the_rule(op: Op, text: str) -> None:
    node = Node(op, (), {}, (2,), float32, bp.Device("reference"))
    with pytest.raises(InternalError, match=text):
        reference.run(node)
