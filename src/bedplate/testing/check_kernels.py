"""The checks of a driver's kernels: arguments, how items are split, order, scratch of workers."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bedplate.kernel import (
    cast,
    f32,
    f64,
    i64,
    kernel,
    load,
    loop,
    ptr,
    store,
    word_float,
    word_int,
    word_pointer,
)
from bedplate.testing.check_driver import Bench, tells_what_failed
from bedplate.testing.report import Fault, require

ITEMS = (0, 1, 2, 7, 1000)


@kernel
def count_items(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """visits[item] += 1, workers[item] = worker"""
    visits, workers = word_pointer(args, 0, i64), word_pointer(args, 1, i64)
    for item in loop(begin, end):
        store(visits + item, load(visits + item) + 1)
        store(workers + item, worker)


@kernel
def all_words(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """y[item] = x[item] * word 2 (a float) + word 3 (an integer)"""
    x, y = word_pointer(args, 0, f32), word_pointer(args, 1, f64)
    for item in loop(begin, end):
        value = load(x + item)
        store(y + item, cast(value, f64) * word_float(args, 2) + cast(word_int(args, 3), f64))


@kernel
def step_on(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """x[item] = x[item] * 3 + 1"""
    x = word_pointer(args, 0, i64)
    for item in loop(begin, end):
        store(x + item, load(x + item) * 3 + 1)


@kernel
def by_scratch(args: ptr(i64), begin: i64, end: i64, worker: i64):
    """y[item] = the sum of item ... item + 63, added up in the worker's own piece of scratch"""
    scratch = word_pointer(args, 0, i64) + worker * 8
    y = word_pointer(args, 1, i64)
    for item in loop(begin, end):
        store(scratch, item * 0)
        for step in loop(64):
            store(scratch, load(scratch) + item + step)
        store(y + item, load(scratch))


class Kernels:
    """Kernels on a bench; each is compiled once."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @functools.cache  # noqa: B019 - it lives as long as the checks of one device
    def made(self, which: Any) -> Any:
        return self.bench.driver.compile(which.ir, which.name)

    def run(self, which: Any, words: list[int | float], items: int) -> None:
        """Run a kernel to its end."""
        address = self.bench.put(packed(words))
        self.bench.driver.launch(self.bench.queue, self.made(which), address, items)
        self.bench.finish()
        self.bench.driver.free(address)

    def int64(self, address: int, count: int) -> Any:
        return self.bench.get(address, 8 * count).view(np.int64)


def packed(words: Sequence[int | float]) -> Any:
    """Argument words as an array."""
    bits = [struct.unpack("q", struct.pack("d", w))[0] if type(w) is float else w for w in words]
    return np.array(bits, np.int64)


def runs_each_item_once(kernels: Kernels) -> None:
    bench = kernels.bench
    for items in ITEMS:
        visits, workers = bench.put(np.zeros(1024, np.int64)), bench.put(np.zeros(1024, np.int64))
        kernels.run(count_items, [visits, workers], items)
        found = kernels.int64(visits, 1024)
        wanted = (np.arange(1024) < items).astype(np.int64)
        if (found != wanted).any():
            item = int(np.flatnonzero(found != wanted)[0])
            raise Fault(
                f"a launch of {items} items ran item {item} {found[item]} times, "
                f"expected {wanted[item]}"
            )
        by = kernels.int64(workers, 1024)[:items]
        limit = bench.driver.n_workers
        require(
            ((by >= 0) & (by < limit)).all(),
            f"a worker is {by.min() if items else 0} to {by.max() if items else 0}, "
            f"expected 0 to {limit - 1} (n_workers is {limit})",
        )
        for address in (visits, workers):
            bench.driver.free(address)


def passes_all_words(kernels: Kernels) -> None:
    bench = kernels.bench
    x = np.linspace(-3, 3, 100).astype(np.float32)
    source, target = bench.put(x), bench.put(np.zeros(100))
    for factor, shift in ((1.5, 7), (-0.25, -(1 << 40)), (1e300, 1 << 52)):
        kernels.run(all_words, [source, target, factor, shift], 100)
        found = bench.get(target, 800).view(np.float64)
        wanted = x.astype(np.float64) * factor + float(shift)
        if not np.allclose(found, wanted, rtol=1e-12, atol=0):
            at = int(np.flatnonzero(~np.isclose(found, wanted, rtol=1e-12, atol=0))[0])
            raise Fault(
                f"x[{at}] * {factor} + {shift} is {found[at]!r}, expected {wanted[at]!r}: the "
                "words of a launch are addresses, integers and the bits of float64"
            )
    for address in (source, target):
        bench.driver.free(address)


def keeps_the_order_of_launches(kernels: Kernels) -> None:
    bench, driver = kernels.bench, kernels.bench.driver
    start = np.arange(500, dtype=np.int64)
    x = bench.put(start)
    words = bench.put(packed([x]))
    executable, wanted = kernels.made(step_on), start
    for _ in range(20):
        driver.launch(bench.queue, executable, words, 500)
        wanted = wanted * 3 + 1
    bench.finish()
    found = kernels.int64(x, 500)
    if (found != wanted).any():
        at = int(np.flatnonzero(found != wanted)[0])
        raise Fault(
            f"20 launches of x = x * 3 + 1 one after the other: x[{at}] is {found[at]}, expected "
            f"{wanted[at]}; later launches of a queue start after earlier ones are done"
        )
    for address in (x, words):
        driver.free(address)


def gives_each_worker_its_own_scratch(kernels: Kernels) -> None:
    bench, items = kernels.bench, 200
    scratch = bench.put(np.zeros(8 * bench.driver.n_workers, np.int64))
    y = bench.put(np.zeros(items, np.int64))
    for _ in range(3):
        kernels.run(by_scratch, [scratch, y], items)
        found, wanted = kernels.int64(y, items), np.arange(items) * 64 + 2016
        require(
            bool((found == wanted).all()),
            "parts of a launch that run at the same time share a worker: what one of them wrote to "
            "its scratch memory was changed by another",
        )
    for address in (scratch, y):
        bench.driver.free(address)


def tells_of_failed_launches(kernels: Kernels) -> str | None:
    words = [kernels.bench.put(np.zeros(1, np.int64)) for _ in range(2)]
    return tells_what_failed(kernels.bench, kernels.made(count_items), packed(words))


KERNELS: dict[str, Callable[[Kernels], str | None]] = {
    "each item runs once, by a worker that there is": runs_each_item_once,
    "addresses, integers and floats as arguments": passes_all_words,
    "launches are done in order": keeps_the_order_of_launches,
    "workers have scratch of their own": gives_each_worker_its_own_scratch,
}
FAILURES: dict[str, Callable[[Kernels], str | None]] = {
    "a launch that fails is told at each wait": tells_of_failed_launches,
}
