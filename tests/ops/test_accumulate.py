"""Accumulation on request: how near to exact each mode comes, the same bits, gradients as ever."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bedplate as bp

MODES = ("", "float32", "float64", "compensated")


def ill(length: int, dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers of many sizes that nearly cancel: the sum is far smaller than the terms."""
    generator = np.random.default_rng(seed)
    half = generator.normal(size=length // 2) * 10.0 ** generator.uniform(-3, 3, length // 2)
    wide = np.concatenate([half, -half, generator.normal(size=length % 2 + 2)])
    return generator.permutation(wide.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [2, 7, 130, 16384, 50001])
def test_a_compensated_sum_is_rounded_once(dtype: Any, length: int) -> None:
    array = ill(length, dtype)
    exact = math.fsum(array.astype(np.float64))
    found = bp.tensor(array).sum(accumulate="compensated").item()
    bound = (
        np.finfo(dtype).eps * abs(exact) + np.finfo(dtype).eps ** 2 * length * np.abs(array).sum()
    )
    assert abs(found - exact) <= bound


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std"])
@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
@pytest.mark.parametrize("mode", ["float64", "compensated"])
@pytest.mark.parametrize("dtype", [bp.float16, bp.bfloat16, bp.float32, bp.float64])
def test_reductions_agree_with_float64(name: str, axis: Any, mode: str, dtype: Any) -> None:
    array = (np.random.default_rng(1).normal(size=(3, 40, 5)) + 10).astype(dtype.numpy)
    found = getattr(bp.tensor(array), name)(axis=axis, accumulate=mode)
    wanted = getattr(np, name)(array.astype(np.float64), axis=axis)
    eps = {2: 2**-7 if dtype is bp.bfloat16 else 2**-10, 4: 2**-23, 8: 2**-49}[dtype.itemsize]
    assert found.dtype is dtype
    np.testing.assert_allclose(found.numpy().astype(np.float64), wanted, rtol=eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_compensated_product_is_rounded_once(dtype: Any) -> None:
    generator = np.random.default_rng(2)
    a, b = generator.normal(size=(3, 50)), generator.normal(size=(50, 6))
    a[:, 25:] = -a[:, :25]
    b[25:] = b[:25] * (1 + 1e-6)
    a, b = a.astype(dtype), b.astype(dtype)
    found = bp.matmul(bp.tensor(a), bp.tensor(b), accumulate="compensated").numpy()
    for i, j in np.ndindex(3, 6):
        terms = [
            Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)
        ]
        exact, size = float(sum(terms)), float(sum(map(abs, terms)))
        eps = float(np.finfo(dtype).eps)
        assert abs(found[i, j] - exact) <= eps * abs(exact) + 50 * eps**2 * size


@pytest.mark.parametrize(
    "shapes", [((4,), (4,)), ((2, 4), (4,)), ((3, 1, 2, 4), (5, 4, 2)), ((2, 0), (0, 3))]
)
@pytest.mark.parametrize("mode", ["float64", "compensated"])
def test_products_of_all_shapes(shapes: Any, mode: str) -> None:
    generator = np.random.default_rng(3)
    a, b = (generator.normal(size=shape).astype(np.float32) for shape in shapes)
    found = bp.matmul(bp.tensor(a), bp.tensor(b), accumulate=mode)
    np.testing.assert_allclose(found.numpy(), np.matmul(a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_infinity_and_nan_stay(mode: str) -> None:
    rows = np.array([[1, np.inf, 2], [np.inf, -np.inf, 1], [1, np.nan, 2]], np.float32)
    x = bp.tensor(rows)
    assert str(x.sum(axis=1, accumulate=mode).tolist()) == "[inf, nan, nan]"
    product = bp.matmul(x, bp.ones((3, 1)), accumulate=mode)
    assert str(product.tolist()) == "[[inf], [nan], [nan]]"


def test_the_context_stands_in_for_the_argument() -> None:
    x = bp.tensor(ill(3000, np.float32))
    with bp.config(accumulate="compensated"):
        inside = x.sum(), x.mean(), x.var(), x @ x
        plain = x.sum(accumulate="")
    asked = [f(accumulate="compensated") for f in (x.sum, x.mean, x.var)]
    asked.append(bp.matmul(x, x, accumulate="compensated"))
    assert [a.item() for a in inside] == [b.item() for b in asked]
    assert plain.item() == x.sum().item() != inside[0].item()


def test_a_captured_step_follows_the_context() -> None:
    step = bp.jit(lambda x: x.sum())
    x = bp.tensor(ill(3000, np.float32))
    plain = [step(x).item() for _ in range(3)]
    with bp.config(accumulate="compensated"):
        exact = [step(x).item() for _ in range(3)]
    assert len({*plain}) == len({*exact}) == 1
    assert exact[0] == x.sum(accumulate="compensated").item() != plain[0]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_do_not_depend_on_it(mode: str) -> None:
    array = np.random.default_rng(4).normal(size=(6, 7)).astype(np.float32)

    def gradient(name: str, accumulate: str) -> Any:
        x = bp.tensor(array, requires_grad=True)
        getattr(x, name)(axis=1, accumulate=accumulate).sum().backward()
        assert x.grad is not None
        return x.grad.numpy()

    for name in ("sum", "mean", "var"):
        np.testing.assert_array_equal(gradient(name, mode), gradient(name, ""))
    np.testing.assert_allclose(gradient("std", mode), gradient("std", ""), rtol=1e-6)  # of y
    x, y = bp.tensor(array[:5, :4].astype(float)), bp.tensor(array[:4, :3].astype(float))
    assert bp.gradcheck(lambda a, b: bp.matmul(a, b, accumulate=mode), [x, y])
    assert bp.gradgradcheck(lambda a: a.std(axis=0, accumulate=mode), x)


@pytest.mark.parametrize("mode", ["float64", "compensated"])
def test_the_same_bits_on_any_threads_and_in_any_company(mode: str) -> None:
    array = ill(40000, np.float32)
    x = bp.tensor(np.stack([array, array[::-1].copy()]))
    both = x.sum(axis=1, accumulate=mode).tolist()
    with bp.config(threads=False):
        assert bp.tensor(array).sum(accumulate=mode).item() == both[0]
    assert x[1].sum(accumulate=mode).item() == both[1]


def test_integers_are_exact_and_other_words_refused() -> None:
    assert bp.tensor([1, 2]).sum(accumulate="compensated").item() == 3
    with pytest.raises(
        ValueError, match="sum: accumulate='exact'\n  expected one of '', 'float32'"
    ):
        bp.ones(3).sum(accumulate="exact")
    with pytest.raises(ValueError, match=r"config.accumulate='exact': expected one of"):
        bp.config.set(accumulate="exact")


@pytest.mark.parametrize("mode", ["float64", "compensated"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_norms(mode: str, order: int) -> None:
    array = ill(3001, np.float64)
    found = bp.linalg.vector_norm(bp.tensor(array), ord=order, accumulate=mode).item()
    exact = math.fsum(np.abs(array.astype(np.longdouble)) ** order)
    assert found == pytest.approx(exact ** (1 / order), rel=4e-16 if order < 3 else 2e-15)
    assert bp.gradgradcheck(
        lambda x: bp.linalg.norm(x, order, accumulate=mode), bp.tensor(array[:7].clip(-3, 3))
    )


def test_the_context_reaches_calls_not_what_they_are_made_of() -> None:
    x = bp.tensor(ill(3000, np.float32)[:3000].reshape(30, -1))
    with bp.config(accumulate="compensated"):
        inside = bp.layer_norm(x), bp.softmax(x, -1)
    for a, b in zip(inside, (bp.layer_norm(x), bp.softmax(x, -1)), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("dtype", [bp.bfloat16, bp.float32, bp.float64])
@pytest.mark.parametrize("shape", [(7, 3), (130, 17), (40_000, 5), (0, 4), (64, 1)])
def test_the_same_bits_in_any_layout(dtype: Any, shape: Any) -> None:
    array = (ill(shape[0] * shape[1] + 2, np.float64)[: shape[0] * shape[1]]).reshape(shape)
    x = bp.tensor(array).astype(dtype)
    along = x.sum(axis=0, accumulate="compensated")
    copied = bp.tensor(np.ascontiguousarray(x.numpy().T)).sum(axis=1, accumulate="compensated")
    stepped = bp.tensor(np.repeat(x.numpy(), 2, axis=1))[:, ::2].sum(0, accumulate="compensated")
    assert along.numpy().tobytes() == copied.numpy().tobytes() == stepped.numpy().tobytes()
