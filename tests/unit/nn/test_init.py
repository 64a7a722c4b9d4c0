"""Initialisers: fans, spreads, scale through depth."""

import math

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn
from bedplate.errors import ShapeError
from bedplate.tensor import manual_seed


@pytest.fixture(autouse=True)
def seeded():
    manual_seed(5)


@pytest.mark.parametrize(
    ("shape", "mode", "fan"),
    [
        ((64, 32), "fan_in", 32),
        ((64, 32), "fan_out", 64),
        ((64, 32), "fan_avg", 48),
        ((16, 8, 3, 3), "fan_in", 72),
        ((16, 8, 3, 3), "fan_out", 144),
    ],
)
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_spread(shape, mode, fan, distribution):
    values = nn.kaiming_init(shape, mode, distribution=distribution).numpy()
    assert values.shape == shape
    assert values.std() == pytest.approx(math.sqrt(2 / fan), rel=0.1)
    assert values.mean() == pytest.approx(0.0, abs=0.02)


def test_correction_and_gain():
    plain = nn.kaiming_init((200, 200)).numpy().std()
    assert nn.kaiming_init((200, 200), correction=0.5).numpy().std() / plain == pytest.approx(
        0.5, rel=0.05
    )
    assert nn.kaiming_init((200, 200), gain=1.0).numpy().std() == pytest.approx(
        1 / math.sqrt(200), rel=0.05
    )


def test_relatives():
    assert nn.xavier_init((100, 300)).numpy().std() == pytest.approx(math.sqrt(2 / 400), rel=0.05)
    assert nn.lecun_init((100, 300)).numpy().std() == pytest.approx(1 / math.sqrt(300), rel=0.05)


def linear(x, width):
    weight = nn.kaiming_init((width, width))
    return bp.nn.functional.linear(x, weight)


def convolved(x, width, groups=1):
    """A convolution of 3 in every direction, whose borders are joined: each unit sees a window."""
    rank = x.ndim - 2
    for axis in range(2, x.ndim):
        first, last = x.narrow(axis, 0, 1), x.narrow(axis, x.shape[axis] - 1, 1)
        x = bp.concat([last, x, first], axis=axis)
    weight = nn.kaiming_init((width, width // groups, *(3,) * rank))
    convolution = (bp.conv1d, bp.conv2d, bp.conv3d)[rank - 1]
    return convolution(x, weight, groups=groups)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (linear, (64, 128)),
        (convolved, (4, 32, 64)),
        (convolved, (2, 64, 6, 6)),
        (convolved, (1, 64, 4, 4, 4)),
        (lambda x, width: convolved(x, width, groups=4), (2, 64, 8, 8)),
    ],
    ids=["linear", "1 axis", "2 axes", "3 axes", "groups"],
)
def test_fifty_relu_layers_keep_the_scale(layer, shape):
    """E1: the growth of the second moment a layer, averaged over stacks, compounded over 50.

    A stack of few channels wanders by chance, hence the average; the standard deviation grows
    by the root.
    """
    n_layers, n_stacks = 50, 12
    growth = np.zeros(n_layers)
    for _ in range(n_stacks):
        x = bp.random.normal(shape)
        before = (x * x).mean().item() / 2  # the half that ReLU would leave
        for depth in range(n_layers):
            x = layer(x, shape[1]).relu()
            after = (x * x).mean().item()
            growth[depth] += after / before / n_stacks
            before = after
    assert 0.5 < np.sqrt(np.prod(growth)) < 2.0


def test_relatives_by_their_names():
    pairs = [
        (nn.kaiming_normal((300, 200)), math.sqrt(2 / 200)),
        (nn.kaiming_uniform((300, 200), "fan_out", nonlinearity="linear"), math.sqrt(1 / 300)),
        (nn.xavier_normal((300, 200), 2.0), 2 * math.sqrt(2 / 500)),
        (nn.glorot_uniform((300, 200)), math.sqrt(2 / 500)),
    ]
    for values, spread in pairs:
        assert values.numpy().std() == pytest.approx(spread, rel=0.03)


def test_trunc_normal_stays_between_the_bounds():
    values = nn.trunc_normal_init((20000,), 1.0, 2.0, -1.0, 3.0).numpy()
    assert values.min() >= -1 and values.max() <= 3
    assert values.mean() == pytest.approx(1.0, abs=0.03)
    assert values.std() == pytest.approx(2 * 0.5396, rel=0.03)  # of [-1, 1] standard deviations


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5), (6, 2, 3, 3), (40, 2, 3)])
def test_orthogonal(shape):
    weight = nn.orthogonal_init(shape, 1.5).numpy().reshape(shape[0], -1)
    weight = weight if weight.shape[0] <= weight.shape[1] else weight.T
    np.testing.assert_allclose(weight @ weight.T, 2.25 * np.eye(len(weight)), atol=1e-5)


def test_orthogonal_is_even_over_signs():
    corner = [nn.orthogonal_init((3, 3))[0, 0].item() for _ in range(60)]
    assert 15 < sum(value > 0 for value in corner) < 45


def test_dirac_hands_on_its_channels():
    x = bp.random.normal((2, 4, 6, 5))
    weight = nn.dirac_init((4, 4, 3, 3))
    np.testing.assert_array_equal(bp.conv2d(x, weight, padding=1).numpy(), x.numpy())
    grouped = nn.dirac_init((4, 2, 3), groups=2)
    line = bp.random.normal((1, 4, 7))
    np.testing.assert_array_equal(
        bp.conv1d(line, grouped, padding=1, groups=2).numpy(), line.numpy()
    )


def test_the_plain_ones():
    assert nn.eye_init((2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.constant_init((2,), 0.5).tolist() == [0.5, 0.5]
    values = nn.sparse_init((10, 50), 0.25, 1.0).numpy()
    assert ((values == 0).sum(0) == 3).all()
    assert values[values != 0].std() == pytest.approx(1.0, rel=0.2)


def test_refusals():
    with pytest.raises(ShapeError, match="has no fan in and fan out"):
        nn.kaiming_init((3,))
    with pytest.raises(ValueError, match="unknown mode 'fan'"):
        nn.kaiming_init((3, 3), "fan")
    with pytest.raises(ValueError, match="unknown nonlinearity 'swish'"):
        nn.kaiming_init((3, 3), nonlinearity="swish")
    with pytest.raises(ValueError, match="unknown distribution 'cauchy'"):
        nn.kaiming_init((3, 3), distribution="cauchy")
    for call, text in (
        (lambda: nn.eye_init((3,)), r"eye_init: the weight of a linear layer is \(out, in\)"),
        (lambda: nn.dirac_init((3, 3)), "dirac_init: the weight of a convolution is"),
        (lambda: nn.dirac_init((3, 3, 3), 2), "with 2 groups, which must divide"),
        (lambda: nn.orthogonal_init((3,)), r"a weight of shape \(3,\) is no matrix"),
        (lambda: nn.sparse_init((3,), 0.5), "sparse_init: the weight of a linear layer is"),
    ):
        with pytest.raises(ShapeError, match=text):
            call()
    with pytest.raises(ValueError, match=r"sparsity = 2 is not in \[0, 1\]"):
        nn.sparse_init((3, 3), 2)


def test_the_seed_gives_the_weights():
    manual_seed(1)
    first = nn.Linear(4, 4).weight.tolist()
    manual_seed(1)
    assert nn.Linear(4, 4).weight.tolist() == first
    assert nn.Linear(4, 4).weight.tolist() != first
