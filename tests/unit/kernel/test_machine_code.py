"""From program to machine code: targets, vector registers, compiling once, fork, debug output."""

from __future__ import annotations

import gc
import os
import re
import threading
from typing import Any

import numpy as np
import pytest

from bedplate.config import config
from bedplate.kernel import (
    bf16,
    cast,
    codegen,
    f16,
    f32,
    f64,
    fma,
    host,
    i64,
    kernel,
    load,
    loop,
    ptr,
    splat,
    store,
    tail_mask,
    var,
    zeros,
)  # fmt: skip
from bedplate.kernel.ir import Instruction
from bedplate.kernel.target import find_target


def make_axpy(lanes: int, factor: float = 2.0) -> Any:
    @kernel
    def axpy(n: i64, x: ptr(f32), y: ptr(f32)):
        for i in loop(0, n, lanes):
            mask = tail_mask(n - i, lanes)
            value = fma(load(x + i, lanes, mask), factor, load(y + i, lanes, mask))
            store(y + i, value, mask)

    return axpy


@pytest.mark.parametrize(
    ("target", "register", "multiply_add"),
    [("avx512", "zmm", "vfmadd"), ("avx2", "ymm", "vfmadd"), ("aarch64", r"\.4s", "fmla")],
)
def test_targets_give_vector_code(target: str, register: str, multiply_add: str) -> None:
    text = make_axpy(find_target(target).lanes(f32)).assembly(target)
    assert re.search(multiply_add + ".*" + register, text)


def test_micro_kernel_keeps_its_tile_in_registers() -> None:
    lanes, rows, vectors = 16, 14, 2

    @kernel
    def panel(k: i64, a: ptr(f32), b: ptr(f32), c: ptr(f32), ldc: i64):
        acc = [[var(zeros(f32, lanes)) for _ in range(vectors)] for _ in range(rows)]
        for p in loop(k):
            columns = [load(b + (p * vectors + v) * lanes, lanes) for v in range(vectors)]
            for r in range(rows):
                row = splat(load(a + p * rows + r), lanes)
                for v in range(vectors):
                    acc[r][v].set(fma(row, columns[v], acc[r][v].get()))
        for r in range(rows):
            for v in range(vectors):
                store(c + r * ldc + v * lanes, acc[r][v].get())

    text = panel.assembly("avx512")
    assert len(re.findall(r"vfmadd.*zmm", text)) == rows * vectors
    assert not re.search(r"zmm\d+, .*\(%rsp\)|\(%rsp\), %zmm", text)  # no spill
    generator = np.random.default_rng(0)
    a, b = (generator.random((20, n), np.float32) for n in (rows, vectors * lanes))
    c = np.zeros((rows, vectors * lanes), np.float32)
    panel(20, a, b, c, vectors * lanes)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-5)


def test_compiled_exactly_once_under_concurrent_first_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    axpy = make_axpy(host().lanes(f32), 1234.5)
    made: list[str] = []
    make_object = codegen.make_object

    def counting(text: str, target: Any) -> bytes:
        made.append(text)
        return make_object(text, target)

    monkeypatch.setattr(codegen, "make_object", counting)
    barrier = threading.Barrier(8)
    found: list[int] = []

    def use() -> None:
        barrier.wait()
        with config(cache_dir=str(tmp_path)):
            found.append(axpy.compile().address)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(found) == 8 and len(set(found)) == 1


def test_equal_kernels_share_their_machine_code() -> None:
    assert make_axpy(4).compile().address == make_axpy(4).compile().address


def test_a_forked_child_compiles_and_runs() -> None:
    make_axpy(8).compile()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        y = np.zeros(5, np.float32)
        make_axpy(8, 3.0)(5, np.ones(5, np.float32), y)
        os.write(writer, y.tobytes())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        received = np.frombuffer(pipe.read(), np.float32)
    assert os.waitpid(child, 0)[1] == 0
    assert received.tolist() == [3.0] * 5


@pytest.mark.parametrize("level", [3, 4, 5, 6])
def test_debug_levels(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    with config(debug=level, debug_filter="axp"):
        make_axpy(4, 1.0 + level).compile()
    text = capsys.readouterr().err
    shown = [f"kernel axpy: {what}" in text for what in ("program", "LLVM", "assembly")]
    assert shown == [level >= 4, level >= 5, level >= 6]
    with config(debug=level, debug_filter="other"):
        make_axpy(4, 100.0 + level).compile()
    assert not capsys.readouterr().err


def test_no_fast_math_and_no_contraction() -> None:
    @kernel
    def apart(x: ptr(f32)):
        store(x, load(x, 16) * load(x + 16, 16) + load(x + 32, 16))

    text = apart.llvm("avx512")
    assert not re.search(r"\b(fast|contract|nnan|ninf|nsz|reassoc|arcp|afn)\b", text)
    assert "vfmadd" not in apart.assembly("avx512")
    assert "fmla" not in apart.assembly("aarch64")


@pytest.mark.parametrize("target", ["avx2", "avx512", "aarch64"])
def test_half_precision_needs_no_library(target: str) -> None:
    @kernel
    def casts(x: ptr(f16), y: ptr(bf16), z: ptr(f64)):
        store(y, cast(load(x, 8), bf16))
        store(x, cast(load(z, 8), f16))
        store(y + 8, cast(load(z), bf16))

    assert not re.search(r"\b(call|bl)\b", casts.assembly(target))


def test_programs_are_freed_without_the_garbage_collector() -> None:
    def live() -> int:
        return sum(isinstance(each, Instruction) for each in gc.get_objects())

    make_axpy(8)(3, np.zeros(3, np.float32), np.zeros(3, np.float32))
    gc.collect()
    gc.disable()
    try:
        before = live()
        axpy = make_axpy(8, 77.0)
        axpy(3, np.zeros(3, np.float32), np.zeros(3, np.float32))
        assert live() == before  # compiled: the program has done its work
        assert axpy.ir.parameters and live() > before  # asked for: traced again
        axpy.interpret(3, np.zeros(3, np.float32), np.zeros(3, np.float32))
        del axpy
        assert live() == before
    finally:
        gc.enable()
