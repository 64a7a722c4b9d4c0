"""Rotary tables: frequencies, YaRN's ramp, precision at far positions."""

import math

import numpy as np
import pytest

from bedplate.olmo.rope import RopeScaling, attention_factor, frequencies, rope_tables


def test_plain_frequencies():
    found = frequencies(RopeScaling(rope_theta=10000.0), 8)
    assert found == pytest.approx([1.0, 0.1, 0.01, 0.001], rel=1e-15)


def test_yarn_ramp_is_that_of_hugging_face():
    """B68"""
    # the training code bounds the ramp's end by 7 instead of 15, which gives 5.625e-4
    rope = RopeScaling("yarn", 1e4, 8.0, 65536)
    assert frequencies(rope, 16)[6] == pytest.approx(7.8125e-4, rel=1e-12)


def test_yarn_temperature():
    rope = RopeScaling("yarn", 5e5, 8.0, 8192)
    assert attention_factor(rope) == pytest.approx(1.2079441541679836)
    assert attention_factor(RopeScaling("yarn", 5e5, 8.0, 8192, attention_factor=1.5)) == 1.5
    assert attention_factor(RopeScaling()) == 1.0


def test_linear_scaling_divides_positions():
    scaled = frequencies(RopeScaling("linear", factor=4.0), 8)
    assert scaled * 4.0 == pytest.approx(frequencies(RopeScaling(), 8))


@pytest.mark.parametrize(
    ("position", "pair", "cosine"),
    [(15962, 0, -0.9080), (4095, 1, 0.87087), (131071, 1, -0.81732)],
)
def test_far_positions_keep_their_angle(position, pair, cosine):
    """B65"""
    cos, _ = rope_tables(RopeScaling(), 128, position, position + 1)
    assert cos[0, pair] == pytest.approx(cosine, abs=5e-5)


def test_tables_have_a_row_a_position():
    cos, sin = rope_tables(RopeScaling(), 8, 3, 6)
    assert cos.shape == sin.shape == (3, 4)
    assert cos.dtype == np.float32
    assert sin[2, 0] == pytest.approx(math.sin(5.0))
