"""Generation: the cache against full recomputation, memory, sampling, refusals."""

import copy
import re
import weakref

import numpy as np
import pytest

from bedplate.config import config
from bedplate.errors import CheckpointError, SettingError
from bedplate.olmo import save
from bedplate.olmo.cache import LEAST_SLOTS, Cache
from bedplate.olmo.generation import Sampling, _Decoder, captured_step, sample
from bedplate.tensor import no_grad

IDS = np.array([[5, 1, 9, 33, 2, 17, 60], [8, 8, 1, 0, 63, 4, 21]])


def cached_logits(model, pieces):
    """Logits of IDS, passed through a cache in pieces of these lengths."""
    cache = Cache(model.config)
    found, start = [], 0
    with no_grad():
        for length in pieces:
            found.append(model(IDS[:, start : start + length], cache).numpy())
            start += length
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("pieces", [[7], [1] * 7, [2, 5], [5, 2], [4, 1, 2], [3, 3, 1]])
def test_pieces_equal_the_whole_in_float64(small_model, pieces):
    """B70"""
    model = small_model("float64")
    with no_grad():
        whole = model(IDS).numpy()
    assert np.abs(cached_logits(model, pieces) - whole).max() < 1e-12


def test_captured_decoding_equals_full_recompute(small_model):
    model = small_model("float64")
    tokens = model.generate(IDS, max_new_tokens=12).numpy()
    for end in range(7, 19):
        with no_grad():
            logits = model(tokens[:, :end]).numpy()[:, -1]
        assert (logits.argmax(axis=1) == tokens[:, end]).all()


def test_one_call_after_the_other_gives_the_same(small_model):
    model = small_model()
    first = model.generate(IDS, max_new_tokens=9).tolist()
    assert model.generate(IDS[:, :3], max_new_tokens=4).shape == (2, 7)
    assert model.generate(IDS, max_new_tokens=9).tolist() == first


def test_the_step_of_one_token_is_captured_once_and_replayed(small_model):
    model = small_model()
    for _ in range(2):
        model.generate(IDS, max_new_tokens=6)
    lines = captured_step(model).report().splitlines()
    assert len(lines) == 2
    assert "replayed from now on" in lines[1]


def test_a_model_that_has_generated_can_be_copied_and_goes(small_model):
    model = small_model()
    wanted = model.generate(IDS, max_new_tokens=6).tolist()
    twin = copy.deepcopy(model)
    assert twin.generate(IDS, max_new_tokens=6).tolist() == wanted
    assert twin.lm_head.weight is not model.lm_head.weight
    gone = weakref.ref(twin)
    del twin
    assert gone() is None


def test_sliding_layers_take_constant_memory(small_model):
    """B70"""
    model = small_model(layer_types=["sliding_attention"] * 3)
    cache = Cache(model.config)
    sizes = []
    with no_grad():
        for token in range(8):
            model(np.array([[token]]), cache)
            sizes.append(cache.nbytes)
    assert len(set(sizes)) == 1
    assert {layer.keys.shape[2] for layer in cache.layers} == {3}


def test_decoding_past_the_growth_of_full_layers(small_model):
    """B70"""
    model = small_model("float64")
    prompt = (np.arange(LEAST_SLOTS - 2) % 64)[None]
    tokens = model.generate(prompt, max_new_tokens=5).numpy()
    with no_grad():
        logits = model(tokens[:, :-1]).numpy()[:, LEAST_SLOTS - 3 :]
    assert (logits.argmax(axis=2) == tokens[:, LEAST_SLOTS - 2 :]).all()


def test_a_single_row_stays_a_single_row(small_model):
    assert small_model().generate([1, 2, 3], max_new_tokens=2).shape == (5,)


def test_nothing_new(small_model):
    assert small_model().generate(IDS, max_new_tokens=0).tolist() == IDS.tolist()


def test_the_end_token_ends_a_row(small_model):
    model = small_model()
    free = model.generate(IDS, max_new_tokens=6).numpy()
    end = int(free[0, 8])
    held = model.generate(IDS, max_new_tokens=6, eos_token_id=end).numpy()
    place = list(free[0, 7:]).index(end) + 8
    assert (held[0, place:] == end).all()
    assert held[0, :place].tolist() == free[0, :place].tolist()


def test_streaming_gives_what_generate_gives(small_model):
    model = small_model()
    options = {"max_new_tokens": 6, "temperature": 1.0, "seed": 3}
    streamed = list(model.stream(IDS[0], **options))
    assert streamed == model.generate(IDS[0], **options).tolist()[7:]


def test_a_seed_repeats_and_seeds_differ(small_model):
    model = small_model()
    runs = [
        model.generate(IDS, max_new_tokens=8, temperature=1.5, seed=seed).tolist()
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_sampling_follows_the_probabilities():
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
    draws = [int(sample(logits, Sampling(1.0), 0, step)[0]) for step in range(4000)]
    share = np.bincount(draws, minlength=4) / 4000
    assert share == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)


def test_top_p_keeps_the_likeliest():
    logits = np.log(np.array([[0.1, 0.5, 0.05, 0.35]], np.float32))
    draws = {int(sample(logits, Sampling(1.0, 0.6), 0, step)[0]) for step in range(200)}
    assert draws == {1, 3}


def test_a_small_top_p_is_greedy():
    logits = np.random.default_rng(0).normal(size=(5, 50)).astype(np.float32)
    drawn = sample(logits, Sampling(1.0, 1e-9), 0, 0)
    assert (drawn == logits.argmax(axis=1)).all()


REFUSED = [
    ({"temperature": -1.0}, "temperature = -1.0 is not 0 or more"),
    ({"top_p": 0.0}, "top_p = 0.0 is not in (0, 1]"),
    ({"max_new_tokens": -1}, "max_new_tokens = -1 is negative"),
    ({"seed": -1}, "seed = -1 is no whole number from 0"),
    ({"seed": 2**64}, "is no whole number from 0"),
    ({"seed": 1.5}, "seed = 1.5 is no whole number"),
    ({"temperature": "x"}, "temperature = 'x' is not 0 or more"),
    ({"temperature": None}, "temperature = None is not 0 or more"),
    ({"top_p": float("nan")}, "top_p = nan is not in (0, 1]"),
    ({"eos_token_id": 1.5}, "eos_token_id = 1.5 is no token"),
    ({"eos_token_id": "x"}, "eos_token_id = 'x' is no token"),
    ({"max_new_tokens": None}, "max_new_tokens = None is no whole number"),
    ({"max_new_tokens": "3"}, "max_new_tokens = '3' is no whole number"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refused_options(small_model, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        small_model().generate(IDS, **options)


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (np.zeros((1, 0), np.int64), ValueError, "has no tokens"),
        ([[64]], IndexError, "token id 64 is outside the vocabulary of 64"),
        ([[-1]], IndexError, "token id -1 is outside"),
        ([[1.5]], TypeError, "token ids: must be integers"),
        ([[True]], TypeError, "token ids: must be integers"),
        ("text", TypeError, "token ids: must be integers"),
        ([[1], [2, 3]], ValueError, "rows differ in length"),
        ([2**63], IndexError, "token id 9223372036854775808 is outside"),
    ],
)
def test_refused_prompts(small_model, ids, error, message):
    with pytest.raises(error, match=message):
        small_model().generate(ids, max_new_tokens=1)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_that_gives_nan_is_not_made_to_write(small_model, temperature):
    model = small_model()
    with no_grad():
        model.lm_head.weight.assign(model.lm_head.weight * float("nan"))
    with pytest.raises(CheckpointError, match="the model gave NaN for new token 1"):
        model.generate(IDS, max_new_tokens=2, temperature=temperature)


def test_a_model_takes_integers_alone(small_model):
    for ids in ([[1.5]], [[True]], np.array([[2.0]])):
        with pytest.raises(TypeError, match="token ids: must be integers"):
            small_model()(ids)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_a_quantised_model_decodes_what_it_computes_at_once(small_model, kind):
    model = small_model("float64")
    before = model(IDS).numpy()
    model.generate(IDS, max_new_tokens=4)  # the step that was captured must not be used again
    assert model.quantise(kind) is model
    assert 0 < np.abs(model(IDS).numpy() - before).max() < np.abs(before).max()
    tokens = model.generate(IDS, max_new_tokens=6).numpy()
    logits = model(tokens[:, :-1]).numpy()[:, 6:]
    assert (logits.argmax(axis=2) == tokens[:, 7:]).all()
    assert not any(name.endswith("proj.weight") for name, _ in model.named_parameters())


def test_quantise_names_the_module_of_a_weight_that_is_not_finite(small_model):
    model = small_model()
    with no_grad():
        model.lm_head.weight[2, 3] = float("inf")
    with pytest.raises(SettingError, match=r"module lm_head\n.*\n  weight\[2, 3\] is inf"):
        model.quantise()


def test_a_quantised_model_is_not_saved_nor_quantised_again(small_model, tmp_path):
    model = small_model().quantise("int8")
    with pytest.raises(CheckpointError, match="quantised"):
        save(model, tmp_path / "model")
    with pytest.raises(SettingError, match="already"):
        model.quantise("int4")
    with pytest.raises(SettingError, match="no kind 'int5'"):
        small_model().quantise("int5")
    twin = small_model().quantise("int8")
    twin.load_state_dict(model.state_dict())
    assert (twin(IDS).numpy() == model(IDS).numpy()).all()


def test_keys_and_values_are_written_where_they_lie(small_model):
    """A decoded token moves no slots, but when they double."""
    model = small_model()
    decoder = _Decoder(model, IDS, 20)
    for step in range(8):
        layers = decoder._cache.layers
        slots = [t for layer in layers for t in (layer.keys, layer.values) if t is not None]
        before = [t._node.block.address for t in slots]
        decoder.push(np.array([step, 63 - step]))
        after = [t._node.block.address for t in slots]
        assert before == after or step < 2 or config.check or not config.jit


def test_grouped_heads_and_batches_decode_what_they_compute_at_once(small_model):
    model = small_model("float64", n_kv_heads=1)
    ids = np.concatenate([IDS, 63 - IDS])
    tokens = model.generate(ids, max_new_tokens=9).numpy()
    with no_grad():
        logits = model(tokens[:, :-1]).numpy()[:, 6:]
    assert (logits.argmax(axis=2) == tokens[:, 7:]).all()
    alone = [model.generate(row[None], max_new_tokens=9).tolist()[0] for row in ids]
    assert alone == tokens.tolist()
