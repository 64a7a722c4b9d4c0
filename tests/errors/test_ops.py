"""What ops refuse, with the text: op, rule, each input with shape, dtype and line, advice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import AxisError, DTypeError, ShapeError


def zeros(*shape: int, dtype: Any = bp.float32) -> Any:
    return bp.zeros(shape, dtype=dtype, device="reference")


CASES = [
    (
        lambda: zeros(2, 3) + zeros(4),
        ShapeError,
        "add: the shapes do not broadcast",
        "sizes along axis -1 are 3, 4",
    ),
    (
        lambda: zeros(6).reshape(4),
        ShapeError,
        "reshape: (6,) does not fit (4,)",
        "must stay 6, not 4",
    ),
    (
        lambda: zeros(6).reshape(-1, 4),
        ShapeError,
        "reshape: the size -1 in (-1, 4) cannot be told",
        "6 elements",
    ),
    (
        lambda: zeros(2, 3).permute(0, 0),
        ShapeError,
        "permute: (0, 0) does not name every axis once",
        "",
    ),
    (
        lambda: zeros(2, 3).permute(0, 5),
        ShapeError,
        "permute: axis 5 is out of range",
        "axes are -2 to 1",
    ),
    (
        lambda: zeros(2).broadcast_to(3),
        ShapeError,
        "broadcast_to: (2,) does not broadcast to (3,)",
        "equal, or 1",
    ),
    (lambda: zeros(2, 3).broadcast_to(3), ShapeError, "broadcast_to: (3,) has fewer axes", ""),
    (lambda: zeros(2, 3).squeeze(1), ShapeError, "squeeze: axis 1 has size 3, not 1", ""),
    (
        lambda: bp.concat([zeros(2, 3), zeros(3, 2)]),
        ShapeError,
        "concat: the shapes differ beside axis 0",
        "all sizes",
    ),
    (lambda: bp.stack([zeros(2), zeros(3)]), ShapeError, "stack: the shapes differ", ""),
    (
        lambda: bp.split(zeros(5), [2, 2]),
        ShapeError,
        "split: sizes (2, 2) do not add up to axis 0",
        "add up to 4",
    ),
    (
        lambda: bp.narrow(zeros(5), 0, 3, 4),
        ShapeError,
        "narrow: 3 to 7 leaves axis 0",
        "the axis has size 5",
    ),
    (
        lambda: bp.pad(zeros(5), [(1, 2), (3, 4)]),
        ShapeError,
        "pad: widths [(1, 2), (3, 4)] do not match",
        "one pair",
    ),
    (
        lambda: bp.max(zeros(0, 3), axis=0),
        ShapeError,
        "max: nothing to choose from along axes (0,)",
        "empty axis",
    ),
    (lambda: zeros(3).sum(axis=1), AxisError, "sum: axis 1 is out of range", "axes are -1 to 0"),
    (
        lambda: zeros().sum(axis=0),
        ShapeError,
        "sum: axis 0 is out of range",
        "a 0-d value has no axes",
    ),
    (
        lambda: zeros(2, dtype=bp.bool_) - zeros(2, dtype=bp.bool_),
        DTypeError,
        "subtract: no such op for this dtype",
        "expected one of int8",
    ),
    (
        lambda: zeros(2) & zeros(2),
        DTypeError,
        "bitwise_and: no such op for this dtype",
        "expected one of bool",
    ),
    (
        lambda: bp.where(zeros(2), 1.0, zeros(2)),
        DTypeError,
        "where: the condition must be bool",
        "",
    ),
    (lambda: bp.take(zeros(2), zeros(2)), DTypeError, "take: axis 0: indices must be integers", ""),
    (
        lambda: bp.embedding(zeros(2, dtype=bp.int64), zeros(2)),
        ShapeError,
        "embedding: the weight must have two axes",
        "",
    ),
    (
        lambda: bp.softmax(zeros(2, dtype=bp.complex64)),
        DTypeError,
        "softmax: only floats have one",
        "cast first",
    ),
    (
        lambda: bp.mean(zeros(2, dtype=bp.int64)),
        DTypeError,
        "mean: only floats have one",
        "cast first",
    ),
    (
        lambda: bp.rms_norm(zeros(2, 3), zeros(2)),
        ShapeError,
        "rms_norm: the weight does not match the last axis of x",
        "shape (3,)",
    ),
    (
        lambda: bp.layer_norm(zeros(2, 3), zeros(3), zeros(2)),
        ShapeError,
        "layer_norm: the weight does not match",
        "",
    ),
    (
        lambda: bp.cross_entropy(zeros(2, 3), zeros(3, dtype=bp.int64)),
        ShapeError,
        "cross_entropy: the shapes do not match",
        "one target for each row",
    ),
    (
        lambda: bp.cross_entropy(zeros(2, 3), zeros(2)),
        DTypeError,
        "cross_entropy: expected float logits, integer targets",
        "",
    ),
    (
        lambda: bp.rope(zeros(4, 6), zeros(4, 2), zeros(4, 2)),
        ShapeError,
        "rope: the tables do not match x",
        "even D",
    ),
    (
        lambda: bp.take_along_axis(zeros(2, 3), zeros(2, dtype=bp.int64)),
        ShapeError,
        "take_along_axis: x and indices differ",
        "",
    ),
]


@pytest.mark.parametrize(("make", "error", "rule", "advice"), CASES, ids=[c[2] for c in CASES])
def test_refusal(make: Any, error: type[Exception], rule: str, advice: str) -> None:
    with pytest.raises(error) as caught:
        make()
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(rule)
    inputs = [line for line in rest if re.search("   (made at|the number)", line)]
    assert inputs, "no input is named"
    for line in inputs:
        origin = r"(made at .*test_ops\.py:\d+|the number [\d.]+)"
        assert re.match(rf"  \w+ +\([\d, ]*\) +\w+ +{origin}$", line), line
    assert advice in "\n".join(rest)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bp.exp(1.0), "exp: expected a tensor, got float"),
        (lambda: bp.add(1, 2), "add: expected a tensor, got int, int"),
        (lambda: zeros(2) + None, "NoneType"),
        (lambda: bp.flip(zeros(2), 0.0), "flip: expected an integer or several, got 0.0"),
        (lambda: bp.narrow(zeros(2), 0, 0.0, 1), "cannot be interpreted as an integer"),
        (lambda: bp.one_hot(zeros(2, dtype=bp.int64), 1.5), "cannot be interpreted as an integer"),
        (lambda: zeros(2).reshape(1.5), "reshape: sizes are integers"),
    ],
)
def test_arguments_that_are_no_tensors(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bp.gelu(zeros(2), approximate="no"), "gelu: approximate must be 'none' or 'tanh'"),
        (lambda: bp.chunk(zeros(2), 0), "chunk: the number of pieces must be positive"),
        (lambda: bp.split(zeros(2), 0), "split: the size of a piece must be positive"),
        (lambda: bp.pad(zeros(2), -1), "pad: widths are integers and not negative"),
        (lambda: bp.concat([]), "concat: at least one value is needed"),
        (lambda: bp.stack([]), "stack: at least one value is needed"),
        (lambda: bp.layer_norm(zeros(2), None, zeros(2)), "layer_norm: a bias needs a weight"),
        (lambda: bp.mse_loss(zeros(2), zeros(2), "no"), "mse_loss: reduction must be one of"),
    ],
)
def test_arguments_that_make_no_sense(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make()


def test_comparison_with_foreign_objects_is_left_to_python() -> None:
    assert (zeros(2) == None) is False  # noqa: E711
    assert (zeros(2) != "a") is True
    assert (np.zeros(2) == zeros(2)).tolist() == [True, True]


@pytest.mark.parametrize("foreign", [None, 1.0, "x", [1.0], np.ones(3)])
def test_what_is_no_tensor_is_refused_by_name(foreign: Any) -> None:
    kind = type(foreign).__name__
    for name in ("sum", "max", "mean", "softmax", "cumsum", "flip"):
        if name != "flip" or not isinstance(foreign, np.ndarray):
            with pytest.raises(TypeError, match=rf"{name}: expected a tensor, got {kind}"):
                getattr(bp, name)(foreign)


def test_one_hot_of_no_classes() -> None:
    with pytest.raises(ValueError, match="one_hot: -8 classes; there must be one at least"):
        bp.nn.functional.one_hot(bp.tensor([-9]))
    with pytest.raises(ValueError, match="one_hot: count must not be negative, got -2"):
        bp.one_hot(bp.tensor([0]), -2)


T = bp.ones((3,))
NO_TENSORS: dict[str, Callable[[], Any]] = {
    "multinomial": lambda: bp.random.multinomial("", 2),  # type: ignore[arg-type]
    "categorical": lambda: bp.random.categorical([0, -1]),  # type: ignore[arg-type]
    "shuffle": lambda: bp.random.shuffle(1.5),  # type: ignore[arg-type]
    "dropout": lambda: bp.random.dropout(3),  # type: ignore[arg-type]
    "set_state": lambda: bp.random.set_state(None),  # type: ignore[arg-type]
    "normal": lambda: bp.random.normal((6,), std="mean"),
    "uniform": lambda: bp.random.uniform((6,), "a", "b"),
    "gumbel": lambda: bp.random.gumbel((1,), scale={}),
    "laplace": lambda: bp.random.laplace((2,), mean={1}),
    "dropout of a net": lambda: bp.nn.functional.dropout(T, p=None),  # type: ignore[arg-type]
    "vjp": lambda: bp.vjp(lambda x: x, 3),
    "jvp": lambda: bp.jvp(lambda x: x, (3,), (T,)),
    "index_put": lambda: bp.index_put(bp.ones((3, 3)), ("a",), 5.0),
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_is_neither_number_nor_tensor_is_told(name: str) -> None:
    with pytest.raises(TypeError, match=r"expected|a number or a tensor|cannot make a tensor"):
        NO_TENSORS[name]()


def test_index_put_takes_plain_integers() -> None:
    found = bp.index_put(bp.zeros((2, 2)), (1, 0), 5.0)
    assert found.tolist() == [[0.0, 0.0], [5.0, 0.0]]
