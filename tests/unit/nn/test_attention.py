"""Attention against the plain formula in NumPy: windows, shared heads, gradients."""

import numpy as np
import pytest

from bedplate.errors import ShapeError
from bedplate.nn.functional import attention
from bedplate.tensor import tensor


def plain(q, k, v, causal, window):
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    distance = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None] - np.arange(k.shape[2])
    hidden = np.zeros(distance.shape, bool)
    if causal:
        hidden |= distance < 0
    if window:
        hidden |= distance >= window
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("window", [None, 1, 3, 50])
@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(2, 2), (4, 2), (4, 1)])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(7, 7), (1, 7), (3, 7), (33, 33)])
def test_values(window, n_heads, n_kv_heads, n_queries, n_keys):
    rng = np.random.default_rng(0)
    q = rng.normal(size=(2, n_heads, n_queries, 8))
    k, v = (rng.normal(size=(2, n_kv_heads, n_keys, 8)) for _ in range(2))
    found = attention(tensor(q), tensor(k), tensor(v), window=window).numpy()
    assert np.abs(found - plain(q, k, v, True, window)).max() < 1e-12


def test_without_a_mask():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 2, 5, 4)) for _ in range(3))
    found = attention(tensor(q), tensor(k), tensor(v), causal=False).numpy()
    assert np.abs(found - plain(q, k, v, False, None)).max() < 1e-12


@pytest.mark.parametrize("window", [None, 3])
def test_gradients(window):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(1, heads, 6, 4)) for heads in (4, 2, 2)]
    tensors = [tensor(array, requires_grad=True) for array in arrays]
    upstream = rng.normal(size=(1, 4, 6, 4))
    (attention(*tensors, window=window) * tensor(upstream)).sum().backward()
    for index, array in enumerate(arrays):
        place = tuple(rng.integers(0, size) for size in array.shape)
        values = []
        for step in (1e-6, -1e-6):
            moved = [a.copy() for a in arrays]
            moved[index][place] += step
            values.append((plain(*moved, True, window) * upstream).sum())
        slope = (values[0] - values[1]) / 2e-6
        assert tensors[index].grad.numpy()[place] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_shapes_that_do_not_fit():
    q = tensor(np.zeros((1, 3, 5, 4), np.float32))
    k = tensor(np.zeros((1, 2, 5, 4), np.float32))
    with pytest.raises(ShapeError, match="attention: "):
        attention(q, k, k)
