"""across: compute a graph whose nodes live on several devices, or on one that makes no plans.

Needs nodes in topological order; leaves the wanted ones with values. The graph is cut where values
move to another device. Each node has a stage: how many moves lie behind it on the longest way. The
stages are run one after the other: first the moves into a stage are started, then each device gets
one plan of what is wanted of that stage, be it for the user, for a move or for a later stage.
"""

from __future__ import annotations

from collections.abc import Callable

from bedplate.devices.device import Device
from bedplate.devices.transfer import moved
from bedplate.graph.node import Node

Compute = Callable[[Device, list[Node]], None]


def is_one_plan(order: list[Node]) -> bool:
    """Whether all nodes without value are for one plan of the CPU."""
    return all(
        node.device.is_native and node.op.kind != "transfer" for node in order if node.block is None
    )


def device_of_plan(order: list[Node]) -> Device | None:
    """The device on which one plan computes all nodes; None if that takes more than one plan."""
    devices = {node.device for node in order}
    moves = any(node.op.kind == "transfer" and node.block is None for node in order)
    if moves or len(devices) != 1:
        return None
    (device,) = devices
    return device if device.is_planned else None


def compute_across(order: list[Node], roots: list[Node], compute: Compute) -> None:
    """Give roots their values.

    order    inputs first
    compute  computes nodes of one device, whose inputs on other devices have their values
    """
    stages = _stages(order)
    wanted = _wanted(order, roots, stages)
    last = max((stages[node] for node in wanted), default=-1)
    for stage in range(last + 1):
        here = [node for node in wanted if stages[node] == stage and node.block is None]
        for node in here:
            if node.op.kind == "transfer":
                (source,) = node.inputs
                node.realise(moved(source.block, node.device, node.site))
        devices = dict.fromkeys(node.device for node in here if node.block is None)
        for device in devices:
            nodes = [node for node in here if node.device is device and node.block is None]
            if nodes:
                compute(device, nodes)


def _stages(order: list[Node]) -> dict[Node, int]:
    stages: dict[Node, int] = {}
    for node in order:
        behind = [] if node.block is not None else [stages[source] for source in node.inputs]
        stages[node] = max(behind, default=0) + (node.block is None and node.op.kind == "transfer")
    return stages


def _wanted(order: list[Node], roots: list[Node], stages: dict[Node, int]) -> list[Node]:
    """The roots, what moves, and what a later stage reads, as far as roots need it; in order."""
    needed = set(roots)
    wanted = set(roots)
    for node in reversed(order):
        if node not in needed or node.block is not None:
            continue
        needed.update(node.inputs)
        for source in node.inputs:
            if source.block is not None:
                continue
            if node.op.kind == "transfer" or source.op.kind == "transfer":
                wanted.add(source)
            elif stages[source] < stages[node]:
                wanted.add(_base(source))
    return [node for node in order if node in wanted and node.block is None]


def _base(node: Node) -> Node:
    """What a view shows: it is kept, and the view is made again where it is read."""
    while node.block is None and node.op.kind == "view" and node.op.name != "output":
        node = node.inputs[0]
    return node
