"""What is measured: one row of the table a case, each a kind with parameters.

To add a row, add a line to `all_cases`; `kinds.py` has the kinds. This file needs NumPy alone:
the peers' processes import it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.kinds import KINDS as PLAIN_KINDS
from benchmarks.kinds import Arrays, Parameters
from benchmarks.spatial import SPATIAL

KINDS = {**PLAIN_KINDS, **SPATIAL}


@dataclass(frozen=True)
class Case:
    """One row: a kind with parameters.

    groups      names by which `--only` chooses it, besides parts of its name
    tolerance   largest error allowed, relative to the largest magnitude of the answer
    divisor     reported time = measured time / divisor (calls, ops or tokens in one run)
    """

    name: str
    kind: str
    parameters: Parameters = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    tolerance: float = 1e-4
    divisor: int = 1

    def inputs(self) -> Arrays:
        return KINDS[self.kind].inputs(self.parameters, np.random.default_rng(7))

    def answer(self, inputs: Arrays) -> Arrays | None:
        answer = KINDS[self.kind].answer
        if answer is None:
            return None
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        return answer(self.parameters, wide)

    @property
    def is_checked(self) -> bool:
        return KINDS[self.kind].answer is not None

    @property
    def flops(self) -> float:
        return KINDS[self.kind].flops(self.parameters)

    @property
    def moved(self) -> tuple[float, float]:
        return KINDS[self.kind].moved(self.parameters)


def olmo_config(d_model: int, n_layers: int, vocab_size: int, **more: Any) -> Parameters:
    """A small OLMo 3 in the published spelling; heads of 32, feed-forward 2.75 x d_model."""
    return {
        "model_type": "olmo3",
        "hidden_size": d_model,
        "intermediate_size": round(2.75 * d_model / 16) * 16,
        "num_hidden_layers": n_layers,
        "num_attention_heads": d_model // 32,
        "num_key_value_heads": d_model // 32,
        "vocab_size": vocab_size,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "sliding_window": 4096,
        "tie_word_embeddings": False,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        **more,
    }


# The model that `make demo` trains, and its batch: `bedplate train --preset demo`.
DEMO = {"config": olmo_config(128, 2, 256, sliding_window=128), "batch": 8, "time": 128}
ROWS = {"rows": 4096, "columns": 1024}


SPINE = "spine"  # the group of cases that the README's claims rest on


def _matmul(name: str, m: int, k: int, n: int, *groups: str, **more: Any) -> Case:
    tolerance = {"float64": 1e-12, "bfloat16": 2e-2}.get(more.get("dtype", ""), 1e-4)
    return Case(f"matmul/{name}", "matmul", {"m": m, "k": k, "n": n, **more}, groups, tolerance)


def _square(n: int, *groups: str) -> Case:
    return _matmul(str(n), n, n, n, *groups)


def _train(d_model: int, n_layers: int, time: int, batch: int, vocab_size: int) -> Case:
    config = olmo_config(d_model, n_layers, vocab_size)
    return Case(
        f"train/{d_model}-{n_layers}-{time}",
        "train_step",
        {"config": config, "batch": batch, "time": time},
    )


def _matmul_cases() -> list[Case]:
    return [
        *(_square(n, SPINE) for n in (64, 128, 256, 512, 1024, 2048)),
        _matmul("512x768x3072", 512, 768, 3072),
        _matmul("512x3072x768", 512, 3072, 768),
        _matmul("1x4096x4096", 1, 4096, 4096),
        _matmul("8x4096x11008", 8, 4096, 11008),
        _matmul("1x4096x4096-BT", 1, 4096, 4096, transpose_b=True),
        _matmul("8x4096x11008-BT", 8, 4096, 11008, transpose_b=True),
        _matmul("batch32-128x64x128", 128, 64, 128, batch=32),
        _matmul("1024-f64", 1024, 1024, 1024, dtype="float64"),
        _matmul("1024-bf16", 1024, 1024, 1024, dtype="bfloat16"),
        _matmul("1024-ATB", 1024, 1024, 1024, transpose_a=True),
        _matmul("1024-ABT", 1024, 1024, 1024, transpose_b=True),
    ]


def _elementwise_cases() -> list[Case]:
    return [
        Case("elementwise/chain-1e3", "chain", {"n": 10**3}),
        Case("elementwise/chain-1e6", "chain", {"n": 10**6}, (SPINE,)),
        Case("elementwise/chain-3e7", "chain", {"n": 3 * 10**7}, (SPINE,)),
        Case("elementwise/gelu-1e6", "unary", {"function": "gelu", "n": 10**6}),
        Case("elementwise/exp-1e7", "unary", {"function": "exp", "n": 10**7}),
    ]


def _row_cases() -> list[Case]:
    norm = {**ROWS, "weight": True}
    vocabulary = {"columns": 50304}
    return [
        Case("reduce/softmax-fwd", "softmax", ROWS, (SPINE,)),
        Case("reduce/softmax-fwdbwd", "softmax", {**ROWS, "backward": True}, (SPINE,)),
        Case("reduce/layernorm-fwd", "layer_norm", norm),
        Case("reduce/layernorm-fwdbwd", "layer_norm", {**norm, "backward": True}),
        Case("reduce/rmsnorm-fwd", "rms_norm", norm, (SPINE,)),
        Case("reduce/rmsnorm-fwdbwd", "rms_norm", {**norm, "backward": True}, (SPINE,)),
        Case(
            "reduce/cross-entropy-1024-fwdbwd",
            "cross_entropy",
            {"rows": 1024, **vocabulary},
            (SPINE,),
        ),
        Case("reduce/cross-entropy-fwdbwd", "cross_entropy", {"rows": 4096, **vocabulary}),
        Case("reduce/sum-axis0", "sum", {"n": 4096, "axis": 0}),
        Case("reduce/sum-axis1", "sum", {"n": 4096, "axis": 1}),
        Case("reduce/sum-all", "sum", {"n": 4096, "axis": None}),
        Case("reduce/transpose-4096", "transpose", {"n": 4096}),
        Case("reduce/cumsum-1e6", "cumsum", {"n": 10**6}),
        Case("reduce/sort-1e6", "sort", {"n": 10**6}),
        Case("reduce/sort-4096x1024", "sort", {"rows": 4096, "n": 1024}),
        Case("reduce/topk100-1e6", "topk", {"n": 10**6, "k": 100}),
        Case("random/normal-1e6", "normal", {"n": 10**6}),
    ]


def _attention_cases() -> list[Case]:
    causal = {"heads": 12, "time": 1024, "dim": 64}
    window = {**causal, "window": 256}
    return [
        Case("attention/causal-fwd", "attention", causal, (SPINE,)),
        Case("attention/causal-fwdbwd", "attention", {**causal, "backward": True}, (SPINE,)),
        Case("attention/causal-w256-fwd", "attention", window),
        Case("attention/causal-w256-fwdbwd", "attention", {**window, "backward": True}),
    ]


def _image_case(name: str, kind: str, backward: bool, **numbers: Any) -> Case:
    suffix = "fwdbwd" if backward else "fwd"
    numbers = {"backward": True, **numbers} if backward else numbers
    return Case(f"image/{name}-{suffix}", kind, numbers, tolerance=1e-3)


def _convolution(name: str, *numbers: int, **more: Any) -> list[Case]:
    names = ("batch", "channels", "size", "out", "window", "stride", "padding")
    given = dict(zip(names, numbers, strict=True))
    return [_image_case(name, "convolution", back, **given, **more) for back in (False, True)]


def _image_cases() -> list[Case]:
    images = {"batch": 8, "channels": 64, "size": 64}
    window = {"window": 3, "stride": 2}
    return [
        *_convolution("conv-64x56-3x3", 8, 64, 56, 64, 3, 1, 1),
        *_convolution("conv-256x14-3x3", 8, 256, 14, 256, 3, 1, 1),
        *_convolution("conv-512x7-3x3", 8, 512, 7, 512, 3, 1, 1),
        *_convolution("conv-3x224-7x7-s2", 4, 3, 224, 64, 7, 2, 3),
        *_convolution("conv-64x56-1x1", 8, 64, 56, 256, 1, 1, 0),
        *_convolution("conv-128x56-depthwise", 8, 128, 56, 128, 3, 1, 1, groups=128),
        *(
            _image_case(f"{mode}-pool", "pool", back, mode=mode, **images, **window)
            for mode in ("max", "avg")
            for back in (False, True)
        ),
        *(_image_case("batch-norm", "batch_norm", back, **images) for back in (False, True)),
        *(_image_case("bilinear", "resample", back, factor=2, **images) for back in (False, True)),
    ]


def _dispatch_cases() -> list[Case]:
    return [
        Case("dispatch/add8x8", "add"),
        Case("dispatch/build-op", "build_ops", {"ops": 1000}, (SPINE,), divisor=1000),
        Case("dispatch/mlp-step", "mlp_step", {"batch": 32}, (SPINE,), tolerance=1e-3),
    ]


def _training_cases() -> list[Case]:
    return [
        Case("train/demo", "train_step", DEMO, (SPINE,)),
        Case("train/demo-first-step", "first_step", DEMO, (SPINE,)),
        _train(64, 2, 128, 16, 256),
        _train(128, 4, 256, 16, 256),
        _train(256, 4, 256, 8, 4096),
        _train(512, 8, 512, 4, 32000),
    ]


def all_cases() -> list[Case]:
    """Every row of the table, in its order."""
    return [
        *_matmul_cases(),
        *_elementwise_cases(),
        *_row_cases(),
        *_attention_cases(),
        *_image_cases(),
        *_dispatch_cases(),
        *_training_cases(),
    ]


def chosen(only: str | None) -> list[Case]:
    """The cases whose group or whole name is `only`, or else whose name contains it."""
    cases = all_cases()
    if not only:
        return cases
    exact = [case for case in cases if only in case.groups or only == case.name]
    return exact or [case for case in cases if only in case.name]
