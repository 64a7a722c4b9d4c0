"""Batches: shapes, determinism, epochs, resuming."""

import itertools

import numpy as np
import pytest

from bedplate.data import Batches, windows_in_order

TOKENS = np.arange(1000, dtype=np.uint16)


def make(seed=3):
    return Batches(TOKENS, batch_size=4, seq_len=10, seed=seed)


def take(batches, count):
    return [inputs.tolist() for inputs, _ in itertools.islice(batches, count)]


def test_targets_are_the_next_tokens():
    inputs, targets = next(make())
    assert inputs.shape == targets.shape == (4, 10)
    assert inputs.dtype == np.int64
    assert (targets == inputs + 1).all()


def test_an_epoch_shows_no_token_twice():
    batches = make()
    seen = np.concatenate([next(batches)[0].reshape(-1) for _ in range(batches.n_batches)])
    assert len(set(seen.tolist())) == len(seen)
    assert (batches.epoch, batches.offset) == (1, 0)


def test_the_seed_gives_the_order():
    assert take(make(), 60) == take(make(), 60)
    assert take(make(), 5) != take(make(4), 5)


def test_epochs_differ():
    batches = make()
    epochs = [take(batches, batches.n_batches) for _ in range(2)]
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("done", [0, 5, 24, 30, 48])
def test_resuming_anywhere_changes_nothing(done):
    straight = take(make(), 80)
    first = make()
    take(first, done)
    second = make(seed=0)
    second.load_state_dict(first.state_dict())
    assert take(second, 80 - done) == straight[done:]


def test_resuming_on_other_data_is_refused():
    state = make().state_dict()
    with pytest.raises(ValueError, match="n_tokens was 1000, is 500"):
        Batches(TOKENS[:500], 4, 10).load_state_dict(state)


def test_too_few_tokens():
    with pytest.raises(ValueError, match="30 tokens are too few for a batch of 4 windows of 10"):
        Batches(TOKENS[:30], 4, 10)


def test_windows_in_order_cover_the_text_once():
    rows = list(windows_in_order(TOKENS, 4, 10))
    inputs = np.concatenate([inputs.reshape(-1) for inputs, _ in rows])
    assert np.array_equal(inputs, np.arange(960))
    assert all((targets == inputs + 1).all() for inputs, targets in rows)


def test_windows_of_a_short_text():
    (inputs, _), *rest = windows_in_order(TOKENS[:25], 4, 10)
    assert inputs.shape == (2, 10)
    assert not rest


def test_a_text_shorter_than_a_window():
    ((inputs, targets),) = windows_in_order(TOKENS[:6], 4, 10)
    assert inputs.tolist() == [[0, 1, 2, 3, 4]]
    assert targets.tolist() == [[1, 2, 3, 4, 5]]
    assert list(windows_in_order(TOKENS[:1], 4, 10)) == []
