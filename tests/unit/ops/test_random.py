"""Philox against its published vectors; the distributions against their moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.ops.random import draws as random
from bedplate.ops.random.philox import advanced, drawn, philox, seed_words

# kat_vectors of Random123 1.14, philox4x32 with 10 rounds: counter, key, result
VECTORS = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def state(seed: int = 0, device: str = "reference") -> Any:
    return bp.Tensor(np.array(seed_words(seed), np.uint32), device)


@pytest.mark.parametrize(("counter", "key", "wanted"), VECTORS)
def test_published_vectors(counter: Any, key: Any, wanted: Any) -> None:
    words = [np.array([word], np.uint32) for word in (*counter, *key)]
    got = [int(word[0]) for word in philox(words[:4], words[4:])]
    assert [hex(word) for word in got] == [hex(word) for word in wanted]


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("part", [0, 1])
def test_every_word_of_a_block_is_used_once(device: str, part: int) -> None:
    start = [9, 1 << 31, 4, 2]  # key, number of draws
    place = bp.Tensor(np.array(start, np.uint32), device)
    counter = np.arange(48, dtype=np.uint64)
    blocks = philox(
        [counter, np.uint64(part << 31), *map(np.uint64, start[2:])],
        list(map(np.uint64, start[:2])),
    )
    wanted = np.stack(blocks).reshape(4, 3, 16).swapaxes(0, 1)  # (groups, words, blocks)
    got = drawn(place, (10, 15), pair=False, part=part).numpy()
    np.testing.assert_array_equal(got.reshape(-1), wanted.reshape(-1)[:150])
    low, high = wanted[:, ::2], wanted[:, 1::2]
    pairs = drawn(place, (77,), pair=True, part=part).numpy()
    np.testing.assert_array_equal(pairs, (low | high << np.uint64(32)).reshape(-1)[:77])


@pytest.mark.parametrize(
    "make", [random.normal, random.uniform, random.laplace], ids=lambda f: f.__name__
)
def test_same_numbers_at_any_number_of_threads_and_in_a_longer_draw(make: Any) -> None:
    place = state(8, "cpu")
    alone = make(place, (50_000,)).numpy()
    with bp.config(num_threads=1):
        np.testing.assert_array_equal(make(place, (50_000,)).numpy(), alone)
    with bp.config(fusion=False):
        np.testing.assert_array_equal(make(place, (50_000,)).numpy(), alone)
    np.testing.assert_array_equal(make(place, (300, 401)).numpy().reshape(-1)[:50_000], alone)


def test_place_seed_and_draw_change_a_value() -> None:
    first = random.uniform(state(1), (1000,)).numpy()
    assert len(np.unique(first)) > 990
    assert not np.array_equal(first, random.uniform(state(2), (1000,)).numpy())
    assert not np.array_equal(first, random.uniform(state(1 << 40), (1000,)).numpy())
    following = advanced(state(1))
    assert not np.array_equal(first, random.uniform(following, (1000,)).numpy())
    np.testing.assert_array_equal(first, random.uniform(state(1), (10, 100)).numpy().reshape(-1))


def test_draws_carry_into_the_high_word() -> None:
    last = bp.Tensor(np.array([5, 6, 0xFFFFFFFF, 7], np.uint32), "reference")
    assert advanced(last).tolist() == [5, 6, 0, 8]


def test_uniform_moments() -> None:
    values = random.uniform(state(3), (40000,), -1.0, 3.0, bp.float64).numpy()
    assert values.min() >= -1
    assert values.max() < 3
    assert values.mean() == pytest.approx(1, abs=0.02)
    assert values.var() == pytest.approx(16 / 12, rel=0.02)


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64, bp.bfloat16], ids=str)
def test_normal_moments(dtype: Any) -> None:
    values = random.normal(state(4), (40000,), 2.0, 3.0, dtype).numpy().astype(np.float64)
    assert np.isfinite(values).all()
    assert values.mean() == pytest.approx(2, abs=0.05)
    assert values.std() == pytest.approx(3, rel=0.02)
    cubes = ((values - 2) / 3) ** 3
    assert cubes.mean() == pytest.approx(0, abs=0.05)


def test_integers_cover_their_range_evenly() -> None:
    values = random.randint(state(5), (30000,), -2, 4).numpy()
    counts = np.bincount(values + 2, minlength=6)
    assert counts.size == 6
    assert counts.min() > 4700


def test_truth_values_are_the_same_fused_into_the_draw() -> None:
    wanted = random.bernoulli(state(9), (1000,), 0.3).numpy()
    assert 200 < wanted.sum() < 400
    np.testing.assert_array_equal(random.bernoulli(state(9, "cpu"), (1000,), 0.3).numpy(), wanted)


def test_dropout_keeps_the_mean() -> None:
    x = bp.ones((40000,), device="reference")
    result = random.dropout(state(6), x, 0.25).numpy()
    assert set(np.unique(result)) == {np.float32(0), np.float32(1 / 0.75)}
    assert result.mean() == pytest.approx(1, abs=0.02)
    assert random.dropout(state(6), x, 1.0).numpy().max() == 0


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: random.uniform(state(), (3,), dtype=bp.int32), TypeError, "floats only"),
        (lambda: random.randint(state(), (3,), 4, 4), ValueError, r"no integer in \[4, 4\)"),
        (lambda: random.bernoulli(state(), (3,), 1.5), ValueError, "a probability lies in"),
        (lambda: random.dropout(state(), state(), -0.1), ValueError, "a probability lies in"),
    ],
)
def test_refused_arguments(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
