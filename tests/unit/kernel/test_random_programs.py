"""Random programs: loops, branches, locals and arithmetic of all types, as machine code, in check
mode, in the interpreter, and read back from their text, always give the same bits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from bedplate.config import config
from bedplate.kernel import (
    bf16,
    cast,
    constant,
    f16,
    f32,
    f64,
    fma,
    gather,
    i1,
    i8,
    i16,
    i32,
    i64,
    kernel,
    load,
    local,
    loop,
    maximum,
    minimum,
    otherwise,
    ptr,
    quotient,
    reduce_add,
    remainder,
    scatter,
    select,
    splat,
    store,
    tail_mask,
    u8,
    u32,
    u64,
    var,
    when,
    while_,
)  # fmt: skip
from bedplate.kernel.arguments import numpy_dtype
from bedplate.kernel.ir import print_program
from bedplate.kernel.machine import interpret
from bedplate.kernel.read import read_program
from bedplate.kernel.target import find_target

TYPES = (f32, f64, bf16, f16, i8, i16, i32, i64, u8, u32, u64)
N = 32


class Writer:
    """Writes one random kernel body; what it draws depends on the seed alone."""

    def __init__(self, seed: int, type_: Any, lanes: int) -> None:
        self.random = random.Random(seed)
        self.type = type_
        self.lanes = lanes

    def value(self, pool: list[Any]) -> Any:
        draw = self.random.random
        if draw() < 0.15:
            return constant(self.type, self.random.choice([0, 1, 2, 3, 7]), self.lanes or None)
        return self.random.choice(pool)

    def expression(self, pool: list[Any]) -> Any:
        a, b = self.value(pool), self.value(pool)
        choices = [
            lambda: a + b, lambda: a - b, lambda: a * b, lambda: minimum(a, b),
            lambda: maximum(a, b), lambda: -a, lambda: abs(b), lambda: select(a < b, b, a),
            lambda: cast(cast(a, self.random.choice(TYPES)), self.type),
        ]  # fmt: skip
        if self.type.is_float:
            choices += [lambda: a / b, lambda: fma(a, b, a)]
        else:
            choices += [
                lambda: a // b, lambda: a % b, lambda: quotient(a, b), lambda: remainder(a, b),
                lambda: a << b, lambda: a >> b, lambda: a & b, lambda: a ^ ~b,
            ]  # fmt: skip
        if self.lanes:
            choices.append(lambda: splat(reduce_add(a), self.lanes))
        return self.random.choice(choices)()

    def block(self, pool: list[Any], cells: list[Any], n: Any, depth: int) -> None:
        pool = list(pool)
        for _ in range(self.random.randint(2, 6)):
            kind = self.random.random()
            if kind < 0.45 or depth == 0:
                pool.append(self.expression([*pool, *(cell.get() for cell in cells)]))
            elif kind < 0.65:
                self.random.choice(cells).set(self.expression(pool))
            elif kind < 0.8:
                self.loop(pool, cells, n, depth)
            else:
                self.branch(pool, cells, n, depth)
        self.random.choice(cells).set(self.value(pool))

    def loop(self, pool: list[Any], cells: list[Any], n: Any, depth: int) -> None:
        if self.random.random() < 0.3:
            left = var(n % 4)
            for _ in while_(lambda: left.get() > 0):
                self.block(pool, cells, left.get(), depth - 1)
                left.set(left.get() - 1)
            return
        start, stop, step = self.random.choice([(0, n, 1), (n, -1, -2), (1, n, 3), (0, n, n - 1)])
        for i in loop(start, stop, step):
            index = cast(i, self.type)
            self.block([*pool, splat(index, self.lanes)], cells, i, depth - 1)

    def branch(self, pool: list[Any], cells: list[Any], n: Any, depth: int) -> None:
        condition = n > self.random.randint(0, 3)
        with when(condition & (n < 100) if self.random.random() < 0.5 else condition):
            self.block(pool, cells, n, depth - 1)
        if self.random.random() < 0.5:
            with otherwise():
                self.block(pool, cells, n, depth - 1)


def make(seed: int) -> Any:
    generator = random.Random(seed)
    type_, lanes = generator.choice(TYPES), generator.choice([0, 4, 8])

    @kernel
    def program(n: i64, x: ptr(type_), y: ptr(type_), at: ptr(i32), marks: ptr(i1)):
        writer = Writer(seed, type_, lanes)
        width = lanes or 1
        cells = [var(load(x + k * width, lanes)) for k in range(3)]
        buffer = local(type_, width)
        writer.block([load(x + 16, lanes), load(x + 24 - width, lanes)], cells, n, 3)
        for k, cell in enumerate(cells):
            store(buffer, cell.get())
            store(y + k * width, load(buffer, lanes))
        store(marks, cells[0].get() < cells[1].get())
        if lanes:
            mask = tail_mask(n, lanes)
            picked = gather(x, load(at, lanes), mask, other=1)
            scatter(y + N, load(at, lanes), picked, mask)

    return program, type_


def run(how: Any, type_: Any, seed: int) -> bytes:
    generator = np.random.default_rng(seed)
    dtype = numpy_dtype(type_)
    with np.errstate(all="ignore"):
        x = (generator.standard_normal(N) * 20).astype(np.int64 if dtype.kind in "iu" else dtype)
    x = x.astype(dtype)
    y, marks = np.zeros(2 * N, dtype), np.zeros(8, np.bool_)
    how(5, x, y, generator.permutation(N)[:8].astype(np.int32), marks)
    if type_.is_float:  # every NaN is alike
        with np.errstate(all="ignore"):
            y = np.where(np.isnan(y.astype(np.float64)), 12345.0, y.astype(np.float64))
    return y.tobytes() + marks.tobytes()


@pytest.mark.parametrize("seed", range(40))
def test_same_bits_everywhere(seed: int) -> None:
    program, type_ = make(seed)
    wanted = run(program.interpret, type_, seed)
    assert run(program, type_, seed) == wanted
    with config(check=True):
        assert run(program, type_, seed) == wanted
    if find_target("avx2").runs_here:
        assert run(program.compile("avx2"), type_, seed) == wanted
    again = read_program(print_program(program.ir))
    assert run(lambda *args: interpret(again, args), type_, seed) == wanted
