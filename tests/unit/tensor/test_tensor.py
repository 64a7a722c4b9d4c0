"""What a tensor is: attributes, conversions, printing, copies, pickles, NumPy on either side."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import bedplate as bp


def test_attributes() -> None:
    x = bp.zeros((2, 3), dtype=bp.float64)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), 2, 6, 8, 48)
    assert x.device == bp.Device("cpu")
    assert x.is_leaf
    assert x.grad is None
    assert not x.requires_grad


def test_python_numbers() -> None:
    x = bp.tensor(2.5)
    assert (float(x), int(x), bool(x), complex(x)) == (2.5, 2, True, 2.5 + 0j)
    assert [10, 20, 30][bp.tensor(1)] == 20
    assert f"{x:.2f}" == "2.50"
    assert not bp.tensor([0])
    assert bp.tensor(1.5, dtype=bp.bfloat16).item() == 1.5


def test_length_and_iteration() -> None:
    x = bp.tensor([[1, 2], [3, 4]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x
    assert 7 not in x


def test_transposes() -> None:
    x = bp.tensor(np.arange(6).reshape(2, 3))
    assert x.T.tolist() == x.numpy().T.tolist()
    y = bp.tensor(np.arange(12).reshape(2, 3, 2))
    assert y.mT.shape == (2, 2, 3)
    with pytest.raises(bp.errors.ShapeError, match="T: needs a matrix, this tensor has 3 axes"):
        y.T


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (bp.tensor(1.5), "Tensor(1.5, dtype=float32)"),
        (bp.tensor([1, 2]), "Tensor([1, 2], dtype=int64)"),
        (bp.tensor([1.0], requires_grad=True), "Tensor([1.], dtype=float32, requires_grad=True)"),
        (bp.tensor([1.5], dtype=bp.bfloat16), "Tensor([1.5], dtype=bfloat16)"),
        (bp.tensor([True]), "Tensor([ True], dtype=bool)"),
        (bp.zeros((0, 3)), "Tensor([], shape=(0, 3), dtype=float32)"),
        (bp.tensor([1], device="reference"), "Tensor([1], dtype=int64, device='reference')"),
        (
            bp.tensor([[1.0, 2.0], [3.0, 4.0]]),
            "Tensor([[1., 2.],\n        [3., 4.]], shape=(2, 2), dtype=float32)",
        ),
    ],
)
def test_text(x: bp.Tensor, text: str) -> None:
    assert repr(x) == text


def test_long_text_is_short() -> None:
    assert len(repr(bp.zeros(10000))) < 200


def test_pickle_keeps_all() -> None:
    x = bp.tensor([[1.0, 2.0]], dtype=bp.bfloat16, requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert (y.tolist(), y.dtype, y.shape, y.requires_grad) == (
        [[1.0, 2.0]],
        bp.bfloat16,
        (1, 2),
        True,
    )
    assert pickle.loads(pickle.dumps(bp.Device("cpu"))) is bp.Device("cpu")


def test_copies_are_apart() -> None:
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    for y in (copy.copy(x), copy.deepcopy(x)):
        assert y.requires_grad
        with bp.no_grad():
            y += 1
        assert x.tolist() == [1.0, 2.0]
        (y * y).sum().backward()
        assert x.grad is None


def test_values_never_alias() -> None:
    x = bp.tensor([1.0, 2.0, 3.0])
    for view in (x[...], x[:], x.reshape(3), x.broadcast_to(3), x.detach(), x.squeeze()):
        view *= 10
        view[0] = 0
        assert x.tolist() == [1.0, 2.0, 3.0]


def test_hash_is_by_identity() -> None:
    x, y = bp.tensor([1.0]), bp.tensor([1.0])
    table = {x: "x", y: "y"}
    assert (table[x], table[y]) == ("x", "y")


def test_to() -> None:
    x = bp.tensor([1.0])
    assert x.to("cpu") is x
    assert x.to(bp.Device("cpu")) is x
    assert x.to(bp.float32) is x
    assert x.astype(bp.float32, copy=False) is x
    copied = x.astype(bp.float32)
    copied += 1
    assert (x.tolist(), copied.tolist()) == ([1.0], [2.0])
    assert x.to("float64").dtype is bp.float64
    moved = x.to("reference")
    assert moved.device == bp.Device("reference")
    assert (moved + 1).tolist() == [2.0]
    with pytest.raises(bp.errors.DeviceError, match="'cpu', 'reference'"):
        x.to("nowhere")


def test_gradient_goes_through_a_move() -> None:
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    (x.to("reference") * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.device == bp.Device("cpu")
    assert x.grad.tolist() == [3.0, 3.0]


def test_numpy_on_the_left() -> None:
    """B58"""
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    array = np.array([3.0, 4.0], np.float32)
    for result in (
        array * x,
        x * array,
        np.float64(2) * x,
        x * np.float64(2),
        array - x,
        array @ x,
    ):
        assert isinstance(result, bp.Tensor)
        assert result.requires_grad
    equal = array == x
    assert isinstance(equal, bp.Tensor)
    assert equal.dtype is bp.bool_
    assert (array / x).tolist() == [3.0, 2.0]
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.exp(x)


def test_comparison_with_what_is_no_number() -> None:
    x = bp.tensor([1.0])
    nothing = None
    assert (x == nothing) is False
    assert (x != nothing) is True
    assert (x == "a") is False


def test_promotion() -> None:
    """B59"""
    with pytest.raises(bp.errors.DTypeError, match="300"):
        bp.tensor([1], dtype=bp.uint8) + 300
    assert (bp.tensor([1]) + 1.5).dtype is bp.float32
    assert (bp.tensor([1.0], dtype=bp.float16) * 2.5).dtype is bp.float16
    assert bp.tensor([True, True]).sum().dtype is bp.int64
    with pytest.raises(bp.errors.DTypeError, match="only floating point"):
        bp.tensor([1], requires_grad=True)


def test_default_device() -> None:
    with bp.default_device("reference"):
        x = bp.zeros(2)
        assert x.device == bp.Device("reference")
        assert bp.tensor([1]).device == bp.Device("reference")
    assert bp.zeros(2).device == bp.Device("cpu")
