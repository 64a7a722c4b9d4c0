"""Initialisers: fans, spreads, scale through depth."""

import math

import numpy as np
import pytest

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


def test_fifty_relu_layers_keep_the_scale():
    growth = []
    for _ in range(4):
        x = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)
        start = (x**2).mean()
        for _ in range(50):
            weight = nn.kaiming_init((128, 128)).numpy()
            x = np.maximum(x @ weight.T, 0)
        growth.append((x**2).mean() * 2 / start)  # ReLU halves the last second moment
    assert 0.25 < np.exp(np.mean(np.log(growth))) < 4.0


def test_refusals():
    with pytest.raises(ShapeError, match="has no fan in and fan out"):
        nn.kaiming_init((3,))
    with pytest.raises(ValueError, match="unknown mode 'fan'"):
        nn.kaiming_init((3, 3), "fan")
    with pytest.raises(ValueError, match="unknown nonlinearity 'swish'"):
        nn.kaiming_init((3, 3), nonlinearity="swish")
    with pytest.raises(ValueError, match="unknown distribution 'cauchy'"):
        nn.kaiming_init((3, 3), distribution="cauchy")


def test_the_seed_gives_the_weights():
    manual_seed(1)
    first = nn.Linear(4, 4).weight.tolist()
    manual_seed(1)
    assert nn.Linear(4, 4).weight.tolist() == first
    assert nn.Linear(4, 4).weight.tolist() != first
