"""Planted leaks are named rightly: the line of what leaks and who holds it."""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import bedplate as bp
from bedplate import nn
from bedplate.errors import LeakError, SettingError

HERE = __name__
LIST: list[Any] = []
TABLES: list[Any] = []
ERRORS: list[Exception] = []
STREAMS: list[Iterator[Any]] = []
HOOKED = bp.ones((4,)).realise().requires_grad_()
LAST: Any = None
STOP = threading.Event()


def made(n: int = 1024) -> bp.Tensor:
    return (bp.ones((n,)) * 2).realise()  # the line of most planted leaks


def line_of(function: Any, text: str) -> str:
    """`file.py:line` of the line of a function that has a text."""
    import inspect as source  # noqa: PLC0415 - the name is also that of a part of bedplate

    lines, first = source.getsourcelines(function)
    number = next(i for i, line in enumerate(lines) if text in line)
    return f"test_leaks.py:{first + number}"


MADE = line_of(made, "realise")


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    global LAST
    STOP.clear()
    yield
    STOP.set()
    for kept in (LIST, TABLES, ERRORS, STREAMS):
        kept.clear()
    (HOOKED._entry.hooks or []).clear()  # type: ignore[union-attr]
    LAST = None


# ------------------------------------------------------------------------------ ten planted leaks


def summed_loss() -> None:
    global LAST
    weight = bp.ones((64,)).requires_grad_()
    loss = (weight * 2).sum()
    loss.item()
    LAST = loss if LAST is None else LAST + loss
    LAST.item()


def gradient_table() -> None:
    weight = made().requires_grad_()
    TABLES.append(bp.Autograd.current().backward((weight * weight).sum()))


class Kept(bp.Operation):
    """A custom op that keeps its own result, which holds the op."""

    def forward(self, x: Any) -> Any:
        self.factor = 2.0
        return x * self.factor

    def grad_fn(self, grad: Any) -> Any:
        return grad * self.factor


def cycle_through_an_op() -> None:
    y = Kept.apply(made().requires_grad_()).realise()
    y._entry.op.result = y


def failing(x: bp.Tensor) -> None:
    activation = x.exp().realise()
    raise ValueError(f"shape {activation.shape}")


def cached_exception() -> None:
    try:
        failing(made())
    except ValueError as error:
        ERRORS.append(error)


def global_list() -> None:
    LIST.append(made())


def hook_closure() -> None:
    scale = made(4)
    HOOKED.register_hook(lambda grad: grad * scale)


def held_by_thread() -> None:
    def work() -> None:
        table = made()
        ready.set()
        STOP.wait(60)
        del table

    ready = threading.Event()
    threading.Thread(target=work, name="forgotten", daemon=True).start()
    ready.wait(60)


def rows() -> Iterator[bp.Tensor]:
    table = made()
    for i in range(1000):
        yield table[i]


def open_generator() -> None:
    stream = rows()
    next(stream)
    STREAMS.append(stream)


@bp.jit
def scaled(x: bp.Tensor, k: int) -> bp.Tensor:
    return x * bp.tensor([float(k)] * 512)


COUNTER = iter(range(1_000_000))


def jit_constant() -> None:
    number = next(COUNTER)
    for _ in range(2):  # from the second call on the capture is kept
        scaled(bp.ones((512,)), number)


@contextmanager
def notebook() -> Iterator[types.ModuleType]:
    """A module like the one that IPython runs cells in."""
    module = types.ModuleType("a_notebook")
    module._oh = module.Out = {}  # type: ignore[attr-defined]
    sys.modules["a_notebook"] = module
    try:
        yield module
    finally:
        del sys.modules["a_notebook"]


def shown_in(module: types.ModuleType, name: Callable[[int], str]) -> Callable[[], None]:
    """A cell whose last line is a tensor."""

    def cell() -> None:
        number = len(module._oh) + 1
        module._oh[number] = made()
        setattr(module, name(number), module._oh[number])

    return cell


PLANTED = {
    summed_loss: (
        [line_of(summed_loss, "loss = (weight")],
        [f"held by {HERE}.LAST -> its graph (", "add"],
    ),
    gradient_table: (
        [line_of(gradient_table, "TABLES")],
        [f"held by {HERE}.TABLES[", "a gradient of the table"],
    ),
    cycle_through_an_op: (
        [line_of(Kept.forward, "return")],
        ["held by a cycle: a tensor -> its graph", "operation Kept.result -> a tensor again"],
    ),
    cached_exception: (
        [line_of(failing, "activation =")],
        [f"held by {HERE}.ERRORS[", "ValueError, its traceback", "variable activation of frame"],
    ),
    global_list: ([MADE], [f"held by {HERE}.LIST["]),
    hook_closure: (
        [MADE],
        [f"held by {HERE}.HOOKED", "a gradient hook -> closure variable scale of hook_closure"],
    ),
    held_by_thread: (
        [MADE],
        ["held by variable table of held_by_thread.<locals>.work()", "on thread 'forgotten'"],
    ),
    open_generator: (
        [MADE],
        [f"held by {HERE}.STREAMS[", "variable table of the open generator rows()"],
    ),
    jit_constant: (
        [line_of(scaled.function, "return")],
        ["held by a constant of the jit function scaled()"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_leak_is_named(plant: Callable[[], None]) -> None:
    lines, holders = PLANTED[plant]
    with pytest.raises(LeakError) as caught, bp.memory.expect_no_leak():
        for _ in range(5):
            plant()
    text = str(caught.value)
    for part in (*lines, *holders):
        assert part in text, text


@pytest.mark.parametrize("plant", PLANTED)
def test_what_grows_each_step_is_named(plant: Callable[[], None]) -> None:
    lines, holders = PLANTED[plant]
    found = bp.memory.leaks(plant)
    assert found, "nothing was found"
    for part in (*lines, *holders, "more in each of"):
        assert part in str(found), str(found)


@pytest.mark.parametrize("name", [lambda n: f"_{n}", lambda n: "__"])
def test_the_output_history_of_a_notebook(name: Callable[[int], str]) -> None:
    with notebook() as module:
        cell = shown_in(module, name)
        with pytest.raises(LeakError) as caught, bp.memory.expect_no_leak():
            for _ in range(5):
                cell()
        text = str(caught.value)
        assert "Out[" in text and "the notebook's output history" in text and MADE in text
        found = str(bp.memory.leaks(cell))
        assert "Out[" in found and "the notebook's output history" in found
        del caught


@pytest.mark.parametrize("plant", [
    global_list, cached_exception, hook_closure, held_by_thread, open_generator,
    cycle_through_an_op, gradient_table,
])  # fmt: skip
def test_once_is_enough(plant: Callable[[], None]) -> None:
    with pytest.raises(LeakError) as caught, bp.memory.expect_no_leak():
        plant()
    assert PLANTED[plant][1][0] in str(caught.value)


# ------------------------------------------------------------------------------- other ways to hold


class Trainer:
    """Holds what it should not, in an attribute, a class and a deque."""

    shared: list[Any] = []

    def __init__(self) -> None:
        self.history: list[Any] = []
        self.recent: deque[Any] = deque()
        self.net = nn.Linear(8, 8)
        self.net.outputs = {}  # type: ignore[assignment]

    def step(self) -> None:
        self.history.append(made())


@pytest.mark.parametrize("keep, holder", [
    (lambda t: t.step(), "variable trainer of test_attributes_and_classes", ),
    (lambda t: t.step(), ".history["),
    (lambda t: t.recent.append(made()), ".recent["),
    (lambda t: t.net.outputs.update({len(t.net.outputs): made()}), ".net.outputs["),
    (lambda t: Trainer.shared.append(made()), f"class {HERE}.Trainer.shared["),
])  # fmt: skip
def test_attributes_and_classes(keep: Callable[[Trainer], None], holder: str) -> None:
    trainer = Trainer()
    with pytest.raises(LeakError) as caught, bp.memory.expect_no_leak():
        for _ in range(4):
            keep(trainer)
    Trainer.shared.clear()
    assert holder in str(caught.value)


def test_a_list_of_the_running_function() -> None:
    kept: list[Any] = []
    with pytest.raises(LeakError) as caught, bp.memory.expect_no_leak():
        kept.append(made())
    assert "variable kept of test_a_list_of_the_running_function()" in str(caught.value)
    (leak,) = caught.value.report  # type: ignore[misc]
    assert (leak.count, leak.nbytes) == (1, 4096)
    assert leak.place[0] == __file__ and f"test_leaks.py:{leak.place[1]}" == MADE


def test_leaks_counts_a_step_at_each_call() -> None:
    found = bp.memory.leaks()
    for _ in range(8):
        global_list()
        found = bp.memory.leaks()
    assert f"held by {HERE}.LIST[" in str(found)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(SettingError, match="at least 4 steps"):
        bp.memory.leaks(global_list, steps=2)


def test_what_the_block_raises_comes_first() -> None:
    with pytest.raises(KeyError, match="mine"), bp.memory.expect_no_leak():
        global_list()
        raise KeyError("mine")
    assert gc.isenabled()


def test_the_search_leaves_nothing_behind() -> None:
    big = made()
    probe = sys.getrefcount(big), sys.getrefcount(big._node)
    bp.memory.leaks(lambda: None)
    with bp.memory.expect_no_leak():
        pass
    assert (sys.getrefcount(big), sys.getrefcount(big._node)) == probe


def test_nested_and_after_each_other() -> None:
    with pytest.raises(LeakError) as caught, bp.memory.expect_no_leak():
        with pytest.raises(LeakError, match="memory leaks"), bp.memory.expect_no_leak():
            LIST.append(made())
        with bp.memory.expect_no_leak():
            made()
    assert f"{HERE}.LIST[0]" in str(caught.value)
