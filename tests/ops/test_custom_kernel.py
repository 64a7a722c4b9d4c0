"""run_kernel: users' kernels as lazy operations, on every device, in threads, captured, checked."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices.device import BACKENDS
from bedplate.kernel import bf16, cast, f32, f64, i32, i64, kernel, load, loop, ptr, store

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
