"""Peer test: checkpoints go to transformers and come back, with the same logits.

Run with a Python that has torch and transformers as well as what Bedplate needs.
"""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from bedplate.olmo import Config, Olmo3, load, save  # noqa: E402
from bedplate.tensor import manual_seed  # noqa: E402

IDS = np.array([[5, 1, 9, 33, 2, 17, 60, 8, 21, 3], [8, 8, 1, 0, 63, 4, 21, 5, 6, 7]])
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 10000.0,
}
KINDS = {
    "plain": {},
    "tied": {"tie_word_embeddings": True},
    "grouped": {"n_kv_heads": 2},
    "yarn": {"rope_parameters": {"full_attention": YARN}},
    "bias": {"attention_bias": True},
}


def ours(**changes):
    manual_seed(3)
    sizes = {
        "vocab_size": 64,
        "d_model": 32,
        "intermediate_size": 48,
        "n_layers": 4,
        "n_heads": 4,
        "seq_len": 64,
        "sliding_window": 3,
        "rope_theta": None if "rope_parameters" in changes else 10000.0,
        "initializer_range": 0.2,
    }
    return Olmo3(Config(**{**sizes, **changes}))


def theirs(folder, **options):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", **options
    )
    return model.eval()


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor(IDS)).logits.float().numpy()


def close(found, wanted, tolerance=2e-5):
    return np.abs(found - wanted).max() < tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_shard_bytes", [10**9, 30_000])
def test_what_is_saved_here_loads_there(kind, max_shard_bytes, tmp_path):
    model = ours(**KINDS[kind])
    save(model, tmp_path / "model", max_shard_bytes)
    peer = theirs(tmp_path / "model")
    assert type(peer).__name__ == "Olmo3ForCausalLM"
    assert close(model(IDS).numpy(), logits_of(peer))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_there_loads_here(kind, tmp_path):
    save(ours(**KINDS[kind]), tmp_path / "first")
    peer = theirs(tmp_path / "first")
    peer.save_pretrained(tmp_path / "second", max_shard_size="30KB")
    assert close(load(tmp_path / "second")(IDS).numpy(), logits_of(peer))


def test_bfloat16_goes_round(tmp_path):
    save(ours().to("bfloat16"), tmp_path / "model")
    peer = theirs(tmp_path / "model", dtype=torch.bfloat16)
    found = load(tmp_path / "model")(IDS).astype("float32").numpy()
    # bfloat16 has 8 bits; roundings differ between implementations
    assert close(found, logits_of(peer), 0.05)


def test_greedy_tokens_agree(tmp_path):
    model = ours()
    save(model, tmp_path / "model")
    prompt = torch.tensor(IDS[:1, :4])
    with torch.no_grad():
        wanted = theirs(tmp_path / "model").generate(
            prompt, max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    assert model.generate(IDS[:1, :4], max_new_tokens=24).tolist() == wanted.tolist()


def test_the_config_survives_their_hands(tmp_path):
    save(ours(**KINDS["yarn"]), tmp_path / "first")
    theirs(tmp_path / "first").save_pretrained(tmp_path / "second")
    tables = [
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("first", "second")
    ]
    first, second = (Config(**table) for table in tables)
    assert first.rope["sliding_attention"] == second.rope["sliding_attention"]
    assert first.layer_types == second.layer_types
