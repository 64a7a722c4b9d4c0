"""The model: what does not change its bits, dtypes, names, refusals."""

import numpy as np
import pytest

from bedplate.dtypes import bfloat16
from bedplate.tensor import no_grad, tensor

IDS = np.random.default_rng(0).integers(0, 64, (5, 37))


def logits(model, ids):
    with no_grad():
        return model(ids).numpy()


@pytest.mark.parametrize("time", [1, 7, 37])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(small_model, time):
    model = small_model()
    whole = logits(model, IDS[:, :time])
    alone = [logits(model, IDS[row : row + 1, :time]) for row in range(5)]
    assert np.array_equal(whole, np.concatenate(alone))


def test_what_comes_later_changes_nothing_before(small_model):
    model = small_model("float64")
    other = IDS.copy()
    other[:, 20:] = 63 - other[:, 20:]
    assert np.array_equal(logits(model, IDS)[:, :20], logits(model, other)[:, :20])


def test_a_window_ends(small_model):
    model = small_model("float64", n_layers=1, layer_types=["sliding_attention"])
    other = IDS.copy()
    other[:, 0] = 63 - other[:, 0]
    changed = logits(model, IDS) != logits(model, other)
    assert changed[:, :3].any(axis=(0, 2)).all()
    assert not changed[:, 3:].any()


def test_ids_of_any_kind(small_model):
    model = small_model()
    wanted = logits(model, IDS[:1])
    for ids in (IDS[0], IDS[0].tolist(), IDS[:1].astype(np.uint8), tensor(IDS[:1])):
        assert np.array_equal(logits(model, ids), wanted)


def test_an_id_outside_the_vocabulary(small_model):
    with pytest.raises(IndexError, match="64"):
        logits(small_model(), [[1, 64]])


def test_bfloat16_stays_near(small_model):
    model = small_model()
    wide = logits(model, IDS)
    narrow = logits(model.to(bfloat16), IDS).astype(np.float32)
    assert np.abs(narrow - wide).max() < 0.1 * np.abs(wide).max()


def test_tied_weights_are_one_parameter(small_model):
    names = [name for name, _ in small_model(tie_word_embeddings=True).named_parameters()]
    assert "lm_head.weight" not in names
    assert names[0] == "model.embed_tokens.weight"


def test_the_count_of_parameters(small_model):
    for changes in ({}, {"tie_word_embeddings": True}, {"attention_bias": True}):
        model = small_model(**changes)
        counted = sum(parameter.size for parameter in model.parameters())
        assert model.config.n_parameters == counted


def test_a_target_of_minus_100_is_left_out(small_model):
    model = small_model()
    targets = IDS[:, 1:].copy()
    targets[:, 10:] = -100
    masked = model.loss(IDS[:, :-1], targets).item()
    assert masked == pytest.approx(model.loss(IDS[:, :10], IDS[:, 1:11]).item(), rel=1e-5)


def test_z_loss_is_added(small_model):
    model = small_model()
    plain = model.loss(IDS[:, :-1], IDS[:, 1:]).item()
    with_z = model.loss(IDS[:, :-1], IDS[:, 1:], z_loss=0.1).item()
    totals = np.log(np.exp(logits(model, IDS[:, :-1]).astype(np.float64)).sum(-1))
    assert with_z - plain == pytest.approx(0.1 * (totals**2).mean(), rel=1e-4)
