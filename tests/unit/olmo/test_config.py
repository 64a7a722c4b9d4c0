"""Config: both spellings of config.json, unknown keys, contradictions."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bedplate.data import load_codec
from bedplate.errors import CheckpointError
from bedplate.olmo import PRESETS, Config
from bedplate.olmo.config import FIELDS
from bedplate.olmo.rope import RopeScaling, rope_tables

CASES = Path(__file__).parents[2] / "data" / "olmo3"
YARN = {
    "attention_factor": 1.2079441541679836,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "yarn",
}
# the keys of allenai/Olmo-3-7B-Instruct, in the older spelling
PUBLISHED = {
    "architectures": ["Olmo3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "eos_token_id": 100257,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
    "max_position_embeddings": 65536,
    "model_type": "olmo3",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "pad_token_id": 100277,
    "rms_norm_eps": 1e-06,
    "rope_scaling": YARN,
    "rope_theta": 500000,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.57.1",
    "use_cache": False,
    "vocab_size": 100278,
}


@pytest.mark.parametrize("case", ["plain", "sliding", "gqa_yarn", "tied"])
def test_cases_survive_a_round_trip(case):
    table = json.loads((CASES / case / "config.json").read_text())
    config = Config.read(CASES / case)
    written = config.to_dict()
    assert {key: written[key] for key in table if key != "rope_parameters"} == {
        key: table[key] for key in table if key != "rope_parameters"
    }
    assert Config(**written) == config


def test_older_spelling_scales_full_attention_alone():
    """B67"""
    config = Config(**PUBLISHED)
    assert config.dtype == "bfloat16"
    assert config.rope["full_attention"].rope_type == "yarn"
    assert config.rope["full_attention"].factor == 8.0
    assert config.rope["sliding_attention"].rope_type == "default"
    assert {rope.rope_theta for rope in config.rope.values()} == {500000}


def test_both_spellings_give_the_same_config():
    older = Config(**PUBLISHED)
    newer = {k: v for k, v in PUBLISHED.items() if k not in ("rope_scaling", "rope_theta")}
    newer["rope_parameters"] = {
        "full_attention": {**YARN, "rope_theta": 500000},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500000},
    }
    assert Config(**newer).rope == older.rope


def test_both_spellings_may_stand_together_if_they_agree():
    table = {**PUBLISHED, "rope_parameters": {"full_attention": {**YARN, "rope_theta": 500000}}}
    assert Config(**table).rope == Config(**PUBLISHED).rope


def test_our_words_and_theirs_are_the_same():
    assert Config(d_model=64, n_heads=2, n_layers=2) == Config(
        hidden_size=64, num_attention_heads=2, num_hidden_layers=2
    )


@pytest.mark.parametrize(("n_layers", "full"), [(32, list(range(3, 32, 4))), (6, [3]), (2, [])])
def test_default_layer_types(n_layers, full):
    """B68"""
    kinds = Config(n_layers=n_layers).layer_types
    assert [i for i, kind in enumerate(kinds) if kind == "full_attention"] == full


def test_layer_types_of_the_training_code_are_kept():
    """B68"""
    kinds = ["sliding_attention", "full_attention"]
    assert Config(n_layers=2, layer_types=kinds).layer_types == tuple(kinds)


REFUSED = [
    ({"no_such_key": 1}, "unknown key 'no_such_key'"),
    ({"attn_logit_softcapping": 50.0}, "unknown key 'attn_logit_softcapping'"),
    ({"rope_scaling": {**YARN, "low_freq_factor": 1}}, "unknown key 'low_freq_factor' in rope_sca"),
    ({"rope_parameters": {"chunked": {}}}, "unknown key 'chunked' in rope_parameters"),
    ({"num_hidden_layers": 3}, "layer_types has 32 entries, which contradicts num_hidden_layers"),
    (
        {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
        "rope_theta = 500000 contradicts",
    ),
    ({"rope_parameters": {"full_attention": {"factor": 4.0}}}, "factor = 8.0 contradicts factor"),
    ({"dtype": "float32"}, "contradicts"),
    ({"d_model": 512}, "contradicts"),
    ({"sliding_window": None}, "sliding_window = None contradicts layer_types"),
    ({"model_type": "llama"}, "model_type = 'llama', not 'olmo3'"),
    ({"architectures": ["LlamaForCausalLM"]}, "has no 'Olmo3ForCausalLM'"),
    ({"hidden_act": "gelu"}, "hidden_act = 'gelu', but OLMo 3 has 'silu'"),
    ({"num_key_value_heads": 5}, "is not a multiple of num_key_value_heads = 5"),
    ({"vocab_size": 0}, "vocab_size = 0 is not a positive whole number"),
    ({"head_dim": 33}, "head_dim = 33 is odd"),
    ({"layer_types": ["chunked"] * 32}, "layer_types has 'chunked'"),
    ({"rope_scaling": {"rope_type": "yarn"}}, "factor is missing for rope_type = 'yarn'"),
    ({"rope_scaling": {**YARN, "rope_type": "longrope"}}, "rope_type = 'longrope'"),
    (
        {"rope_scaling": {**YARN, "type": "linear"}},
        "type = 'linear' contradicts rope_type = 'yarn'",
    ),
    ({"attention_dropout": 1.5}, "attention_dropout = 1.5 is no probability"),
    ({"torch_dtype": "int8"}, "dtype = 'int8'"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_refusals(changes, message):
    with pytest.raises(CheckpointError, match=re.escape(message)):
        Config(**{**PUBLISHED, **changes})


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '"' + "[" * 100_000])
def test_a_damaged_file(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"is not valid JSON|holds no table"):
        Config.read(tmp_path)


def test_a_missing_file(tmp_path):
    with pytest.raises(CheckpointError, match="cannot open"):
        Config.read(tmp_path)


def test_replace_follows_through():
    config = Config(**PUBLISHED).replace(n_layers=4, d_model=128, n_heads=4, n_kv_heads=4)
    assert (len(config.layer_types), config.head_dim) == (4, 32)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_consistent(name):
    preset = PRESETS[name]
    config = preset.config()
    assert Config(**config.to_dict()) == config
    assert preset.seq_len <= config.seq_len


SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip
WRONG: list[Any] = [
    None,
    True,
    -2,
    0,
    1.5,
    "x",
    "",
    [],
    {},
    [None],
    {"a": 1},
    float("nan"),
    float("inf"),
]
WRONG += [10**30, -(10**30), "9" * 10**4]
KEYS = [key for key, _ in FIELDS.values()] + ["rope_theta", "rope_scaling", "rope_parameters"]


@pytest.mark.parametrize("key", KEYS)
def test_any_value_under_any_key_is_taken_or_refused_by_name(key):
    for value in WRONG:
        try:
            config = Config(**{**SMALL, key: value})
        except CheckpointError as error:
            line = str(error).splitlines()[0]
            assert key in line or key.split("_")[0] in line or "rop" in line, line
            assert len(str(error)) < 500
        else:
            rope_tables(config.rope["full_attention"], config.head_dim, 0, 4)
            assert Config(**config.to_dict()) == config


@pytest.mark.parametrize("kind", ["default", "linear", "yarn"])
@pytest.mark.parametrize("key", list(RopeScaling.__dataclass_fields__))
def test_any_rotary_setting_is_taken_or_refused(kind, key):
    for value in WRONG:
        rope = {
            "rope_type": kind,
            "factor": 2.0,
            "original_max_position_embeddings": 64,
            key: value,
        }
        try:
            config = Config(**SMALL, rope_scaling=rope)
        except CheckpointError as error:
            assert len(str(error)) < 600
        else:
            tables = rope_tables(config.rope["full_attention"], config.head_dim, 0, 4)
            assert all(np.isfinite(table).all() for table in tables)


def test_the_folder_of_a_run_names_its_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match="give a folder with one"):
        Config.read(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"give .*checkpoint$"):
        Config.read(tmp_path)


def test_a_pipe_is_no_config(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="is no regular file"):
        Config.read(tmp_path)
    with pytest.raises(CheckpointError, match="has no readable config"):
        load_codec(tmp_path)
    (tmp_path / "config.json").unlink()
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CheckpointError, match="1099511627776 bytes, too many"):
        Config.read(tmp_path)
