"""roll, tile, repeat, diff, meshgrid, broadcast_arrays, hypot, logaddexp, copysign: gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "roll": lambda x: bp.roll(x, 2),
    "roll along axes": lambda x: bp.roll(x, (1, -1), axis=(0, 1)),
    "tile": lambda x: bp.tile(x, (2, 1, 3)),
    "repeat": lambda x: bp.repeat(x, 3, axis=0),
    "repeat by counts": lambda x: bp.repeat(x, bp.arange(x.shape[1]), axis=1),
    "diff": lambda x: bp.diff(x, n=2, axis=1),
    "diff with ends": lambda x: bp.diff(x, axis=0, prepend=0.5, append=x[:1] * 2),
    "meshgrid": lambda x: bp.meshgrid(x[0], x[:, 0])[0] * 2,
    "broadcast_arrays": lambda x: bp.broadcast_arrays(x, bp.ones((2, 1, 1)))[0],
    "hypot": lambda x: bp.hypot(x, 0.75),
    "logaddexp": lambda x: bp.logaddexp(x, x * x),
    "copysign": lambda x: bp.copysign(x, -1.0) * x,
    "clip to arrays": lambda x: bp.clip(x, x[:1] - 5, x[:, :1] + 7),
    "full_like": lambda x: bp.full_like(bp.ones(3, dtype=bp.float64), x[0, 0]) * x[0, 1],
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.mT,
    "stepped": lambda x: x[::2, ::-1],
    "expanded": lambda x: bp.broadcast_to(x[:1], (3, x.shape[1])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_both_orders(name: str, form: str) -> None:
    x = bp.tensor(np.random.default_rng(3).uniform(0.2, 2.0, (4, 3)))

    def function(x: Any) -> Any:
        return FUNCTIONS[name](FORMS[form](x))

    assert bp.gradcheck(function, (x,))
    assert bp.gradgradcheck(function, (x,))


@pytest.mark.parametrize("function", [bp.roll, bp.tile, bp.repeat])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_few_elements(function: Any, shape: tuple[int, ...]) -> None:
    x = bp.ones(shape, dtype=bp.float64, requires_grad=True)
    function(x, 2).sum().backward()
    wanted = {bp.roll: 1.0}.get(function, 2.0)
    assert x.grad is not None and x.grad.tolist() == np.full(shape, wanted).tolist()


def gradients(function: Any, *values: Any) -> list[list[float]]:
    leaves = [bp.tensor(np.array(value), requires_grad=True) for value in values]
    function(*leaves).sum().backward()
    return [leaf.grad.tolist() for leaf in leaves if leaf.grad is not None]


def test_gradients_at_the_edges() -> None:
    inf = float("inf")
    assert gradients(bp.hypot, [0.0, 3.0], [0.0, 4.0]) == [[0.0, 0.6], [0.0, 0.8]]
    diagonal = 1 / np.sqrt(2)
    np.testing.assert_allclose(
        gradients(bp.hypot, [inf, -inf, 1.0], [1.0, inf, inf]),
        [[1.0, -diagonal, 0.0], [0.0, diagonal, 1.0]],
    )
    ends = gradients(bp.logaddexp, [-inf, inf, -inf, inf, 0.0], [-inf, inf, 1.0, 1.0, 0.0])
    assert ends == [[0.0, 0.5, 0.0, 1.0, 0.5], [0.0, 0.5, 1.0, 0.0, 0.5]]
    assert gradients(bp.copysign, [0.0, 2.0, -2.0], [-1.0, -0.0, 1.0]) == [[0.0, -1.0, -1.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hypot_neither_overflows_nor_underflows(dtype: Any) -> None:
    info = np.finfo(dtype)
    a = np.array([info.max / 2, info.smallest_normal, 3 * info.smallest_subnormal], dtype)
    b = np.array([info.max / 2, info.smallest_normal, 4 * info.smallest_subnormal], dtype)
    wanted = np.hypot(a, b)
    got = bp.hypot(bp.tensor(a), bp.tensor(b)).numpy()
    np.testing.assert_allclose(got, wanted, rtol=2 * info.eps)


def test_nextafter_steps_in_the_words_of_short_floats() -> None:
    for dtype in (bp.float16, bp.bfloat16):
        x = bp.tensor([1.0, 0.0, -1.0], dtype=dtype)
        info = bp.finfo(dtype)
        steps = (bp.nextafter(x, bp.full_like(x, 2.0)) - x).astype(bp.float64).tolist()
        assert steps[0] == info.eps
        assert 0 < steps[1] < info.smallest_normal
        assert steps[2] == info.eps / 2


def test_counts_on_the_device_are_those_of_numpy(device: Any) -> None:
    rng = np.random.default_rng(0)
    for counts in ([0, 0, 3, 0, 1, 0], [0, 0, 0, 0, 0, 0], [2, 1, 1, 1, 1, 2]):
        x = rng.normal(size=(2, 6))
        for dtype in (bp.int64, bp.uint8, bp.int32):
            known = bp.Tensor(np.array(counts), device).astype(dtype)
            got = bp.repeat(bp.Tensor(x, device), known, axis=1)
            np.testing.assert_array_equal(got.numpy(), np.repeat(x, counts, 1))
    with pytest.raises(ValueError, match="must not be negative, got -2"):
        bp.repeat(bp.Tensor(x, device), bp.Tensor(np.array([1, 1, -2, 1, 1, 1]), device), axis=1)
