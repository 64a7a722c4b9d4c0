"""legalise_complex: the graph before, the graph after, the same value; and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.passes.legalise_complex import legalise_complex
from bedplate.compiler.passes.verify import verify
from bedplate.compiler.print_graph import graph_text
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.ops.complex_numbers import parts as complex_parts
from bedplate.ops.record import Op

Z = np.array([[1 + 2j, -0.5j, 3], [0, -1, 2 - 1j]])


def pairs(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1)


@pytest.fixture
def legal(value_of: Callable[..., Any]) -> Callable[..., str]:
    """legal(root, *arrays): the text after the pass; complex values become their pairs."""

    def check(root: Node, *arrays: Any) -> str:
        (after,) = legalise_complex([root])
        verify([after], "legalise_complex")
        inputs = [pairs(a) if np.iscomplexobj(a) else a for a in arrays]
        wanted = value_of(root, list(arrays))
        got = value_of(after, inputs)
        np.testing.assert_allclose(
            got, pairs(wanted) if np.iscomplexobj(wanted) else wanted, rtol=1e-15, atol=1e-15
        )
        return graph_text([after])

    return check


def test_a_product_becomes_four(leaf: Callable[..., Node], legal: Callable[..., str]) -> None:
    z = leaf(0, 2, dtype="complex64")
    assert graph_text([z * complex_parts.conj(z)]) == (
        "%0 = placeholder(index=0) : complex64[2]\n"
        "%1 = conj(%0) : complex64[2]\n"
        "%2 = multiply(%0, %1) : complex64[2]\n"
        "return %2"
    )
    assert legal(z * complex_parts.conj(z), Z[0, :2].astype(np.complex64)) == (
        "%0 = placeholder(index=0) : float32[2x2]\n"
        "%1 = slice(%0, starts=(0, 0), stops=(2, 1), steps=(1, 1)) : float32[2x1]\n"
        "%2 = reshape(%1) : float32[2]\n"
        "%3 = multiply(%2, %2) : float32[2]\n"
        "%4 = slice(%0, starts=(0, 1), stops=(2, 2), steps=(1, 1)) : float32[2x1]\n"
        "%5 = reshape(%4) : float32[2]\n"
        "%6 = negative(%5) : float32[2]\n"
        "%7 = multiply(%5, %6) : float32[2]\n"
        "%8 = subtract(%3, %7) : float32[2]\n"
        "%9 = reshape(%8) : float32[2x1]\n"
        "%10 = multiply(%2, %6) : float32[2]\n"
        "%11 = multiply(%5, %2) : float32[2]\n"
        "%12 = add(%10, %11) : float32[2]\n"
        "%13 = reshape(%12) : float32[2x1]\n"
        "%14 = concat(%9, %13, axis=1) : float32[2x2]\n"
        "return %14"
    )


def test_parts_of_parts_are_the_parts(leaf: Callable[..., Node], legal: Callable[..., str]) -> None:
    """complex(re, im) leaves nothing behind when its parts are read again."""
    x, y = leaf(0, 3, dtype="float64"), leaf(1, 3, dtype="float64")
    z = complex_parts.complex_(x, y)
    assert legal(z.imag, np.arange(3.0), np.arange(3.0) + 5) == (
        "%0 = placeholder(index=1) : float64[3]\nreturn %0"
    )


def test_pairs_are_the_input_itself(leaf: Callable[..., Node], legal: Callable[..., str]) -> None:
    z = leaf(0, 2, 3, dtype="complex128")
    assert legal(complex_parts.as_real(z), Z) == (
        "%0 = placeholder(index=0) : float64[2x3x2]\nreturn %0"
    )
    w = leaf(0, 2, 3, 2, dtype="float64")
    assert legal(complex_parts.as_complex(w), pairs(Z)) == (
        "%0 = placeholder(index=0) : float64[2x3x2]\nreturn %0"
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.transpose(), lambda z: z[1:, ::-2], lambda z: z.sum(axis=1),
        lambda z: z.reshape(-1) + 1, lambda z: z.mean(axis=0), lambda z: z.prod(axis=1),
        lambda z: abs(z) > 1, lambda z: z @ z.transpose(), lambda z: bp.where(z.real > 0, z, 1j),
        lambda z: z[:, 1:] * z[:1, :2],
        lambda z: bp.concat([z, z]), lambda z: bp.cumulative_sum(z, axis=1), lambda z: z.exp(),
    ],
)  # fmt: skip
def test_the_value_stays(
    function: Any, leaf: Callable[..., Node], legal: Callable[..., str]
) -> None:
    text = legal(function(leaf(0, 2, 3, dtype="complex128")), Z)
    assert "complex" not in text


def test_a_real_graph_is_left_alone(leaf: Callable[..., Node]) -> None:
    roots = [leaf(0, 3) + 1]
    assert legalise_complex(roots) is roots


def test_the_line_of_a_node_is_that_of_its_parts(leaf: Callable[..., Node]) -> None:
    z = leaf(0, 3, dtype="complex64")
    product = z * z
    product.site = (test_the_line_of_a_node_is_that_of_its_parts.__code__, 0)
    (after,) = legalise_complex([product])
    sums = [column.inputs[0] for column in after.inputs]
    assert [node.op.name for node in sums] == ["subtract", "add"]
    assert {node.line() for node in (after, *sums)} == {product.line()}


def test_an_op_without_a_form_is_our_fault(leaf: Callable[..., Node]) -> None:
    z = leaf(0, 3, dtype="complex64")
    odd = Op("odd", "kernel", lambda inputs, attributes: (inputs[0].shape, inputs[0].dtype))
    with pytest.raises(InternalError, match="odd has no complex form"):
        legalise_complex([z._apply(odd, (z,), {})])


def test_the_verifier_finds_what_is_complex(leaf: Callable[..., Node]) -> None:
    with pytest.raises(InternalError, match="after pass cse: a complex value that was not taken"):
        verify([leaf(0, 3, dtype="complex64") * 1j], "cse")
