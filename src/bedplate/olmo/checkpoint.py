"""Checkpoints: a folder with `config.json` and safetensors, in the Hugging Face layout.

One file, `model.safetensors`, or several with `model.safetensors.index.json`, which says in
which file each name is. What index, files and config say of each other is checked, and so is
every name and shape, before a model is made of them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bedplate.dtypes import as_dtype
from bedplate.errors import CheckpointError
from bedplate.nn import Parameter
from bedplate.olmo.config import Config
from bedplate.olmo.model import Olmo3, uninitialised
from bedplate.tensor import no_grad, safetensors, tensor
from bedplate.tensor.atomic import flush_names, read_text, write_atomically
from bedplate.tensor.safetensors import Stored

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
TIED = "lm_head.weight"
SHARD_BYTES = 5_000_000_000  # as Hugging Face cuts them


def _fail(rule: str, advice: str) -> CheckpointError:
    return CheckpointError(f"load: {rule}\n  {advice}")


def load(path: str | os.PathLike[str], dtype: Any = None) -> Olmo3:
    """Make a model of a checkpoint folder, for use: `model.train()` switches dropout on.

    path     with `config.json` and the weights
    dtype    of the parameters; that of `config.json` unless given
    raises   CheckpointError if anything is missing, damaged, unknown or contradicts
    """
    path = Path(path)
    config = Config.read(path)
    arrays = read_weights(path)
    model = Olmo3(config, as_dtype(dtype or config.dtype), uninitialised)
    parameters = dict(model.named_parameters())
    _check_names(parameters, arrays, config)
    with no_grad():
        for name, parameter in parameters.items():
            parameter.assign(tensor(arrays[name].read()).astype(parameter.dtype))
            parameter.realise()  # one at a time: what was read of the file can go
    return model.eval()


def read_weights(folder: Path) -> dict[str, Stored]:
    """Every tensor of a checkpoint by name: shapes and dtypes are known, values are read later."""
    if (folder / SINGLE).exists():
        return safetensors.File(folder / SINGLE).stored
    if (folder / INDEX).exists():
        return _read_shards(folder)
    raise _fail(f"{folder} has no {SINGLE} and no {INDEX}", "give a folder that has the weights")


def _read_shards(folder: Path) -> dict[str, Stored]:
    weight_map = _read_index(folder / INDEX)
    arrays: dict[str, Stored] = {}
    for file in sorted(set(weight_map.values())):
        if not (folder / file).exists():
            raise _fail(f"{INDEX} names {file}, which is not there", "download the missing file")
        shard = safetensors.File(folder / file).stored
        for name in shard:
            if weight_map.get(name) != file:
                claim = weight_map.get(name, "no file")
                raise _fail(f"{file} holds {name}, which {INDEX} says is in {claim}", "mend either")
        arrays |= shard
    for name, file in weight_map.items():
        if name not in arrays:
            raise _fail(f"{INDEX} says that {name} is in {file}, which lacks it", "mend either")
    return arrays


def _read_index(path: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(read_text(path))["weight_map"]
        items = list(weight_map.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _fail(f"{path} is damaged: {error!r}", "download it again") from None
    for name, file in items:
        # a path that leads out of the folder is no part of the checkpoint
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".", ".."):
            raise _fail(f"{INDEX} gives {name} the file {file!r}", "files lie beside the index")
    return weight_map


def _check_names(
    parameters: Mapping[str, Parameter], arrays: dict[str, Stored], config: Config
) -> None:
    missing = [name for name in parameters if name not in arrays]
    if missing:
        raise _fail(f"the weights lack {_several(missing)}", "the checkpoint is incomplete")
    # older files carry the rotary frequencies, which follow from the config
    unknown = [n for n in arrays if n not in parameters and not n.endswith("rotary_emb.inv_freq")]
    if TIED in unknown and config.tie_word_embeddings:
        unknown.remove(TIED)
        _check_tied(arrays)
    if unknown:
        raise _fail(f"the model has no {_several(unknown)}", "config.json may be another model's")
    for name, parameter in parameters.items():
        array = arrays[name]
        if array.shape != parameter.shape:
            raise _fail(
                f"{name} has shape {array.shape}, config.json asks for {parameter.shape}",
                "config.json may be another model's",
            )
        if not array.dtype.is_float:
            raise _fail(f"{name} is {array.dtype}, not a floating dtype", "convert the weights")


def _check_tied(arrays: dict[str, Stored]) -> None:
    embedding = arrays["model.embed_tokens.weight"]
    if not np.array_equal(arrays[TIED].read(), embedding.read()):
        raise _fail(
            f"config.json ties {TIED} to the embedding, but the file has other values for it",
            "set tie_word_embeddings to false, or remove one of them",
        )


def _several(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def save(model: Olmo3, path: str | os.PathLike[str], max_shard_bytes: int = SHARD_BYTES) -> None:
    """Write a model as a checkpoint folder that Hugging Face's transformers loads too.

    A tied output projection is written once. The folder appears whole or not at all; in a
    folder that is there already, each file is replaced whole.

    max_shard_bytes   weights that take more are cut into several files
    raises            CheckpointError for a quantised model
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as temporary:
        folder = Path(temporary) / "checkpoint"
        folder.mkdir()
        write_files(model, folder, max_shard_bytes, taken=_files_of(path))
        put_in_place(folder, path)


def _files_of(path: Path) -> frozenset[str]:
    return frozenset(os.listdir(path)) if path.is_dir() else frozenset()


def write_files(
    model: Olmo3,
    folder: Path,
    max_shard_bytes: int = SHARD_BYTES,
    taken: frozenset[str] = frozenset(),
) -> None:
    """Write config and weights into a folder that nobody reads yet.

    taken  names that the parts of the weights must not have: those of a checkpoint that stays
           whole until the new index replaces the old one
    """
    if model.is_quantised:
        raise CheckpointError(
            "save: the model is quantised, which checkpoints do not hold\n"
            "  save it before quantise(); state_dict() holds the rounded weights"
        )
    config = model.config.replace(dtype=model.dtype.name)
    text = json.dumps(config.to_dict(), indent=2) + "\n"
    write_atomically(folder / "config.json", [text.encode()])
    parameters = dict(model.named_parameters())
    shards = _cut(parameters, max_shard_bytes)
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        file = SINGLE if len(shards) == 1 else _shard_name(number, len(shards), taken)
        arrays = {name: parameters[name].numpy(copy=False) for name in names}
        safetensors.write(folder / file, arrays, {"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    if len(shards) > 1:
        total = sum(parameter.nbytes for parameter in parameters.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        write_atomically(folder / INDEX, [json.dumps(index, indent=2).encode(), b"\n"])


def _shard_name(number: int, count: int, taken: frozenset[str]) -> str:
    """As Hugging Face names it, or with a generation in the name where that one is taken."""
    name = f"model-{number:05}-of-{count:05}.safetensors"
    generation = 1
    while name in taken:
        generation += 1
        name = f"model-{generation}-{number:05}-of-{count:05}.safetensors"
    return name


def _cut(parameters: Mapping[str, Parameter], max_shard_bytes: int) -> list[list[str]]:
    """Names in order, cut so that no part takes more than asked for (one alone may)."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, parameter in parameters.items():
        if shards[-1] and filled + parameter.nbytes > max_shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += parameter.nbytes
    return shards


def put_in_place(folder: Path, target: Path) -> None:
    """Rename a finished folder to `target`, or its files into it if that is there already."""
    if not target.exists():
        folder.chmod(0o755)
        os.rename(folder, target)
        flush_names(target.parent)
        return
    if not target.is_dir():
        raise CheckpointError(f"save: {target} is a file\n  give a folder")
    written = {file.name for file in folder.iterdir()}
    # the index last: it must not name files that are not there yet
    for name in sorted(written, key=lambda name: (name == INDEX, name)):
        os.replace(folder / name, target / name)
    for stale in target.glob("model*.safetensors*"):
        if stale.name not in written:
            stale.unlink()
    flush_names(target)


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Put a tokenizer beside the weights that need it."""
    source = source / "tokenizer.json" if source.is_dir() else source
    write_atomically(folder / "tokenizer.json", [source.read_bytes()])
