"""Normalisations: the formulas in float64, running statistics, offsets, half precision, kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.normalisation.norms import STANDARDISE
from bedplate.ops.record import apply


def floats(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def standard(x: Any, axes: Any, eps: float) -> Any:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def beside(weight: Any, ndim: int) -> Any:
    return weight.reshape(-1, *(1,) * (ndim - 2))


SHAPES = [(3, 4), (2, 4, 5), (2, 4, 3, 5), (2, 4, 2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batches(shape: Any, device: Any) -> None:
    x, w, b = floats(0, *shape) * 3 + 1, floats(1, 4), floats(2, 4)
    axes = (0, *range(2, len(shape)))
    tensors: list[Any] = [bp.Tensor(v, device) for v in (x, np.zeros(4), np.ones(4), w, b)]
    y = F.batch_norm(*tensors, training=True, momentum=0.25, eps=1e-3)
    wanted = standard(x, axes, 1e-3) * beside(w, len(shape)) + beside(b, len(shape))
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tensors[1].numpy(), 0.25 * x.mean(axes))
    np.testing.assert_allclose(tensors[2].numpy(), 0.75 + 0.25 * x.var(axes, ddof=1))
    used = F.batch_norm(*tensors, eps=1e-3).numpy()
    mean, var = (beside(v.numpy(), len(shape)) for v in tensors[1:3])
    wanted = (x - mean) / np.sqrt(var + 1e-3) * beside(w, len(shape)) + beside(b, len(shape))
    np.testing.assert_allclose(used, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_instances_and_groups(shape: Any, device: Any) -> None:
    x, w, b = floats(0, *shape), floats(1, 4), floats(2, 4)
    ndim = len(shape)
    axes = tuple(range(2, ndim))
    v, weight, bias, mean, var = (bp.Tensor(a, device) for a in (x, w, b, np.zeros(4), np.ones(4)))
    y = F.instance_norm(v, mean, var, weight, bias, True, 0.5, 1e-3)
    scaled = standard(x, axes, 1e-3) * beside(w, ndim) + beside(b, ndim)
    np.testing.assert_allclose(y.numpy(), scaled, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mean.numpy(), 0.5 * x.mean(axes).mean(0), atol=1e-15)
    np.testing.assert_allclose(var.numpy(), 0.5 + 0.5 * x.var(axes, ddof=1).mean(0))
    wanted = (x - beside(mean.numpy(), ndim)) / np.sqrt(beside(var.numpy(), ndim) + 1e-3)
    used = F.instance_norm(v, mean, var, use_input_stats=False, eps=1e-3)
    np.testing.assert_allclose(used.numpy(), wanted, rtol=1e-12, atol=1e-12)
    y = F.group_norm(v, 2, weight, bias, 1e-3)
    groups = standard(x.reshape(shape[0], 2, -1), (2,), 1e-3).reshape(shape)
    wanted = groups * beside(w, ndim) + beside(b, ndim)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_rows_of_several_axes(device: Any) -> None:
    x, w, b = floats(0, 2, 3, 4, 5), floats(1, 4, 5), floats(2, 4, 5)
    v, weight, bias = (bp.Tensor(a, device) for a in (x, w, b))
    y = F.layer_norm(v, (4, 5), weight, bias, 1e-3)
    np.testing.assert_allclose(y.numpy(), standard(x, (2, 3), 1e-3) * w + b, rtol=1e-12, atol=1e-12)
    wanted = x / np.sqrt((x * x).mean((2, 3), keepdims=True) + np.finfo(np.float64).eps) * w
    np.testing.assert_allclose(F.rms_norm(v, (4, 5), weight).numpy(), wanted, rtol=1e-12)
    assert F.layer_norm(v, 5).shape == x.shape


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_neighbouring_channels(size: int, device: Any) -> None:
    x = floats(0, 2, 6, 3, 4)
    energy = np.zeros_like(x)
    for c in range(6):
        first = c - size // 2
        energy[:, c] = (x[:, max(first, 0) : max(first + size, 0)] ** 2).sum(1)
    wanted = x / (0.5 + 0.7 / size * energy) ** 0.6
    found = F.local_response_norm(bp.Tensor(x, device), size, 0.7, 0.6, 0.5)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
def test_unit_vectors(p: float, device: Any) -> None:
    x = floats(0, 3, 4, 5)
    found = F.normalize(bp.Tensor(x, device), p, 2)
    wanted = x / np.linalg.norm(x, p, axis=2, keepdims=True)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


def test_zeros_stay_zeros_with_a_finite_gradient() -> None:
    x = bp.zeros((2, 3)).requires_grad_()
    y = F.normalize(x, dim=1, eps=0.5)
    y.sum().backward()
    assert y.tolist() == [[0.0] * 3] * 2
    assert x.grad is not None and x.grad.tolist() == [[2.0] * 3] * 2
    assert F.normalize(bp.full((1, 3), 1e30)).numpy() == pytest.approx(3**-0.5)


FUNCTIONS: dict[str, Any] = {
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=1e-2),
    "batch in use": lambda x, w, b: F.batch_norm(x, w * 2, w * w + 1, w, b),
    "instance": lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-2),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b, 1e-2),
    "group without bias": lambda x, w, b: F.group_norm(x, 2, w, None, 1e-2) * b.sum(),
    "layer": lambda x, w, b: F.layer_norm(x, x.shape[-2:], eps=1e-2) * w.sum() + b.sum(),
    "local": lambda x, w, b: F.local_response_norm(x, 3, 0.5, 0.75, 1.0) * w.sum() * b.sum(),
    "unit": lambda x, w, b: F.normalize(x, 3.0, (1, 2)) * w.sum() * b.sum(),
}
LAYOUTS: dict[str, Any] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2),
    "reversed": lambda x: x[:, :, ::-1, ::-1],
    "repeated": lambda x: x[:, :, :1].broadcast_to(x.shape),
}


@pytest.mark.parametrize("view", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_both_orders(name: str, view: str) -> None:
    x, w, b = (bp.tensor(v) for v in (floats(0, 2, 4, 2, 2), floats(1, 4), floats(2, 4)))

    def function(x: Any, w: Any, b: Any) -> Any:
        return FUNCTIONS[name](LAYOUTS[view](x), w, b)

    assert bp.gradcheck(function, (x, w, b))
    if view == "transposed":
        assert bp.gradgradcheck(lambda *v: (function(*v) ** 2).sum(), (x, w, b))


@pytest.mark.parametrize("name", ["batch", "instance", "group", "layer"])
def test_no_images_have_gradients_of_their_shape(name: str) -> None:
    x = bp.zeros((0, 4, 2, 3)).requires_grad_()
    w, b = bp.ones(4).requires_grad_(), bp.ones(4).requires_grad_()
    FUNCTIONS[name](x, w, b).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


CONSTANT: dict[str, Any] = {
    "batch": lambda x: F.batch_norm(x, None, None, training=True),
    "instance": lambda x: F.instance_norm(x),
    "group": lambda x: F.group_norm(x, 2),
    "layer": lambda x: F.layer_norm(x, x.shape[-1:]),
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_constants_give_zeros_with_finite_gradients(name: str, dtype: str, device: Any) -> None:
    """Zero variance: an offset that no mean can hold exactly must not show."""
    dtype = getattr(bp, dtype)
    x = bp.Tensor(np.full((7, 4, 3, 37), 12345.678), device).astype(dtype).detach()
    x.requires_grad_()
    y = CONSTANT[name](x)
    y.backward(bp.Tensor(floats(0, *x.shape), device).astype(dtype))
    assert y.dtype is dtype and x.grad is not None and x.grad.dtype is dtype
    assert np.abs(y.astype(bp.float32).numpy()).max() < 1e-3
    assert np.isfinite(x.grad.astype(bp.float32).numpy()).all()


@pytest.mark.parametrize("name", CONSTANT)
def test_small_deviations_from_a_large_offset(name: str, device: Any) -> None:
    """1e4 plus hundredths in float32: two passes, and the rest of the rounded mean taken away."""
    x = (floats(0, 2, 4, 5, 300) * 0.01 + 1e4).astype(np.float32)
    axes = {"batch": (0, 2, 3), "instance": (2, 3), "layer": (3,)}.get(name)
    if axes is None:
        wanted = standard(x.reshape(2, 2, -1), (2,), 1e-5).reshape(x.shape)
    else:
        wanted = standard(x, axes, 1e-5)
    found = CONSTANT[name](bp.Tensor(x, device)).numpy()
    np.testing.assert_allclose(found, wanted, atol=3e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_narrowed_once(dtype: str, device: Any) -> None:
    """Squares of 300 do not fit float16, and the result is that of float32, rounded."""
    dtype = getattr(bp, dtype)
    x = bp.Tensor(floats(0, 3, 4, 50) * 300, device).astype(dtype)
    wide = x.astype(bp.float32)
    w = bp.Tensor(floats(1, 4), device).astype(dtype)
    mean, var = (
        bp.Tensor(np.zeros(4, np.float32), device),
        bp.Tensor(np.ones(4, np.float32), device),
    )
    for function in (
        lambda x, w: F.batch_norm(x, None, None, w, w, True),
        lambda x, w: F.batch_norm(x, mean, var, w, w),
        lambda x, w: F.group_norm(x, 2, w, w),
        lambda x, w: F.instance_norm(x, None, None, w, w),
        lambda x, w: F.local_response_norm(x, 3),
        lambda x, w: F.normalize(x),
    ):
        narrow, once = function(x, w), function(wide, w.astype(bp.float32)).astype(dtype)
        assert narrow.dtype is dtype
        same = narrow.astype(bp.float32).numpy() == once.astype(bp.float32).numpy()
        assert same.mean() > 0.995


def kernels(value: Any) -> int:
    return len(bp.explain(value).launches())


def test_how_many_kernels_a_normalisation_is() -> None:
    """One for rows; a batch has moments of images, joined in small launches, and is scaled."""
    x = bp.tensor(floats(0, 4, 8, 6, 40).astype(np.float32)).realise()
    w = bp.ones(8).realise()
    assert kernels(F.layer_norm(x, x.shape[-1:])) == 1
    assert kernels(F.instance_norm(x)) == 1
    assert kernels(F.group_norm(x, 2)) == 1
    assert kernels(F.group_norm(x, 2, w, w)) <= 2
    assert kernels(F.batch_norm(x, w, w, w, w)) <= 2
    assert kernels(F.batch_norm(x, None, None, w, w, True)) <= 8


def test_how_often_a_batch_norm_with_gradients_passes_over_memory() -> None:
    """Moments from x; y and two sums from x and g; then the gradient: 7 images, no copy of one."""
    x = bp.tensor(floats(0, 8, 64, 20, 20).astype(np.float32)).realise().requires_grad_()
    g = bp.tensor(floats(1, 8, 64, 20, 20).astype(np.float32)).realise()
    y = F.batch_norm(x, None, None, training=True)
    y.backward(g)
    whole = 4 * x.size
    launches = bp.explain(y, x.grad).launches()
    images = [
        buffer.nbytes for launch in launches for buffer in (*launch.reads, *launch.writes)
        if buffer.nbytes == whole
    ]  # fmt: skip
    assert len(images) == 1 + 3 + 3


def test_images_of_a_batch_that_lie_far_apart(device: Any) -> None:
    """The variance of a batch is also that of the means of its images, to the last digits."""
    offsets = np.array([-3e3, 1.0, 2e3, 7e3])[:, None, None, None]
    x = (floats(0, 4, 3, 9, 31) + offsets).astype(np.float32)
    found = F.batch_norm(bp.Tensor(x, device), None, None, training=True).numpy()
    np.testing.assert_allclose(found, standard(x, (0, 2, 3), 1e-5), atol=2e-6)


def test_modules_follow_batches_as_named() -> None:
    norm = nn.BatchNorm2d(3)
    assert list(norm.state_dict()) == [
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
    ]  # fmt: skip
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias"]
    batches = [floats(seed, 4, 3, 2, 5).astype(np.float32) for seed in range(3)]
    mean, var = np.zeros(3), np.ones(3)
    for batch in batches:
        norm(bp.tensor(batch))
        mean = 0.9 * mean + 0.1 * batch.mean((0, 2, 3))
        var = 0.9 * var + 0.1 * batch.var((0, 2, 3), ddof=1)
    assert norm.num_batches_tracked is not None and norm.num_batches_tracked.item() == 3
    assert norm.running_mean is not None and norm.running_var is not None
    np.testing.assert_allclose(norm.running_mean.numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(norm.running_var.numpy(), var, rtol=1e-5)
    before = norm.running_mean.numpy()
    norm.eval()(bp.tensor(batches[0]))
    np.testing.assert_array_equal(norm.running_mean.numpy(), before)
    other = nn.BatchNorm2d(3)
    other.load_state_dict(norm.state_dict())
    np.testing.assert_array_equal(
        other.eval()(bp.tensor(batches[0])).numpy(), norm(bp.tensor(batches[0])).numpy()
    )
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0] * 3 and norm.num_batches_tracked.item() == 0


def test_without_a_momentum_the_average_is_plain() -> None:
    norm = nn.BatchNorm1d(2, momentum=None, affine=False)
    batches = [floats(seed, 5, 2).astype(np.float32) for seed in range(4)]
    for batch in batches:
        norm(bp.tensor(batch))
    assert norm.running_mean is not None
    np.testing.assert_allclose(
        norm.running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0), rtol=1e-5, atol=1e-7
    )


def test_a_captured_step_follows_batches_too() -> None:
    captured, plain = nn.BatchNorm1d(2, momentum=None), nn.BatchNorm1d(2, momentum=None)
    step = bp.jit(lambda x: captured(x))
    for seed in range(5):
        x = bp.tensor(floats(seed, 6, 2).astype(np.float32))
        np.testing.assert_array_equal(step(x).numpy(), plain(x).numpy())
    for (_, a), (_, b) in zip(captured.named_buffers(), plain.named_buffers(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_statistics_that_are_not_kept() -> None:
    norm = nn.BatchNorm1d(2, track_running_stats=False).eval()
    x = floats(0, 5, 2)
    np.testing.assert_allclose(norm(bp.tensor(x)).numpy(), standard(x, (0,), 1e-5))
    assert list(norm.state_dict()) == ["weight", "bias"]
    kept = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
    kept(bp.ones((3, 2, 2)))
    assert kept.running_var is not None
    np.testing.assert_allclose(kept.running_var.numpy(), 0.9, rtol=1e-6)
    assert kept.eval()(bp.ones((1, 3, 2, 2))).shape == (1, 3, 2, 2)


def test_a_half_precision_model_keeps_counting() -> None:
    norm = nn.BatchNorm1d(2).to("bfloat16")
    norm(bp.ones((3, 2)).astype(bp.bfloat16))
    assert norm.num_batches_tracked is not None and norm.num_batches_tracked.dtype is bp.int64
    assert norm.running_mean is not None and norm.running_mean.dtype is bp.bfloat16


ONES = bp.ones((2, 4, 3))
REFUSED = [
    (lambda: F.batch_norm(bp.ones(3), None, None, training=True), "x has too few axes"),
    (lambda: F.batch_norm(ONES, None, None, bp.ones(3), training=True), "the weight does not fit"),
    (lambda: F.batch_norm(ONES, bp.ones(5), bp.ones(4)), "the running_mean does not fit"),
    (lambda: F.batch_norm(bp.ones((1, 4)), None, None, training=True), "a single element"),
    (lambda: F.instance_norm(bp.ones((2, 4, 1))), "a single element"),
    (lambda: F.instance_norm(bp.ones((2, 4))), "x has too few axes"),
    (lambda: F.group_norm(ONES, 3), "3 groups do not divide the channels"),
    (lambda: F.layer_norm(ONES, (4,)), r"normalized_shape \(4,\) does not fit"),
    (lambda: F.layer_norm(ONES, (3,), bp.ones(4)), "the weight does not fit"),
    (lambda: F.rms_norm(ONES, (4, 3), bp.ones(3)), "the weight does not fit"),
    (lambda: F.local_response_norm(ONES, 0), "size 0 is not positive"),
    (lambda: nn.GroupNorm(3, 4), "GroupNorm: 3 groups do not divide 4"),
    (lambda: nn.BatchNorm2d(4)(ONES), r"BatchNorm2d: expected 4 axes, got x of shape \(2, 4, 3\)"),
    (lambda: apply(STANDARDISE, (ONES, bp.ones((2, 1))), {"axes": (0,), "eps": 0.1}),
     "the weight does not match x"),
]  # fmt: skip


@pytest.mark.parametrize("call, text", REFUSED, ids=[text for _, text in REFUSED])
def test_refused_shapes(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call()


def test_other_refusals() -> None:
    integers = bp.tensor([[[1, 2]]])
    for call in (
        lambda: F.batch_norm(integers, None, None, training=True),
        lambda: F.layer_norm(integers * 1j, 2),
        lambda: F.normalize(integers * 1j),
        lambda: apply(STANDARDISE, (integers,), {"axes": (0,), "eps": 0.1}),
    ):
        with pytest.raises(DTypeError, match="only floats can be normalised"):
            call()
    with pytest.raises(ValueError, match="both running statistics are needed"):
        F.batch_norm(ONES, None, None)
    with pytest.raises(ValueError, match="both running ones are needed"):
        F.instance_norm(ONES, use_input_stats=False)
