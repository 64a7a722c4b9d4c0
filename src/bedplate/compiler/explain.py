"""explain: show what the compiler makes of a graph, at every level, without running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.compiler.builder import Launch
from bedplate.compiler.compile_plan import compile_plan
from bedplate.compiler.passes.pipeline import Step
from bedplate.compiler.plan import Plan
from bedplate.compiler.print_graph import graph_text
from bedplate.compiler.signature import Signature
from bedplate.errors import DeviceError
from bedplate.graph.node import Node, topological_order


@dataclass
class Explanation:
    """What becomes of some nodes; `str()` is all but machine code.

    plan     the compiled plan
    """

    plan: Plan

    @property
    def steps(self) -> list[Step]:
        """The passes: name, seconds, and the graphs before and after."""
        return self.plan.steps

    @property
    def graph(self) -> str:
        """The graph as it was written, one line a node."""
        return graph_text(self.steps[0].before)

    def passes(self) -> str:
        """The graph after each pass that changed it."""
        parts = []
        for step in self.steps:
            before, after = graph_text(step.before), graph_text(step.after)
            text = after if before != after else "(nothing changed)"
            parts.append(f"after {step.name}:\n{text}")
        return "\n\n".join(parts)

    def launches(self) -> list[Launch]:
        """All launches, in the order of their regions."""
        return [launch for region in self.plan.regions for launch in region]

    def schedule(self) -> str:
        """The regions: for each launch its kernel, items, bytes, flops and source lines."""
        return schedule_text(self.plan.regions, self.plan.arena_bytes)

    def programs(self) -> str:
        """The program of each kernel in the kernel language's own text."""
        return "\n\n".join(str(kernel.ir) for kernel in self._kernels())

    def llvm(self, target: str | None = None) -> str:
        """The LLVM IR of each kernel."""
        return "\n\n".join(kernel.llvm(target) for kernel in self._kernels())

    def assembly(self, target: str | None = None) -> str:
        """The machine code of each kernel."""
        return "\n\n".join(kernel.assembly(target) for kernel in self._kernels())

    def _kernels(self) -> list:
        launches = [launch for launch in self.launches() if launch.kernel is not None]
        return list({id(x.kernel): x.kernel for x in launches}.values())

    def __str__(self) -> str:
        return f"graph:\n{self.graph}\n\n{self.passes()}\n\nplan:\n{self.schedule()}"


def explain(*values: Any) -> Explanation:
    """What the compiler makes of values that are not computed yet: graph, passes, plan, kernels.

    values   tensors or nodes; shown as one plan
    returns  an object with `graph`, `passes()`, `schedule()`, `programs()`, `llvm()` and
             `assembly()`, each a text; `str()` is all but the kernels
    raises   ValueError if all are in memory already; DeviceError where values move to another
             device in between
    >>> import bedplate as bp
    >>> y = (bp.tensor([1.0, 2.0]) + 1) * 2
    >>> [launch.name for launch in bp.explain(y).launches()]
    ['map_add_multiply']
    """
    nodes: list[Node] = [getattr(value, "_node", value) for value in values]
    roots = [node for node in nodes if node.block is None]
    if not roots:
        raise ValueError("explain: the value is in memory already; ask before it is needed")
    order = topological_order(roots)
    _refuse_moves(order)
    signature = Signature(order, roots)
    plan = compile_plan(
        signature.lifted(), len(signature.inputs), len(signature.scalars), keep_steps=True
    )
    return Explanation(plan)


def _refuse_moves(order: list[Node]) -> None:
    """raises DeviceError for a graph of several plans"""
    for node in order:
        if node.block is None and node.op.kind == "transfer":
            (source,) = node.inputs
            raise DeviceError(
                f"explain: a value {node.shape} {node.dtype} moves from {source.device} to "
                f"{node.device}, so that this is more than one plan\n"
                f"  moved at {node.line()}\n"
                "  explain what is moved by itself, realise it, then explain the rest"
            )


def schedule_text(regions: list[list[Launch]], arena_bytes: int) -> str:
    """Regions and their launches, one a line."""
    lines = [f"arena: {arena_bytes} bytes"]
    for number, region in enumerate(regions):
        lines.append(f"region {number}:")
        lines += [f"  {launch_text(launch)}" for launch in region]
    return "\n".join(lines)


def launch_text(launch: Launch) -> str:
    """One launch in a line, and the source lines that its nodes come from."""
    lines = [] if launch.origin is None else [n.line() for n in launch.origin.members]
    shown = ", ".join(dict.fromkeys(line for line in lines if line != "unknown line"))
    text = (
        f"{launch.name}: {launch.items} items, {launch.nbytes:.0f} bytes, {launch.flops:.0f} flops"
    )
    return f"{text}   from {shown}" if shown else text
