"""Plans with tasks that NumPy computes: order, capture, errors, threads, memory."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler import realise as realising
from bedplate.compiler.realise import clear_plans
from bedplate.errors import LinAlgError
from bedplate.memory import Block
from bedplate.ops.record import Op, apply
from bedplate.ops.samples import floats

GOOD = np.array([[4.0, 1.0], [1.0, 3.0]])
BAD = np.zeros((2, 2))


def last_plan() -> Any:
    return list(realising._plans.values())[-1]


def test_native_regions_run_before_between_and_after() -> None:
    x = bp.tensor(GOOD)
    y = bp.linalg.inv(bp.linalg.inv(x * 2) + 1) * 3 + x.sum()
    wanted = np.linalg.inv(np.linalg.inv(GOOD * 2) + 1) * 3 + GOOD.sum()
    clear_plans()
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12)
    plan = last_plan()
    assert [len(tasks) for _, tasks in plan.stops] == [1, 1]


def test_independent_tasks_share_a_stop() -> None:
    clear_plans()
    x = bp.tensor(GOOD)
    total = bp.linalg.inv(x) + bp.linalg.inv(x * 2) + bp.linalg.det(x)
    total.realise()
    assert sum(len(tasks) for _, tasks in last_plan().stops) == 3
    assert len(last_plan().stops) == 2  # x * 2 stands in the region of the first two


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.mT,
        lambda x: bp.flip(x, 0),
        lambda x: bp.flip(x, (0, 1))[..., ::1],
        lambda x: x[None].broadcast_to((3, 2, 2)),
        lambda x: bp.stack([x, x + 1])[:, ::-1],
    ],
)
def test_views_are_read_by_their_strides(view: Any) -> None:
    x = view(bp.tensor(GOOD))
    np.testing.assert_allclose(bp.linalg.inv(x).numpy(), np.linalg.inv(x.numpy()), rtol=1e-12)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_failure_names_op_shapes_and_line(device: str) -> None:
    x = bp.tensor(BAD, device=device)
    with pytest.raises(LinAlgError) as caught:
        bp.linalg.inv(x + 0).numpy()
    text = str(caught.value)
    assert text.startswith("inv: Singular matrix\n  a  (2, 2) float64\n  used at ")
    assert "test_host.py:" in text and "try bp.linalg.pinv" in text
    assert isinstance(caught.value, np.linalg.LinAlgError) and isinstance(caught.value, ValueError)


def failing(value: np.ndarray[Any, Any]) -> Any:
    return bp.linalg.cholesky(bp.tensor(value))


def also_failing(value: np.ndarray[Any, Any]) -> Any:
    return bp.linalg.cholesky(bp.tensor(value))


def test_the_line_is_that_of_the_graph_that_ran_not_of_the_one_that_was_compiled() -> None:
    failing(GOOD).numpy()
    line = also_failing.__code__.co_firstlineno + 1
    with pytest.raises(LinAlgError, match=f"test_host.py:{line}\n"):
        also_failing(-GOOD).numpy()
    wrong = [lambda: bp.take(bp.tensor([1.0]), bp.tensor([7])) for _ in range(2)]
    with pytest.raises(IndexError, match=f"test_host.py:{wrong[0].__code__.co_firstlineno}"):
        wrong[0]().numpy()


def test_an_index_out_of_range_is_told_before_the_task_sees_what_was_read() -> None:
    x = bp.tensor(np.zeros((3, 2, 2)))
    chosen = bp.take(x, bp.tensor([5]), axis=0)
    with pytest.raises(IndexError, match="index 5 is out of range for size 3"):
        bp.linalg.inv(chosen).numpy()


def test_a_failure_sticks_and_leaves_everything_usable() -> None:
    x = bp.tensor(GOOD)
    wrong = bp.linalg.inv(bp.tensor(BAD))
    for _ in range(3):
        with pytest.raises(LinAlgError, match="Singular matrix"):
            wrong.numpy()
    np.testing.assert_allclose(bp.linalg.inv(x).numpy(), np.linalg.inv(GOOD), rtol=1e-12)


def live_blocks() -> int:
    return sum(isinstance(each, Block) for each in gc.get_objects())


def test_failures_leave_no_memory_behind() -> None:
    def fail() -> None:
        with pytest.raises(LinAlgError, match="Singular matrix"):
            bp.linalg.inv(bp.zeros((64, 64)) + bp.tensor(0.0)).numpy()

    fail()
    gc.disable()
    try:
        before = live_blocks()
        for _ in range(20):
            fail()
        assert live_blocks() == before
    finally:
        gc.enable()


def test_the_error_keeps_no_array_over_memory_that_was_given_back() -> None:
    with pytest.raises(LinAlgError) as caught:
        bp.linalg.inv(bp.tensor(BAD) * 1).numpy()
    frame = caught.value.__traceback__
    while frame is not None:
        for value in frame.tb_frame.f_locals.values():
            held = value if isinstance(value, list) else [value]
            assert not any(isinstance(x, np.ndarray) and x is not BAD for x in held)
        frame = frame.tb_next
    assert caught.value.__context__ is None


def test_captured_steps_replay_and_fail_like_others() -> None:
    weights = bp.tensor(np.ones((2, 2)))

    @bp.jit
    def step(x: Any) -> Any:
        y = bp.linalg.inv(x)
        weights[...] = weights + y
        return y, bp.linalg.slogdet(x)

    total = np.ones((2, 2))
    for scale in (1.0, 2.0, 3.0, 4.0, 5.0):
        y, parts = step(bp.tensor(GOOD * scale))
        total += np.linalg.inv(GOOD * scale)
        np.testing.assert_allclose(y.numpy(), np.linalg.inv(GOOD * scale), rtol=1e-12)
        assert parts.logabsdet.item() == pytest.approx(np.linalg.slogdet(GOOD * scale)[1])
    np.testing.assert_allclose(weights.numpy(), total, rtol=1e-12)
    for _ in range(2):  # what the step updates is as it was
        with pytest.raises(LinAlgError, match=r"inv: Singular matrix\n(.*\n)*  used at .*test_h"):
            step(bp.tensor(BAD))
        np.testing.assert_allclose(weights.numpy(), total, rtol=1e-12)
    np.testing.assert_allclose(step(bp.tensor(GOOD))[0].numpy(), np.linalg.inv(GOOD), rtol=1e-12)


def test_eight_threads_compute_and_fail_side_by_side() -> None:
    faults: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            start.wait()
            rng = np.random.default_rng(number)
            for round_ in range(12):
                a = rng.normal(size=(3, 4, 4)) + 4 * np.eye(4)
                found = bp.linalg.solve(bp.tensor(a), bp.tensor(a) @ bp.tensor(a)).numpy()
                np.testing.assert_allclose(found, a, rtol=1e-9, atol=1e-9)
                if round_ % 3 == number % 3:
                    with pytest.raises(LinAlgError, match="Singular matrix"):
                        bp.linalg.inv(bp.tensor(a * 0)).numpy()
                big = bp.tensor(np.ones((300, 300), np.float32))
                assert (big @ big).sum().item() == 300**3
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults and not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("switch", ["fusion", "folding", "cse", "algebra", "threads", "jit"])
def test_every_switch_gives_the_same_bits(switch: str) -> None:
    def step(x: Any) -> Any:
        w, v = bp.linalg.eigh(x * 2 + x.mT)
        return ((v * w) @ v.mT).sum() + bp.linalg.solve(x, x.sum(0)).sum()

    wanted = step(bp.tensor(GOOD)).item()
    with bp.config(**{switch: False}):
        captured = bp.jit(step)
        found = [captured(bp.tensor(GOOD)).item() for _ in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_check_mode_watches_the_kernels_around() -> None:
    with bp.config(check=True):
        found = (bp.linalg.inv(bp.tensor(GOOD) * 2) + 1).numpy()
    np.testing.assert_allclose(found, np.linalg.inv(GOOD * 2) + 1, rtol=1e-12)


def test_explain_and_debug_show_the_task(capfd: pytest.CaptureFixture[str]) -> None:
    y = bp.linalg.inv(bp.tensor(GOOD) * 2) + 1
    shown = bp.explain(y)
    assert "numpy_inv: 1 items, 64 bytes" in shown.schedule()
    assert "define" in shown.llvm()
    with bp.config(debug=2):
        y.realise()
    assert "numpy_inv x 1" in capfd.readouterr().err
    seconds = last_plan().native.region_seconds
    assert len(seconds) == 3 and seconds[1] > 1e-6  # the time of NumPy is its region's


def _interrupted(x: Any) -> Any:
    raise KeyboardInterrupt("in NumPy")


@pytest.fixture
def interrupted() -> Iterator[Op]:
    yield Op(
        "interrupted", "host", lambda inputs, attributes: (inputs[0].shape, inputs[0].dtype),
        reference=_interrupted, samples=(floats((2,)),), doc="Ctrl-C in NumPy.",
    )  # fmt: skip


def test_an_interrupt_inside_numpy_goes_up(interrupted: Op) -> None:
    x = bp.tensor(GOOD) * 2
    with pytest.raises(KeyboardInterrupt, match="in NumPy"):
        apply(interrupted, (x,)).numpy()
    assert x.tolist() == (GOOD * 2).tolist()
