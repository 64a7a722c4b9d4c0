"""cse: merge equal subexpressions.

Needs nothing; leaves no two nodes with the same op, attributes and inputs. Random numbers
differ by their key, which is an input, so two draws are never merged.
"""

from __future__ import annotations

import struct
from typing import Any

from bedplate.compiler.rewrite import Roots, rebuilt
from bedplate.graph.node import Node


def cse(roots: Roots) -> Roots:
    """The graph in which equal nodes are one node."""
    known: dict[tuple[Any, ...], Node] = {}
    return rebuilt(roots, lambda node: known.setdefault(identity_key(node), node))


def identity_key(node: Node) -> tuple[Any, ...]:
    """Two nodes with equal keys have equal values."""
    return (
        node.op.name,
        tuple([id(source) for source in node.inputs]),
        attributes_key(node.attributes),
        node.shape,
        node.dtype,
        node.device,
    )


_EQUAL = frozenset((float, bool))  # types whose values may be equal and yet another value


def attributes_key(attributes: dict[str, Any]) -> tuple[Any, ...]:
    """The attributes as a hashable value that tells 0.0 from -0.0, 1 from True, NaN from NaN."""
    if not attributes:
        return ()
    return tuple(
        [(n, _exact(value) if type(value) in _EQUAL else value) for n, value in attributes.items()]
    )


def _exact(value: Any) -> Any:
    if type(value) is float:
        return struct.pack("d", value)
    if type(value) is bool:
        return ("bool", value)
    return value
