"""interpolate, pad, patches and shuffles: plain formulas in float64, layouts, dtypes, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.errors import DTypeError, ShapeError
from bedplate.kernel import Kernel
from bedplate.ops.image.resampling import RESAMPLE
from bedplate.ops.image.resampling_tables import Resampling, table, tables
from bedplate.ops.record import apply


def floats(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def cubic(x: float) -> float:
    """Keys' kernel with a = -0.75, from its definition."""
    x = abs(x)
    if x < 1:
        return 1.25 * x**3 - 2.25 * x**2 + 1
    return -0.75 * x**3 + 3.75 * x**2 - 6 * x + 3 if x < 2 else 0.0


def matrix(mode: str, size: int, count: int, step: float, align: bool) -> Any:
    """One axis as a matrix, output by output."""
    result = np.zeros((count, size))
    for i in range(count):
        if mode == "nearest":
            result[i, min(math.floor(i * step + 1e-9), size - 1)] = 1
            continue
        if mode == "nearest-exact":
            result[i, min(math.floor((i + 0.5) * step + 1e-9), size - 1)] = 1
            continue
        at = i * (size - 1) / max(count - 1, 1) if align else (i + 0.5) * step - 0.5
        if mode == "linear":
            at = min(max(at, 0), size - 1)
        for k in range(math.floor(at) - 1, math.floor(at) + 3):
            weight = max(0, 1 - abs(at - k)) if mode == "linear" else cubic(at - k)
            result[i, min(max(k, 0), size - 1)] += weight
    return result


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "cubic"])
@pytest.mark.parametrize(("size", "count"), [(4, 9), (9, 4), (5, 5), (3, 1), (1, 3), (40, 77)])
def test_tables_are_the_formulas(mode: str, size: int, count: int) -> None:
    for align in (False, True) if mode in ("linear", "cubic") else (False,):
        how = Resampling(mode, size, count, align=align)
        found = np.zeros((count, size))
        places, weights = tables(how)
        for i, t in np.ndindex(*places.shape):
            if places[i, t] >= 0:
                found[i, places[i, t]] += weights[i, t]
        wanted = matrix(mode, size, count, size / count, align)
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        back = np.zeros((size, count))
        places, weights = tables(Resampling(mode, size, count, align=align, transposed=True))
        for i, t in np.ndindex(*places.shape):
            if places[i, t] >= 0:
                back[i, places[i, t]] += weights[i, t]
        np.testing.assert_allclose(back, wanted.T, atol=1e-12)


def test_images_are_resampled_along_both_axes(device: Any) -> None:
    x = floats(0, 2, 3, 5, 37)
    for mode, kind in (("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")):
        found = F.interpolate(bp.Tensor(x, device), (8, 20), mode=mode)
        rows, columns = matrix(kind, 5, 8, 5 / 8, False), matrix(kind, 37, 20, 37 / 20, False)
        wanted = np.einsum("nchw,ih,jw->ncij", x, rows, columns)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-12)
    factor = F.interpolate(bp.Tensor(x, device), scale_factor=(1.3, 0.5), mode="bilinear")
    rows, columns = matrix("linear", 5, 6, 1 / 1.3, False), matrix("linear", 37, 18, 2, False)
    wanted = np.einsum("nchw,ih,jw->ncij", x, rows, columns)
    np.testing.assert_allclose(factor.numpy(), wanted, rtol=1e-10, atol=1e-12)


def test_antialias_keeps_means_and_every_input_counts() -> None:
    x = bp.tensor(floats(0, 1, 1, 12, 16), requires_grad=True)
    y = F.interpolate(x, (3, 4), mode="bilinear", antialias=True)
    y.sum().backward()
    assert x.grad is not None and (x.grad.numpy() > 0).all()
    np.testing.assert_allclose(F.interpolate(bp.ones((1, 1, 9, 9)), 4, mode="bicubic",
                                             antialias=True).numpy(), 1, rtol=1e-6)  # fmt: skip


def test_areas_are_means(device: Any) -> None:
    x = floats(0, 1, 2, 6, 8)
    found = F.interpolate(bp.Tensor(x, device), (3, 2), mode="area").numpy()
    np.testing.assert_allclose(found, x.reshape(1, 2, 3, 2, 2, 4).mean((3, 5)), rtol=1e-12)


def test_dtypes_of_interpolation(device: Any) -> None:
    for dtype in (bp.uint8, bp.int64, bp.bool):
        x = bp.Tensor(np.array([[[0, 1, 1]]]), device).astype(dtype)
        y = F.interpolate(x, 6)
        assert y.dtype is dtype and y.astype(bp.int64).tolist() == [[[0, 0, 1, 1, 1, 1]]]
    for dtype in (bp.bfloat16, bp.float16):
        x = bp.Tensor(floats(0, 1, 2, 5, 6), device).astype(dtype)
        y = F.interpolate(x, (9, 11), mode="bilinear")
        once = F.interpolate(x.astype(bp.float32), (9, 11), mode="bilinear").astype(dtype)
        assert y.dtype is dtype
        np.testing.assert_array_equal(y.astype(bp.float32).numpy(), once.astype(bp.float32).numpy())


def test_a_weight_of_nothing_meets_nothing(device: Any) -> None:
    """Where an output lies on an input, the neighbour does not count, infinite as it may be."""
    x = bp.Tensor(np.array([[[1.0, np.inf, 3.0]]]), device)
    y = F.interpolate(x, 5, mode="linear", align_corners=True)
    assert y.tolist() == [[[1.0, np.inf, np.inf, np.inf, 3.0]]]


def padded(x: Any, widths: Any, mode: str) -> Any:
    words: Any = {"replicate": "edge", "circular": "wrap"}
    return np.pad(x, widths, words.get(mode, mode))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "symmetric", "constant"])
def test_pads_as_numpy(mode: str, device: Any) -> None:
    x = floats(0, 3, 4, 5)
    widths = ((1, 2), (0, 3), (4, 1))
    found = F.pad(bp.Tensor(x, device), widths, mode)
    np.testing.assert_array_equal(found.numpy(), padded(x, widths, mode))
    flat = F.pad(bp.Tensor(x, device), (4, 1, 0, 3), mode)
    np.testing.assert_array_equal(flat.numpy(), padded(x, ((0, 0), (0, 3), (4, 1)), mode))


def test_negative_widths_cut_off() -> None:
    x = bp.tensor([1, 2, 3, 4])
    assert F.pad(x, (-1, 2)).tolist() == [2, 3, 4, 0, 0]
    assert F.pad(x, (-1, 2), "circular").tolist() == [2, 3, 4, 2, 3]
    assert F.pad(x, (2, -2), "edge").tolist() == [1, 1, 1, 2]
    assert F.pad(x, (-2, -2)).shape == (0,)
    assert F.pad(bp.tensor(5), ()).item() == 5
    assert F.pad(bp.tensor([True]), (1, 0), value=1).tolist() == [True, True]


def columns(x: Any, window: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """im2col, window by window."""
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    reach = [d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True)]
    found = []
    for i, j in itertools.product(
        *(range(0, s - r + 1, t) for s, r, t in zip(x.shape[2:], reach, stride, strict=True))
    ):
        part = x[:, :, i : i + reach[0] : dilation[0], j : j + reach[1] : dilation[1]]
        found.append(part.reshape(x.shape[0], -1))
    return np.stack(found, -1)


# (window, dilation, padding, stride)
PATCHES = [((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (2, 1), (1, 2), (2, 3)),
           ((1, 1), (1, 1), (0, 1), (1, 2))]  # fmt: skip


@pytest.mark.parametrize("numbers", PATCHES, ids=str)
def test_patches_by_loops(numbers: Any, device: Any) -> None:
    x = floats(0, 2, 3, 7, 8)
    found = F.unfold(bp.Tensor(x, device), *numbers)
    np.testing.assert_array_equal(found.numpy(), columns(x, *numbers))
    ones = bp.Tensor(np.ones(x.shape), device)
    counts = F.fold(F.unfold(ones, *numbers), (7, 8), *numbers)
    back = F.fold(found, (7, 8), *numbers)
    np.testing.assert_allclose(back.numpy(), x * counts.numpy(), rtol=1e-12)


def test_sliding_windows_as_numpy(device: Any) -> None:
    x = floats(0, 4, 6, 5)
    v = bp.Tensor(x, device)
    view = np.lib.stride_tricks.sliding_window_view
    for window, axis in (((2, 3, 1), None), (2, 1), ((2, 3), (0, -1)), (5, 2)):
        found = bp.sliding_window_view(v, window, axis)
        np.testing.assert_array_equal(found.numpy(), view(x, window, axis))
    np.testing.assert_array_equal(v.unfold(1, 3, 2).numpy(), view(x, 3, 1)[:, ::2])


def test_shuffles_are_inverses(device: Any) -> None:
    x = floats(0, 2, 12, 3, 4)
    v = bp.Tensor(x, device)
    y = F.pixel_shuffle(v, 2)
    assert y.shape == (2, 3, 6, 8)
    for c, h, w in np.ndindex(3, 6, 8):
        wanted = x[:, c * 4 + h % 2 * 2 + w % 2, h // 2, w // 2]
        np.testing.assert_array_equal(y.numpy()[:, c, h, w], wanted)
    np.testing.assert_array_equal(F.pixel_unshuffle(y, 2).numpy(), x)
    dealt = F.channel_shuffle(v, 3)
    np.testing.assert_array_equal(dealt.numpy()[:, 1], x[:, 4])
    np.testing.assert_array_equal(F.channel_shuffle(dealt, 4).numpy(), x)


FUNCTIONS: dict[str, Any] = {
    "bilinear": lambda x: F.interpolate(x, (5, 3), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=1.6, mode="bicubic", align_corners=True),
    "antialias": lambda x: F.interpolate(x, 2, mode="bicubic", antialias=True),
    "nearest": lambda x: F.interpolate(x, (2, 7)),
    "area": lambda x: F.interpolate(x, (2, 3), mode="area"),
    "reflect": lambda x: F.pad(x, (1, 2, -1, 2), "reflect"),
    "replicate": lambda x: F.pad(x, (1, 2, 2, 0), "replicate"),
    "circular": lambda x: F.pad(x, (1, 2, 2, 0), "circular"),
    "unfold": lambda x: F.unfold(x, 2, 1, 1, 2),
    "fold": lambda x: F.fold(x.reshape(1, 4, -1), (3, 4), (2, 2), padding=0),
    "windows": lambda x: bp.sliding_window_view(x, (2, 3), (2, 3)),
    "shuffle": lambda x: F.pixel_unshuffle(F.pad(x, (0, 0, 0, 0)), 2),
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
    x = bp.tensor(floats(0, 1, 1, 4, 4) if name != "fold" else floats(0, 1, 1, 4, 6))

    def function(x: Any) -> Any:
        return FUNCTIONS[name](LAYOUTS[view](x))

    assert bp.gradcheck(function, x)
    assert bp.gradgradcheck(lambda x: (function(x) ** 3).sum(), x)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "fold"])
def test_no_images_have_gradients_of_their_shape(name: str) -> None:
    x = bp.zeros((0, 1, 4, 4)).requires_grad_()
    FUNCTIONS[name](x).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    data = floats(0, 2, 3, 61, 50).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with bp.config(num_threads=threads):
            x = bp.tensor(data, requires_grad=True)
            y = F.interpolate(x, (130, 77), mode="bicubic")
            (y * y).sum().backward()
            assert x.grad is not None
            found.append((y.numpy().tobytes(), x.grad.numpy().tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_new_size_makes_no_machine_code(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are words of a launch; places and weights stand in an array."""
    F.interpolate(bp.ones((1, 2, 5)), 9, mode=mode).numpy()
    made = []
    whole = Kernel._compile_for
    monkeypatch.setattr(Kernel, "_compile_for", lambda k, t: made.append(k.name) or whole(k, t))
    for size, count in ((6, 11), (50, 3000), (700, 31)):
        x = bp.ones((1, 2, size))
        np.testing.assert_allclose(F.interpolate(x, count, mode=mode).numpy(), 1, rtol=1e-6)
    assert made == []


def test_a_captured_interpolation() -> None:
    step = bp.jit(lambda x: F.interpolate(x, scale_factor=2))
    for seed in range(3):
        x = bp.tensor(np.random.default_rng(seed).integers(0, 9, (1, 1, 2, 3)))
        np.testing.assert_array_equal(
            step(x).numpy(), x.numpy().repeat(2, axis=2).repeat(2, axis=3)
        )


IMAGE = bp.ones((1, 4, 3, 3))
TABLE = bp.tensor(table(Resampling("linear", 3, 2)))
SHAPES = [
    (lambda: F.interpolate(IMAGE, 2, mode="linear"), "does not fit the axes of x"),
    (lambda: F.interpolate(IMAGE, (2, 2, 2)), "expected one positive integer, or 2"),
    (lambda: F.interpolate(IMAGE, scale_factor=0.1), r"nothing is left: sizes \(0, 0\)"),
    (lambda: F.interpolate(bp.ones((1, 1, 0)), 2), "there is nothing to interpolate"),
    (lambda: apply(RESAMPLE, (IMAGE, TABLE, TABLE)), "expected .outer, 2, inner"),
    (lambda: F.pad(IMAGE, (1, 2, 3)), "are no pairs for this value"),
    (lambda: F.pad(IMAGE, ((1, 2),)), "expected one .before, after. for each axis"),
    (lambda: F.pad(IMAGE, (3, 0), "reflect"), "gives at most 2 on one side"),
    (lambda: F.pad(IMAGE, (-2, -2)), "cuts off more than there is"),
    (lambda: F.unfold(IMAGE, 4), "the window does not fit into"),
    (lambda: F.fold(bp.ones((1, 3, 4)), 3, 2), "a multiple of 4 rows, and 4 columns"),
    (lambda: F.pixel_shuffle(IMAGE, 3), "the channels do not fit a factor of 3"),
    (lambda: F.pixel_unshuffle(IMAGE, 2), "the image does not fit a factor of 2"),
    (lambda: F.channel_shuffle(IMAGE, 3), "3 groups do not divide the channels"),
    (lambda: bp.sliding_window_view(IMAGE, 2), "1 sizes for 4 axes"),
    (lambda: bp.unfold(IMAGE, 3, 4), "no window of 4 in steps of 1 along axis 3"),
]  # fmt: skip


@pytest.mark.parametrize("call, text", SHAPES, ids=[text for _, text in SHAPES])
def test_refused_shapes(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call()


OTHERS = [
    (lambda: F.interpolate(IMAGE), ValueError, "give either size or scale_factor"),
    (lambda: F.interpolate(IMAGE, 2, mode="cubic"), ValueError, "unknown mode 'cubic'"),
    (lambda: F.interpolate(IMAGE, 2, align_corners=True), ValueError, "has no align_corners"),
    (lambda: F.interpolate(IMAGE, 2, antialias=True), ValueError, "has no antialias"),
    (lambda: F.interpolate(IMAGE, 2, None, "bilinear", True, antialias=True), ValueError,
     "antialias needs align_corners=False"),
    (lambda: F.interpolate(bp.tensor([[[1, 2]]]), 2, mode="linear"), DTypeError, "is for floats"),
    (lambda: apply(RESAMPLE, (bp.tensor([[[1]]]), TABLE, TABLE)),
     DTypeError, "expected float32 or float64"),
    (lambda: apply(RESAMPLE, (IMAGE[0], IMAGE[0], TABLE)), DTypeError, "expected tables .2 taps"),
    (lambda: F.pad(IMAGE, (1, 1), "mirror"), ValueError, "unknown mode 'mirror'"),
    (lambda: F.pad(IMAGE, (1, 1), "reflect", 1.0), ValueError, "takes no value"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, text", OTHERS, ids=[text for _, _, text in OTHERS])
def test_other_refusals(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()
