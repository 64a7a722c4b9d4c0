"""Config: the sizes and switches of one OLMo 3, read from and written to `config.json`.

One table maps the words used here to the keys of the Hugging Face file; both are accepted
when a Config is made. A key that is unknown, or two keys that contradict each other, would
silently give another model, so they are errors.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bedplate.errors import CheckpointError
from bedplate.olmo.rope import MAX_NUMBER, RopeScaling, rope_by_layer_type, rope_keys
from bedplate.tensor.atomic import read_text

SLIDING = "sliding_attention"
FULL = "full_attention"

# our word -> (key in config.json, default); None: found from the others
FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("vocab_size", 50304),
    "d_model": ("hidden_size", 4096),
    "intermediate_size": ("intermediate_size", 11008),
    "n_layers": ("num_hidden_layers", 32),
    "n_heads": ("num_attention_heads", 32),
    "n_kv_heads": ("num_key_value_heads", None),
    "head_dim": ("head_dim", None),
    "seq_len": ("max_position_embeddings", 2048),
    "sliding_window": ("sliding_window", 4096),
    "layer_types": ("layer_types", None),
    "rms_norm_eps": ("rms_norm_eps", 1e-5),
    "tie_word_embeddings": ("tie_word_embeddings", False),
    "attention_bias": ("attention_bias", False),
    "attention_dropout": ("attention_dropout", 0.0),
    "hidden_act": ("hidden_act", "silu"),
    "initializer_range": ("initializer_range", 0.02),
    "bos_token_id": ("bos_token_id", None),
    "eos_token_id": ("eos_token_id", None),
    "pad_token_id": ("pad_token_id", None),
    "dtype": ("dtype", "float32"),
}
_WORD = {key: word for word, (key, _) in FIELDS.items()}
_ROPE_KEYS = frozenset({"rope_parameters", "rope_theta", "rope_scaling"})
# another spelling of a key: both may be there if they agree
_OLDER_SPELLING = {"torch_dtype": "dtype"}

# keys that say nothing about the computation; kept, and written back
_BOOK_KEEPING_TEXT = """
    _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path
    add_cross_attention architectures auto_map bad_words_ids begin_suppress_tokens
    chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id
    diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
    exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id id2label ignore_keys_at_rope_validation is_decoder
    is_encoder_decoder label2id length_penalty max_length min_length model_type
    no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions
    output_hidden_states output_scores prefix problem_type pruned_heads remove_invalid_values
    repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens
    task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class
    top_k top_p torchscript transformers_version typical_p unsloth_version use_bfloat16
    use_cache
"""
BOOK_KEEPING = frozenset(_BOOK_KEEPING_TEXT.split())


def _fail(rule: str, advice: str) -> CheckpointError:
    rule = rule if len(rule) <= 300 else rule[:300] + "..."  # a file's value may be long
    return CheckpointError(f"Config: {rule}\n  {advice}")


class Config:
    """The sizes and switches of one OLMo 3.

    Made from keywords: the words below or the keys of `config.json`, in either spelling of
    the rotary settings (`rope_parameters`, or `rope_theta` with `rope_scaling`).

    vocab_size           rows of the embedding
    d_model              width of the residual stream ("hidden_size")
    intermediate_size    width of the feed-forward layer
    n_layers             ("num_hidden_layers")
    n_heads, n_kv_heads  query heads, key/value heads ("num_attention_heads", ...)
    head_dim             d_model / n_heads unless given
    seq_len              positions the model is meant for ("max_position_embeddings")
    sliding_window       a query sees itself and the `sliding_window - 1` positions before it
    layer_types          "sliding_attention" or "full_attention" by layer; unless given, every
                         fourth layer is full (the rule of Hugging Face; the training code of
                         OLMo makes the last layer full as well and writes the list down)
    rope                 layer type -> RopeScaling
    dtype                of the weights on disk
    raises               CheckpointError for an unknown key and for keys that contradict
    >>> Config(d_model=64, n_heads=2, n_layers=8).layer_types[3]
    'full_attention'
    """

    vocab_size: int
    d_model: int
    intermediate_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    seq_len: int
    sliding_window: int
    layer_types: tuple[str, ...]
    rms_norm_eps: float
    tie_word_embeddings: bool
    attention_bias: bool
    attention_dropout: float
    hidden_act: str
    initializer_range: float
    bos_token_id: int | None
    eos_token_id: int | list[int] | None
    pad_token_id: int | None
    dtype: str
    rope: dict[str, RopeScaling]
    book_keeping: dict[str, Any]

    def __init__(self, **keys: Any) -> None:
        values, rope, self.book_keeping = _sort_keys(keys)
        for word, (_, default) in FIELDS.items():
            setattr(self, word, values.get(word, default))
        _check_values(self)
        self._complete()
        _check_layers(self)
        self.rope = rope_by_layer_type(rope)

    def _complete(self) -> None:
        """Fill in what is found from other values."""
        if self.n_kv_heads is None:
            self.n_kv_heads = self.n_heads
        if self.head_dim is None:
            self.head_dim = self.d_model // self.n_heads
        _check_heads(self)
        if self.layer_types is None:
            self.layer_types = default_layer_types(self.n_layers)
        self.layer_types = tuple(self.layer_types)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Config:
        """From the table that `config.json` holds."""
        return cls(**table)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Config:
        """From a `config.json`, or a folder that has one.

        raises  CheckpointError if there is none, or it is not valid
        """
        path = Path(path)
        path = path / "config.json" if path.is_dir() else path
        try:
            table = json.loads(read_text(path))
        except CheckpointError:
            raise
        except OSError as error:
            below = path.parent / "checkpoint"  # of a folder that `bedplate train` made
            there = below if (below / path.name).is_file() else "a folder with one"
            raise _fail(f"cannot open {path}: {error.strerror}", f"give {there}") from None
        except (ValueError, RecursionError) as error:
            raise _fail(f"{path} is not valid JSON: {error}", "copy the file again") from None
        if not isinstance(table, dict):
            raise _fail(f"{path} holds no table of keys", "copy the file again")
        return cls(**table)

    def to_dict(self) -> dict[str, Any]:
        """The table for `config.json`, in the newer spelling."""
        table: dict[str, Any] = {
            **self.book_keeping,
            "architectures": ["Olmo3ForCausalLM"],
            "model_type": "olmo3",
        }
        for word, (key, _) in FIELDS.items():
            value = getattr(self, word)
            table[key] = list(value) if isinstance(value, tuple) else value
        table["rope_parameters"] = {kind: rope_keys(rope) for kind, rope in self.rope.items()}
        return dict(sorted(table.items()))

    def replace(self, **changes: Any) -> Config:
        """The same config with some keys changed; sizes that follow from them follow."""
        table = self.to_dict()
        changes = {FIELDS[word][0] if word in FIELDS else word: v for word, v in changes.items()}
        if changes.keys() & {"hidden_size", "num_attention_heads"} and "head_dim" not in changes:
            del table["head_dim"]
        if "num_attention_heads" in changes and self.n_kv_heads == self.n_heads:
            del table["num_key_value_heads"]
        if "num_hidden_layers" in changes:
            del table["layer_types"]
        return Config(**{**table, **changes})

    def window(self, layer: int) -> int | None:
        """How many positions a query of this layer sees, itself counted; None: all before it."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The tokens that end a text: none, one or several."""
        if self.eos_token_id is None:
            return ()
        if isinstance(self.eos_token_id, int):
            return (self.eos_token_id,)
        return tuple(self.eos_token_id)

    @property
    def n_parameters(self) -> int:
        """How many numbers the weights hold, tied ones once."""
        q_size, kv_size = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        attention = self.d_model * (2 * q_size + 2 * kv_size) + q_size + kv_size
        if self.attention_bias:
            attention += q_size + 2 * kv_size + self.d_model
        layer = attention + 3 * self.d_model * self.intermediate_size + 2 * self.d_model
        embeddings = 1 if self.tie_word_embeddings else 2
        return self.n_layers * layer + embeddings * self.vocab_size * self.d_model + self.d_model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        words = ", ".join(f"{word}={getattr(self, word)!r}" for word in FIELDS)
        return f"Config({words}, rope={self.rope!r})"


def default_layer_types(n_layers: int) -> tuple[str, ...]:
    """Three sliding layers, then a full one, over and over."""
    return tuple(FULL if layer % 4 == 3 else SLIDING for layer in range(n_layers))


def _sort_keys(keys: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Keys by what they are: (values by our word, rotary settings, book-keeping)."""
    values: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    rope: dict[str, Any] = {}
    book_keeping: dict[str, Any] = {}
    for key, value in keys.items():
        plain = _OLDER_SPELLING.get(key, key)
        word = plain if plain in FIELDS else _WORD.get(plain)
        if word is not None:
            if word in values and values[word] != value:
                raise _contradiction(spelled[word], values[word], key, value)
            values[word], spelled[word] = value, key
        elif key in _ROPE_KEYS:
            rope[key] = value
        elif key in BOOK_KEEPING:
            book_keeping[key] = value
        else:
            raise _unknown_key(key, value)
    _check_kind(book_keeping)
    return values, rope, book_keeping


def _contradiction(key: str, value: Any, other_key: str, other_value: Any) -> CheckpointError:
    return _fail(
        f"{key} = {value!r} contradicts {other_key} = {other_value!r}", "keep the one that is meant"
    )


def _unknown_key(key: str, value: Any) -> CheckpointError:
    return _fail(
        f"unknown key {key!r} (its value is {str(value)[:80]!r})",
        "it may change what the model computes, so it is not ignored: remove it if it does not",
    )


def _check_kind(book_keeping: dict[str, Any]) -> None:
    kind = book_keeping.get("model_type", "olmo3")
    if kind != "olmo3":
        raise _fail(f"model_type = {kind!r}, not 'olmo3'", "give a checkpoint of an OLMo 3")
    names = book_keeping.get("architectures") or ["Olmo3ForCausalLM"]
    if "Olmo3ForCausalLM" not in names:
        raise _fail(
            f"architectures = {names!r} has no 'Olmo3ForCausalLM'",
            "give a language model of OLMo 3",
        )


_SIZES = ["vocab_size", "d_model", "intermediate_size", "n_layers", "n_heads", "seq_len"]
_SIZES_OR_NONE = ["n_kv_heads", "head_dim"]  # None: found from the others
_LARGEST = {"n_layers": 10_000}
_LARGEST_SIZE = 2**31 - 1
_DTYPES = ["float32", "float64", "bfloat16", "float16"]


def _check_values(config: Config) -> None:
    """Each value by itself, before others are found from it."""
    for word in _SIZES:
        _check_size(word, getattr(config, word))
    for word in _SIZES_OR_NONE:
        if getattr(config, word) is not None:
            _check_size(word, getattr(config, word))
    for word in ("tie_word_embeddings", "attention_bias"):
        if type(getattr(config, word)) is not bool:
            raise _wrong(word, getattr(config, word), "true or false")
    for word in ("bos_token_id", "pad_token_id"):
        if getattr(config, word) is not None and not _is_id(getattr(config, word)):
            raise _wrong(word, getattr(config, word), "a token's number or null")
    _check_ends(config.eos_token_id)
    kinds = config.layer_types
    if kinds is not None and not isinstance(kinds, list | tuple):
        raise _wrong("layer_types", kinds, "a list with a kind for each layer")
    _check_switches(config)


def _check_size(word: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise _wrong(word, value, "a positive whole number")
    largest = _LARGEST.get(word, _LARGEST_SIZE)
    if value > largest:
        raise _wrong(word, value, f"{largest} or less")


def _check_ends(value: Any) -> None:
    ids = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if not all(_is_id(one) for one in ids):
        raise _wrong("eos_token_id", value, "a token's number, a list of them or null")


def _is_id(value: Any) -> bool:
    return type(value) is int and -1 <= value <= _LARGEST_SIZE  # -1: none, in some files


def _wrong(word: str, value: Any, wanted: str) -> CheckpointError:
    return _fail(f"{FIELDS[word][0]} = {repr(value)[:80]} is not {wanted}", "mend it")


def _check_heads(config: Config) -> None:
    if config.n_heads % config.n_kv_heads:
        raise _fail(
            f"num_attention_heads = {config.n_heads} is not a multiple of "
            f"num_key_value_heads = {config.n_kv_heads}",
            "each key/value head serves an equal number of query heads",
        )
    if config.head_dim < 1:
        raise _fail(
            f"hidden_size = {config.d_model} is less than num_attention_heads = {config.n_heads}",
            "give head_dim, or mend either",
        )
    if config.head_dim % 2:
        raise _fail(f"head_dim = {config.head_dim} is odd", "rotary embedding turns pairs")


def _check_layers(config: Config) -> None:
    if len(config.layer_types) != config.n_layers:
        raise _fail(
            f"layer_types has {len(config.layer_types)} entries, which contradicts "
            f"num_hidden_layers = {config.n_layers}",
            "keep the one that is meant",
        )
    for kind in config.layer_types:
        if kind not in (SLIDING, FULL):
            raise _fail(f"layer_types has {kind!r}", f"there are {SLIDING!r} and {FULL!r}")
    window = config.sliding_window
    if SLIDING in config.layer_types and (
        type(window) is not int or not 1 <= window <= _LARGEST_SIZE
    ):
        raise _fail(
            f"sliding_window = {window!r} contradicts layer_types, which has {SLIDING!r}",
            "give the number of positions a query sees",
        )


def _check_switches(config: Config) -> None:
    if config.hidden_act != "silu":
        raise _fail(f"hidden_act = {config.hidden_act!r}, but OLMo 3 has 'silu'", "mend it")
    for word in ("rms_norm_eps", "attention_dropout", "initializer_range"):
        value = getattr(config, word)
        if type(value) not in (int, float) or not 0 <= value <= MAX_NUMBER:
            raise _wrong(word, value, "a number of 0 or more")
    if config.rms_norm_eps == 0:
        raise _fail(f"rms_norm_eps = {config.rms_norm_eps!r} is not positive", "mend it")
    if not config.attention_dropout < 1:
        raise _fail(
            f"attention_dropout = {config.attention_dropout!r} is no probability", "use 0.0 to 1.0"
        )
    if config.dtype not in _DTYPES:
        raise _fail(
            f"dtype = {config.dtype!r}", "there are 'float32', 'float64', 'bfloat16' and 'float16'"
        )
