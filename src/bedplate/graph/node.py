"""Node: one value of the tensor graph, the intermediate representation that the compiler reads.

A node is an op, its input nodes and its attributes, with the shape, dtype and device of the
result. It is immutable but for one change: when its value has been computed, `realise` stores
the block that holds it and lets go of the inputs, so that the graph behind it can be freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from bedplate.errors import DeviceError

if TYPE_CHECKING:  # the record of an op stands a floor above; a node only carries it
    from bedplate.devices.device import Device
    from bedplate.dtypes import DType

Shape = tuple[int, ...]
Attributes = dict[str, Any]
NO_ATTRIBUTES: Attributes = {}


class Node:
    """One value: `op(*inputs, **attributes)`, computed later, or `block` once it is known.

    shape, dtype   of the value; for an op with several outputs, tuples of them (such a
                   node is read through `output` nodes)
    attributes     hashable values by name; never changed
    block          the memory that holds the value (contiguous, row-major), or None
    site           (code, instruction) of the user's line that made it, or None
    """

    __slots__ = (
        "__weakref__", "attributes", "block", "device", "dtype", "inputs", "op", "shape", "site",
    )  # fmt: skip

    def __init__(
        self,
        op: Any,
        inputs: tuple[Node, ...],
        attributes: Attributes,
        shape: Any,
        dtype: DType | Any,
        device: Device,
        block: Any = None,
        site: Any = None,
    ) -> None:
        self.op = op
        self.inputs: tuple[Node, ...] = inputs
        self.attributes = attributes
        self.shape = shape
        self.dtype: Any = dtype
        self.device = device
        self.block = block
        self.site = site

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _apply(self, op: Any, inputs: tuple[Node, ...], attributes: Attributes) -> Node:
        """The node of `op` applied to `inputs`; the shape and dtype rule runs here."""
        shape, dtype = op.infer(inputs, attributes)
        device = inputs[0].device
        for other in inputs:
            if other.device is not device and other.device != device:
                raise_mixed_devices(op, inputs)
        return Node(op, inputs, attributes, shape, dtype, device)

    def _from_node(self, node: Node) -> Node:
        """A value of this class that holds `node`: for a node, the node itself."""
        return node

    def _alias(self) -> Node:
        """Another holder of the same value: for a node, the node itself."""
        return self

    def _lift(self, value: Any) -> Node:
        """A value made of an array or a list; nodes hold no data of their own."""
        raise TypeError(f"a graph node cannot be combined with a {type(value).__name__}")

    def numpy(self, copy: bool | None = None) -> Any:
        """Refused, like all that reads values: nodes are what a graph is built of before it runs.

        raises TypeError
        """
        self._refuse_reading()

    def item(self) -> Any:
        """Refused, like `numpy`."""
        self._refuse_reading()

    def tolist(self) -> Any:
        """Refused, like `numpy`."""
        self._refuse_reading()

    def __int__(self) -> int:
        self._refuse_reading()

    def assign(self, value: Any) -> Any:
        """Refused: a node is one value for good; what binds a name to another one is a tensor."""
        raise TypeError(f"{self.op.name}: a graph node cannot be assigned to; give a tensor")

    def _refuse_reading(self) -> NoReturn:
        raise TypeError(
            f"{self.op.name}: the value of a graph node is not known while a graph is built\n"
            f"  {self.shape} {self.dtype}   made at {self.line()}\n"
            "  a function that reads values takes tensors, not nodes"
        )

    def realise(self, block: Any) -> None:
        """Store the computed value and let go of the graph behind it."""
        self.block = block
        self.inputs = ()

    def array(self) -> Any:
        """The computed value as a NumPy array over the node's memory; not to be written."""
        block = self.block
        return block if isinstance(block, np.ndarray) else block.array(self.dtype, self.shape)

    def line(self) -> str:
        """`file:line` of the user's code that made this node, or 'unknown line'."""
        if self.site is None:
            return "unknown line"
        code, instruction = self.site
        line = code.co_firstlineno
        for start, end, number in code.co_lines():
            if start <= instruction < end and number is not None:
                line = number
                break
        return f"{code.co_filename}:{line}"

    def __repr__(self) -> str:
        state = "realised" if self.block is not None else f"{len(self.inputs)} inputs"
        return f"<Node {self.op.name} {self.shape} {self.dtype} {state}>"


class Taken(Node):
    """A value that a replayed step may be writing where its old value lay; see tensor/replay.py.

    Until it has a block it is an op like others, that gives the value of its input. So a thread
    that wants it waits for the lock of the step; the step's own thread, if it is interrupted there
    by a handler of signals that reads it, finds what is in memory, which is whole at that moment.
    """

    __slots__ = ()


def raise_mixed_devices(op: Any, inputs: tuple[Node, ...]) -> None:
    """Refuse inputs that live on different devices."""
    lines = [f"{op.name}: the inputs are on different devices"]
    for node in inputs:
        lines.append(f"  {node.shape} {node.dtype} on {node.device}   made at {node.line()}")
    lines.append("  move them to one device with .to(device)")
    raise DeviceError("\n".join(lines))


def topological_order(roots: list[Node]) -> list[Node]:
    """Every node that `roots` need and that has no value yet, inputs first; no recursion.

    cost  linear in nodes and edges
    """
    order: list[Node] = []
    open_nodes: list[Node] = []  # whose inputs stand above the marker None on the stack
    seen: set[Node] = set()
    stack: list[Node | None] = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node is None:
            order.append(open_nodes.pop())
        elif node not in seen:
            seen.add(node)
            if node.block is None and node.inputs:
                open_nodes.append(node)
                stack.append(None)
                stack.extend(node.inputs[::-1])
            else:
                order.append(node)
    return order
