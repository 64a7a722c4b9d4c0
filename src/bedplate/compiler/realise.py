"""realise: give nodes their values.

What is pending is run as one graph. Nodes that somebody outside the graph still holds are
stored, those that others need on the way are computed, the rest is dropped. Who holds a node
is read off its reference count: this decides what is kept, never what a value is.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bedplate.compiler import stored_plans
from bedplate.compiler.across import compute_across, is_one_plan
from bedplate.compiler.collect import collected, is_of_one_plan, key_of_one
from bedplate.compiler.compile_plan import compile_plan
from bedplate.compiler.device_plan import DevicePlan, compile_for, named
from bedplate.compiler.host import largest_of, line_in, lines_of
from bedplate.compiler.plan import LineOf, Plan
from bedplate.compiler.signature import Signature
from bedplate.config import PLAN_SETTINGS, settings_of
from bedplate.devices import reference
from bedplate.devices.cpu.runner import n_workers
from bedplate.devices.device import Device
from bedplate.errors import CaptureError, OutOfMemoryError
from bedplate.graph.node import Node, topological_order
from bedplate.observer import hooks
from bedplate.ops.record import REGISTRY

PLAN_CACHE_SIZE = 256  # plans; a training loop needs a handful
_plans: OrderedDict[Any, Plan] = OrderedDict()
_settings = settings_of(*PLAN_SETTINGS)
_run_settings = settings_of(*PLAN_SETTINGS, "threads", "num_threads", "check", "debug")
# of one op on values that are there, under the settings that stand before them; see `run_one`
_ready: tuple[tuple[Any, ...], dict[Any, Plan]] = ((), {})
CPU = Device("cpu")


class Turn:
    """Whose turn it is to find plans, make them, and run them outside of captures.

    lock     held meanwhile
    entered  a mark for each time that somebody has the lock or waits for it. Who can do without
             the lock does so if there is one: it would hardly ever come to others from a thread
             that takes it again at once. (A mark that Ctrl-C leaves behind costs only memory.)
    """

    def __init__(self) -> None:
        self.entered: list[None] = []
        self.lock = threading.RLock()

    def after_fork(self) -> None:
        """Another thread may have held the lock when the process forked."""
        self.entered.clear()
        self.lock = threading.RLock()


TURN = Turn()


def realise(nodes: list[Node]) -> None:
    """Compute the values of those nodes of a list that somebody holds, and store them.

    nodes   made and perhaps not yet computed; the list is consumed
    raises  IndexError for an index that is out of range; what was asked for stays without value
    """
    if len(nodes) == 1 and run_one(nodes[0]):
        nodes.clear()
        return
    entered = TURN.entered
    entered.append(None)
    try:
        with TURN.lock:
            _realise(nodes)
    finally:
        entered.pop()


def _realise(nodes: list[Node]) -> None:
    one = nodes[0] if len(nodes) == 1 else None
    signature = collected(nodes)
    if signature is not None:
        nodes.clear()
        if signature.roots:
            run_signature(signature, one)
        return
    order = topological_order(nodes)
    roots = held_nodes(order, nodes)
    nodes.clear()
    if not roots:
        return
    if not is_one_plan(order):
        compute_across(order, roots, run_on)
    elif any(node.op.name == "output" or node.op.n_outputs > 1 for node in order):
        run_native(roots)
    elif roots:
        run_ordered(needed(order, roots), roots)


def held_nodes(order: list[Node], nodes: list[Node]) -> list[Node]:
    """The nodes without value that somebody outside the graph refers to.

    The graph itself refers to a node once for each use as an input; the two lists and this
    function hold it a known number of times. Whoever is above that is somebody else.
    """
    uses: dict[int, int] = {}
    for node in order:
        if node.block is None:
            for source in node.inputs:
                key = id(source)
                uses[key] = uses.get(key, 0) + 1
    for node in nodes:
        key = id(node)
        uses[key] = uses.get(key, 0) + 1
    asked = {id(node) for node in nodes}
    last = nodes[-1] if nodes else None  # whoever wants one value puts it last
    node = source = None  # the loops above leave their last
    count, own = sys.getrefcount, _OWN_REFERENCES
    return [
        node
        for node in order
        if node.block is None
        and (count(node) > uses.get(id(node), 0) + own or node is last)
        and (node.op.kind != "leaf" or id(node) in asked)
    ]


def _own_references() -> int:
    """What getrefcount says of an object that one list holds, read as `held_nodes` does."""
    order = [object()]
    count = sys.getrefcount
    return next(iter([count(node) for node in order]))


_OWN_REFERENCES = _own_references()


def needed(order: list[Node], roots: list[Node]) -> list[Node]:
    """Those nodes of a topological order that roots need, in the same order."""
    wanted = {id(root) for root in roots}
    result = []
    for node in reversed(order):
        if id(node) in wanted:
            result.append(node)
            if node.block is None:
                for source in node.inputs:
                    wanted.add(id(source))
    result.reverse()
    return result


def run_references(roots: list[Node]) -> None:
    """Compute nodes one by one by the NumPy references of their ops."""
    for node in topological_order(roots):
        if node.block is None:
            reference.run(node)


def run_on(device: Device, roots: list[Node]) -> None:
    """Compute nodes of one device; inputs on other devices have their values."""
    if device.is_planned:
        run_native(roots)
    else:
        run_references(roots)


def run_native(roots: list[Node]) -> None:
    """Compute nodes by one plan; among them may be ops with several outputs."""
    roots = project_outputs(roots)
    if not roots:
        return
    roots, several = _projected(roots)
    run_ordered(topological_order(roots), roots)
    for node, parts in several:
        node.realise(tuple([part.block for part in parts]))


def run_ordered(order: list[Node], roots: list[Node]) -> None:
    """Compute roots by one plan, compiled or found."""
    run_signature(Signature(order, roots))


def run_one(node: Node) -> bool:
    """Compute a node that is one op on values that are there, if a plan for it is at hand.

    This is what an uncaptured program does most, so it takes no lock and few calls: a plan's run
    has all that it writes for itself. If two threads come to one node both compute it, to the same
    bits. A value that a replayed step writes in place is never read here: it has no block, and
    what stands for it (`Taken`) is left to who holds the lock.
    """
    inputs = node.inputs
    if type(node) is not Node or node.device is not CPU or hooks.plan_key or hooks.run:
        return False
    settings, plans = _ready
    now = _run_settings()
    if now is not settings and now != settings:
        return False
    found = key_of_one(node, inputs)
    if found is None:
        return False
    key, blocks, numbers = found
    plan = plans.get(key)
    if plan is None:
        return False
    try:
        block = plan.run_one(blocks, numbers, node)
    except OutOfMemoryError as error:
        raise OutOfMemoryError(f"{error}\n{largest_of([node])}") from None
    node.block = block
    node.inputs = ()
    return True


def _make_ready(node: Node, plan: Plan) -> None:
    """Have the plan of a node that is one op at hand for the next one like it."""
    global _ready
    now = _run_settings()
    check, debug = now[-2:]
    found = key_of_one(node, node.inputs)
    if found is None or check or debug or hooks.plan_key or not is_of_one_plan(node):
        return
    if node.device is not CPU or plan.has_host_tasks or not plan.gives_one:
        return
    settings, plans = _ready
    if now != settings or len(plans) >= PLAN_CACHE_SIZE:
        _ready = settings, plans = now, {}
    plans[found[0]] = plan


def run_signature(signature: Signature, one: Node | None = None) -> None:
    """Compute the roots of a graph by its plan, compiled or found.

    one   the only node of the pending list, if there was one
    """
    inputs = [node.block for node in signature.inputs]
    if None in inputs:
        raise _escaped(signature.inputs[inputs.index(None)])
    order = signature.order
    device = signature.roots[0].device
    if device.is_native:
        plan = find_plan(signature)
        if one is not None:
            _make_ready(one, plan)
        try:
            blocks = plan.run(
                inputs, signature.scalars, lambda node: line_in(lines_of(order), node)
            )
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"{error}\n{largest_of(order)}") from None
    else:
        blocks = _started(signature, inputs, device)
    for root, block in zip(signature.roots, blocks, strict=True):
        root.block = block
        if block.site is None:
            block.site = root.site
        root.inputs = ()


def _started(signature: Signature, inputs: list[Any], device: Device) -> list[Any]:
    """The blocks of the roots, whose plan was started on a device with memory of its own."""
    plan = find_device_plan(signature, device)
    line, what = explained(signature, plan)
    return plan.run(inputs, signature.scalars, line, what)


def explained(signature: Signature, plan: DevicePlan) -> tuple[LineOf, Callable[[], str]]:
    """What names a node's line and the whole run, when a fault is found.

    Lines are looked up now: by then the nodes may have gone, or have values.
    """
    lines = lines_of(signature.order) if plan.sites or plan.has_host_tasks else {}
    made = [(root.op.name, root.site) for root in signature.roots]
    return lambda node: line_in(lines, node), lambda: named(made)


def find_device_plan(signature: Signature, device: Device) -> DevicePlan:
    """The plan of a graph on a device with memory of its own: from the cache, or compiled now."""
    key: Any = (signature.key, _settings(), n_workers(), device)
    plan: Any = _plans.get(key)
    if plan is not None:
        _plans.move_to_end(key)
        return plan
    with _without_collector():
        plan = compile_for(
            device, signature.lifted(), len(signature.inputs), len(signature.scalars)
        )
    _plans[key] = plan
    if len(_plans) > PLAN_CACHE_SIZE:
        _plans.popitem(last=False)
    return plan


def project_outputs(roots: list[Node]) -> list[Node]:
    """Give `output` nodes of ops that have run their values; the roots that are still to do."""
    for node in topological_order(roots):
        if node.op.name == "output" and node.block is None and node.inputs[0].block is not None:
            node.realise(node.inputs[0].block[node.attributes["index"]])
    return [root for root in roots if root.block is None]


def _escaped(node: Node) -> CaptureError:
    return CaptureError(
        "jit: a tensor that was made in a captured step is read outside it\n"
        f"  it depends on an argument {node.shape} {node.dtype} of that step\n"
        "  return it from the step, or assign it to a tensor from outside"
    )


def _projected(roots: list[Node]) -> tuple[list[Node], list[tuple[Node, list[Node]]]]:
    """Ops with several outputs are stored output by output."""
    if all(root.op.n_outputs == 1 for root in roots):
        return roots, []
    plain: dict[Node, None] = {}
    several = []
    for root in roots:
        if root.op.n_outputs == 1:
            plain[root] = None
            continue
        parts = [
            Node(REGISTRY["output"], (root,), {"index": i}, shape, dtype, root.device)
            for i, (shape, dtype) in enumerate(zip(root.shape, root.dtype, strict=True))
        ]
        several.append((root, parts))
        plain.update(dict.fromkeys(parts))
    return list(plain), several


@contextmanager
def planning() -> Iterator[None]:
    """The turn to find plans and make them."""
    entered = TURN.entered
    entered.append(None)
    try:
        with TURN.lock:
            yield
    finally:
        entered.pop()


def find_plan(signature: Signature, wishes: tuple[tuple[int, int], ...] = ()) -> Plan:
    """The plan of a graph: from the cache, or compiled now.

    wishes   pairs (result, input): the result may be written over the input
    """
    settings = _settings()
    key: Any = (signature.key, settings, n_workers(), wishes)
    if (plan_key := hooks.plan_key) is not None:
        key = key, plan_key(signature)
    plan = _plans.get(key)
    if plan is not None:
        _plans.move_to_end(key)
        return plan
    with _without_collector():
        plan = stored_plans.found_or_made(
            stored_plans.key_of(signature, settings, wishes),
            lambda: compile_plan(
                signature.lifted(), len(signature.inputs), len(signature.scalars), wishes
            ),
        )
    _plans[key] = plan
    if len(_plans) > PLAN_CACHE_SIZE:
        _plans.popitem(last=False)
    return plan


@contextmanager
def _without_collector() -> Iterator[None]:
    """No garbage collection: compiling makes many objects that stay, which it would walk over."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def clear_plans() -> None:
    """Forget all plans; for tests and for measuring compilation."""
    global _ready
    with planning():
        _plans.clear()
        _ready = (), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TURN.after_fork)
