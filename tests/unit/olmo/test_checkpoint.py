"""Checkpoints: round trips, shards, tied weights, hostile files."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from bedplate.errors import CheckpointError
from bedplate.olmo import load, save
from bedplate.olmo.checkpoint import INDEX, SINGLE, read_weights
from bedplate.tensor import no_grad, safetensors

IDS = np.array([[1, 2, 3, 4]])


def logits(model):
    with no_grad():
        return model(IDS).numpy()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("max_shard_bytes", [10**9, 20_000])
def test_saved_and_loaded_is_the_same(small_model, tmp_path, tied, max_shard_bytes):
    model = small_model(tie_word_embeddings=tied)
    save(model, tmp_path / "a", max_shard_bytes)
    assert (tmp_path / "a" / INDEX).exists() == (max_shard_bytes == 20_000)
    assert np.array_equal(logits(load(tmp_path / "a")), logits(model))


def test_tied_weights_are_stored_once_and_stay_tied(small_model, tmp_path):
    """B74"""
    save(small_model(tie_word_embeddings=True), tmp_path / "a")
    assert "lm_head.weight" not in read_weights(tmp_path / "a")
    model = load(tmp_path / "a")
    assert model.lm_head.weight is model.model.embed_tokens.weight
    with no_grad():
        model.model.embed_tokens.weight.assign(model.model.embed_tokens.weight * 2.0)
    assert np.array_equal(model.lm_head.weight.numpy(), model.model.embed_tokens.weight.numpy())


def test_a_loaded_model_is_for_use(small_model, tmp_path):
    save(small_model(attention_dropout=0.5), tmp_path / "a")
    model = load(tmp_path / "a")
    assert np.array_equal(logits(model), logits(model))
    assert not np.array_equal(logits(model.train()), logits(model))


def test_dtypes(small_model, tmp_path):
    model = small_model("bfloat16")
    save(model, tmp_path / "a")
    assert json.loads((tmp_path / "a" / "config.json").read_text())["dtype"] == "bfloat16"
    loaded = load(tmp_path / "a")
    assert loaded.dtype.name == "bfloat16"
    assert load(tmp_path / "a", dtype="float32").dtype.name == "float32"
    state = loaded.state_dict()
    for name, value in model.state_dict().items():
        assert value.numpy().tobytes() == state[name].numpy().tobytes(), name


def test_saving_over_another_shape_of_checkpoint_leaves_no_old_file(small_model, tmp_path):
    model = small_model()
    save(model, tmp_path / "a", 20_000)
    save(model, tmp_path / "a")
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == ["config.json", SINGLE]
    save(model, tmp_path / "a", 20_000)
    assert not (tmp_path / "a" / SINGLE).exists()
    assert np.array_equal(logits(load(tmp_path / "a")), logits(model))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.fixture
def folder(small_model, tmp_path):
    save(small_model(), tmp_path / "whole")
    return tmp_path / "whole"


@pytest.fixture
def shards(small_model, tmp_path):
    save(small_model(), tmp_path / "shards", 20_000)
    return tmp_path / "shards"


def rewrite(folder, change):
    arrays = dict(safetensors.File(folder / SINGLE))
    change(arrays)
    safetensors.write(folder / SINGLE, arrays)


def test_a_missing_weight_is_named(folder):
    rewrite(folder, lambda arrays: arrays.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(CheckpointError, match=r"the weights lack model\.layers\.1\.mlp\.up_proj"):
        load(folder)


def test_a_missing_untied_head_is_an_error(folder):
    """B74"""
    rewrite(folder, lambda arrays: arrays.pop("lm_head.weight"))
    with pytest.raises(CheckpointError, match=r"the weights lack lm_head\.weight"):
        load(folder)


def test_an_unknown_weight_is_named(folder):
    rewrite(folder, lambda arrays: arrays.update(extra=np.zeros(3, np.float32)))
    with pytest.raises(CheckpointError, match="the model has no extra"):
        load(folder)


def test_old_rotary_buffers_are_passed_over(folder):
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    rewrite(folder, lambda arrays: arrays.update({name: np.zeros(4, np.float32)}))
    load(folder)


def test_a_wrong_shape_is_named(folder):
    rewrite(folder, lambda arrays: arrays.update({"model.norm.weight": np.zeros(31, np.float32)}))
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight has shape \(31,\)"):
        load(folder)


def test_integers_are_no_weights(folder):
    rewrite(folder, lambda arrays: arrays.update({"model.norm.weight": np.zeros(32, np.int32)}))
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is int32"):
        load(folder)


def test_a_tied_head_that_differs(small_model, tmp_path):
    save(small_model(tie_word_embeddings=True), tmp_path / "a")
    embedding = read_weights(tmp_path / "a")["model.embed_tokens.weight"]
    rewrite(tmp_path / "a", lambda arrays: arrays.update({"lm_head.weight": embedding.read()}))
    load(tmp_path / "a")
    rewrite(tmp_path / "a", lambda arrays: arrays.update({"lm_head.weight": embedding.read() + 1}))
    with pytest.raises(CheckpointError, match="has other values for it"):
        load(tmp_path / "a")


def test_no_weights(folder):
    (folder / SINGLE).unlink()
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        load(folder)


def test_no_such_folder(tmp_path):
    with pytest.raises(CheckpointError, match="cannot open"):
        load(tmp_path / "nowhere")


def test_every_truncation_is_an_error(folder):
    content = (folder / SINGLE).read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1]:
        (folder / SINGLE).write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"truncated|not valid JSON"):
            load(folder)


def test_an_index_that_names_an_absent_key(shards):
    """B74"""
    edit_index(shards, lambda table: table.update({"absent.weight": "model-00001-of-00002"}))
    with pytest.raises(CheckpointError, match=r"names model-00001-of-00002, which is not there"):
        load(shards)


def test_an_index_that_lies_about_a_key(shards):
    first = min(file.name for file in shards.glob("model-*"))
    edit_index(shards, lambda table: table.update({"absent.weight": first}))
    with pytest.raises(CheckpointError, match=r"absent\.weight is in .*, which lacks it"):
        load(shards)


def test_a_shard_with_a_key_that_the_index_lacks(shards):
    edit_index(shards, lambda table: table.pop("model.norm.weight"))
    with pytest.raises(CheckpointError, match=r"holds model\.norm\.weight, which .* in no file"):
        load(shards)


def test_a_missing_shard(shards):
    last = max(shards.glob("model-*"))
    last.unlink()
    with pytest.raises(CheckpointError, match=f"names {last.name}, which is not there"):
        load(shards)


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "", 3, ".."])
def test_an_index_that_leads_out_of_the_folder(shards, file):
    edit_index(shards, lambda table: table.update({"model.norm.weight": file}))
    with pytest.raises(CheckpointError, match="files lie beside the index"):
        load(shards)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}'])
def test_a_damaged_index(shards, text):
    (shards / INDEX).write_text(text)
    with pytest.raises(CheckpointError, match="is damaged"):
        load(shards)


def edit_index(folder, change):
    table = json.loads((folder / INDEX).read_text())
    change(table["weight_map"])
    (folder / INDEX).write_text(json.dumps(table))


def test_a_save_that_fails_leaves_the_old_checkpoint(folder, small_model, monkeypatch):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors, "write", fail)
    with pytest.raises(OSError, match="no space left"):
        save(small_model(), folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_copy_loads(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    assert np.array_equal(logits(load(tmp_path / "copy")), logits(load(folder)))


def test_a_pipe_is_no_file_of_weights(folder):
    (folder / SINGLE).unlink()
    os.mkfifo(folder / SINGLE)
    with pytest.raises(CheckpointError, match="is no regular file"):
        load(folder)


@pytest.mark.parametrize("n_files", range(12))
def test_a_crash_at_any_point_of_a_sharded_save_leaves_one_whole_checkpoint(
    small_model, tmp_path, monkeypatch, n_files
):
    old, new = small_model(), small_model()
    with no_grad():
        for parameter in new.parameters():
            parameter.assign(parameter + 1.0)
    path = tmp_path / "checkpoint"
    save(old, path, max_shard_bytes=20_000)
    replace, unlink, left = os.replace, Path.unlink, [n_files]

    def crashing(change):
        def changed(*arguments, **options):
            if left[0] == 0 and str(path) in str(arguments[-1]):
                raise KeyboardInterrupt
            left[0] -= str(path) in str(arguments[-1])
            return change(*arguments, **options)

        return changed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crashing(replace))
        patch.setattr(Path, "unlink", crashing(unlink))
        with contextlib.suppress(KeyboardInterrupt):
            save(new, path, max_shard_bytes=20_000)
    found = {name: p.numpy() for name, p in load(path).named_parameters()}
    expected = [
        all(np.array_equal(found[name], p.numpy()) for name, p in model.named_parameters())
        for model in (old, new)
    ]
    assert any(expected)
    save(new, path, max_shard_bytes=20_000)
    assert len(list(path.glob("model*.safetensors"))) == len(set(_weight_map(path).values()))


def _weight_map(path):
    return json.loads((path / INDEX).read_text())["weight_map"]


def test_a_pipe_is_no_index(folder):
    (folder / SINGLE).unlink()
    os.mkfifo(folder / INDEX)
    with pytest.raises(CheckpointError, match="is no regular file"):
        load(folder)
