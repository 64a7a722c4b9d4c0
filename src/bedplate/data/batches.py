"""Batches: windows of a token array in an order that a seed and an epoch give, resumable.

The batch at (epoch, index) is a function of the seed, the epoch and the index alone; no
generator is carried along. So where a run stopped is two numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bedplate.errors import DataError


class Batches:
    """An endless iterator of (inputs, targets), each (batch_size, seq_len) int64.

    The array is cut into windows of seq_len tokens, from a start that differs by epoch; the
    windows are shuffled anew each epoch, and what does not fill a batch is left out.

    tokens    (n,) integers
    raises    DataError if there are too few tokens for one batch
    >>> inputs, targets = next(Batches(np.arange(100), batch_size=2, seq_len=8, seed=0))
    >>> inputs.shape, bool((targets == inputs + 1).all())
    ((2, 8), True)
    """

    def __init__(self, tokens: np.ndarray, batch_size: int, seq_len: int, seed: int = 0) -> None:
        self.tokens, self.batch_size, self.seq_len, self.seed = tokens, batch_size, seq_len, seed
        # one window less, so that every start within a window's length leaves as many
        self.n_windows = (len(tokens) - 1) // seq_len - 1
        self.n_batches = self.n_windows // batch_size
        if self.n_batches < 1:
            raise DataError(
                f"Batches: {len(tokens)} tokens are too few for a batch of {batch_size} windows "
                f"of {seq_len}\n  give more text (at least {(batch_size + 1) * seq_len + 1} "
                "tokens), or smaller batches or windows"
            )
        self.epoch = 0
        self.offset = 0  # batches of this epoch that were given
        self._order: tuple[int, int, np.ndarray] | None = None

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return self

    def __next__(self) -> tuple[np.ndarray, np.ndarray]:
        batch = self.batch(self.epoch, self.offset)
        self.offset += 1
        if self.offset == self.n_batches:
            self.epoch, self.offset = self.epoch + 1, 0
        return batch

    def batch(self, epoch: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The batch at a place, wherever the iterator stands."""
        start, order = self._epoch_order(epoch)
        windows = order[index * self.batch_size : (index + 1) * self.batch_size]
        starts = start + windows * self.seq_len
        rows = self.tokens[starts[:, None] + np.arange(self.seq_len + 1)]  # (B, T + 1)
        rows = rows.astype(np.int64)
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])

    def _epoch_order(self, epoch: int) -> tuple[int, np.ndarray]:
        if self._order is None or self._order[0] != epoch:
            # raw words of a counter-based generator: the same on every NumPy
            words = np.random.Philox(key=[self.seed, epoch]).random_raw(self.n_windows + 1)
            start = int(words[-1] % np.uint64(self.seq_len))
            self._order = epoch, start, np.argsort(words[:-1], kind="stable")
        return self._order[1], self._order[2]

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator stands."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "offset": self.offset,
            "n_tokens": len(self.tokens),
            "batch_size": self.batch_size,
            "seq_len": self.seq_len,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` was taken.

        raises  DataError if the tokens or the batches' sizes are not those it was taken from
        """
        for key in ("n_tokens", "batch_size", "seq_len"):
            mine = self.state_dict()[key]
            if state[key] != mine:
                raise DataError(
                    f"Batches: cannot go on from another data set: {key} was {state[key]}, "
                    f"is {mine}\n  give the data and sizes of the run that is resumed"
                )
        self.seed, self.epoch, self.offset = state["seed"], state["epoch"], state["offset"]
        self._order = None


def windows_in_order(
    tokens: np.ndarray, batch_size: int, seq_len: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All tokens once, in order, for measuring a loss; each batch as `Batches` gives it.

    The last windows that do not fill a batch are left out, unless there is no full batch; a
    text shorter than a window is one short window.
    """
    seq_len = max(1, min(seq_len, len(tokens) - 1))
    n_windows = (len(tokens) - 1) // seq_len
    batch_size = min(batch_size, max(1, n_windows))
    for first in range(0, n_windows - batch_size + 1, batch_size):
        rows = tokens[first * seq_len : (first + batch_size) * seq_len + 1].astype(np.int64)
        shape = (batch_size, seq_len)
        yield rows[:-1].reshape(shape), rows[1:].reshape(shape)
