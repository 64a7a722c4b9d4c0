"""What the tests of passes share: small graphs on placeholders, and running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bedplate.compiler.passes.verify import verify
from bedplate.compiler.print_graph import graph_text
from bedplate.devices.device import Device
from bedplate.dtypes import as_dtype
from bedplate.graph.node import Node, topological_order
from bedplate.ops.leaves import placeholder

CPU = Device("cpu")


@pytest.fixture
def leaf() -> Callable[..., Node]:
    """leaf(index, *shape, dtype="float32"): a placeholder."""

    def make(index: int, *shape: int, dtype: str = "float32") -> Node:
        return placeholder(index, shape, as_dtype(dtype), CPU)

    return make


def evaluate(root: Node, arrays: list[Any]) -> Any:
    """The value of a graph by the references of its ops."""
    values: dict[Node, Any] = {}
    for node in topological_order([root]):
        if node.op.name == "placeholder":
            values[node] = arrays[node.attributes["index"]]
        else:
            inputs = [values[source] for source in node.inputs]
            if node.op.name == "take" and inputs[1].shape == node.shape != ():
                values[node] = np.take_along_axis(*inputs, node.attributes["axis"])
            else:
                values[node] = node.op.reference(*inputs, **node.attributes)
    return values[root]


@pytest.fixture
def value_of() -> Callable[[Node, list[Any]], Any]:
    """value_of(root, arrays): the value of a graph on placeholders."""
    return evaluate


@pytest.fixture
def changes() -> Callable[..., str]:
    """changes(pass, root, arrays): the text after the pass, which must not change the value."""

    def check(run: Any, root: Node, arrays: list[Any]) -> str:
        (after,) = run([root])
        verify([after], run.__name__)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(evaluate(after, arrays), evaluate(root, arrays))
        return graph_text([after])

    return check
