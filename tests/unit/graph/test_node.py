"""Nodes: order, lines, and what a realised node lets go of."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest

import bedplate as bp
from bedplate import dtypes
from bedplate.errors import DeviceError
from bedplate.graph.node import Node, topological_order
from bedplate.ops.leaves import placeholder
from bedplate.ops.pointwise.arithmetic import add, multiply


def leaf(device: Any = "here") -> Node:
    return placeholder(0, (2,), dtypes.float32, device)


def test_inputs_come_first_and_each_node_once() -> None:
    a, b = leaf(), leaf()
    total = add(a, b)
    product = multiply(total, total)
    order = topological_order([product, total])
    assert order == [a, b, total, product]


def test_realised_nodes_end_the_walk() -> None:
    a = leaf()
    total = add(a, a)
    result = multiply(total, total)
    total.realise(object())
    assert topological_order([result]) == [total, result]
    assert total.inputs == ()


def test_a_realised_node_frees_the_graph_behind_it() -> None:
    a = leaf()
    gone = weakref.ref(a)
    total = add(a, a)
    gc.disable()
    try:
        del a
        assert gone() is not None
        total.realise(object())
        assert gone() is None
    finally:
        gc.enable()


def test_long_chains_do_not_recurse() -> None:
    node = leaf()
    for _ in range(20 * sys.getrecursionlimit()):
        node = add(node, node)
    assert len(topological_order([node])) == 20 * sys.getrecursionlimit() + 1
    while node.inputs:  # taken apart from the top, so that freeing does not recurse either
        node = node.inputs[0]


def test_mixed_devices_are_refused() -> None:
    with pytest.raises(DeviceError, match="add: the inputs are on different devices") as caught:
        add(leaf("here"), leaf("there"))
    assert "(2,) float32 on there" in str(caught.value)


def test_a_node_names_its_line() -> None:
    node = leaf()
    assert node.line() == "unknown line"
    frame = sys._getframe()
    node.site = (frame.f_code, frame.f_lasti)
    assert node.line().startswith(__file__)
    assert "placeholder" in repr(node)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: bp.repeat(x, x), "the value of a graph node is not known"),
        (lambda x: bp.nonzero(x), "the value of a graph node is not known"),
        (lambda x: bp.unique(x), "the value of a graph node is not known"),
        (lambda x: bp.bincount(x), "the value of a graph node is not known"),
        (
            lambda x: bp.nn.functional.batch_norm(
                bp.ones((2, 3))._node, x * 1.0, x * 1.0, training=True
            ),
            "a graph node cannot be assigned to; give a tensor",
        ),
    ],
)
def test_functions_that_read_values_or_keep_state_refuse_nodes(function: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        function(bp.tensor([1, 2, 3])._node)
