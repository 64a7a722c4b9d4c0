"""Rotary position embedding: settings by layer type, frequencies, tables of cosines and sines.

A head's vector of size D is D/2 pairs (x[i], x[i + D/2]); the pair i at position p is turned
by the angle p * frequency[i]. Positions, frequencies and angles are float64 here, whatever the
dtype of the model: bfloat16 would round position 15962 to 15936 and turn the pair elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.errors import CheckpointError

DEFAULT_THETA = 500000.0
MAX_NUMBER = 1e30  # of any setting: what is larger is a slip, and so is infinity
LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class RopeScaling:
    """How positions turn pairs.

    rope_type         "default", "linear" (positions divided by factor) or "yarn"
    rope_theta        frequency[i] = rope_theta ** (-2 i / D)
    factor            by how much the context was extended
    original_max_position_embeddings   positions before it was extended
    attention_factor  scales cosines and sines; None: 0.1 ln(factor) + 1, or from mscale
    beta_fast, beta_slow  turns over the original positions above which a pair is left alone,
                          and below which it is slowed by the whole factor
    truncate          round the ends of the ramp between them outward to whole pairs
    """

    rope_type: str = "default"
    rope_theta: float = DEFAULT_THETA
    factor: float | None = None
    original_max_position_embeddings: int | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


_NEEDS = {
    "default": (),
    "linear": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings"),
}
_KEYS = frozenset(RopeScaling.__dataclass_fields__)


def _fail(rule: str, advice: str) -> CheckpointError:
    rule = rule if len(rule) <= 300 else rule[:300] + "..."  # a file's value may be long
    return CheckpointError(f"Config: {rule}\n  {advice}")


def rope_keys(rope: RopeScaling) -> dict[str, Any]:
    """The table for `config.json`; keys at their defaults are left out."""
    keys = {k: v for k, v in vars(rope).items() if v is not None}
    if rope.truncate:
        del keys["truncate"]
    return keys


def rope_by_layer_type(keys: dict[str, Any]) -> dict[str, RopeScaling]:
    """Settings by layer type from either spelling.

    newer: rope_parameters, a table by layer type (or one flat table);
    older: rope_theta for all layers, rope_scaling for the full-attention layers alone
    raises CheckpointError for unknown keys, and if the two spellings contradict
    """
    theta, scaling = keys.get("rope_theta"), keys.get("rope_scaling")
    tables = _tables(keys.get("rope_parameters"))
    for kind, table in tables.items():
        _merge(table, {} if theta is None else {"rope_theta": theta}, kind)
    if scaling is not None:
        _merge(tables["full_attention"], _modern(scaling, "rope_scaling"), "full_attention")
    return {kind: _rope(kind, table) for kind, table in tables.items()}


def _tables(parameters: Any) -> dict[str, dict[str, Any]]:
    if parameters is None:
        return {kind: {} for kind in LAYER_TYPES}
    if not isinstance(parameters, dict):
        raise _fail(f"rope_parameters = {parameters!r} is no table", "give one by layer type")
    if parameters.keys() & _KEYS:  # one flat table: scaling is for full-attention layers alone
        flat = _modern(parameters, "rope_parameters")
        theta = {"rope_theta": flat["rope_theta"]} if "rope_theta" in flat else {}
        return {"full_attention": flat, "sliding_attention": theta}
    unknown = [kind for kind in parameters if kind not in LAYER_TYPES]
    if unknown:
        raise _fail(
            f"unknown key {unknown[0]!r} in rope_parameters", f"there are {', '.join(LAYER_TYPES)}"
        )
    return {
        kind: _modern(parameters.get(kind) or {}, f"rope_parameters.{kind}") for kind in LAYER_TYPES
    }


def _modern(table: Any, where: str) -> dict[str, Any]:
    """The table with "type", the oldest spelling of "rope_type", renamed; keys checked."""
    if not isinstance(table, dict):
        raise _fail(f"{where} = {table!r} is no table", "give rope_type, rope_theta, ...")
    table = dict(table)
    if "type" in table:
        kind = table.pop("type")
        if table.setdefault("rope_type", kind) != kind:
            raise _fail(
                f"type = {kind!r} contradicts rope_type = {table['rope_type']!r} in {where}",
                "keep the one that is meant",
            )
    for key in table:
        if key not in _KEYS:
            raise _fail(f"unknown key {key!r} in {where}", f"there are {', '.join(sorted(_KEYS))}")
    return {key: value for key, value in table.items() if value is not None}


def _merge(table: dict[str, Any], more: dict[str, Any], kind: str) -> None:
    for key, value in more.items():
        if table.setdefault(key, value) != value:
            raise _fail(
                f"{key} = {value!r} contradicts {key} = {table[key]!r} in rope_parameters.{kind}",
                "keep the one that is meant",
            )


def _rope(kind: str, table: dict[str, Any]) -> RopeScaling:
    rope = RopeScaling(**table)
    if rope.rope_type not in list(_NEEDS):  # a list: the file's value may not be hashable
        raise _fail(
            f"rope_type = {rope.rope_type!r} of {kind}", f"there are {', '.join(map(repr, _NEEDS))}"
        )
    for key in _NEEDS[rope.rope_type]:
        if getattr(rope, key) is None:
            raise _fail(f"{key} is missing for rope_type = {rope.rope_type!r}", "add it")
    _check_numbers(kind, rope)
    return rope


def _check_numbers(kind: str, rope: RopeScaling) -> None:
    for key, value in vars(rope).items():
        if key in ("rope_type", "truncate") or value is None:
            continue
        if type(value) not in (int, float) or not 0 < value <= MAX_NUMBER:
            raise _fail(f"{key} = {repr(value)[:80]} of {kind} is no positive number", "mend it")
    if (rope.beta_fast or 32) < (rope.beta_slow or 1):
        raise _fail(f"beta_fast of {kind} is less than beta_slow", "fast pairs are left alone")
    if rope.rope_theta <= 1:
        raise _fail(f"rope_theta = {rope.rope_theta} of {kind} is not above 1", "mend it")
    if type(rope.truncate) is not bool:
        raise _fail(f"truncate = {rope.truncate!r} of {kind} is not true or false", "mend it")


def frequencies(rope: RopeScaling, head_dim: int) -> np.ndarray:
    """The angle by which each pair turns from one position to the next.

    returns  (head_dim / 2,) float64
    source   Su et al. 2021, arXiv:2104.09864; YaRN: Peng et al. 2023, arXiv:2309.00071,
             with the ramp's end bounded as Hugging Face does (head_dim - 1), not as OLMo's
             training code does (head_dim / 2 - 1); they differ for small heads alone
    """
    plain = rope.rope_theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if rope.rope_type == "default":
        return plain
    factor = float(rope.factor or 1.0)
    if rope.rope_type == "linear":
        return plain / factor
    low, high = _ramp_ends(rope, head_dim)
    slowed = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0.0, 1.0)
    return plain * (1.0 - slowed) + plain / factor * slowed


def _ramp_ends(rope: RopeScaling, head_dim: int) -> tuple[float, float]:
    """Between which pairs YaRN goes from leaving them alone to slowing them wholly."""
    positions = float(rope.original_max_position_embeddings or 0)

    def pair_that_turns(turns: float) -> float:
        ratio = math.log(positions / (turns * 2 * math.pi))
        return head_dim * ratio / (2 * math.log(rope.rope_theta))

    low = pair_that_turns(rope.beta_fast or 32)
    high = pair_that_turns(rope.beta_slow or 1)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    return low, high + 0.001 if high == low else high


def attention_factor(rope: RopeScaling) -> float:
    """By what cosines and sines are scaled (YaRN's temperature); 1 for the other types."""
    if rope.rope_type != "yarn":
        return 1.0
    if rope.attention_factor is not None:
        return rope.attention_factor
    factor = float(rope.factor or 1.0)
    if rope.mscale and rope.mscale_all_dim:
        return _temperature(factor, rope.mscale) / _temperature(factor, rope.mscale_all_dim)
    return _temperature(factor, 1.0)


def _temperature(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def rope_tables(
    rope: RopeScaling, head_dim: int, start: int, stop: int, dtype: Any = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines for positions `start` to `stop`.

    returns  two arrays (stop - start, head_dim / 2) of dtype, cast last
    """
    positions = np.arange(start, stop, dtype=np.float64)
    angles = positions[:, None] * frequencies(rope, head_dim)  # (T, D / 2)
    scale = attention_factor(rope)
    return (np.cos(angles) * scale).astype(dtype), (np.sin(angles) * scale).astype(dtype)
