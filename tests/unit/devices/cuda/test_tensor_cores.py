"""Products by tensor cores: the kernel in the interpreter, and its way through the back end."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.unit.devices.cuda.fake import BACKEND as FAKE

import bedplate as bp
from bedplate.config import config
from bedplate.devices import register
from bedplate.errors import KernelError
from bedplate.kernel import Kernel, bf16, block_barrier, f16, f32
from bedplate.ops.matmul import tensor_cores
from bedplate.ops.matmul.tensor_cores import FLAT, LARGE, SMALL, Cut, Kind, make_kernel
from bedplate.ops.record import REGISTRY
from bedplate.testing.samples import Case

# the smallest that four warps share; the values are those of the others
TINY = Cut(32, 32, 16, 16)
NUMPY = {bf16: np.dtype(ml_dtypes.bfloat16), f16: np.dtype(np.float16), f32: np.dtype(np.float32)}
EPS = {bf16: 2.0**-8, f16: 2.0**-11, f32: 2.0**-20}


def placed(array: Any) -> Any:
    """A copy at a multiple of 64 bytes."""
    memory = np.zeros(max(array.nbytes, 1) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def product(
    a: Any, b: Any, kinds: tuple[str, str], cut: Cut = TINY, element: Any = bf16, out: Any = bf16
) -> Any:
    """a @ b by the interpreter; operands lie as their kinds say ("general": every other number)."""
    (rows, depth), columns = a.shape, b.shape[1]
    memory, steps = [], []
    for matrix, kind in ((a, kinds[0]), (b.T, kinds[1])):
        lines = matrix.T if kind == "across" else matrix
        spread = np.zeros((*lines.shape, 2 if kind == "general" else 1), lines.dtype)
        spread[..., 0] = lines
        memory.append(placed(spread))
        line, step = (stride // lines.itemsize for stride in spread.strides[:2])
        steps.append((step, line) if kind == "across" else (line, step))
    c = placed(np.full((rows, columns), 7, NUMPY[out]))
    grid = (-(-rows // cut.rows), -(-columns // cut.columns))
    sizes = (rows, columns, depth, *steps[0], *steps[1][::-1], *grid, 0, 0, rows, rows)
    words = np.array([*(m.ctypes.data for m in (*memory, c)), 0, 0, 0, *sizes], np.int64)
    lines = [(rows, depth)[kinds[0] != "across"], (columns, depth)[kinds[1] != "across"]]
    aligned = tuple(n % 8 == 0 for n in (*lines, columns))
    kernel = kernel_of(Kind(element, out, *kinds, aligned, 0, False), cut)
    kernel.interpret(words, 0, grid[0] * grid[1], 0, memory=[*memory, c])
    return c


_kernels: dict[Any, Kernel] = {}


def kernel_of(kind: Kind, cut: Cut) -> Kernel:
    if (kind, cut) not in _kernels:
        _kernels[kind, cut] = make_kernel(kind, cut, None)
    return _kernels[kind, cut]


def operands(rows: int, columns: int, depth: int, element: Any = bf16) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows + columns + depth)
    a, b = (rng.normal(size=shape) for shape in ((rows, depth), (depth, columns)))
    return a.astype(NUMPY[element]), b.astype(NUMPY[element])


def check(found: Any, a: Any, b: Any, out: Any) -> None:
    wide = a.astype(np.float64), b.astype(np.float64)
    size = np.abs(wide[0]) @ np.abs(wide[1])
    error = np.abs(found.astype(np.float64) - wide[0] @ wide[1])
    assert (error <= EPS[out] * size).all(), (error / np.maximum(size, 1e-30)).max()


@pytest.mark.parametrize(
    ("shape", "kinds", "element", "out"),
    [
        ((1, 1, 1), ("along", "along"), bf16, bf16),
        ((17, 33, 65), ("along", "across"), bf16, bf16),
        ((17, 33, 65), ("across", "along"), f16, f16),
        ((16, 40, 24), ("along", "along"), f16, f32),
        ((24, 16, 40), ("across", "across"), bf16, f32),
        ((9, 7, 19), ("general", "general"), bf16, bf16),
        ((5, 6, 0), ("along", "across"), bf16, bf16),
    ],
)
def test_products(shape: Any, kinds: Any, element: Any, out: Any) -> None:
    a, b = operands(*shape, element)
    check(product(a, b, kinds, element=element, out=out), a, b, out)


@pytest.mark.parametrize("cut", [LARGE, SMALL, FLAT])
def test_the_cuts_that_are_used_give_the_same_bits(cut: Cut) -> None:
    a, b = operands(16, 24, 40)
    kinds = ("along", "across")
    assert product(a, b, kinds, cut).tobytes() == product(a, b, kinds).tobytes()


def test_a_row_has_its_bits_in_any_company() -> None:
    a, b = operands(18, 9, 33)
    whole = product(a, b, ("along", "across"))
    assert product(a[17:], b, ("along", "across"), FLAT).tobytes() == whole[17:].tobytes()


def test_nan_and_infinity() -> None:
    a, b = operands(20, 8, 20)
    a[3, 2], a[18, 19], b[4, 5] = np.nan, np.inf, -np.inf
    found = product(a, b, ("along", "across")).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


class Barriers:
    """In the place of `block_barrier`: all are there but one, counted as they are traced."""

    def __init__(self, left_out: int) -> None:
        self.left_out, self.traced = left_out, 0

    def __call__(self) -> None:
        if self.traced != self.left_out:
            block_barrier()
        self.traced += 1


@pytest.mark.parametrize("left_out", range(4))
def test_each_barrier_is_needed(left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tiles of two stages each, without one of the barriers."""
    barriers = Barriers(left_out)
    monkeypatch.setattr(tensor_cores, "block_barrier", barriers)
    monkeypatch.setattr(sys.modules[__name__], "_kernels", {})
    with pytest.raises(KernelError, match="use the same shared memory"):
        product(*operands(33, 5, 40), ("along", "across"))
    assert barriers.traced == 4


# Through the back end, on the fake of NVIDIA's driver: sm_90, two multiprocessors


@pytest.fixture(scope="module")
def device() -> bp.Device:
    register(FAKE)
    return bp.Device("fakecuda")


def launched(run: Any) -> list[tuple[int, int]]:
    """(blocks, threads) of the launches of a computation."""
    FAKE.driver.launched.clear()
    run()
    return list(FAKE.driver.launched)


def on(device: Any, *arrays: Any) -> list[bp.Tensor]:
    return [bp.tensor(array, device=device) for array in arrays]


def test_a_product_with_an_epilogue(device: bp.Device) -> None:
    a, b = operands(70, 9, 17)
    bias = np.arange(9).astype(NUMPY[bf16])

    def run() -> None:
        x, w, c = on(device, a, b, bias)
        found.append((x @ w + c).relu().numpy())

    found: list[Any] = []
    assert launched(run) == [(2, 128)]  # tiles of 64 x 64, four warps each
    wide = np.maximum(a.astype("f4") @ b.astype("f4") + bias.astype("f4"), 0)
    np.testing.assert_allclose(found[0].astype("f4"), wide, rtol=2e-2, atol=0.15)


def test_batches_and_turned_operands(device: bp.Device) -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(2, 1, 6, 3)).astype(np.float16)
    b = rng.normal(size=(2, 5, 6)).astype(np.float16)
    x, y = on(device, a, b)
    found = (x.mT @ y.mT).numpy()
    expected = a.astype("f4").swapaxes(-1, -2) @ b.astype("f4").swapaxes(-1, -2)
    np.testing.assert_allclose(found.astype("f4"), expected, rtol=2e-3, atol=4e-3)


def test_a_gradient(device: bp.Device) -> None:
    a, b = operands(6, 5, 18)
    grads = []
    for place in ("cpu", device):
        x, w = on(place, a, b)
        x = x.requires_grad_()
        (x @ w).astype(bp.float32).square().sum().backward()
        grads.append(x.grad.numpy().astype("f4"))
    np.testing.assert_allclose(grads[1], grads[0], rtol=3e-2, atol=0.5)


SAMPLES = [
    Case(REGISTRY[name], number, sample, dtype)
    for name in ("matmul", "attention")
    for number, sample in enumerate(REGISTRY[name].samples)
    for dtype in (bp.bfloat16, bp.float16)
]


@pytest.mark.parametrize("case", SAMPLES, ids=str)
def test_the_samples_of_the_ops(case: Case, device: bp.Device, sweep: str) -> None:
    """All in `make sweep`, else one in eight: the interpreter takes seconds for one."""
    if sweep != "full" and SAMPLES.index(case) % 8:
        return
    arrays = case.arrays()
    found = case.run(*on(device, *arrays)).numpy()
    wanted = case.oracle(*arrays).astype(np.float64)
    size = float(np.abs(wanted).max(initial=0.0))
    error = np.abs(found.astype(np.float64) - wanted)
    assert (error <= case.tolerance(bp.dtypes.as_dtype(found.dtype), arrays) * size).all()


def test_rows_of_several_products_with_an_epilogue(device: bp.Device) -> None:
    """They are one taller product, and what the epilogue reads has a stride for each batch."""
    rng = np.random.default_rng(9)
    a, b, c = (rng.normal(size=s).astype(np.float16) for s in ((3, 4, 6), (6, 5), (4, 3, 5)))
    x, w, residual = on(device, a, b, c)
    found = (x @ w + residual.transpose(0, 1)).numpy().astype("f4")
    expected = a.astype("f4") @ b.astype("f4") + c.astype("f4").swapaxes(0, 1)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=4e-3)


def test_the_setting_gives_the_bits_of_the_cpu(device: bp.Device) -> None:
    a, b = operands(40, 30, 50)
    found = []

    def run() -> None:
        for place in ("cpu", device):
            x, w = on(place, a, b)
            found.append((x @ w).numpy().tobytes())

    with config(tensor_cores=False):
        assert {threads for _, threads in launched(run)} == {32}
    assert found[0] == found[1]


def test_float32_has_the_bits_of_the_cpu(device: bp.Device) -> None:
    a, b = (x.astype(np.float32) for x in operands(20, 9, 33))
    found = []
    for place in ("cpu", device):
        x, w = on(place, a, b)
        found.append((x @ w).numpy().tobytes())
    assert found[0] == found[1]


def test_on_a_cpu_the_kernel_is_refused() -> None:
    kind = Kind(bf16, bf16, "along", "across", (True, True, True), 0, False)
    with pytest.raises(KernelError, match="thread_warp: host has no warps"):
        kernel_of(kind, TINY).compile()
