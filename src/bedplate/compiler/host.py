"""host: tasks of a plan that a NumPy function computes, on the memory of the plan.

A plan with such tasks is run in pieces: the native regions up to and with the task's own, then
the function, then the rest. So the function runs in the thread that asked for the value, with
Python's lock held and no worker inside, and what it raises goes up like any other error.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.compiler.builder import View
from bedplate.compiler.passes.cse import attributes_key
from bedplate.devices.cpu.runner import Slot
from bedplate.devices.host_call import call_numpy
from bedplate.graph.node import Node

Lines = dict[Any, str]  # what identifies a node that can fail -> the lines that made it


@dataclass(frozen=True, slots=True)
class Place:
    """A strided array in memory that is bound when the plan runs."""

    word: Slot
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def array(self, slots: Any) -> np.ndarray[Any, Any]:
        """The array; it does not keep its memory."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        start, size = self.span(slots)
        return self.over(memoryview((ctypes.c_char * size).from_address(start)))

    def span(self, slots: Any) -> tuple[int, int]:
        """(address, bytes) from its lowest byte to its highest; it is not empty."""
        below, above = self._reach()
        start = slots[self.word.index] + self.word.offset_bytes - below
        return start, below + above + self.dtype.itemsize

    def over(self, memory: Any) -> np.ndarray[Any, Any]:
        """The array in a copy of that span."""
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.ndarray(self.shape, self.dtype, memory, self._reach()[0], strides)

    def _reach(self) -> tuple[int, int]:
        """How many bytes its elements lie below the first one, and above it."""
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        size = self.dtype.itemsize
        return (
            -size * sum(step for step in steps if step < 0),
            size * sum(step for step in steps if step > 0),
        )


def place_of(view: View, word: Slot) -> Place:
    """Where a view is, once the memory plan is made."""
    return Place(word, view.shape, view.strides, view.dtype.numpy)


@dataclass(frozen=True, slots=True)
class HostTask:
    """One op: its NumPy reference reads `inputs` and its values are stored in `outputs`.

    node  the op's node without the graph behind it
    """

    node: Node
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]

    def run(self, slots: Any, line: Callable[[Node], str] = Node.line) -> None:
        """Compute on bound slots.

        line    names the user's line of a node
        raises  LinAlgError, or whatever the function raises
        """
        arrays = [place.array(slots) for place in self.inputs]
        for place, result in zip(self.outputs, self.call(arrays, line), strict=True):
            place.array(slots)[...] = result

    def call(self, arrays: list[Any], line: Callable[[Node], str]) -> tuple[Any, ...]:
        """The values of the outputs for these inputs.

        raises  LinAlgError, or whatever the function raises
        """
        node = self.node
        return call_numpy(node.op, arrays, node.attributes, lambda: line(node))


def lines_of(order: Iterable[Node]) -> Lines:
    """The lines of those nodes of a graph that can fail when they run.

    A plan is shared by all graphs of one structure, so its own nodes may come from elsewhere.
    """
    found: dict[Any, dict[str, None]] = {}
    for node in order:
        if node.block is None and (node.op.kind == "host" or node.op.name == "checked_index"):
            found.setdefault(_identity(node), {})[node.line()] = None
    return {identity: " or ".join(lines) for identity, lines in found.items()}


def line_in(lines: Lines, node: Node) -> str:
    """The line of a plan's node in the graph that is run."""
    return lines.get(_identity(node)) or node.line()


def largest_of(order: Iterable[Node]) -> str:
    """What takes most memory of a graph, and its line: for a run that found too little."""
    nodes = [node for node in order if node.block is None and node.op.n_outputs == 1]
    if not nodes:
        return "  while a graph was computed"
    node = max(nodes, key=lambda n: math.prod(n.shape) * n.dtype.itemsize)
    return (
        f"  while {len(nodes)} values were computed; the largest is {node.op.name} {node.shape} "
        f"{node.dtype}, made at {node.line()}"
    )


def _identity(node: Node) -> Any:
    return node.op.name, attributes_key(node.attributes), node.shape, node.dtype
