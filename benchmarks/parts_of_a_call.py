"""Where the time of a captured call goes: its parts in Python, then each kernel of its plan.

    python -m benchmarks.parts_of_a_call                           the calls of the documentation
    python -m benchmarks.parts_of_a_call --only chain-1e3          other cases, by parts of names
    python -m benchmarks.parts_of_a_call --kernels 0               the parts alone

The parts are read by a clock around the functions of a replay; what the clock itself takes is
measured and taken off. "the rest" is the call, its guard, and what stands between those functions.
A kernel is timed by a plan that repeats it on the memory of the step, on one thread: its own time,
warm, without Python.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import bedplate as bp
from bedplate.compiler.capture import CapturedPlan
from bedplate.devices.cpu.runner import NativePlan, address_of
from bedplate.memory import allocate_all
from bedplate.tensor import replay as replaying
from bedplate.tensor.arguments import Guard
from bedplate.tensor.replay import Replay
from benchmarks.cases import all_cases
from benchmarks.peers import bedplate_models, bedplate_peer

CALLS, ROUNDS, REPEATS = 2000, 15, 200
PARTS: list[tuple[str, Any, str]] = [
    ("the arguments compared", Guard, "tensors"),
    ("what is known from outside compared", Replay, "fits"),
    ("addresses of what is read", Replay, "_inputs"),
    ("states taken, to be written in place", Replay, "_take"),
    ("gradients taken, to be written where the last ones lie", Replay, "_take_gradients"),
    ("memory for results", replaying, "allocate_all"),
    ("native call", CapturedPlan, "run"),
    ("what was written in place is the value again", Replay, "_settle"),
    ("the other results bound", Replay, "_bind"),
]


class Clock:
    """Nanoseconds spent in a function, and how often it was called."""

    def __init__(self) -> None:
        self.spent = self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        now = time.perf_counter_ns

        def timed(*arguments: Any) -> Any:
            begin = now()
            try:
                return function(*arguments)
            finally:
                self.spent += now() - begin
                self.calls += 1

        return timed


@contextmanager
def clocks(parts: list[tuple[str, Any, str]]) -> Any:
    """A clock around each part."""
    made, before = {}, [getattr(owner, name) for _, owner, name in parts]
    for (text, owner, name), function in zip(parts, before, strict=True):
        made[text] = Clock()
        setattr(owner, name, made[text].around(function))
    try:
        yield made
    finally:
        for (_, owner, name), function in zip(parts, before, strict=True):
            setattr(owner, name, function)


def least(run: Callable[[], Any], calls: int = 0) -> float:
    """Microseconds a call, the least of the rounds; as many calls as for the parts by default."""
    found, calls = [], calls or CALLS
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            run()
        found.append((time.perf_counter_ns() - begin) / calls)
    return min(found) / 1e3


def cost_of_a_clock() -> float:
    """Microseconds that a part seems to take for its clock: what an empty function shows."""
    clock = Clock()
    empty = clock.around(lambda: None)
    least(empty)
    return clock.spent / clock.calls / 1e3


def parts_of(run: Callable[[], Any]) -> list[tuple[str, float]]:
    """(part, microseconds), the least of the rounds for each; the whole call is last."""
    own, best = cost_of_a_clock(), {}
    whole = least(run)
    for _ in range(ROUNDS):
        with clocks(PARTS) as made:
            for _ in range(CALLS):
                run()
        for text, clock in made.items():
            if clock.calls:
                took = max(clock.spent / 1e3 - own * clock.calls, 0) / CALLS
                best[text] = min(took, best.get(text, took))
    rest = ("the rest: call, context, lock", whole - sum(best.values()))
    return [*best.items(), rest, ("the whole call", whole)]


def kernels_of(replay: Replay) -> list[tuple[str, float]]:
    """(region and kernel, microseconds) on one thread; inputs are those of the last call."""
    captured = replay.captured
    native, slots = captured.plan.native, address_of(captured.slots)
    results = allocate_all(replay.all_bytes)  # those of the last call may be others' by now
    for slot, block in enumerate(results, captured.first_output):
        captured.slots[slot] = block.address
    rows = []
    for number, region in enumerate(native.regions):
        for task in region:
            plan = NativePlan([[task]] * REPEATS, native.n_slots)
            took = least(lambda plan=plan: plan.call(slots, 0, REPEATS, 1), 1) / REPEATS
            rows.append((f"{number:3} {task.name}", took))
    return rows


@contextmanager
def _capturing(made: list[Any]) -> Any:
    """The cases of the peer as captured ones; their steps are added to the list."""
    jit, modules = bp.jit, (bedplate_peer, bedplate_models)
    before = [vars(module)["JIT"] for module in modules]

    def noted(function: Any) -> Any:
        made.append(jit(function))
        return made[-1]

    try:
        bp.jit = noted
        for module in modules:
            vars(module)["JIT"] = True
        yield
    finally:
        bp.jit = jit
        for module, was in zip(modules, before, strict=True):
            vars(module)["JIT"] = was


def captured_case(name: str) -> tuple[Callable[[], Any], Replay]:
    """A case's run, and the replay that it makes."""
    case = next(case for case in all_cases() if name in case.name)
    made: list[Any] = []
    with _capturing(made):
        run = getattr(bedplate_peer, case.kind)(case.parameters, case.inputs())
    for _ in range(4):
        run()
    (known,) = made[0]._known.values()
    return run, known.replays[0][0]


def _table(title: str, rows: list[tuple[str, float]]) -> None:
    print(f"== {title}, microseconds")
    for text, took in rows:
        print(f"{took:8.2f}  {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="dispatch/add8x8-jit,dispatch/mlp-step-jit")
    parser.add_argument("--kernels", type=int, default=1, help="0: the parts alone")
    options = parser.parse_args()
    for name in options.only.split(","):
        run, replay = captured_case(name.strip())
        _table(name, parts_of(run))
        if options.kernels:
            rows = kernels_of(replay)
            _table("its kernels", [*rows, ("all of them", sum(took for _, took in rows))])


if __name__ == "__main__":
    main()
