"""Generation: tokens one after the other, with a key/value cache.

The prompt passes through the model in pieces; then each new token passes alone. That step is
captured once: its shapes do not change, but for the slots of full layers, which double.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bedplate.dtypes import float32
from bedplate.errors import CheckpointError, SettingError, ShapeError
from bedplate.olmo.cache import Cache, decode_layer, grown
from bedplate.olmo.ids import id_array
from bedplate.tensor import Tensor, jit, no_grad, take, tensor

if TYPE_CHECKING:  # the model calls this file
    from bedplate.olmo.model import Attention, Layer, Olmo3

LARGEST_SEED = 1 << 64
FIRST_SLOTS = 1024  # of a short prompt whose continuation may be long
PREFILL_PIECE = 1024  # tokens of a prompt at a time: bounds the memory for their scores


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen.

    temperature   0: the likeliest token; otherwise logits are divided by it
    top_p         sample among the likeliest tokens that together have this probability
    seed          the same seed gives the same tokens; None: another each time
    raises        SettingError for values outside their range
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        temperature, top_p, seed = self.temperature, self.top_p, self.seed
        if not (_is_number(temperature) and math.isfinite(temperature) and temperature >= 0):
            raise SettingError(f"generate: temperature = {temperature!r} is not 0 or more")
        if not (_is_number(top_p) and 0 < top_p <= 1):
            raise SettingError(f"generate: top_p = {top_p!r} is not in (0, 1]")
        if seed is not None and not (_is_whole(seed) and 0 <= seed < LARGEST_SEED):
            raise SettingError(f"generate: seed = {seed!r} is no whole number from 0 to 2**64 - 1")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer)


def generate(
    model: Olmo3, ids: Any, max_new_tokens: int, options: Sampling, eos_token_id: Any = None
) -> Tensor:
    """Continue each row of a prompt.

    ids             (B, T) integers, or (T,)
    max_new_tokens  at most so many are added
    eos_token_id    stop a row after this token (or one of these); None: never.
                    The rest of a row that stopped early is filled with it.
    returns         (B, T + new) int64 ((T + new,) for a single row): prompt and new tokens
    raises          ShapeError for an empty prompt; IndexError for an id outside the vocabulary
    """
    prompt = id_array(ids.numpy() if isinstance(ids, Tensor) else ids)
    new = list(stream(model, prompt, max_new_tokens, options, eos_token_id))
    columns = [np.atleast_2d(prompt), *(row[:, None] for row in new)]
    result = np.concatenate(columns, axis=1).astype(np.int64)
    return tensor(result if prompt.ndim == 2 else result[0])


def stream(
    model: Olmo3, ids: Any, max_new_tokens: int, options: Sampling, eos_token_id: Any = None
) -> Iterator[np.ndarray]:
    """The new tokens as they come, (B,) int64 at a time; see `generate`."""
    prompt = id_array(ids.numpy() if isinstance(ids, Tensor) else ids)
    prompt = _checked_prompt(prompt, model.config.vocab_size)
    if not _is_whole(max_new_tokens):
        raise SettingError(f"generate: max_new_tokens = {max_new_tokens!r} is no whole number")
    if max_new_tokens < 0:
        raise SettingError(f"generate: max_new_tokens = {max_new_tokens} is negative")
    return _stream(model, prompt, max_new_tokens, options, _ends(eos_token_id))


def _checked_prompt(prompt: np.ndarray, vocab_size: int) -> np.ndarray:
    prompt = np.atleast_2d(prompt)
    if prompt.ndim != 2 or prompt.size == 0:
        raise ShapeError(
            f"generate: a prompt of shape {prompt.shape} has no tokens\n"
            "  give (batch, time) with at least one token a row"
        )
    if prompt.min() < 0 or prompt.max() >= vocab_size:
        bad = prompt[(prompt < 0) | (prompt >= vocab_size)][0]
        raise IndexError(f"generate: token id {bad} is outside the vocabulary of {vocab_size}")
    return prompt


def _ends(eos_token_id: Any) -> np.ndarray:
    ends = np.atleast_1d(np.asarray([] if eos_token_id is None else eos_token_id))
    if ends.size and ends.dtype.kind not in "iu":
        raise SettingError(f"generate: eos_token_id = {eos_token_id!r} is no token, nor several")
    return ends.astype(np.int64)


def _stream(
    model: Olmo3, prompt: np.ndarray, max_new_tokens: int, options: Sampling, ends: np.ndarray
) -> Iterator[np.ndarray]:
    choose = _chooser(options)
    done = np.zeros(len(prompt), bool)
    decoder = _Decoder(model, prompt, prompt.shape[1] + max_new_tokens) if max_new_tokens else None
    for step in range(max_new_tokens):
        if decoder is None or done.all():
            return
        _check_logits(decoder.logits, step)
        chosen = choose(decoder.logits, step)  # (B,)
        if len(ends):
            chosen = np.where(done, ends[0], chosen)
            done |= np.isin(chosen, ends)
        yield chosen
        if step + 1 < max_new_tokens and not done.all():
            decoder.push(chosen)


def _check_logits(logits: np.ndarray, step: int) -> None:
    """Refuse to choose among what is no number: any choice would look like a text."""
    if np.isnan(logits.max(axis=1)).any():  # a NaN is the greatest
        raise CheckpointError(
            f"generate: the model gave NaN for new token {step + 1}\n"
            "  its weights are damaged, or too large for its dtype: look for NaN in them, or load "
            "with dtype='float32'"
        )


def _chooser(options: Sampling) -> Callable[[np.ndarray, int], np.ndarray]:
    if options.temperature == 0:
        return lambda logits, step: logits.argmax(axis=1)
    seed = options.seed
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return lambda logits, step: sample(logits, options, seed, step)


def sample(logits: np.ndarray, options: Sampling, seed: int, step: int) -> np.ndarray:
    """Draw one token a row; what is drawn depends on seed, step and row alone.

    logits   (B, V) float32
    returns  (B,) int64
    """
    scaled = logits.astype(np.float64) / options.temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    order = np.argsort(-weights, axis=1, kind="stable")  # likeliest first
    weights = np.take_along_axis(weights, order, axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    before = np.cumsum(weights, axis=1) - weights
    weights[before >= options.top_p] = 0.0  # the first always stays
    words = np.random.Philox(key=[seed, step]).random_raw(len(logits))
    uniform = (words >> np.uint64(11)) * 2.0**-53  # (B,) in [0, 1)
    totals = np.cumsum(weights, axis=1)
    places = (totals > uniform[:, None] * totals[:, -1:]).argmax(axis=1)
    return np.take_along_axis(order, places[:, None], axis=1)[:, 0]


class _Decoder:
    """The model behind a prompt: `logits` of the last position, `push` for the next token.

    Between two steps the interpreter's memory is in no cache, as the weights went through them
    all: what is looked at there costs several times what it costs in a loop.
    """

    def __init__(self, model: Olmo3, prompt: np.ndarray, n_positions: int) -> None:
        self._model = model
        # as many slots as there will be positions, unless that is far off: they take memory
        room = min(n_positions, max(2 * prompt.shape[1], FIRST_SLOTS))
        self._cache = Cache(model.config, room)
        kinds = model.tables(0, grown(n_positions))
        self._tables = [table for kind in sorted(kinds) for table in kinds[kind]]
        self._step = captured_step(model)
        self.logits = self._prefill(prompt)
        self._position = tensor(np.array(self._cache.length), device=model.device)
        self._slots = self._cache.slots()

    def _prefill(self, prompt: np.ndarray) -> np.ndarray:
        x = None
        with no_grad():
            for first in range(0, prompt.shape[1], PREFILL_PIECE):
                x = self._model.hidden(prompt[:, first : first + PREFILL_PIECE], self._cache)
                self._cache.realise()
            last = x[:, -1:] if x is not None else x  # (B, 1, D)
            return _last(self._model.lm_head(last)).numpy(copy=False)

    def push(self, chosen: np.ndarray) -> None:
        """Pass one token a row through the model."""
        cache = self._cache
        with no_grad():
            if cache.reserve():
                self._slots = cache.slots()
            ids = tensor(chosen[:, None], device=self._model.device)
            logits, self._position = self._step(ids, self._position, *self._tables, *self._slots)
            cache.end(1)
            self.logits = logits.numpy(copy=False)


def _last(logits: Tensor) -> Tensor:
    """(B, T, V) -> (B, V) float32"""
    return logits[:, -1].astype(float32)


# the captured step of each model: beside the models, so that these can be copied
_captured: weakref.WeakKeyDictionary[Olmo3, Callable[..., Any]] = weakref.WeakKeyDictionary()


def captured_step(model: Olmo3) -> Callable[..., Any]:
    """The step of one token, captured once a model."""
    step = _captured.get(model)
    if step is None:
        # the captured function must not keep its model alive
        reference = weakref.ref(model)
        step = _captured[model] = jit(lambda *inputs: _step(reference(), *inputs))
    return step


def forget_step(model: Olmo3) -> None:
    """The model has other parts now: what was captured of it does not hold."""
    _captured.pop(model, None)


def _step(model: Any, ids: Tensor, position: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """One token a row through all layers: logits (B, V), and the position of the next one.

    ids        (B, 1)
    position   () int64
    inputs     cosines and sines by layer type in sorted order, then keys and values by layer,
               into which the new position is written
    """
    kinds = sorted(model.config.rope)
    row = position.reshape((1,))
    rows = [take(table, row, axis=0) for table in inputs[: 2 * len(kinds)]]  # (1, d / 2) each
    tables = {kind: (rows[2 * i], rows[2 * i + 1]) for i, kind in enumerate(kinds)}
    slots = inputs[2 * len(kinds) :]
    x = model.model.embed_tokens(ids)  # (B, 1, D)
    for index, layer in enumerate(model.model.layers):
        kind = model.config.layer_types[index]
        held = slots[2 * index], slots[2 * index + 1]
        x = _layer_step(layer, x, tables[kind], held, position)
    return _last(model.lm_head(model.model.norm(x))), position + 1


def _layer_step(
    layer: Layer,
    x: Tensor,
    tables: tuple[Tensor, Tensor],
    slots: tuple[Tensor, Tensor],
    position: Tensor,
) -> Tensor:
    attention: Attention = layer.self_attn
    q, k, v = attention.heads(x, tables)  # (B, H, 1, d), (B, K, 1, d) twice
    y = decode_layer(q, k, v, *slots, position)
    x = x + layer.post_attention_layernorm(attention.join(y))
    return x + layer.post_feedforward_layernorm(layer.mlp(x))
