"""grid_sample, affine_grid and max_unpool: plain loops, borders, NaN, gradients, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.errors import DTypeError, ShapeError


def floats(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def looked_up(image: Any, y: float, x: float) -> Any:
    """Bilinear at a place in pixels, zeros outside: the formula for one point."""
    total = np.zeros(image.shape[0])
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                share = (1 - abs(y - row)) * (1 - abs(x - column))
                total += share * image[:, row, column]
    return total


@pytest.mark.parametrize("align", [False, True])
def test_bilinear_by_loops(align: bool, device: Any) -> None:
    x, grid = floats(0, 2, 3, 4, 5), floats(1, 2, 6, 7, 2)
    found = F.grid_sample(bp.Tensor(x, device), bp.Tensor(grid, device), align_corners=align)
    for n, i, j in np.ndindex(2, 6, 7):
        at = [
            (g + 1) * (size - 1) / 2 if align else ((g + 1) * size - 1) / 2
            for g, size in zip(grid[n, i, j], (5, 4), strict=True)
        ]
        np.testing.assert_allclose(
            found.numpy()[n, :, i, j], looked_up(x[n], at[1], at[0]), rtol=1e-10, atol=1e-12
        )


def test_an_affine_grid_of_nothing_gives_the_image(device: Any) -> None:
    x = bp.Tensor(floats(0, 2, 3, 4, 5), device)
    theta = bp.Tensor(np.broadcast_to(np.eye(2, 3), (2, 2, 3)).copy(), device)
    for align in (False, True):
        grid = F.affine_grid(theta, x.shape, align)
        for mode in ("bilinear", "nearest", "bicubic"):
            y = F.grid_sample(x, grid, mode, align_corners=align)
            np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-10, atol=1e-12)


def test_far_outside(device: Any) -> None:
    x = bp.Tensor(np.arange(1.0, 5).reshape(1, 1, 1, 4), device)
    far = np.array([-1e9, -2.25, 2.25, 1e9, np.nan, np.inf])
    grid = bp.Tensor(np.stack([far, np.zeros(6)], -1).reshape(1, 1, 6, 2), device)
    zeros = F.grid_sample(x, grid).numpy()[0, 0, 0]
    np.testing.assert_array_equal(zeros[:4], 0)
    assert np.isnan(zeros[4:]).all()
    border = F.grid_sample(x, grid, padding_mode="border").numpy()[0, 0, 0]
    np.testing.assert_array_equal(border[[0, 1, 2, 3, 5]], [1, 1, 4, 4, 4])
    mirrored = F.grid_sample(x, grid, "nearest", "reflection").numpy()[0, 0, 0]
    np.testing.assert_array_equal(mirrored[1:3], [3, 2])


CASES: dict[str, Any] = {
    "bilinear": lambda x, g: F.grid_sample(x, g),
    "border": lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
    "reflection": lambda x, g: F.grid_sample(x, g, padding_mode="reflection"),
    "bicubic": lambda x, g: F.grid_sample(x, g, "bicubic"),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_orders(name: str) -> None:
    # 16 neighbours a point are a graph of thousands of nodes: seconds to compile
    place = "reference" if name == "bicubic" else "cpu"
    x = bp.Tensor(floats(0, 1, 1, 3, 3), place)
    grid = bp.Tensor(np.random.default_rng(1).uniform(-1.3, 1.3, (1, 1, 2, 2)), place)
    assert bp.gradcheck(CASES[name], (x, grid))
    turned = x.transpose(-1, -2)
    assert bp.gradgradcheck(lambda x, g: (CASES[name](x, g) ** 2).sum(), (turned, grid))


def test_half_precision_looks_up_in_float32() -> None:
    x, grid = bp.tensor(floats(0, 1, 2, 5, 6)), bp.tensor(floats(1, 1, 3, 3, 2))
    for dtype in (bp.bfloat16, bp.float16):
        a, g = x.astype(dtype), grid.astype(dtype)
        once = F.grid_sample(a.astype(bp.float32), g.astype(bp.float32)).astype(dtype)
        y = F.grid_sample(a, g)
        assert y.dtype is dtype
        np.testing.assert_array_equal(y.astype(bp.float32).numpy(), once.astype(bp.float32).numpy())


def test_unpooled_values_go_back(device: Any) -> None:
    x = floats(0, 2, 3, 5, 6)
    y, at = F.max_pool2d(bp.Tensor(x, device), 2, return_indices=True)
    back = F.max_unpool2d(y, at, 2, output_size=(5, 6)).numpy()
    assert back.shape == x.shape and (back != 0).sum() == y.numpy().size
    np.testing.assert_array_equal(back[back != 0], x[back != 0])


def test_gradients_of_unpooling() -> None:
    x = bp.tensor(floats(0, 1, 2, 2, 3))
    at = bp.tensor(np.arange(12).reshape(1, 2, 2, 3) % 6 * 4)
    function = lambda x: F.max_unpool2d(x, at, 2)  # noqa: E731
    assert bp.gradcheck(function, x)
    assert bp.gradgradcheck(lambda x: (function(x) ** 3).sum(), x)


X, G = bp.ones((1, 1, 2, 2)), bp.zeros((1, 1, 1, 2))
SHAPES = [
    (lambda: F.grid_sample(X, bp.zeros((1, 1, 1, 3))), "grid_sample: the shapes do not fit"),
    (lambda: F.grid_sample(bp.ones((2, 1, 2, 2)), G), "there is no image for each grid"),
    (lambda: F.grid_sample(bp.ones((1, 1, 2, 2, 2)), bp.zeros((1, 1, 1, 1, 3)), "bicubic"),
     "mode 'bicubic' is for images"),
    (lambda: F.affine_grid(bp.zeros((1, 2, 2)), (1, 1, 2, 2)), "theta does not fit"),
    (lambda: F.max_unpool2d(X, bp.tensor([[0]]), 2), "x and indices differ in shape"),
    (lambda: F.max_unpool2d(X, X.astype(bp.int64), 2, output_size=(9, 9)), "output_size .* not"),
]  # fmt: skip


@pytest.mark.parametrize("call, text", SHAPES, ids=[text for _, text in SHAPES])
def test_refused_shapes(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call()


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="unknown mode 'linear'"):
        F.grid_sample(X, G, "linear")
    with pytest.raises(ValueError, match="unknown padding_mode 'wrap'"):
        F.grid_sample(X, G, padding_mode="wrap")
    with pytest.raises(DTypeError, match="the dtypes must be one float dtype"):
        F.grid_sample(X, G.astype(bp.float64))
    with pytest.raises(DTypeError, match="only floats have an affine map"):
        F.affine_grid(bp.zeros((1, 2, 3), dtype=bp.int64), (1, 1, 2, 2))
    with pytest.raises(DTypeError, match="indices must be integers"):
        F.max_unpool2d(X, X, 2)
    with pytest.raises(IndexError, match="out of range"):
        F.max_unpool2d(X, bp.full((1, 1, 2, 2), 99), 2).realise()
