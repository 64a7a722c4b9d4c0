"""Olmo3: the model, as its published weights need it.

What sets it apart from its relatives: the norms stand after attention and after the feed-
forward, before each is added to the residual stream; queries and keys are normalised over the
whole projection, before it is cut into heads; most layers see a window of positions, every
fourth sees all of them, and only those have their rotary embedding stretched by YaRN.

Letters in the comments: B batch, T time, D d_model, H query heads, K key/value heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bedplate.devices import Device
from bedplate.dtypes import DType, as_dtype, float32, float64
from bedplate.errors import SettingError
from bedplate.nn import (
    Embedding,
    Linear,
    Module,
    ModuleList,
    Parameter,
    QuantisedLinear,
    RMSNorm,
    functional,
)
from bedplate.nn.init import normal_init
from bedplate.olmo import generation
from bedplate.olmo.cache import Cache, LayerCache
from bedplate.olmo.config import Config
from bedplate.olmo.ids import as_ids
from bedplate.olmo.rope import rope_tables
from bedplate.tensor import Tensor, no_grad, rematerialise, tensor, zeros

Tables = tuple[Tensor, Tensor]  # cosines and sines, each (T, d / 2)
Initialiser = Callable[[tuple[int, ...], DType], Tensor]


class Attention(Module):
    """Causal attention over a window, with normalised queries and keys."""

    def __init__(self, config: Config, layer: int, dtype: DType, init: Initialiser) -> None:
        self.n_heads, self.n_kv_heads = config.n_heads, config.n_kv_heads
        self.head_dim, self.window = config.head_dim, config.window(layer)
        self.dropout = config.attention_dropout
        q_size, kv_size = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        bias = config.attention_bias
        self.q_proj = Linear(config.d_model, q_size, bias, dtype, init)
        self.k_proj = Linear(config.d_model, kv_size, bias, dtype, init)
        self.v_proj = Linear(config.d_model, kv_size, bias, dtype, init)
        self.o_proj = Linear(q_size, config.d_model, bias, dtype, init)
        self.q_norm = RMSNorm(q_size, config.rms_norm_eps, dtype=dtype)
        self.k_norm = RMSNorm(kv_size, config.rms_norm_eps, dtype=dtype)

    def forward(self, x: Tensor, tables: Tables, cache: LayerCache | None = None) -> Tensor:
        q, k, v = self.heads(x, tables)
        if cache is None:
            dropout = self.dropout if self.training else 0.0
            y = functional.attention(q, k, v, causal=True, window=self.window, dropout=dropout)
        else:
            y = cache.attend(q, k, v)  # (B, H, T, d)
        return self.join(y)

    def heads(self, x: Tensor, tables: Tables) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, d), keys and values (B, K, T, d); queries and keys turned."""
        q = self._heads(self.q_norm(self.q_proj(x)), self.n_heads)  # (B, H, T, d)
        k = self._heads(self.k_norm(self.k_proj(x)), self.n_kv_heads)  # (B, K, T, d)
        v = self._heads(self.v_proj(x), self.n_kv_heads)  # (B, K, T, d)
        return functional.rope(q, *tables), functional.rope(k, *tables), v

    def join(self, y: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, T, D)"""
        batch, n_heads, time, size = y.shape
        return self.o_proj(y.transpose(1, 2).reshape((batch, time, n_heads * size)))

    def _heads(self, x: Tensor, n_heads: int) -> Tensor:
        """(B, T, n d) -> (B, n, T, d)"""
        batch, time, _ = x.shape
        return x.reshape((batch, time, n_heads, self.head_dim)).transpose(1, 2)


class FeedForward(Module):
    """down(silu(gate(x)) * up(x))"""

    def __init__(self, config: Config, dtype: DType, init: Initialiser) -> None:
        d_model, hidden = config.d_model, config.intermediate_size
        self.gate_proj = Linear(d_model, hidden, False, dtype, init)
        self.up_proj = Linear(d_model, hidden, False, dtype, init)
        self.down_proj = Linear(hidden, d_model, False, dtype, init)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.swiglu(self.gate_proj(x), self.up_proj(x)))


class Layer(Module):
    """x + norm(attention(x)), then x + norm(feed-forward(x))"""

    def __init__(self, config: Config, layer: int, dtype: DType, init: Initialiser) -> None:
        self.self_attn = Attention(config, layer, dtype, init)
        self.mlp = FeedForward(config, dtype, init)
        self.post_attention_layernorm = RMSNorm(config.d_model, config.rms_norm_eps, dtype=dtype)
        self.post_feedforward_layernorm = RMSNorm(config.d_model, config.rms_norm_eps, dtype=dtype)

    def forward(self, x: Tensor, tables: Tables, cache: LayerCache | None = None) -> Tensor:
        x = x + self.post_attention_layernorm(self.self_attn(x, tables, cache))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class Decoder(Module):
    """Token ids to the last hidden states."""

    def __init__(self, config: Config, dtype: DType, init: Initialiser) -> None:
        self.embed_tokens = Embedding(config.vocab_size, config.d_model, dtype, init)
        self.layers = ModuleList(
            Layer(config, layer, dtype, init) for layer in range(config.n_layers)
        )
        self.norm = RMSNorm(config.d_model, config.rms_norm_eps, dtype=dtype)

    def forward(
        self, ids: Tensor, tables: list[Tables], caches: list[Any], again: bool = False
    ) -> Tensor:
        """Hidden states (B, T, D) of ids (B, T).

        tables  of each layer, and caches: None for a layer without one
        again   the layers are rematerialised
        """
        x = self.embed_tokens(ids)  # (B, T, D)
        for layer, layer_tables, cache in zip(self.layers, tables, caches, strict=True):
            x = (rematerialise(layer) if again else layer)(x, layer_tables, cache)
        return self.norm(x)


class Olmo3(Module):
    """An OLMo 3 language model. Parameters have the names of the Hugging Face layout.

    config     sizes and switches
    dtype      of the parameters; float32 unless given
    init       (shape, dtype) -> weight matrix; normal with the config's spread unless given
    rematerialise  an attribute, off at first: keep only what enters each layer for the gradient,
               and compute the rest again
    ids        (B, T) integers, or (T,) for a batch of one -> logits (B, T, vocab_size)
    >>> sizes = {"vocab_size": 64, "d_model": 32, "n_heads": 2, "intermediate_size": 48}
    >>> Olmo3(Config(n_layers=2, **sizes))(np.zeros((1, 5), np.int64)).shape
    (1, 5, 64)
    """

    rematerialise = False

    def __init__(
        self, config: Config, dtype: Any = float32, init: Initialiser | None = None
    ) -> None:
        self.config = config
        dtype = as_dtype(dtype)
        init = init or _normal(config.initializer_range)
        self.model = Decoder(config, dtype, init)
        self.lm_head = Linear(config.d_model, config.vocab_size, False, dtype, init)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        self._tables: dict[tuple[int, int, DType, Device], dict[str, Tables]] = {}

    @property
    def dtype(self) -> DType:
        """Of the embedding, hence of the hidden states."""
        return self.model.embed_tokens.weight.dtype

    @property
    def device(self) -> Device:
        """Where the embedding is, hence all the rest."""
        return self.model.embed_tokens.weight.device

    def named_parameters(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters by Hugging Face name; a tied output projection is not listed again."""
        return super().named_parameters(prefix, remove_duplicate)

    def forward(self, ids: Any, cache: Cache | None = None) -> Tensor:
        return self.lm_head(self.hidden(ids, cache))  # (B, T, V)

    def hidden(self, ids: Any, cache: Cache | None = None) -> Tensor:
        """The hidden states behind the last norm; the new positions follow those of the cache.

        returns  (B, T, d_model)
        """
        ids = as_ids(ids, self.device)
        start = 0 if cache is None else cache.length
        kinds = self.tables(start, start + ids.shape[1])
        tables = [kinds[kind] for kind in self.config.layer_types]
        caches = [None] * self.config.n_layers if cache is None else cache.layers
        if cache is not None:
            cache.begin(ids.shape[1])
        x = self.model(ids, tables, caches, self.rematerialise)
        if cache is not None:
            cache.end(ids.shape[1])
        return x

    def tables(self, start: int, stop: int) -> dict[str, Tables]:
        """Cosines and sines by layer type, for positions `start` to `stop`; kept for reuse."""
        dtype = float64 if self.dtype is float64 else float32
        place = self.device
        key = start, stop, dtype, place
        if key not in self._tables:
            if len(self._tables) >= KEPT_TABLES:
                self._tables.pop(next(iter(self._tables)))
            self._tables[key] = {
                kind: _tensors(
                    rope_tables(rope, self.config.head_dim, start, stop, dtype.numpy), place
                )
                for kind, rope in self.config.rope.items()
            }
        return self._tables[key]

    def loss(self, ids: Any, targets: Any, z_loss: float = 0.0) -> Tensor:
        """The mean cross-entropy of the next tokens.

        ids, targets   (B, T) integers; a target of -100 is left out
        z_loss         adds z_loss * mean(logsumexp(logits)**2), which keeps logits from drifting
        returns        () float32
        """
        logits = self(ids)  # (B, T, V)
        flat = logits.reshape((-1, self.config.vocab_size))  # (B T, V)
        wanted = as_ids(targets, self.device).reshape((-1,))
        return functional.cross_entropy(flat, wanted, z_loss=z_loss)

    def quantise(self, kind: str = "int8") -> Olmo3:
        """Round the matrices of all layers and of the output, in place; returns the model.

        The embedding, norms and biases stay as they are, so does the dtype of the hidden states.
        For use alone: the rounded matrices get no gradient, and `save` refuses the model.

        kind    "int8" or "int4": whole numbers of that size, with a scale for every 32
        raises  SettingError for another kind, for weights that are not finite (those before them
                are rounded by then), and for a model that is quantised already
        """
        if kind not in QUANTISED_BITS:
            kinds = ", ".join(map(repr, QUANTISED_BITS))
            raise SettingError(f"quantise: no kind {kind!r}\n  there are {kinds}")
        if self.is_quantised:
            raise SettingError("quantise: the model is quantised already\n  load it again")
        generation.forget_step(self)
        for path, module in list(self.named_modules()):
            for name, part in list(module.named_children()):
                if not isinstance(part, Linear):
                    continue
                try:
                    setattr(module, name, QuantisedLinear.of(part, QUANTISED_BITS[kind]))
                except SettingError as error:
                    where = f"{path}.{name}" if path else name
                    raise SettingError(f"quantise: module {where}\n  {error}") from None
        return self

    @property
    def is_quantised(self) -> bool:
        """Whether `quantise` has rounded the matrices."""
        return isinstance(self.lm_head, QuantisedLinear)

    def generate(
        self,
        ids: Any,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
        eos_token_id: int | None = None,
    ) -> Tensor:
        """Continue each row; see `generation.generate`."""
        options = generation.Sampling(temperature, top_p, seed)
        return generation.generate(self, ids, max_new_tokens, options, eos_token_id)

    def stream(
        self,
        ids: Any,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
        eos_token_id: int | None = None,
    ) -> Iterator[int]:
        """The new tokens of one row as they come; see `generation.stream`."""
        options = generation.Sampling(temperature, top_p, seed)
        rows = generation.stream(self, ids, max_new_tokens, options, eos_token_id)
        return (int(row[0]) for row in rows)

    def extra_repr(self) -> str:
        return f"{self.config.n_parameters:,} parameters"


QUANTISED_BITS = {"int8": 8, "int4": 4}
# one for training, one for measuring, one for a prompt's length, one to spare
KEPT_TABLES = 4


def _normal(spread: float) -> Initialiser:
    # one at a time: all shapes share one kernel then, where all at once would be a kernel each
    return lambda shape, dtype: normal_init(shape, 0.0, spread, dtype=dtype).realise()


def uninitialised(shape: tuple[int, ...], dtype: DType) -> Tensor:
    """For weights that are about to be loaded: zeros, which take no memory before they are read."""
    return zeros(shape, dtype=dtype)


def _tensors(arrays: tuple[np.ndarray, np.ndarray], device: Device) -> Tables:
    with no_grad():
        return tensor(arrays[0], device), tensor(arrays[1], device)
