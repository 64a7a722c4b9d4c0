"""Kernels that are compiled side by side are those that are compiled one by one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import InternalError
from bedplate.kernel import codegen, f32, i64, kernel, load, loop, native, ptr, store
from bedplate.kernel.staging import compile_together
from bedplate.kernel.target import host
from bedplate.kernel.together import SideBySide, can_go_around

BROKEN = "define void @broken( {"


def scaled(number: int) -> Any:
    @kernel
    def scale(n: i64, x: ptr(f32)) -> None:
        for i in loop(n):
            store(x + i, load(x + i) * number + number)

    return scale


def test_objects_are_the_same(tmp_path: Path) -> None:
    assert can_go_around()
    target = host()
    texts = {str(number): scaled(number).llvm() for number in range(20, 40)}
    with bp.config(num_threads=4), codegen.lock:
        work = SideBySide(target)
        for key, text in texts.items():
            work.add(key, text)
        work.add("broken", BROKEN)
        made = work.close()
    assert "broken" not in made
    for key, text in texts.items():
        assert made[key][0] == codegen.make_object(text, target)


def test_kernels_compiled_together_run(tmp_path: Path) -> None:
    kernels = [scaled(number) for number in range(40, 52)]
    with bp.config(cache_dir=str(tmp_path)):
        compile_together([*kernels, kernels[0]])
        assert len(list((tmp_path / "kernels").iterdir())) == len(kernels)
    for number, each in zip(range(40, 52), kernels, strict=True):
        x = np.arange(5, dtype=np.float32)
        each(5, x)
        np.testing.assert_array_equal(x, np.arange(5) * number + number)
    assert not native._ahead


def test_what_llvm_refuses_fails_for_who_asks(tmp_path: Path) -> None:
    with bp.config(cache_dir=str(tmp_path)):
        native.make_ahead([(BROKEN, "broken"), (scaled(60).llvm(), "fine")], host())
        with pytest.raises(InternalError, match=r"LLVM does not accept a lowered kernel"):
            native.load_code(BROKEN, "broken", host())
    native.forget_ahead()
    assert not native._ahead


def test_a_machine_without_more_threads_compiles_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    kernels = [scaled(number) for number in range(80, 83)]
    with bp.config(num_threads=4, cache_dir=str(tmp_path)):
        compile_together(kernels)
    x = np.ones(3, np.float32)
    kernels[0](3, x)
    np.testing.assert_array_equal(x, np.full(3, 160, np.float32))


def test_one_thread_where_threads_are_off(tmp_path: Path) -> None:
    with bp.config(threads=False, cache_dir=str(tmp_path)):
        work = SideBySide(host())
        work.add("one", scaled(70).llvm())
        assert work.close() == {}
        compile_together([scaled(71), scaled(72)])


def test_an_interrupt_where_a_thread_starts_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def interrupted(self: threading.Thread) -> None:
        start(self)
        started.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with bp.config(num_threads=4), codegen.lock:
        work = SideBySide(host())
        for number in (70, 71):
            with pytest.raises(KeyboardInterrupt, match=r"^$"):
                work.add(str(number), scaled(number).llvm())
        work.close()
    assert len(started) == 2
    for thread in started:
        thread.join(timeout=30)
        assert not thread.is_alive()
