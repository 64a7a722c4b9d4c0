"""Sorting, searching, sets and counts beside PyTorch: values, places and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp

NAN, INF = math.nan, math.inf


def rows(*shape: int, ties: bool = True, special: bool = True) -> Any:
    """Numbers with ties, NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(0)
    x = rng.integers(-6, 7, shape) / 2.0 if ties else rng.standard_normal(shape)
    for value in (NAN, INF, -INF, -0.0) if special else ():
        x[rng.random(shape) < 0.05] = value
    return x


def same(ours: Any, theirs: Any) -> None:
    ours, theirs = ours.numpy(), theirs.numpy()
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_stable_sort(dtype: str, descending: bool) -> None:
    for shape in ((50,), (4, 30), (3, 4, 5), (2, 300)):
        x = rows(*shape, special=dtype.startswith("float")).astype(dtype)
        for axis in range(-1, len(shape)):
            values, places = torch.sort(
                torch.tensor(x), dim=axis, descending=descending, stable=True
            )
            t = bp.tensor(x)
            same(bp.sort(t, dim=axis, descending=descending), values)
            same(bp.argsort(t, dim=axis, descending=descending), places)


@pytest.mark.parametrize("largest", [False, True])
def test_values_of_top_k_and_kth_values(largest: bool) -> None:
    """Which of equal elements PyTorch takes is not told: values are compared, ours are stable."""
    x = rows(3, 400)
    for k in (0, 1, 7, 200, 400):
        ours = bp.topk(bp.tensor(x), k, largest=largest)
        theirs = torch.topk(torch.tensor(x), k, largest=largest)
        same(ours.values, theirs.values)
        np.testing.assert_array_equal(
            np.take_along_axis(x, ours.indices.numpy(), 1), ours.values.numpy()
        )
    for k in (1, 100, 400):
        ours = bp.kthvalue(bp.tensor(x), k, dim=1, keepdim=True)
        same(ours.values, torch.kthvalue(torch.tensor(x), k, dim=1, keepdim=True).values)


GRADIENTS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: bp.sort(x, 1), lambda x: torch.sort(x, 1)[0]),
    (
        lambda x: bp.sort(x, 0, descending=True),
        lambda x: torch.sort(x, 0, descending=True)[0],
    ),
    (lambda x: bp.topk(x, 3, axis=0).values, lambda x: torch.topk(x, 3, dim=0)[0]),
    (lambda x: bp.kthvalue(x, 4).values, lambda x: torch.kthvalue(x, 4)[0]),
    (lambda x: bp.quantile(x, 0.3, axis=1), lambda x: torch.quantile(x, 0.3, dim=1)),
    (
        lambda x: bp.quantile(x, 0.5, axis=1, interpolation="lower"),
        lambda x: torch.median(x, dim=1)[0],
    ),
    (lambda x: bp.masked_select(x, x > 0), lambda x: torch.masked_select(x, x > 0)),
    (lambda x: bp.cummax(x, 1).values, lambda x: torch.cummax(x, 1)[0]),
    (lambda x: bp.cummin(x, 0).values, lambda x: torch.cummin(x, 0)[0]),
    (lambda x: bp.logcumsumexp(x, 0), lambda x: torch.logcumsumexp(x, 0)),
]


@pytest.mark.parametrize("place", range(len(GRADIENTS)))
def test_gradients(place: int) -> None:
    ours, theirs = GRADIENTS[place]
    x = rows(6, 9, ties=False, special=False)
    mine, other = bp.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    got, wanted = ours(mine), theirs(other)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    (got * got).sum().backward()
    (wanted * wanted).sum().backward()
    assert mine.grad is not None and other.grad is not None
    np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_places_and_gradients_of_extremes_so_far(name: str) -> None:
    for x in (rows(4, 40), rows(40, 4)[:, ::2].copy(), np.array([[NAN, 1.0, NAN, 2.0, 2.0]])):
        for axis in (0, 1):
            mine, other = bp.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            ours, theirs = getattr(bp, name)(mine, axis), getattr(torch, name)(other, axis)
            same(ours.values.detach(), theirs.values.detach())
            same(ours.indices, theirs.indices)
            weights = np.random.default_rng(1).random(x.shape)
            (ours.values * bp.tensor(weights)).sum().backward()
            (theirs.values * torch.tensor(weights)).sum().backward()
            assert mine.grad is not None and other.grad is not None
            # NaN times a weight is NaN, and the sum over the places is the same
            np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-12)


def test_quantiles_with_nan_and_infinities() -> None:
    for x in (rows(5, 8), rows(5, 9, special=False), np.array([[INF, INF], [-INF, 1.0]])):
        for interpolation in ("linear", "lower", "higher", "nearest", "midpoint"):
            q = np.array([0.0, 0.25, 0.5, 1.0])
            ours = bp.quantile(bp.tensor(x), bp.tensor(q), 1, interpolation=interpolation)
            theirs = torch.quantile(
                torch.tensor(x), torch.tensor(q), 1, interpolation=interpolation
            )
            finite = np.isfinite(x).all(1)
            np.testing.assert_allclose(ours.numpy()[:, finite], theirs.numpy()[:, finite])
            np.testing.assert_array_equal(np.isnan(ours.numpy()[:, np.isnan(x).any(1)]), True)


def test_places_in_sorted_rows() -> None:
    ordered, values = np.sort(rows(3, 20, special=False), 1), rows(3, 11, special=False)
    for right in (False, True):
        same(
            bp.searchsorted(bp.tensor(ordered), bp.tensor(values), right=right),
            torch.searchsorted(torch.tensor(ordered), torch.tensor(values), right=right),
        )
        same(
            bp.bucketize(bp.tensor(values), bp.tensor(ordered[0]), right=right),
            torch.bucketize(torch.tensor(values), torch.tensor(ordered[0]), right=right),
        )


def test_sets() -> None:
    x = np.random.default_rng(0).integers(0, 4, (6, 3))
    t, other = bp.tensor(x), torch.tensor(x)
    for mine, theirs in zip(
        bp.unique(t, return_inverse=True, return_counts=True),
        torch.unique(other, return_inverse=True, return_counts=True),
        strict=True,
    ):
        same(mine, theirs)
    for dim in (0, 1):
        for mine, theirs in zip(
            bp.unique(t, dim=dim, return_inverse=True, return_counts=True),
            torch.unique(other, dim=dim, return_inverse=True, return_counts=True),
            strict=True,
        ):
            same(mine, theirs)
    nan = np.array([NAN, 1.0, NAN])
    same(bp.unique(bp.tensor(nan)), torch.unique(torch.tensor(nan)))
    same(bp.isin(t, bp.tensor([1, 3])), torch.isin(other, torch.tensor([1, 3])))
    same(bp.argwhere(t), torch.nonzero(other))
    same(bp.count_nonzero(t, 0), torch.count_nonzero(other, 0))


def test_counts_and_histograms() -> None:
    x = np.random.default_rng(0).integers(0, 9, 500)
    weights = np.random.default_rng(1).random(500)
    same(bp.bincount(bp.tensor(x), minlength=12), torch.bincount(torch.tensor(x), minlength=12))
    np.testing.assert_allclose(
        bp.bincount(bp.tensor(x), bp.tensor(weights)).numpy(),
        torch.bincount(torch.tensor(x), torch.tensor(weights)).numpy(),
    )
    y = np.random.default_rng(2).integers(0, 65, 500) / 64
    same(bp.histc(bp.tensor(y), 8, 0, 1), torch.histc(torch.tensor(y), 8, 0, 1))
    same(bp.histc(bp.tensor(y), 16), torch.histc(torch.tensor(y), 16))
    counts, edges = bp.histogram(bp.tensor(y), 8, (0.0, 1.0), density=True)
    theirs = torch.histogram(torch.tensor(y), 8, range=(0.0, 1.0), density=True)
    np.testing.assert_allclose(counts.numpy(), theirs.hist.numpy())
    np.testing.assert_allclose(edges.numpy(), theirs.bin_edges.numpy())
