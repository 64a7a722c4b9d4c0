"""What is measured: the table of cases, each a kind with parameters.

To add a row, add a line to one of the lists; the kinds are in `kinds.py`, `indexing.py`,
`spatial.py` and `model_kinds.py`. This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case
from benchmarks.model_cases import MODEL_CASES
from benchmarks.model_cases import SPINE as SPINE

ROWS = {"rows": 4096, "columns": 1024}
BOTH = {"fwd": {}, "fwdbwd": {"backward": True}}


def _matmul(name: str, m: int, k: int, n: int, *groups: str, **more: Any) -> Case:
    tolerances = {"float64": 1e-12, "bfloat16": 2e-2, "float16": 4e-3, "int8": 0.0}
    tolerance = tolerances.get(more.get("dtype", ""), 1e-4)
    return Case(f"matmul/{name}", "matmul", {"m": m, "k": k, "n": n, **more}, groups, tolerance)


MATMUL = [
    *(_matmul(str(n), n, n, n, SPINE) for n in (64, 128, 256, 512, 1024, 2048)),
    _matmul("512x768x3072", 512, 768, 3072),
    _matmul("512x3072x768", 512, 3072, 768),
    _matmul("tall-65536x64x64", 65536, 64, 64),
    _matmul("skinny-64x65536x64", 64, 65536, 64),
    _matmul("1x4096x4096", 1, 4096, 4096),
    _matmul("8x4096x11008", 8, 4096, 11008),
    _matmul("1x4096x4096-BT", 1, 4096, 4096, transpose_b=True),
    _matmul("8x4096x11008-BT", 8, 4096, 11008, transpose_b=True),
    _matmul("batch32-128x64x128", 128, 64, 128, batch=32),
    _matmul("1024-f64", 1024, 1024, 1024, dtype="float64"),
    _matmul("1024-bf16", 1024, 1024, 1024, dtype="bfloat16"),
    _matmul("1024-f16", 1024, 1024, 1024, dtype="float16"),
    _matmul("1024-i8", 1024, 1024, 1024, dtype="int8"),
    _matmul("1024-ATB", 1024, 1024, 1024, transpose_a=True),
    _matmul("1024-ABT", 1024, 1024, 1024, transpose_b=True),
]

ELEMENTWISE = [
    Case("elementwise/chain-1e3", "chain", {"n": 10**3}),
    Case("elementwise/chain-1e6", "chain", {"n": 10**6}, (SPINE,)),
    Case("elementwise/chain-3e7", "chain", {"n": 3 * 10**7}, (SPINE,)),
    Case("elementwise/gelu-1e6", "unary", {"function": "gelu", "n": 10**6}),
    Case("elementwise/gelu-1e7", "unary", {"function": "gelu", "n": 10**7}),
    Case("elementwise/exp-1e7", "unary", {"function": "exp", "n": 10**7}),
]

REDUCE = [
    *(
        Case(f"reduce/softmax-{end}", "softmax", {**ROWS, **more}, (SPINE,))
        for end, more in BOTH.items()
    ),
    *(
        Case(f"reduce/{name}-{end}", kind, {**ROWS, "weight": True, **more}, groups)
        for name, kind, groups in (
            ("layernorm", "layer_norm", ()), ("rmsnorm", "rms_norm", (SPINE,)),
        )
        for end, more in BOTH.items()
    ),
    *(
        Case(f"reduce/cross-entropy{name}-fwdbwd", "cross_entropy",
             {"rows": rows, "columns": 50304}, groups)
        for name, rows, groups in (("-1024", 1024, (SPINE,)), ("", 4096, ()))
    ),
    Case("reduce/sum-axis0", "sum", {"shape": (4096, 4096), "axis": 0}),
    Case("reduce/sum-axis1", "sum", {"shape": (4096, 4096), "axis": 1}),
    Case("reduce/sum-middle", "sum", {"shape": (64, 512, 512), "axis": 1}),
    Case("reduce/sum-all", "sum", {"shape": (4096, 4096), "axis": None}),
    Case("reduce/transpose-4096", "transpose", {"shape": (4096, 4096)}),
    Case("reduce/transpose-batch4096x32x64", "transpose", {"shape": (4096, 32, 64)}),
    Case("reduce/cumsum-1e6", "cumsum", {"n": 10**6}),
    Case("reduce/sort-1e6", "sort", {"n": 10**6}),
    Case("reduce/sort-4096x1024", "sort", {"rows": 4096, "n": 1024}),
    Case("reduce/topk100-1e6", "topk", {"n": 10**6, "k": 100}),
    Case("random/normal-1e6", "normal", {"n": 10**6}),
]  # fmt: skip

TABLE = {"rows": 32000, "columns": 1024, "ids": 8192}
INDEXING = [
    Case("indexing/concat-4x4096x1024", "concat", {"parts": 4, **ROWS}),
    Case("indexing/embedding-8192", "gather", TABLE),
    Case("indexing/embedding-8192-gradient", "scatter_add", TABLE),
]

CAUSAL = {"heads": 12, "time": 1024, "dim": 64}
ATTENTION = [
    Case(f"attention/{name}-{end}", "attention", {**CAUSAL, **numbers, **more}, groups)
    for name, numbers, groups in (
        ("causal", {}, (SPINE,)),
        ("causal-w256", {"window": 256}, ()),
        ("causal-grouped16to4", {"heads": 16, "kv_heads": 4}, ()),
    )
    for end, more in BOTH.items()
]

# name -> batch, channels, size, filters, window, stride, padding, groups
CONVOLUTIONS = {
    "3x3-8x64x64x64": (8, 64, 64, 64, 3, 1, 1, 1),
    "3x3-8x256x14x14": (8, 256, 14, 256, 3, 1, 1, 1),
    "3x3-8x512x7x7": (8, 512, 7, 512, 3, 1, 1, 1),
    "stem7x7s2-8x3x224": (8, 3, 224, 64, 7, 2, 3, 1),
    "1x1-8x64x64x64-to256": (8, 64, 64, 256, 1, 1, 0, 1),
    "grouped8-3x3-8x64x64x64": (8, 64, 64, 64, 3, 1, 1, 8),
    "depthwise3x3-8x64x64x64": (8, 64, 64, 64, 3, 1, 1, 64),
}
NAMES = ("batch", "channels", "size", "out", "window", "stride", "padding", "groups")
IMAGES = {"batch": 8, "channels": 64, "size": 64}
POOL = {**IMAGES, "window": 3, "stride": 2}
IMAGE_KINDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *(
        (f"conv/{name}", "convolution", dict(zip(NAMES, numbers, strict=True)))
        for name, numbers in CONVOLUTIONS.items()
    ),
    ("image/max-pool", "pool", {**POOL, "mode": "max"}),
    ("image/avg-pool", "pool", {**POOL, "mode": "avg"}),
    ("image/batch-norm", "batch_norm", IMAGES),
    ("image/group-norm", "group_norm", {**IMAGES, "groups": 16}),
    ("image/bilinear", "resample", {**IMAGES, "factor": 2}),
)
IMAGE = [
    Case(f"{name}-{end}", kind, {**numbers, **more}, tolerance=1e-3)
    for name, kind, numbers in IMAGE_KINDS
    for end, more in BOTH.items()
]

EAGER, JIT = {"calls": "eager"}, {"calls": "jit"}
DISPATCH = [
    Case("dispatch/add8x8-eager", "add", EAGER, (SPINE,)),
    Case("dispatch/add8x8-jit", "add", JIT, (SPINE,)),
    Case("dispatch/add8x8-grad", "add_recorded", EAGER, (SPINE,)),
    Case("dispatch/build-op", "build_ops", {"ops": 1000, **EAGER}, divisor=1000),
    *(
        Case(f"dispatch/mlp-step-{name}", "mlp_step", {"batch": 32, **mode}, (SPINE,),
             tolerance=1e-3)
        for name, mode in (("eager", EAGER), ("jit", JIT))
    ),
]  # fmt: skip


def all_cases() -> list[Case]:
    """Every row of the table, in its order."""
    parts = (MATMUL, ELEMENTWISE, REDUCE, INDEXING, ATTENTION, IMAGE, DISPATCH, MODEL_CASES)
    return [case for part in parts for case in part]


def chosen(only: str | None) -> list[Case]:
    """The cases that `only` means: a list, with commas, of groups, whole names or parts of names.

    A word that is a group or a whole name means just that, another one every name with it inside.
    """
    cases = all_cases()
    if not only:
        return cases
    names = set()
    for word in filter(None, (word.strip() for word in only.split(","))):
        exact = [case.name for case in cases if word in case.groups or word == case.name]
        names.update(exact or [case.name for case in cases if word in case.name])
    return [case for case in cases if case.name in names]
