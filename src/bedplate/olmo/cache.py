"""Cache: the keys and values of the positions seen so far, by layer.

Slots double when they run short, in a layer with a window up to that many and no more: position p
lies in slot p % slots, once all are in use over the one that just left the window. Keys are kept
as they were turned, by their absolute positions. A new token writes its own slot and nothing else
(`update_slice` in place), and attention reads as many slots as there are positions.

Letters in the comments: B batch, T new positions, S positions seen, C slots, H query heads,
K key/value heads, G = H / K, d head_dim.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from bedplate.errors import ShapeError
from bedplate.nn.attention import attention
from bedplate.olmo.config import Config
from bedplate.tensor import Tensor, concat, take, tensor, update_slice, zeros

# The fewest slots of a layer; each doubling is captured anew, and slots that are not in use are
# never read. At 256 a cache is a small part of what a model of that size weighs.
LEAST_SLOTS = 256


def grown(n_positions: int) -> int:
    """The number of slots for so many positions: LEAST_SLOTS, doubled as often as need be."""
    n_slots = LEAST_SLOTS
    while n_slots < n_positions:
        n_slots *= 2
    return n_slots


class LayerCache:
    """One layer's keys and values, each (B, K, C, d).

    room   positions for which there are slots from the start
    """

    def __init__(self, window: int | None, room: int = 0) -> None:
        self.window = window
        self.room = room
        self.length = 0  # positions seen
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def n_slots(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of new positions over those in the window, which then hold the new as well.

        q        (B, H, T, d)
        k, v     (B, K, T, d)
        returns  (B, H, T, d)
        """
        if self.length == 0:
            y = attention(q, k, v, causal=True, window=self.window)
            self._keep(k, v, np.arange(k.shape[2]))
            return y
        positions = self._positions()  # of the slots in use, in order of position
        slots = tensor(positions % self.n_slots, device=k.device)
        k = concat([take(self.keys, slots, axis=2), k], axis=2)  # (B, K, S + T, d)
        v = concat([take(self.values, slots, axis=2), v], axis=2)
        queries = np.arange(self.length, self.length + q.shape[2])
        positions = np.concatenate([positions, queries])  # (S + T,)
        y = attention(q, k, v, causal=True, window=self.window)
        self._keep(k, v, positions)
        return y

    def _positions(self) -> np.ndarray:
        first = max(0, self.length - self.n_slots)
        return np.arange(first, self.length)

    def _keep(self, k: Tensor, v: Tensor, positions: np.ndarray) -> None:
        """Store the last positions, each in its slot."""
        end = int(positions[-1]) + 1
        n_slots = self._bounded(grown(max(end, self.room)))
        source = np.zeros(n_slots, np.int64)  # a slot not yet in use may hold anything finite
        kept = positions[-n_slots:]
        source[kept % n_slots] = np.arange(len(positions))[-n_slots:]
        index = tensor(source, device=k.device)
        self.keys, self.values = take(k, index, axis=2), take(v, index, axis=2)

    def _bounded(self, n_slots: int) -> int:
        return n_slots if self.window is None else min(n_slots, self.window)

    def reserve(self) -> None:
        """Make sure that there is a slot for the next position."""
        more = self._bounded(grown(self.length + 1)) - self.n_slots
        if self.keys is not None and self.length == self.n_slots and more > 0:
            batch, heads, _, size = self.keys.shape
            dtype, place = self.keys.dtype, self.keys.device
            fresh = zeros((batch, heads, more, size), dtype=dtype, device=place)
            self.keys = concat([self.keys, fresh], axis=2)
            self.values = concat([self.values, fresh], axis=2)


def decode_layer(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, position: Tensor
) -> Tensor:
    """Attention of one new position over a layer's slots, as ops alone, so it can be captured.

    q             (B, H, 1, d)
    k, v          (B, K, 1, d)
    keys, values  (B, K, C, d); the new position is written into them
    position      () int64
    returns       (B, H, 1, d)
    """
    slot = position % keys.shape[2]
    keys.assign(update_slice(keys, k, slot, axis=2))
    values.assign(update_slice(values, v, slot, axis=2))
    # as many as there are positions; all of them once the last slot was filled
    return attention(q, keys, values, causal=False, length=position + 1)


class Cache:
    """The caches of all layers, and how many positions they have seen.

    room   positions for which there are slots from the start
    """

    def __init__(self, config: Config, room: int = 0) -> None:
        self.layers = [LayerCache(config.window(layer), room) for layer in range(config.n_layers)]
        self.length = 0
        self._enough = 0  # positions for which no layer needs more slots

    def begin(self, n_new: int) -> None:
        """Before new positions pass through the layers."""
        if n_new < 1:
            raise ShapeError("Cache: no new positions\n  give at least one token")

    def end(self, n_new: int) -> None:
        """After they have."""
        self.length += n_new
        for layer in self.layers:
            layer.length = self.length

    def slots(self) -> list[Tensor]:
        """Keys and values of each layer in turn."""
        found = [(layer.keys, layer.values) for layer in self.layers]
        return [slots for pair in found for slots in pair if slots is not None]

    def reserve(self) -> bool:
        """Make sure that each layer has a slot for the next position; says whether one got more."""
        if self.length < self._enough:
            return False
        before = self.slots()
        for layer in self.layers:
            layer.reserve()
        growing = [layer.n_slots for layer in self.layers if layer.n_slots != layer.window]
        self._enough = min(growing, default=sys.maxsize)
        return any(a is not b for a, b in zip(before, self.slots(), strict=True))

    def realise(self) -> None:
        """Compute keys and values now, so that what they were computed from can go."""
        for slots in self.slots():
            slots.realise()

    @property
    def nbytes(self) -> int:
        """What keys and values take together."""
        return sum(math.prod(t.shape) * t.dtype.itemsize for t in self.slots())
