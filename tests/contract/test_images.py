"""The contract for images: borders of windows, ties, statistics at large offsets, weights of 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.values import INF, NAN, near, same, tensor

import bedplate as bp
import bedplate.nn.functional as F


@pytest.mark.parametrize("value", [INF, NAN])
def test_what_lies_around_an_image_is_left_out(device: Any, value: float) -> None:
    x, w = tensor(np.ones((1, 1, 3)), device), tensor(np.full((1, 1, 3), value), device)
    same(F.conv1d(x, w, padding=1), [[[value, value, value]]])
    same(F.conv_transpose1d(x, w, padding=1), [[[value, value, value]]])


@pytest.mark.parametrize("length", [3, 16, 19, 40])
def test_padding_never_wins_and_nan_does(device: Any, length: int) -> None:
    """B10."""
    low = np.full((1, 1, length), -7.0)
    same(F.max_pool1d(tensor(low, device), 3, 1, 1), low)
    same(F.max_pool1d(tensor(low, device, bp.int8), 3, 1, 1), low)
    low[..., 1] = NAN
    wanted = low.copy()
    wanted[..., :3] = NAN
    same(F.max_pool1d(tensor(low, device), 3, 1, 1), wanted)
    same(F.adaptive_max_pool1d(tensor(low, device), 1), [[[NAN]]])


def test_the_first_of_equals_has_the_gradient(device: Any) -> None:
    x = tensor([[2, 2, 1, NAN, NAN, 3]], device, grad=True)
    F.max_pool1d(x, 3).sum().backward()
    same(x.grad, [[1, 0, 0, 1, 0, 0]])


@pytest.mark.parametrize("dtype", [bp.float16, bp.bfloat16])
def test_means_are_narrowed_once(device: Any, dtype: Any) -> None:
    x = tensor(np.full((1, 1, 6, 6), 40000.0), device, dtype)
    wanted = np.float64(x.astype(bp.float32).numpy()[0, 0, 0, 0])
    for y in (F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 4), F.interpolate(x, 4, mode="area")):
        same(y.astype(bp.float32), wanted)


NORMS: dict[str, Any] = {
    "batch": lambda x: F.batch_norm(x, None, None, training=True),
    "instance": lambda x: F.instance_norm(x),
    "group": lambda x: F.group_norm(x, 2),
    "layer": lambda x: F.layer_norm(x, x.shape[2:]),
}


@pytest.mark.parametrize("name", NORMS)
def test_statistics_at_a_large_offset(device: Any, name: str) -> None:
    constant = tensor(np.full((3, 4, 5, 37), 12345.678), device, grad=True)
    y = NORMS[name](constant)
    (y * y + y).sum().backward()
    assert np.abs(y.numpy()).max() < 1e-4
    assert constant.grad is not None and np.isfinite(constant.grad.numpy()).all()
    values = np.random.default_rng(0).normal(1e4, 0.01, (3, 4, 5, 37)).astype(np.float32)
    exact = NORMS[name](tensor(values, device, bp.float64)).numpy()
    near(NORMS[name](tensor(values, device)), exact, 1e-5, 3e-6)


def test_a_neighbour_without_weight_does_not_count(device: Any) -> None:
    x = tensor([[[1, INF, NAN, 4]]], device)
    same(F.interpolate(x, 7, mode="linear", align_corners=True)[..., ::6], [[[1, 4]]])
