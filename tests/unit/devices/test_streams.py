"""Streams and events on a device that works by itself: order, waiting, errors that stick."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices import current_stream
from bedplate.devices.pool import MOST_USERS
from bedplate.devices.queue import MAX_UNSETTLED
from bedplate.errors import DeviceError

ROOT = Path(__file__).resolve().parents[3]


def failing(device: bp.Device) -> Any:
    """A tensor whose index is out of range."""
    x = bp.tensor(np.arange(4.0), device=device)
    return bp.take(x, bp.tensor([7], device=device), axis=0)


def test_each_thread_has_a_stream_of_its_own(loopback: bp.Device) -> None:
    mine = current_stream(loopback)
    assert current_stream(loopback)._queue is mine._queue
    seen = []
    thread = threading.Thread(target=lambda: seen.append(current_stream(loopback)._queue))
    thread.start()
    thread.join()
    assert seen[0] is not mine._queue
    with bp.Stream(loopback) as other:
        assert current_stream(loopback)._queue is other._queue
        with bp.Stream(loopback) as inner, other:
            assert current_stream(loopback)._queue is other._queue is not inner._queue
        assert current_stream(loopback)._queue is other._queue
    assert current_stream(loopback)._queue is mine._queue
    assert repr(other) == "Stream('loopback')"


def test_values_cross_streams_in_order(loopback: bp.Device) -> None:
    streams = [bp.Stream(loopback) for _ in range(3)]
    x = bp.zeros(5000, device=loopback)
    for step in range(60):
        with streams[step % 3]:
            x = (x * 2 + step).realise()
    y = np.zeros(5000, np.float32)
    for step in range(60):
        y = y * 2 + step
    np.testing.assert_array_equal(x.numpy(), y)


def test_events(loopback: bp.Device) -> None:
    first, second = bp.Stream(loopback), bp.Stream(loopback)
    start, end = bp.Event(), bp.Event()
    with pytest.raises(DeviceError, match="never recorded"):
        second.wait(start)
    first.record(start)
    with first:
        x = (bp.ones(100_000, device=loopback) * 3).realise()
    first.record(end)
    second.wait(end)
    second.synchronize()
    end.wait()
    assert start.is_reached and end.is_reached
    assert 0 <= start.seconds_to(end) < 60
    assert x.numpy()[-1] == 3
    here = bp.Event()
    bp.Stream("cpu").record(here)
    with pytest.raises(DeviceError, match="of different devices"):
        start.seconds_to(here)
    second.wait(here)  # of another device: nothing to wait for


def test_a_wrong_index_inside_of_a_composed_operation(loopback: bp.Device) -> None:
    with bp.Stream(loopback):
        loss = bp.cross_entropy(
            bp.tensor([[1.0] * 5] * 2, device=loopback), bp.tensor([0, 5], device=loopback)
        )
        with pytest.raises(IndexError, match="cross_entropy: target: index 5 is out of range"):
            loss.item()


def test_a_wrong_index_sticks_to_its_stream_and_to_what_depends_on_it(loopback: bp.Device) -> None:
    with bp.Stream(loopback) as stream:
        good = bp.tensor([1.0, 2.0], device=loopback) * 2
        bad = failing(loopback)
        depends = (bad + 1).sum()
        good.realise()  # one plan computes all that is pending
        bad.realise()
        later = bp.Event()
        stream.record(later)
    moved = depends.to("cpu") * 2
    text = r"take: axis 0: index 7 is out of range for size 4\n  used at .*test_streams.py:\d+"
    for read in (bad.numpy, bad.tolist, depends.item, moved.numpy, lambda: repr(bad)):
        for _ in range(2):
            with pytest.raises(IndexError, match=text):
                read()
    for wait in (stream.synchronize, later.wait, bp.synchronize):
        for _ in range(2):
            with pytest.raises(IndexError, match=text):
                wait()
    assert good.tolist() == [2.0, 4.0]
    with stream:
        assert (good + 1).tolist() == [3.0, 5.0]
    stream.reset()
    stream.synchronize()
    with pytest.raises(IndexError, match=text):
        bad.numpy()
    with pytest.raises(IndexError, match=text):
        bp.synchronize(loopback)  # the sum ran on the stream of this thread
    bp.devices.reset(loopback)
    bp.synchronize()


def test_a_failed_launch_takes_along_what_comes_behind_it(loopback: bp.Device, driver: Any) -> None:
    x = bp.tensor([1.0, 2.0], device=loopback)
    before = (x * 2).realise()
    assert before.tolist() == [2.0, 4.0]
    driver.fail_next_launch("the fan stands still")
    bad = x.exp()
    behind = (x + 1).realise() if bad.realise() is bad else x
    text = r"loopback: .*the fan stands still\n  in exp, made at .*test_streams.py:\d+"
    for read in (bad.numpy, behind.tolist, bp.synchronize):
        for _ in range(2):
            with pytest.raises(DeviceError, match=text):
                read()
    assert before.tolist() == [2.0, 4.0]
    with bp.Stream(loopback):
        assert (x + 1).tolist() == [2.0, 3.0]  # another stream works on
    bp.devices.reset(loopback)
    assert (x + 2).tolist() == [3.0, 4.0]
    with pytest.raises(DeviceError, match=text):
        bad.numpy()


def test_the_error_has_no_traceback_of_earlier_times(loopback: bp.Device) -> None:
    bad = failing(loopback).realise()
    lengths = []
    for _ in range(4):
        with pytest.raises(IndexError, match="index 7") as caught:
            bad.numpy()
        lengths.append(len(caught.traceback))
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert len(set(lengths)) == 1


def test_errors_of_numpy_in_the_middle_are_raised_at_once(loopback: bp.Device) -> None:
    x = bp.zeros((2, 2), device=loopback)
    y = bp.linalg.inv(x + 0) * 2
    for _ in range(2):
        with pytest.raises(bp.errors.LinAlgError, match="Singular"):
            y.numpy()
    bp.synchronize()  # nothing sticks: nothing that was started has failed
    bad = bp.linalg.inv(failing(loopback).reshape(1, 1))
    with pytest.raises(IndexError, match="index 7"):
        bad.numpy()


def test_the_host_does_not_run_far_ahead(loopback: bp.Device) -> None:
    x = bp.zeros(10, device=loopback)
    for _ in range(3 * MAX_UNSETTLED):
        x = (x + 1).realise()
    queue: Any = current_stream(loopback)._queue
    assert len(queue.unsettled) <= MAX_UNSETTLED
    assert x.tolist() == [3.0 * MAX_UNSETTLED] * 10


def test_many_threads(loopback: bp.Device) -> None:
    shared = bp.tensor(np.arange(1000.0), device=loopback)
    found: list[Any] = []

    def work(number: int) -> None:
        x = shared
        for step in range(10):
            x = (x * 2 + bp.tensor([float(step)], device=loopback)).realise()
            if step % 3 == number % 3:
                x = x.to("cpu").to(loopback)
        found.append((number, x.numpy()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = np.arange(1000.0)
    for step in range(10):
        wanted = wanted * 2 + step
    assert len(found) == 6
    for _, value in found:
        np.testing.assert_array_equal(value, wanted)


def test_a_value_may_wander_through_any_number_of_streams(loopback: bp.Device) -> None:
    x = bp.zeros(3, device=loopback)
    streams = [bp.Stream(loopback) for _ in range(600)]  # each kept, and waited for only at last
    for stream in streams:
        with stream:
            x = (x + 1).realise()
    assert x.tolist() == [600.0] * 3


def test_what_lives_long_keeps_no_streams_of_those_who_used_it(loopback: bp.Device) -> None:
    weights = bp.ones(100, device=loopback).realise()
    gc.collect()
    gc.disable()  # nor do streams go around in cycles
    try:
        queues = []
        for _ in range(100):
            with bp.Stream(loopback) as stream:
                assert (weights + 1).sum().item() == 200
            queues.append(weakref.ref(stream._queue))
            del stream
        alive = sum(queue() is not None for queue in queues)
        runtime: Any = loopback.runtime
        assert alive <= MOST_USERS + len(runtime.open_queues) < 50
    finally:
        gc.enable()


def test_work_and_faults_of_a_thread_that_ended_are_not_lost(loopback: bp.Device) -> None:
    thread = threading.Thread(target=lambda: failing(loopback).realise())
    thread.start()
    thread.join()
    gc.collect()  # what is under way keeps the host's memory that the device uses
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7"):
            bp.synchronize(loopback)
        gc.collect()
    bp.devices.reset(loopback)
    bp.synchronize(loopback)
    runtime: Any = loopback.runtime
    assert not runtime.open_queues


def test_wrong_use_is_refused_in_words(loopback: bp.Device) -> None:
    stream, event = bp.Stream(loopback), bp.Event()
    calls: list[Any] = [stream.record, stream.wait, event.seconds_to, bp.Stream("cpu").wait]
    for call in calls:
        for wrong in (3, None, stream):
            with pytest.raises(TypeError, match="expected an Event, got"):
                call(wrong)
    with pytest.raises(DeviceError, match="this thread entered none"):
        stream.__exit__()
    with pytest.raises(DeviceError, match="is not NAME or NAME:INDEX"):
        bp.Device("cpu:" + "9" * 5000)


def test_a_short_stress() -> None:
    """Longer: tests/stress_devices.py --seconds N."""
    command = [sys.executable, str(ROOT / "tests/stress_devices.py"), "--seconds", "4"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
