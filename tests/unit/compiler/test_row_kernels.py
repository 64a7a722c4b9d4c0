"""Row kernels: stores that pass the caches by, the next row asked for, an index found in a row."""

from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.compiler import layout
from bedplate.kernel import f32, host

SHAPES = ((1, 1), (3, 7), (5, 64), (9, 137), (7, 1040), (2, 33000))


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All whole results are too large for the caches."""
    monkeypatch.setattr(layout, "STREAM_BYTES", 0)


def rows(shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def streams(value: Any) -> bool:
    return any("!nontemporal" in launch.kernel.llvm() for launch in bp.explain(value).launches())


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("shape", SHAPES)
def test_results_that_pass_the_caches_by(shape: tuple[int, int]) -> None:
    x, grad = rows(shape), rows(shape, 1)
    tensor = bp.tensor(x, requires_grad=True)
    y = bp.softmax(tensor, axis=-1)
    y.backward(bp.tensor(grad))
    wanted = softmax(x)
    slope = wanted * (grad - (grad * wanted).sum(axis=-1, keepdims=True))
    assert tensor.grad is not None
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(tensor.grad.numpy(), slope, rtol=2e-5, atol=2e-6)


@pytest.mark.usefixtures("streamed")
def test_only_aligned_results_pass_the_caches_by() -> None:
    whole, odd = bp.tensor(rows((8, 64))).realise(), bp.tensor(rows((8, 37))).realise()
    assert streams(whole * 3)
    assert not streams(odd.reshape(4, 74)[:, :70] * 3)
    a, b = bp.tensor(rows((5, 7))).realise(), bp.tensor(rows((16, 7))).realise()
    joined = bp.concat([a * 2, b * 3], axis=0)  # the second region starts off the lines
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([a.numpy() * 2, b.numpy() * 3]))


@pytest.mark.parametrize("shape", [(3, 1000), (700, 1040)])
def test_bits_on_any_number_of_threads(shape: tuple[int, int]) -> None:
    x, targets = rows(shape), np.arange(shape[0]) % shape[1]

    def gradient() -> np.ndarray[Any, Any]:
        tensor = bp.tensor(x, requires_grad=True)
        F.cross_entropy(tensor, bp.tensor(targets)).backward()
        assert tensor.grad is not None
        return tensor.grad.numpy()

    shared = gradient()
    with bp.config(threads=False):
        alone = gradient()
    assert shared.tobytes() == alone.tobytes()
    one_hot = np.eye(shape[1])[targets]
    np.testing.assert_allclose(shared * shape[0], softmax(x) - one_hot, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 100])
def test_an_index_found_in_a_row(length: int) -> None:
    indices = np.array([0, length - 1, length, -1, 2**32, 2**32 + 3, -(2**63), 2**63 - 1])
    positions = bp.arange(length)
    for found in (
        positions == bp.tensor(indices[:, None]),
        bp.tensor(indices[:, None]) == positions,
    ):
        np.testing.assert_array_equal(found.numpy(), np.arange(length) == indices[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 5, 16, 47, 16384 + 33])
def test_extremes_with_nan_and_infinities(length: int, dtype: Any) -> None:
    x = rows((6, length)).astype(dtype)
    x[1, -1], x[2, 0], x[3, length // 2], x[4] = np.nan, np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(bp.tensor(x).max(axis=1).numpy(), x.max(axis=1))
    np.testing.assert_array_equal(bp.tensor(x).min(axis=1).numpy(), x.min(axis=1))


@pytest.mark.parametrize(("shape", "in_place"), [
    ((32, 10), False),  # the end of a row and the start of the next meet in one vector
    ((32, 16), True),
    ((32, 137), True),  # long enough
    ((4096, 10), True),  # so large that memory counts for more
])  # fmt: skip
def test_narrow_rows_are_not_written_over_what_they_read(
    shape: tuple[int, int], in_place: bool
) -> None:
    lanes = host().lanes(f32)
    shape = shape[0], shape[1] * lanes // 16 if in_place and shape[1] == 16 else shape[1]
    x = bp.tensor(rows(shape)).realise()
    launches = bp.explain(bp.softmax(x, axis=-1)).launches()
    assert any(launch.in_place for launch in launches) == in_place
    np.testing.assert_allclose(
        bp.softmax(x, axis=-1).numpy(), softmax(x.numpy()), rtol=2e-6, atol=1e-7
    )
