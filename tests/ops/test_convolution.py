"""Convolution as users meet it: paddings, shapes of every path of the kernels, bits, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.convolution.records import (
    CONVOLUTION,
    CONVOLUTION_BY_INPUT,
    CONVOLUTION_BY_WEIGHT,
)
from bedplate.ops.record import apply


def floats(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def direct(x: Any, w: Any, stride: int, low: int, high: int, dilation: int, groups: int) -> Any:
    """The plain loops of the definition, in float64, for two axes."""
    x = np.pad(x, ((0, 0), (0, 0), (low, high), (low, high)))
    n, channels = x.shape[:2]
    reach = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    sizes = [(s - r) // stride + 1 for s, r in zip(x.shape[2:], reach, strict=True)]
    out = np.zeros((n, w.shape[0], *sizes))
    for o, i, j in np.ndindex(w.shape[0], *sizes):
        first = o // (w.shape[0] // groups) * (channels // groups)
        met = x[
            :, first : first + channels // groups,
            i * stride : i * stride + reach[0] : dilation,
            j * stride : j * stride + reach[1] : dilation,
        ]  # fmt: skip
        out[:, o, i, j] = (met * w[o]).sum((1, 2, 3))
    return out


# (channels, groups, out, height, width, window, stride, padding, dilation)
PATHS = [
    (3, 1, 15, 9, 40, 3, 1, 1, 1), (5, 1, 2, 7, 7, 3, 1, 1, 1), (4, 4, 8, 12, 12, 3, 1, 1, 2),
    (8, 2, 30, 14, 14, 3, 2, 1, 1), (3, 1, 20, 33, 50, 7, 2, 3, 1), (6, 1, 5, 9, 9, 1, 1, 0, 1),
    (6, 3, 6, 9, 9, 1, 3, 0, 1), (2, 1, 1, 6, 130, 2, 3, 2, 3), (40, 1, 29, 4, 4, 3, 1, 1, 1),
    # channels side by side: one to three vectors of them, steps, groups, small images
    (20, 1, 40, 5, 9, 3, 1, 1, 1), (16, 1, 16, 7, 5, 3, 2, 1, 1), (64, 2, 60, 6, 7, 2, 1, 0, 2),
    (33, 1, 64, 2, 3, 3, 1, 1, 1), (256, 1, 30, 3, 3, 1, 1, 1, 1),
    # depthwise, rows in one piece
    (4, 4, 4, 9, 40, 3, 1, 1, 1), (3, 3, 3, 1, 17, 5, 1, 2, 1), (2, 2, 2, 21, 16, 2, 1, 1, 1),
    # strips of vectors and what they leave, padding of more than a vector, none
    (3, 3, 3, 4, 101, 3, 1, 1, 1), (2, 2, 2, 5, 83, 5, 1, 2, 1), (2, 2, 2, 3, 66, 3, 1, 20, 1),
    (2, 2, 2, 6, 131, 2, 1, 0, 1), (2, 2, 2, 9, 40, 7, 1, 3, 1), (2, 2, 2, 14, 35, 11, 1, 5, 1),
    (2, 2, 2, 14, 20, 12, 1, 5, 1),
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_all_paths_compute_the_definition(path: Any) -> None:
    channels, groups, out, height, width, k, stride, padding, dilation = path
    x, w = floats(1, 2, channels, height, width), floats(2, out, channels // groups, k, k)
    wanted = direct(x, w, stride, padding, padding, dilation, groups)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        got = bp.conv2d(
            bp.tensor(x.astype(dtype)), bp.tensor(w.astype(dtype)), None, stride, padding,
            dilation, groups,
        )  # fmt: skip
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got.numpy(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_gradients_of_all_paths_are_transposes(path: Any) -> None:
    """<conv(x, w), g> = <x, by_input(g, w)> = <w, by_weight(x, g)>."""
    channels, groups, out, height, width, k, stride, padding, dilation = path
    attributes = {
        "stride": (stride,) * 2, "padding": ((padding, padding),) * 2,
        "dilation": (dilation,) * 2, "groups": groups,
    }  # fmt: skip
    x = bp.tensor(floats(1, 2, channels, height, width))
    w = bp.tensor(floats(2, out, channels // groups, k, k))
    y = apply(CONVOLUTION, (x, w), attributes)
    g = bp.tensor(floats(3, *y.shape))
    dx = apply(CONVOLUTION_BY_INPUT, (g, w), {**attributes, "space": x.shape[2:]})
    dw = apply(CONVOLUTION_BY_WEIGHT, (x, g), {**attributes, "window": w.shape[2:]})
    wanted = (y * g).sum().item()
    scale = math.sqrt(y.numpy().size) * float(np.abs(y.numpy()).max())
    assert abs((x * dx).sum().item() - wanted) < 1e-12 * scale
    assert abs((w * dw).sum().item() - wanted) < 1e-12 * scale


# (channels, groups, out, stride): over positions, over channels, depthwise
KINDS = [(20, 2, 30, 2), (32, 1, 48, 1), (32, 1, 48, 2), (6, 6, 6, 1)]


def value_and_gradients(x: Any, w: Any, kind: tuple[int, ...]) -> list[Any]:
    a, b = bp.tensor(x, requires_grad=True), bp.tensor(w, requires_grad=True)
    y = bp.conv2d(a, b, stride=kind[3], padding=1, groups=kind[1])
    (y * y).sum().backward()
    assert a.grad is not None and b.grad is not None
    return [v.numpy() for v in (y.detach(), a.grad, b.grad)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(kind: Any) -> None:
    channels, groups, out, _ = kind
    x = floats(1, 3, channels, 17, 31).astype(np.float32)
    w = floats(2, out, channels // groups, 3, 3).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with bp.config(num_threads=threads):
            found.append([v.tobytes() for v in value_and_gradients(x, w, kind)])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_image_has_the_same_bits_alone_and_in_a_batch(kind: Any) -> None:
    channels, groups, out, _ = kind
    x = floats(1, 5, channels, 5, 7).astype(np.float32)
    w = floats(2, out, channels // groups, 3, 3).astype(np.float32)
    together, alone = (value_and_gradients(v, w, kind)[:2] for v in (x, x[3:4]))
    for one, several in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, several[3:4])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_layout_changes_the_order_of_sums_alone(kind: Any) -> None:
    channels, groups, out, _ = kind
    x, w = floats(1, 2, channels, 9, 20), floats(2, out, channels // groups, 3, 3)
    on = value_and_gradients(x, w, kind)
    with bp.config(layout=False):
        off = value_and_gradients(x, w, kind)
    for a, b in zip(on, off, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kernels_touch_nothing_outside_their_buffers(kind: Any) -> None:
    channels, groups, out, _ = kind
    w = floats(2, out, channels // groups, 3, 3).astype(np.float32)
    for shape in ((1, 1), (2, 3), (5, 33), (3, 70)):
        x = floats(1, 2, channels, *shape).astype(np.float32)
        plain = value_and_gradients(x, w, kind)
        with bp.config(check=True):
            checked = value_and_gradients(x, w, kind)
        for a, b in zip(plain, checked, strict=True):
            np.testing.assert_array_equal(a, b)


# what stands behind a convolution, and whether it is one launch with it
FINISHED: dict[str, tuple[Any, bool]] = {
    "bias and activation": (lambda y, b, r: (y + b).relu(), True),
    "residual": (lambda y, b, r: (y * b + r).tanh(), True),
    "narrower": (lambda y, b, r: (y + b).astype(bp.bfloat16), True),
    "truth": (lambda y, b, r: y > r, True),
    "turned": (lambda y, b, r: y + r.transpose(-1, -2).reshape(y.shape), False),
}


@pytest.mark.parametrize("name", FINISHED)
@pytest.mark.parametrize("dtype", [bp.float32, bp.bfloat16], ids=str)
@pytest.mark.parametrize("space", [(37,), (9, 11), (7, 7), (3, 4, 5)], ids=str)
def test_what_stands_behind_is_done_at_the_store(name: str, dtype: Any, space: Any) -> None:
    function, is_one = FINISHED[name]
    convolve = {1: bp.conv1d, 2: bp.conv2d, 3: bp.conv3d}[len(space)]
    ones = (1,) * len(space)
    x, w, b, r = (
        bp.tensor(floats(n, *shape), dtype=dtype)
        for n, shape in enumerate(
            ((2, 20, *space), (48, 10, *(3 * n for n in ones)), (1, 48, *ones), (2, 48, *space))
        )
    )

    def finished() -> Any:
        return function(convolve(x, w, padding=1, groups=2), b, r)

    schedule = bp.explain(finished()).schedule()
    assert ("map_" in schedule) != is_one or (name == "turned" and len(space) == 1), schedule
    together = finished().astype(bp.float32).numpy()
    with bp.config(fusion=False):
        apart = finished().astype(bp.float32).numpy()
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("stride", [1, 2])
def test_channels_innermost_are_read_where_they_are(stride: int) -> None:
    images, w = floats(1, 2, 9, 11, 40), bp.tensor(floats(2, 48, 20, 3, 3))
    x = bp.tensor(images).permute(0, 3, 1, 2)
    y = bp.conv2d(x, w, padding=1, groups=2, stride=stride)
    assert "convolution_last_grid" not in bp.explain(y).schedule()
    copied = bp.tensor(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    wanted = bp.conv2d(copied, w, padding=1, groups=2, stride=stride)
    assert "convolution_last_grid" in bp.explain(wanted).schedule()
    np.testing.assert_array_equal(y.numpy(), wanted.numpy())


def test_same_keeps_the_sizes_with_the_greater_half_last() -> None:
    x, w = floats(1, 1, 2, 6, 7), floats(2, 3, 2, 4, 4)
    got = bp.conv2d(bp.tensor(x), bp.tensor(w), padding="same")
    np.testing.assert_allclose(got.numpy(), direct(x, w, 1, 1, 2, 1, 1), atol=1e-12)
    valid = bp.conv2d(bp.tensor(x), bp.tensor(w), padding="valid")
    np.testing.assert_allclose(valid.numpy(), direct(x, w, 1, 0, 0, 1, 1), atol=1e-12)


def test_bias_and_promotion() -> None:
    x = bp.ones((1, 1, 3), dtype=bp.float64)
    y = bp.conv1d(x, bp.ones((2, 1, 2)), bp.tensor([0.5, 1.0]))
    assert y.dtype is bp.float64
    assert y.tolist() == [[[2.5, 2.5], [3.0, 3.0]]]


def test_narrow_floats_are_summed_in_float32() -> None:
    x = bp.ones((1, 600, 4), dtype=bp.bfloat16)
    y = bp.conv1d(x, bp.ones((1, 600, 1, ), dtype=bp.bfloat16), padding=1)  # fmt: skip
    # one after the other in bfloat16 the sum would stay at 256
    assert y.tolist() == [[[0.0, 600.0, 600.0, 600.0, 600.0, 0.0]]]


def test_transposed_undoes_the_sizes() -> None:
    x, w = bp.tensor(floats(1, 2, 4, 5, 6)), bp.tensor(floats(2, 4, 3, 3, 2))
    y = bp.conv_transpose2d(x, w, bp.ones((6,), dtype=bp.float64), (2, 3), (1, 0), (1, 2), groups=2)
    assert y.shape == (2, 6, 10, 19)
    part = bp.conv_transpose2d(x, w, None, (2, 3), (1, 0), groups=2)
    np.testing.assert_allclose(y.numpy()[:, :, :9, :17], part.numpy() + 1, atol=1e-12)


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_lies_outside_is_left_out(path: Any, value: float) -> None:
    """An infinite weight, input or gradient meets no zeros around, in kernels as in the reference.

    Each row of the batch has its own place for the value, at a corner, at a border, inside.
    """
    channels, groups, out, height, width, k, stride, padding, dilation = path
    attributes = {
        "stride": (stride,) * 2, "padding": ((padding, padding),) * 2,
        "dilation": (dilation,) * 2, "groups": groups,
    }  # fmt: skip
    x, w = floats(1, 3, channels, height, width), floats(2, out, channels // groups, k, k)
    g = floats(3, *apply(CONVOLUTION, (bp.tensor(x), bp.tensor(w)), attributes).shape)
    more = {**attributes, "space": (height, width)}, {**attributes, "window": (k, k)}
    for n, place in enumerate(((0, 0), (-1, 0), (-1, -1))):
        v, h, y = w.copy(), g.copy(), x.copy()
        v[(n % out, 0, *place)] = h[(n, 0, *place)] = y[(n, 0, *place)] = value
        for op, inputs, given in (
            (CONVOLUTION, (x, v), attributes), (CONVOLUTION_BY_INPUT, (g, v), more[0]),
            (CONVOLUTION_BY_WEIGHT, (x, h), more[1]), (CONVOLUTION_BY_WEIGHT, (y, g), more[1]),
        ):  # fmt: skip
            kernel, reference = (
                apply(op, tuple(bp.Tensor(each, device) for each in inputs), given).numpy()
                for device in ("cpu", "reference")
            )
            np.testing.assert_allclose(kernel, reference, rtol=1e-9, atol=1e-9)


def test_an_infinite_weight_is_infinity_at_the_border(device: Any) -> None:
    for channels in (1, 32):
        x = bp.Tensor(np.ones((1, channels, 3, 3)), device)
        w = bp.Tensor(np.full((channels, channels, 3, 3), math.inf), device)
        for function in (bp.conv2d, bp.conv_transpose2d):
            assert (function(x, w, padding=1).numpy() == math.inf).all()


def test_without_a_batch() -> None:
    x, w = bp.tensor(floats(0, 2, 5, 6)), bp.tensor(floats(1, 3, 2, 3, 3))
    np.testing.assert_array_equal(bp.conv2d(x, w).numpy(), bp.conv2d(x[None], w)[0].numpy())
    y = bp.tensor(floats(0, 3, 5, 6))
    once = bp.conv_transpose2d(y[None], w)[0]
    np.testing.assert_array_equal(bp.conv_transpose2d(y, w).numpy(), once.numpy())


def test_complex_values_part_by_part() -> None:
    x = floats(0, 1, 2, 6) + 1j * floats(1, 1, 2, 6)
    w = floats(2, 3, 2, 3) + 1j * floats(3, 3, 2, 3)
    y = bp.conv1d(bp.tensor(x), bp.tensor(w), bp.tensor(np.array([1, 1j, 0])), padding=1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    wanted = np.stack([(padded[0, :, i : i + 3] * w).sum((1, 2)) for i in range(6)], -1)
    np.testing.assert_allclose(y.numpy()[0], wanted + np.array([[1], [1j], [0]]), atol=1e-12)
    assert bp.gradcheck(lambda x, w: bp.conv1d(x, w, padding=1), (bp.tensor(x), bp.tensor(w)))


@pytest.mark.parametrize("numbers", [(2, 0, 4, 5), (3, 2, 3, 4), (1, 3, 2, 3), (2, 1, 1, 1)])
def test_more_room_behind_the_end_than_a_stride(numbers: Any) -> None:
    """The definition: everything spread over a line of zeros, from which the padding is cut."""
    stride, padding, more, dilation = numbers
    x, w = floats(0, 1, 1, 4), floats(1, 1, 1, 3)
    size = 3 * stride - 2 * padding + 2 * dilation + 1 + more
    whole = np.zeros(padding + size + padding + 4 * stride + 2 * dilation)
    for p, k in np.ndindex(4, 3):
        whole[p * stride + k * dilation] += x[0, 0, p] * w[0, 0, k]
    y = bp.conv_transpose1d(bp.tensor(x), bp.tensor(w), None, stride, padding, more, 1, dilation)
    np.testing.assert_allclose(y.numpy()[0, 0], whole[padding : padding + size], atol=1e-12)
    assert bp.gradcheck(
        lambda x, w: bp.conv_transpose1d(x, w, None, stride, padding, more, 1, dilation),
        (bp.tensor(x), bp.tensor(w)),
    )


REFUSED = [
    (lambda: bp.conv2d(bp.ones((1, 3, 4)), bp.ones((1, 3, 1))), "2 axes of space are needed"),
    (lambda: bp.conv1d(bp.ones((3,)), bp.ones((1, 3, 1))), "1 axes of space are needed"),
    (lambda: bp.conv1d(bp.ones((1, 3, 4)), bp.ones((1, 2, 1))), "weights need 3 at axis 1"),
    (lambda: bp.conv1d(bp.ones((1, 4, 4)), bp.ones((3, 2, 1)), groups=2), "a multiple of 2"),
    (lambda: bp.conv1d(bp.ones((1, 1, 4)), bp.ones((1, 1, 5))), "the window does not fit"),
    (lambda: bp.conv1d(bp.ones((1, 1, 4)), bp.ones((1, 1, 2)), stride=0), "stride 0 does not"),
    (lambda: bp.conv1d(bp.ones((1, 1, 4)), bp.ones((1, 1, 2)), padding=(1, 2)), "one integer"),
    (lambda: bp.conv1d(bp.ones((1, 1, 4)), bp.ones((1, 1, 2)), None, 2, "same"), "a stride of 1"),
    (lambda: bp.conv1d(bp.ones((1, 1, 4)), bp.ones((2, 1, 2)), bp.ones(3)), "the bias does not"),
    (lambda: bp.conv_transpose1d(bp.ones((1, 2, 4)), bp.ones((3, 1, 2))), "channels do not fit"),
    (lambda: bp.conv_transpose1d(bp.ones((1, 1, 1)), bp.ones((1, 1, 2)), padding=1), "is left"),
    (lambda: bp.conv_transpose1d(bp.ones((1, 1, 1)), bp.ones((1, 1, 2)), output_padding=1),
     "must be below the stride or the dilation"),
]  # fmt: skip


@pytest.mark.parametrize("call, text", REFUSED, ids=[text for _, text in REFUSED])
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call()


def test_a_mixture_of_dtypes_is_refused_by_the_record() -> None:
    attributes = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}
    with pytest.raises(DTypeError, match="one float dtype"):
        apply(CONVOLUTION, (bp.ones((1, 1, 3)), bp.ones((1, 1, 1), dtype=bp.float64)), attributes)
