"""Clipping by a norm that cannot overflow, and what is not finite."""

import math

import numpy as np
import pytest

from bedplate.errors import GradientError
from bedplate.nn import Parameter
from bedplate.optim import clip_grad_norm_, grad_norm
from bedplate.tensor import tensor


def with_grad(values, dtype="float32"):
    parameter = Parameter(tensor(np.zeros(len(values))).astype(dtype))
    parameter.grad = tensor(np.asarray(values)).astype(dtype)
    return parameter


def test_large_gradients_do_not_overflow():
    parameter = with_grad([1e20] * 100)
    norm = clip_grad_norm_([parameter], 1.0)
    assert norm.item() == pytest.approx(1e21)
    assert parameter.grad.numpy() == pytest.approx(0.1, rel=1e-6)


def test_float64_is_scaled_first():
    parameter = with_grad([3e200, 4e200], "float64")
    assert clip_grad_norm_([parameter], 1.0).item() == pytest.approx(5e200)
    assert parameter.grad.numpy() == pytest.approx([0.6, 0.8])


def test_the_largest_float32():
    parameter = with_grad([3e38] * 10000)
    clip_grad_norm_([parameter], 1.0)
    assert parameter.grad.numpy() == pytest.approx(0.01, rel=1e-6)


def test_small_gradients_stay():
    parameter = with_grad([0.3, 0.4])
    before = parameter.grad.tolist()
    assert clip_grad_norm_([parameter], 1.0).item() == pytest.approx(0.5)
    assert parameter.grad.tolist() == before


def test_zero_gradients():
    for dtype in ("float32", "float64"):
        parameter = with_grad([0.0, 0.0], dtype)
        assert clip_grad_norm_([parameter], 1.0).item() == 0.0
        assert parameter.grad.tolist() == [0.0, 0.0]


def test_the_norm_is_over_all_parameters():
    first, second = with_grad([3.0]), with_grad([4.0], "bfloat16")
    assert clip_grad_norm_([first, Parameter([1.0]), second], 1.0).item() == pytest.approx(5.0)
    assert first.grad.tolist() == pytest.approx([0.6])


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_what_is_not_finite_is_named_and_nothing_changes(bad):
    good, worse = with_grad([1e20] * 3), with_grad([1.0, bad])
    with pytest.raises(GradientError, match=r"is not finite\n  in layer\.weight\n"):
        clip_grad_norm_([("layer.bias", good), ("layer.weight", worse)], 1.0)
    assert good.grad.numpy() == pytest.approx(1e20)
    assert worse.grad.tolist()[0] == 1.0


def test_without_reading_they_stay_as_they_are():
    good, worse = with_grad([3.0]), with_grad([math.inf])
    norm = clip_grad_norm_([good, worse], 1.0, error_if_nonfinite=False)
    assert norm.item() == math.inf
    assert good.grad.tolist() == [3.0]


def test_no_gradients():
    with pytest.raises(GradientError, match="got no gradients"):
        grad_norm([])


def test_complex_gradients_have_the_norm_of_their_parts():
    parameter = with_grad([3j, 4.0], "complex64")
    assert clip_grad_norm_([parameter], 1.0).item() == pytest.approx(5.0)
    assert parameter.grad.tolist() == pytest.approx([0.6j, 0.8])
