"""Modules against PyTorch's of the same name: attention, losses, activations, embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp
from bedplate import nn

RNG = np.random.default_rng(0)


def close(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(
        ours.numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masks", ["none", "bool", "float", "both", "causal"])
@pytest.mark.parametrize("need_weights", [False, True])
def test_multihead_attention(batch_first: bool, masks: str, need_weights: bool) -> None:
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    torch.nn.init.normal_(theirs.in_proj_bias)
    ours = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    ours.load_state_dict({name: value.detach().numpy() for name, value in
                          theirs.state_dict().items()})  # fmt: skip
    batch, n_queries, n_keys = 3, 5, 5 if masks == "causal" else 6
    named: dict[str, Any] = {}
    if masks in ("bool", "both"):
        hidden = RNG.random((n_queries, n_keys)) < 0.3
        hidden[:, 0] = False
        named["attn_mask"] = hidden
    if masks == "float":
        named["attn_mask"] = RNG.normal(size=(batch * 2, n_queries, n_keys)).astype(np.float32)
    if masks == "both":
        named["key_padding_mask"] = np.arange(n_keys) >= np.array([[6], [4], [3]])
    if masks == "causal":
        named["attn_mask"] = ~np.tri(n_queries, n_keys, dtype=bool)
    shapes = [(batch, n_queries, 8), (batch, n_keys, 8), (batch, n_keys, 8)]
    arrays = [RNG.normal(size=shape).astype(np.float32) for shape in shapes]
    arrays = arrays if batch_first else [np.swapaxes(a, 0, 1).copy() for a in arrays]
    mine = [bp.tensor(a, requires_grad=True) for a in arrays]
    right = [torch.tensor(a, requires_grad=True) for a in arrays]
    wanted, their_weights = theirs(
        *right, need_weights=need_weights, **{k: torch.tensor(v) for k, v in named.items()}
    )
    got, weights = ours(*mine, need_weights=need_weights,
                        **{k: bp.tensor(v) for k, v in named.items()})  # fmt: skip
    close(got, wanted)
    if need_weights:
        close(weights, their_weights)
    (got * got).sum().backward()
    (wanted * wanted).sum().backward()
    for a, b in zip(mine, right, strict=True):
        close(a.grad, b.grad)
    close(ours.in_proj_weight.grad, theirs.in_proj_weight.grad, 1e-4)
    close(ours.out_proj.weight.grad, theirs.out_proj.weight.grad, 1e-4)
    if masks == "causal":
        causal, _ = ours(*mine, need_weights=need_weights, is_causal=True)
        close(causal, wanted)


PLAIN = [
    "ReLU", "ReLU6", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Softplus", "Softsign", "Tanh",
    "Tanhshrink", "Hardshrink", "Softshrink", "Sigmoid", "LogSigmoid", "Hardsigmoid", "Hardswish",
    "Hardtanh", "LeakyReLU", "PReLU", "Identity",
]  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_activation(name: str) -> None:
    x = RNG.normal(size=(4, 7)).astype(np.float32) * 3
    mine, right = bp.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got, wanted = getattr(nn, name)()(mine), getattr(torch.nn, name)()(right)
    close(got, wanted)
    got.sum().backward()
    wanted.sum().backward()
    close(mine.grad, right.grad)


def test_losses_with_their_settings() -> None:
    x, y = RNG.normal(size=(2, 6, 5)).astype(np.float32)
    ids, signs = RNG.integers(0, 5, 6), np.where(RNG.random(6) < 0.5, -1, 1)
    weight, shares = RNG.random(5).astype(np.float32), RNG.random((6, 5)).astype(np.float32)
    inputs: dict[str, tuple[dict[str, Any], list[Any]]] = {
        "CrossEntropyLoss": ({"weight": weight, "label_smoothing": 0.1}, [x, ids]),
        "NLLLoss": ({"weight": weight, "ignore_index": 2}, [x, ids]),
        "BCEWithLogitsLoss": ({"pos_weight": weight}, [x, shares]),
        "SmoothL1Loss": ({"beta": 0.5}, [x, y]),
        "HuberLoss": ({"delta": 0.5}, [x, y]),
        "KLDivLoss": ({"reduction": "batchmean"}, [x, shares]),
        "PoissonNLLLoss": ({"full": True}, [x, shares]),
        "GaussianNLLLoss": ({"full": True}, [x, y, shares]),
        "MultiMarginLoss": ({"p": 2, "weight": weight}, [x, ids]),
        "MultiLabelSoftMarginLoss": ({"weight": weight}, [x, shares]),
        "CosineEmbeddingLoss": ({"margin": 0.1}, [x, y, signs]),
        "MarginRankingLoss": ({"margin": 0.1}, [x[:, 0], y[:, 0], signs]),
        "HingeEmbeddingLoss": ({"margin": 0.5}, [x[:, 0], signs]),
        "TripletMarginLoss": ({"swap": True}, [x, y, x[::-1].copy()]),
    }
    for name, (settings, arrays) in inputs.items():
        tensors = [bp.tensor(a) for a in arrays]
        ours = getattr(nn, name)(**{
            k: bp.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()
        })  # fmt: skip
        theirs = getattr(torch.nn, name)(**{
            k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()
        })  # fmt: skip
        close(ours(*tensors), theirs(*[torch.tensor(a) for a in arrays]))


def test_ctc_with_gradients() -> None:
    x = RNG.normal(size=(12, 4, 6)).astype(np.float32)
    targets, ends, lengths = RNG.integers(1, 6, (4, 4)), [12, 9, 7, 3], [4, 3, 0, 4]
    mine, right = bp.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got = nn.CTCLoss(zero_infinity=True)(
        bp.nn.functional.log_softmax(mine, -1), bp.tensor(targets), ends, lengths
    )
    wanted = torch.nn.CTCLoss(zero_infinity=True)(
        right.log_softmax(-1), torch.tensor(targets), torch.tensor(ends), torch.tensor(lengths)
    )
    close(got, wanted)
    got.backward()
    wanted.backward()
    close(mine.grad, right.grad)


def test_embedding_with_padding() -> None:
    theirs = torch.nn.Embedding(7, 3, padding_idx=2)
    ours = nn.Embedding(7, 3, padding_idx=2)
    assert ours.weight[2].tolist() == [0, 0, 0]
    ours.load_state_dict({"weight": theirs.weight.detach().numpy()})
    ids = RNG.integers(0, 7, (4, 5))
    got, wanted = ours(bp.tensor(ids)), theirs(torch.tensor(ids))
    close(got, wanted)
    (got * got).sum().backward()
    (wanted * wanted).sum().backward()
    close(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode: str) -> None:
    theirs = torch.nn.EmbeddingBag(7, 3, mode=mode, padding_idx=2)
    ours = nn.EmbeddingBag(7, 3, mode, padding_idx=2)
    ours.load_state_dict({"weight": theirs.weight.detach().numpy()})
    ids, offsets = np.array([0, 2, 5, 4, 6, 1, 3]), np.array([0, 2, 2, 5])
    got = ours(bp.tensor(ids), bp.tensor(offsets))
    wanted = theirs(torch.tensor(ids), torch.tensor(offsets))
    close(got, wanted)
    (got * got).sum().backward()
    (wanted * wanted).sum().backward()
    close(ours.weight.grad, theirs.weight.grad)
