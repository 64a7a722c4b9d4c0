"""Pooling, normalisation, resampling, padding and patches against PyTorch: values and gradients.

Every function with every argument that it shares; test_torch_samples.py has PyTorch's own samples.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as T

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn


def compare(name: str, inputs: list[Any], *arguments: Any, **named: Any) -> None:
    """One function of one name on both sides, in float64."""
    a = [bp.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    b = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    ours, theirs = (
        getattr(F, name)(*a, *arguments, **named),
        getattr(T, name)(*b, *arguments, **named),
    )
    ours, theirs = ((y if isinstance(y, tuple) else (y,)) for y in (ours, theirs))
    for mine, right in zip(ours, theirs, strict=True):
        assert mine.shape == tuple(right.shape)
        np.testing.assert_allclose(mine.numpy(), right.detach().numpy(), rtol=1e-9, atol=1e-11)
    weights = np.random.default_rng(5).standard_normal(ours[0].shape)
    ours[0].backward(bp.tensor(weights))
    theirs[0].backward(torch.tensor(weights))
    for mine, right in zip(a, b, strict=True):
        if right.grad is not None:
            assert mine.grad is not None or not right.grad.any()
        if right.grad is not None and mine.grad is not None:
            np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-7, atol=1e-9)


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


SPACES = {1: (2, 3, 19), 2: (2, 3, 9, 12), 3: (1, 2, 6, 7, 8)}


def grid(**choices: Any) -> list[dict[str, Any]]:
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools(rank: int) -> None:
    x = array(*SPACES[rank])
    for named in grid(kernel_size=[2, 3], stride=[None, 1, 2], padding=[0, 1], ceil_mode=[0, 1]):
        named["ceil_mode"] = bool(named["ceil_mode"])
        for dilation in (1, 2):
            compare(f"max_pool{rank}d", [x], **named, dilation=dilation, return_indices=True)
        for include in (True, False):
            compare(f"avg_pool{rank}d", [x], **named, count_include_pad=include)
    if rank > 1:
        compare(f"avg_pool{rank}d", [x], 2, divisor_override=3)
    # without ceil_mode, where PyTorch scales what is left of a window up to a whole one
    compare(f"lp_pool{rank}d", [np.abs(x)], 3.0, 2)
    compare(f"lp_pool{rank}d", [x], 2.0, 3, 2)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_pools(rank: int) -> None:
    x = array(*SPACES[rank])
    for size in (1, 2, 3, 5):
        compare(f"adaptive_avg_pool{rank}d", [x], size)
        compare(f"adaptive_max_pool{rank}d", [x], size, return_indices=True)
    compare(f"adaptive_avg_pool{rank}d", [x[0]], 4)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_norms(rank: int) -> None:
    shape = (3, 4, *SPACES[rank][2:])
    x, w, b = array(*shape), array(4, seed=1), array(4, seed=2)

    def ordered(name: str, *arguments: Any, **named: Any) -> None:
        compare(name, [x, *arguments], **named)

    mean, var = array(4, seed=3), array(4, seed=4) ** 2
    a = [bp.tensor(v, requires_grad=True) for v in (x, w, b)]
    c = [torch.tensor(v, requires_grad=True) for v in (x, w, b)]
    for name, training, flag in (
        ("batch_norm", True, "training"), ("batch_norm", False, "training"),
        ("instance_norm", True, "use_input_stats"), ("instance_norm", False, "use_input_stats"),
    ):  # fmt: skip
        ours = [bp.tensor(mean), bp.tensor(var)]
        theirs = [torch.tensor(mean), torch.tensor(var)]
        y = getattr(F, name)(a[0], *ours, *a[1:], **{flag: training}, momentum=0.3)
        z = getattr(T, name)(c[0], *theirs, *c[1:], **{flag: training}, momentum=0.3)
        np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-9, atol=1e-11)
        for mine, right in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine.numpy(), right.numpy(), rtol=1e-12)
        weights = array(*shape, seed=6)
        for mine, right in zip(a, c, strict=True):
            mine.grad = right.grad = None
        y.backward(bp.tensor(weights))
        z.backward(torch.tensor(weights))
        for mine, right in zip(a, c, strict=True):
            assert mine.grad is not None and right.grad is not None
            np.testing.assert_allclose(mine.grad.numpy(), right.grad.numpy(), rtol=1e-7, atol=1e-9)
    for size in (1, 2, 3, 6):
        ordered("local_response_norm", size=size, alpha=0.3, beta=0.6, k=0.8)
    for p in (1.0, 2.0, 3.0, float("inf")):
        ordered("normalize", p=p, dim=-1)


def test_groups_and_rows() -> None:
    x, w, b = array(3, 4, 5, 6), array(4, seed=1), array(4, seed=2)
    a = [bp.tensor(v) for v in (x, w, b)]
    c = [torch.tensor(v) for v in (x, w, b)]
    for groups in (1, 2, 4):
        y, z = F.group_norm(a[0], groups, a[1], a[2]), T.group_norm(c[0], groups, c[1], c[2])
        np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-10, atol=1e-12)
        compare("group_norm", [x], groups)
    compare("layer_norm", [x], (5, 6))
    compare("layer_norm", [x], (6,), eps=0.1)
    compare("rms_norm", [x], (5, 6))
    compare("rms_norm", [x], (6,), eps=0.1)


MODES = {1: ["nearest", "nearest-exact", "linear", "area"],
         2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
         3: ["nearest", "nearest-exact", "trilinear", "area"]}  # fmt: skip


@pytest.mark.parametrize(("rank", "mode"), [(r, m) for r, modes in MODES.items() for m in modes])
def test_interpolations(rank: int, mode: str) -> None:
    x = array(*SPACES[rank])
    corners = (
        [None, False, True] if mode in ("linear", "bilinear", "trilinear", "bicubic") else [None]
    )
    for align in corners:
        for size in (1, 4, 7, 20):
            compare("interpolate", [x], size, mode=mode, align_corners=align)
        for factor in (0.5, 1.7, 2, 2.6):
            for again in (None, True):
                compare("interpolate", [x], None, factor, mode, align, again)
    if mode in ("bilinear", "bicubic"):
        for size in ((3, 5), (4, 30), (1, 1), (9, 12)):
            compare("interpolate", [x], size, mode=mode, antialias=True)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pads(mode: str) -> None:
    for rank, widths in ((1, (2, 3)), (1, (-2, 1)), (2, (1, 2, 3, 0)), (2, (2, -1, -3, 1)),
                         (3, (1, 2, 0, 1, 2, 1))):  # fmt: skip
        if mode == "circular" and min(widths) < 0:
            continue  # PyTorch wraps what it has cut off; see test_resampling.py for ours
        compare("pad", [array(*SPACES[rank])], widths, mode)
    if mode == "constant":
        compare("pad", [array(3, 4)], (1, 1, 2, 0), "constant", 1.5)


def test_patches_and_shuffles() -> None:
    x = array(2, 3, 7, 8)
    for named in grid(kernel_size=[2, (3, 2)], dilation=[1, 2], padding=[0, 1], stride=[1, (2, 3)]):
        compare("unfold", [x], **named)
        columns = T.unfold(torch.tensor(x), **named).numpy()
        compare("fold", [columns], (7, 8), **named)
    compare("pixel_shuffle", [array(2, 12, 3, 4)], 2)
    compare("pixel_unshuffle", [array(2, 3, 4, 6)], 2)
    ours = bp.tensor(x).unfold(3, 3, 2)
    np.testing.assert_array_equal(ours.numpy(), torch.tensor(x).unfold(3, 3, 2).numpy())


MODULES = [
    ("BatchNorm1d", (4,), (5, 4)), ("BatchNorm2d", (4,), (3, 4, 5, 6)),
    ("BatchNorm3d", (4, 1e-3, None), (2, 4, 3, 3, 3)), ("GroupNorm", (2, 4), (3, 4, 5)),
    ("InstanceNorm1d", (4, 1e-5, 0.2, True, True), (2, 4, 9)), ("LayerNorm", ((4, 5),), (3, 4, 5)),
    ("InstanceNorm2d", (4,), (4, 5, 5)), ("RMSNorm", (5,), (3, 5)),
    ("MaxPool2d", (3, 2, 1, 1, False, True), (1, 2, 8, 8)), ("AvgPool3d", (2,), (1, 2, 4, 4, 4)),
    ("AdaptiveAvgPool2d", ((None, 3),), (1, 2, 8, 7)), ("LocalResponseNorm", (3,), (2, 4, 5)),
    ("Conv2d", (4, 6, 3, 1, 1), (2, 4, 5, 5)),
    ("Conv2d", (4, 6, (3, 4), 1, "same", (2, 1), 2, True, "circular"), (2, 4, 6, 7)),
    ("Conv1d", (4, 6, 3, 2, 1, 1, 1, False, "reflect"), (2, 4, 6)),
    ("ReplicationPad2d", ((1, 2, 0, 3),), (2, 4, 5)),
    ("Upsample", (7, None, "bilinear"), (1, 2, 4, 5)), ("ConvTranspose1d", (4, 2, 3, 2), (2, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "shape"), MODULES, ids=[m[0] for m in MODULES])
def test_modules_load_the_others_state(name: str, arguments: Any, shape: Any) -> None:
    mine, theirs = getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    for seed in range(2):  # so that running statistics are not the first ones
        theirs(torch.tensor(array(*shape, seed=seed), dtype=torch.float32))
    mine.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    for training in (True, False):
        x = array(*shape, seed=7).astype(np.float32)
        y, z = mine.train(training)(bp.tensor(x)), theirs.train(training)(torch.tensor(x))
        np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-4, atol=1e-5)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(
            mine.state_dict()[key].numpy(), value.numpy(), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_samples(mode: str, padding_mode: str) -> None:
    x, grid = array(2, 3, 5, 6), array(2, 4, 7, 2, seed=1) * 1.5
    for align in (False, True):
        compare("grid_sample", [x, grid], mode, padding_mode, align)
    if mode != "bicubic":
        volume, places = array(2, 2, 3, 4, 5), array(2, 2, 3, 3, 3, seed=1)
        compare("grid_sample", [volume, places], mode, padding_mode, False)


def test_affine_grids() -> None:
    for align in (False, True):
        compare("affine_grid", [array(2, 2, 3)], (2, 1, 4, 5), align)
        compare("affine_grid", [array(2, 3, 4)], (2, 1, 2, 4, 3), align)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpools(rank: int) -> None:
    whole = array(*SPACES[rank])
    thirds = whole[(..., *(slice(n // 3 * 3) for n in SPACES[rank][2:]))]
    for x, window, size in ((whole, 2, SPACES[rank]), (thirds, 3, None)):
        pooled, places = getattr(F, f"max_pool{rank}d")(bp.tensor(x), window, return_indices=True)
        compare(f"max_unpool{rank}d", [pooled.numpy(), places.numpy()], window, output_size=size)


def small(m: Any) -> Any:
    """A network of either side's modules."""
    return m.Sequential(
        m.Conv2d(2, 6, 3, 1, 1), m.BatchNorm2d(6), m.ReLU(), m.MaxPool2d(2), m.Conv2d(6, 8, 3),
        m.GroupNorm(2, 8), m.GELU(), m.AdaptiveAvgPool2d(2), m.Flatten(), m.Linear(32, 3),
    )  # fmt: skip


def test_a_network_trains_alike() -> None:
    mine, theirs = small(nn).to("float64"), small(torch.nn).double()
    mine.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    a = bp.optim.AdamW(mine.parameters(), lr=1e-2, weight_decay=0.1)
    b = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0.1)
    for step in range(6):
        x = array(5, 2, 9, 11, seed=step)
        target = np.random.default_rng(step).integers(0, 3, 5)
        a.zero_grad()
        b.zero_grad()
        loss = F.cross_entropy(mine(bp.tensor(x)), bp.tensor(target))
        wanted = T.cross_entropy(theirs(torch.tensor(x)), torch.tensor(target))
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-6)
        loss.backward()
        wanted.backward()
        a.step()
        b.step()
    x = array(5, 2, 9, 11, seed=9)
    y, z = mine.eval()(bp.tensor(x)), theirs.eval()(torch.tensor(x))
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-5, atol=1e-6)
