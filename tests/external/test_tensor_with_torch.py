"""Tensors and torch: values travel both ways, and gradients agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "empty", "0-d"])
def test_from_torch(name: str, layout: str) -> None:
    source = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    source = {
        "plain": source,
        "transposed": source.T,
        "strided": source[1:, ::2],
        "empty": source[:0],
        "0-d": source[1, 1],
    }[layout]
    x = bp.from_dlpack(source)
    assert x.dtype.name == name
    assert x.tolist() == source.tolist()
    assert bp.tensor(source).tolist() == source.tolist()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (6,)], ids=str)
def test_to_torch(name: str, shape: tuple[int, ...]) -> None:
    x = (bp.arange(6) if 0 not in shape else bp.arange(0)).reshape(shape).astype(name)
    shared = torch.from_dlpack(x)
    assert shared.tolist() == x.tolist()
    assert tuple(shared.shape) == shape
    assert str(shared.dtype) == f"torch.{name}"
    if name != "bfloat16":
        assert not x.size or shared.data_ptr() == np.asarray(x).ctypes.data
        assert torch.from_numpy(x.numpy()).tolist() == x.tolist()
    apart = torch.from_dlpack(x, copy=True)
    apart.zero_()
    assert x.tolist() == shared.tolist()


def test_complex_travels_both_ways() -> None:
    source = torch.tensor([1 + 2j, -3j])
    x = bp.from_dlpack(source)
    assert x.dtype is bp.complex64
    assert torch.from_dlpack(x).tolist() == source.tolist()


@pytest.mark.parametrize("name", DTYPES)
def test_memory_is_shared_with_torch(name: str) -> None:
    source = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    x = bp.from_dlpack(source)
    assert x.numpy(copy=False).ctypes.data == source.data_ptr()
    turned = bp.from_dlpack(source.T, copy=False)
    assert turned.tolist() == source.T.tolist()
    gone = source.tolist()
    del source
    assert x.tolist() == gone


def test_torch_writes_what_it_shares() -> None:
    """torch does not look at DLPack's flag "read only": what docs/tensors.md warns of."""
    x = bp.tensor([1.0, 2.0])
    torch.from_dlpack(x)[0] = 7.0
    assert x.tolist() == [7.0, 2.0]


def test_a_torch_tensor_is_copied() -> None:
    source = torch.zeros(3)
    x = bp.tensor(source)
    source += 1
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_a_torch_tensor_that_requires_grad_says_so() -> None:
    with pytest.raises((BufferError, RuntimeError, TypeError), match="grad"):
        bp.tensor(torch.zeros(3, requires_grad=True))


KEYS = [
    (slice(None), [0, 2]),
    ([0, 1], slice(None), [1, 2]),
    (0, [1, 1], slice(None, None, 2)),
    ([[0], [1]], [0, 2]),
    (..., None, [2, 0]),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_gradients_of_indexing(key: object) -> None:
    data = np.random.default_rng(0).normal(size=(3, 4, 5))
    ours = bp.tensor(data, requires_grad=True)
    theirs = torch.tensor(data, requires_grad=True)
    (ours[key] ** 2).sum().backward()
    (theirs[key] ** 2).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


def test_gradients_of_a_small_network() -> None:
    generator = np.random.default_rng(0)
    data = [generator.normal(size=shape) for shape in ((8, 5), (7, 5), (7,), (3, 7))]

    def loss(x, w, b, v):
        h = (x @ w.T + b).tanh()
        return ((h @ v.T) ** 2).mean()

    ours = [bp.tensor(array, requires_grad=True) for array in data]
    theirs = [torch.tensor(array, requires_grad=True) for array in data]
    loss(*ours).backward()
    loss(*theirs).backward()
    for a, b in zip(ours, theirs, strict=True):
        assert a.grad is not None
        assert b.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-9)


@pytest.mark.parametrize("make", [bp.tensor, bp.asarray, bp.from_dlpack])
def test_values_that_torch_works_out_late_come_in_as_they_are(make: Any) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert z.conj().is_conj() and z.conj().imag.is_neg()
    assert make(z.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert make(z.conj().imag).tolist() == [-2.0, 4.0]
    with pytest.raises(BufferError, match=r"does not hold its values \(is_neg\(\) is true\)"):
        bp.from_dlpack(z.conj().imag, copy=False)
