"""run_kernel: users' kernels as lazy operations, on every device, in threads, captured, checked."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices.registry import BACKENDS
from bedplate.kernel import (
    atomic_add,
    bf16,
    call,
    cast,
    constant,
    extern,
    f32,
    f64,
    i32,
    i64,
    kernel,
    load,
    local,
    loop,
    ptr,
    scatter,
    select,
    store,
    tail_mask,
    u8,
    var,
    when,
    zeros,
)

DEVICES = sorted(BACKENDS)
KernelError = bp.errors.KernelError


@kernel
def scale_all(n: i64, x: ptr(f32), factor: f32, y: ptr(f32)):
    for i in loop(n):
        store(y + i, load(x + i) * factor)


@kernel
def scale_part(x: ptr(f32), factor: f64, y: ptr(f32), begin: i64, end: i64):
    for i in loop(begin, end):
        store(y + i, load(x + i) * cast(factor, f32))


@kernel
def parts(n: i64, x: ptr(f32), whole: ptr(i32), rest: ptr(f32)):
    for i in loop(n):
        value = load(x + i)
        integer = cast(value, i32)
        store(whole + i, integer)
        store(rest + i, value - cast(integer, f32))


@kernel
def one_too_far(n: i64, x: ptr(f32), y: ptr(f32)):
    for i in loop(n):
        store(y + i, load(x + i + 1))


@kernel
def widened(n: i64, x: ptr(bf16), shift: i32, y: ptr(f64)):
    for i in loop(n):
        store(y + i, cast(load(x + i), f64) + cast(shift, f64))


def scaled(x: bp.Tensor, factor: float) -> Any:
    return bp.run_kernel(scale_part, x, factor, bp.kernel_output(x.shape, x.dtype), items=x.size)


@pytest.mark.parametrize("device", DEVICES)
def test_it_runs_everywhere(device: str) -> None:
    x = bp.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device)
    y = bp.run_kernel(scale_all, 12, x, 0.5, bp.kernel_output((4, 3), bp.float32))
    np.testing.assert_array_equal(y.numpy(), x.numpy().reshape(4, 3) / 2)
    np.testing.assert_array_equal(scaled(x, 3).numpy(), x.numpy() * 3)
    whole, rest = bp.run_kernel(
        parts, 12, x / 4, bp.kernel_output(12, bp.int32), bp.kernel_output(12, bp.float32)
    )
    assert whole.dtype is bp.int32
    np.testing.assert_array_equal((whole + rest).numpy(), np.arange(12) / 4)
    narrow = bp.Tensor([1.5, 2.5], device).astype(bp.bfloat16)
    wide = bp.run_kernel(widened, 2, narrow, -1, bp.kernel_output(2, bp.float64))
    assert wide.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("device", DEVICES)
def test_views_are_read_in_order(device: str) -> None:
    x = bp.Tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4), device)
    views = [x.permute(2, 0, 1), x[:, ::-1, 1:3], x[0, 0].broadcast_to((3, 4)), x[1, 2, 3], x[:0]]
    for view in views:
        np.testing.assert_array_equal(scaled(view, 2.0).numpy(), view.numpy() * 2)


def test_it_fuses_with_nothing_and_stands_between_others() -> None:
    x = bp.arange(6, dtype=bp.float32)
    y = (scaled(x * 2 + 1, 0.5).reshape(2, 3).sum(axis=0) + 1).tolist()
    assert y == [(v * 2 + 1) / 2 + ((v + 3) * 2 + 1) / 2 + 1 for v in range(3)]
    switches = ("fusion", "folding", "cse", "algebra", "pooling", "threads", "jit")
    for switch in switches:
        with bp.config(**{switch: False}):
            assert (scaled(x * 2, 0.5) + scaled(x * 2, 0.5)).tolist() == [2.0 * v for v in range(6)]


def test_it_is_captured() -> None:
    step = bp.jit(lambda x, k: scaled(x + 1, k) - 1)
    for number in range(5):
        x = bp.full((7,), float(number))
        assert step(x, 2.0).tolist() == [2.0 * number + 1] * 7
        assert step(x, 3.0).tolist() == [3.0 * number + 2] * 7


def test_large_work_is_split_and_small_in_many_threads() -> None:
    x = bp.arange(1_000_000, dtype=bp.float32)
    np.testing.assert_array_equal(scaled(x, 2.0).numpy(), np.arange(1e6, dtype=np.float32) * 2)
    found: list[Any] = []

    def work(number: int) -> None:
        found.append(scaled(bp.full((100,), float(number)), 2.0).tolist() == [2.0 * number] * 100)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


@pytest.mark.parametrize("device", DEVICES)
def test_checked_it_names_the_line(device: str) -> None:
    x = bp.Tensor(np.ones(5, np.float32), device)
    with (
        bp.config(check=True),
        pytest.raises(bp.errors.KernelBoundsError, match=r"one_too_far: load at .*\n  x  5 elem"),
    ):
        bp.run_kernel(one_too_far, 5, x, bp.kernel_output(5, bp.float32)).numpy()
    with bp.config(check=True):
        assert scaled(x, 2.0).tolist() == [2.0] * 5
        assert scaled(x.reshape(5, 1) * bp.ones((1, 2), device=device), 2.0).sum().item() == 20.0


class Scaled(bp.Operation):
    """An operation whose forward is a kernel, with its gradient by another."""

    def forward(self, x: bp.Tensor) -> Any:
        return scaled(x, 3.0)

    def grad_fn(self, grad: bp.Tensor) -> Any:
        return Scaled.apply(grad)


def test_a_gradient_is_given_by_an_operation() -> None:
    x = bp.arange(4, dtype=bp.float32).requires_grad_()
    Scaled.apply(x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 6.0, 12.0, 18.0]
    second = bp.grad(lambda v: bp.grad(lambda u: Scaled.apply(u * u).sum())(v).sum())(x)
    assert second.tolist() == [6.0] * 4
    with pytest.raises(
        bp.errors.GradientError, match=r"run_kernel: has no gradient, because it is"
    ):
        scaled(x, 3.0).sum().backward()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((len, 1), TypeError, "expected a kernel, got builtin_function"),
        ((scale_all, 1), KernelError, "1 arguments for 4 parameters\n  .n: i64, x: ptr"),
        ((scale_all, 1, bp.ones(1), 1.0, bp.ones(1)), KernelError, "bp.kernel_output.* is missing"),
        (
            (scale_all, 1, bp.kernel_output(1, bp.float32), 1.0, bp.kernel_output(1, bp.float32)),
            KernelError, "a tensor is missing",
        ),
        (
            (scale_all, 1, bp.ones(1, dtype=bp.float64), 1.0, bp.kernel_output(1, bp.float32)),
            bp.errors.DTypeError, "a tensor does not fit x: ptr",
        ),
        (
            (scale_all, 1, bp.ones(1), 1.0, bp.kernel_output(1, bp.int32)),
            bp.errors.DTypeError, "an output of int32 does not fit y",
        ),
        (
            (scale_all, 1.5, bp.ones(1), 1.0, bp.kernel_output(1, bp.float32)),
            KernelError, "n: i64 does not take 1.5\n  expected a Python int",
        ),
        (
            (scale_all, 1 << 70, bp.ones(1), 1.0, bp.kernel_output(1, bp.float32)),
            KernelError, "expected -9223372036854775808 to",
        ),
        (
            (scale_all, 1, bp.ones(1), "x", bp.kernel_output(1, bp.float32)),
            KernelError, "factor: f32 does not take 'x'",
        ),
        (
            (scale_all, 1, [1.0], 1.0, bp.kernel_output(1, bp.float32)),
            KernelError, "expected a tensor or bp.kernel_output",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        bp.run_kernel(*arguments)


def test_items_and_outputs_are_checked() -> None:
    out = bp.kernel_output(1, bp.float32)
    with pytest.raises(KernelError, match="items needs a kernel whose last parameters are begin"):
        bp.run_kernel(scale_all, 1, bp.ones(1), 1.0, out, items=3)
    with pytest.raises(KernelError, match="items=-1\n  expected an integer"):
        bp.run_kernel(scale_part, bp.ones(1), 1.0, out, items=-1)
    with pytest.raises(bp.errors.ShapeError, match=r"kernel_output: \(-1,\) is no shape"):
        bp.kernel_output((-1,), bp.float32)

    @kernel
    def gives_back(x: ptr(f32)) -> f32:
        bp.kernel.give_back(load(x))

    with pytest.raises(KernelError, match="only kernels without vectors and results"):
        bp.run_kernel(gives_back, bp.ones(1))


# Who writes what: tensors are values, and a kernel that stores to one is refused.


@kernel
def nine(p: ptr(i64)):
    store(p, 9)


@kernel
def further(p: ptr(i64), n: i64) -> ptr(i64):
    bp.kernel.give_back(p + n)


def _through_a_variable(x: Any, n: Any) -> None:
    at = var(x)
    for _ in loop(n):
        store(at.get(), 9)
        at.set(at.get() + 1)


def _later_in_a_loop(x: Any, n: Any) -> None:
    at = var(local(i64, 4))
    for _ in loop(n):
        store(at.get(), 9)
        at.set(x)


def _under_a_condition(x: Any, n: Any) -> None:
    with when(n > 100):
        store(x, 9)


WRITERS: dict[str, Any] = {
    "store": lambda x, n: store(x, 9),
    "store an offset": lambda x, n: store(x + n - 1, 9),
    "store under a mask": lambda x, n: store(x, zeros(i64, 4), tail_mask(n, 4)),
    "scatter": lambda x, n: scatter(x, zeros(i64, 4), zeros(i64, 4), tail_mask(n, 4)),
    "atomic": lambda x, n: atomic_add(x, constant(i64, 1)),
    "atomic store": lambda x, n: bp.kernel.atomic_store(x, constant(i64, 1)),
    "exchange": lambda x, n: bp.kernel.atomic_exchange(x, constant(i64, 1)),
    "compare and swap": lambda x, n: bp.kernel.atomic_cas(x, constant(i64, 1), constant(i64, 2)),
    "another type": lambda x, n: store(cast(x, ptr(f32)) + 1, 9.0),
    "an address": lambda x, n: store(cast(cast(x, i64) + 8, ptr(i64)), 9),
    "a choice": lambda x, n: store(select(n > 2, x, local(i64, 4)), 9),
    "a variable": _through_a_variable,
    "a variable that is set later": _later_in_a_loop,
    "a condition": _under_a_condition,
    "a kernel": lambda x, n: call(nine, x + 1),
    "what a kernel gives": lambda x, n: store(call(further, x, n - 1), 9),
}


def writer(of: str) -> Any:
    @kernel
    def changes(x: ptr(i64), y: ptr(i64), n: i64):
        store(y, load(x))
        WRITERS[of](x, n)

    return changes


def inputs_of_every_kind(device: str) -> list[bp.Tensor]:
    rows = bp.Tensor(np.arange(12).reshape(3, 4), device)
    foreign = bp.from_dlpack(np.arange(4)).to(bp.Device(device))
    constant_ = bp.full((4,), 7, dtype=bp.int64, device=device)
    return [rows, rows[1], rows[:, 1], rows[0, 0].broadcast_to((4,)), foreign, constant_, rows + 1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("of", WRITERS)
def test_a_kernel_that_writes_an_input_is_refused(of: str, device: str) -> None:
    """B11"""
    changes, out = writer(of), bp.kernel_output(4, bp.int64)
    text = r"(?s)run_kernel changes: an input is bound to x, which the kernel writes: \w+ at .*py:"
    for x in inputs_of_every_kind(device):
        before = x.numpy().copy()
        for check in (False, True):
            with bp.config(check=check), pytest.raises(KernelError, match=text):
                bp.run_kernel(changes, x, out, 4)
        np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize("check", [False, True])
def test_an_output_that_is_never_written_is_refused(check: bool) -> None:
    """B11: swapped arguments would give out memory of somebody else."""
    x, out = bp.ones(4), bp.kernel_output(4, bp.float32)
    text = "an output is bound to x, which the kernel never writes\n  it writes y"
    with bp.config(check=check), pytest.raises(KernelError, match=text):
        bp.run_kernel(scale_part, out, 2.0, x, items=4)
    assert x.tolist() == [1.0] * 4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1, 7, 1000, 300_001])
def test_what_a_kernel_leaves_out_is_zero(device: str, size: int) -> None:
    @kernel
    def first(x: ptr(f32), y: ptr(f32), z: ptr(u8)):
        store(y, load(x))
        with when(load(x) < 0):
            store(z, 1)

    for number in range(1, 4):
        sevens = (bp.ones(size, device=device) * 7).tolist()  # memory that is free again
        outputs = [bp.kernel_output(size, bp.float32), bp.kernel_output(size, bp.uint8)]
        y, z = bp.run_kernel(first, bp.full((1,), float(number), device=device), *outputs)
        assert y.tolist() == [float(number)] + [0.0] * (size - 1)
        assert not z.numpy().any()
        del sevens


def test_an_output_may_be_added_to() -> None:
    @kernel
    def histogram(x: ptr(i64), counts: ptr(i64), begin: i64, end: i64):
        for i in loop(begin, end):
            atomic_add(counts + load(x + i), constant(i64, 1))

    x = bp.tensor(np.arange(100_000) % 7)
    counts = bp.run_kernel(histogram, x, bp.kernel_output(7, bp.int64), items=x.size)
    assert counts.tolist() == np.bincount(np.arange(100_000) % 7).tolist()


def test_arrays_of_its_own_and_kernels_that_read_are_no_writes() -> None:
    @kernel
    def add_up(p: ptr(i64)) -> i64:
        bp.kernel.give_back(load(p) + load(p + 1))

    @kernel
    def sums(x: ptr(i64), y: ptr(i64)):
        own = local(i64, 2)
        store(own, load(x))
        call(nine, own + 1)
        store(y + (cast(x, i64) & 0), call(add_up, own))

    assert bp.run_kernel(sums, bp.tensor([5]), bp.kernel_output(1, bp.int64)).tolist() == [14]


def test_what_native_code_writes_changes_no_tensor() -> None:
    """Nobody can see what a function of the C library writes: it is given copies."""
    copy = extern("memcpy", ptr(u8), [ptr(u8), ptr(u8), i64])

    @kernel
    def moved(x: ptr(u8), y: ptr(u8), n: i64):
        copy(y, x, n)
        copy(x + 1, y, n - 1)

    x = bp.tensor(np.arange(6, dtype=np.uint8))
    for view in (x, x[::2], x[3]):
        before = view.tolist()
        out = bp.run_kernel(moved, view, bp.kernel_output(view.shape, bp.uint8), view.size)
        assert out.tolist() == before
        assert view.tolist() == before
    assert x.tolist() == list(range(6))


@pytest.mark.parametrize("device", DEVICES)
def test_checked_it_names_a_store_out_of_range(device: str) -> None:
    @kernel
    def too_far(x: ptr(i64), y: ptr(i64), n: i64):
        for i in loop(n + 1):
            store(y + i, load(x))

    text = r"too_far: store at .*\n  y  3 elem"
    with bp.config(check=True), pytest.raises(bp.errors.KernelBoundsError, match=text):
        x = bp.Tensor(np.ones(3, np.int64), device)
        bp.run_kernel(too_far, x, bp.kernel_output(3, bp.int64), 3).numpy()
