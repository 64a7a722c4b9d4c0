"""What tensors and the tape refuse, with its whole text: rule, values with shape, dtype and line,
and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bedplate as bp

HERE = re.escape(__file__)


def refused(error: type[Exception], text: str, call: Callable[[], Any]) -> None:
    """`call` raises `error` with exactly `text`, where LINE stands for a line of this file."""
    with pytest.raises(error) as caught:
        call()
    pattern = re.escape(text).replace("LINE", rf"{HERE}:\d+")
    assert re.fullmatch(pattern, str(caught.value)), str(caught.value)


def test_ragged_lists() -> None:
    text = "tensor: the list is ragged: data"
    refused(
        bp.errors.ShapeError,
        f"{text}[1] has length 1, its neighbours have length 2",
        lambda: bp.tensor([[1, 2], [3]]),
    )
    refused(
        bp.errors.ShapeError,
        f"{text}[0][1] has length 0, its neighbours have length 1",
        lambda: bp.tensor([[[1], []]]),
    )
    refused(
        bp.errors.ShapeError,
        f"{text}[1] is not a list, its neighbours differ",
        lambda: bp.tensor([[1, 2], 3]),
    )
    refused(
        bp.errors.ShapeError,
        "tensor: the list is ragged: data[1] has shape (3,), data[0] has shape (2,)",
        lambda: bp.tensor([np.ones(2), np.ones(3)]),
    )


def test_what_is_no_number() -> None:
    refused(
        TypeError,
        "tensor: cannot make a tensor of str; give numbers, nested lists, a NumPy array or "
        "anything with __array__ or __dlpack__",
        lambda: bp.tensor("abc"),
    )
    for data in (["a"], [None], [[1, "a"]], [{}]):
        with pytest.raises((TypeError, bp.errors.DTypeError), match=r"tensor|dtype"):
            bp.tensor(data)
    with pytest.raises(bp.errors.DTypeError, match="unknown dtype dtype"):
        bp.tensor(np.array(["a"]))
    with pytest.raises(bp.errors.DTypeError, match="unknown dtype 'float31'; there are bool, int8"):
        bp.tensor([1], dtype="float31")


def test_integers_that_do_not_fit() -> None:
    refused(
        bp.errors.DTypeError,
        "tensor: a Python integer does not fit int64; give a wider dtype, such as float64",
        lambda: bp.tensor(2**70),
    )
    with pytest.raises(bp.errors.DTypeError, match="does not fit uint8"):
        bp.tensor([1, 300], dtype=bp.uint8)
    with pytest.raises(bp.errors.DTypeError, match="does not fit uint8"):
        bp.tensor(-1, dtype=bp.uint8)


def test_one_element() -> None:
    x = bp.ones((2, 2))
    for name, call in (("item", x.item), ("bool", lambda: bool(x)), ("float", lambda: float(x))):
        refused(
            bp.errors.ShapeError,
            f"{name}: needs a tensor of one element\n"
            "  a  (2, 2) float32   made at LINE\n"
            "  reduce it first, for example with .sum(), .any() or .all()",
            call,
        )
    with pytest.raises(TypeError, match="only a 0-d integer tensor is an index"):
        [1, 2][bp.tensor(1.0)]
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(bp.tensor(1))
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(bp.tensor(1))


def test_shapes_that_do_not_fit_name_both_lines() -> None:
    a = bp.ones((2, 3))
    b = bp.ones((4, 3))
    refused(
        bp.errors.ShapeError,
        "add: the shapes do not broadcast\n"
        "  a  (2, 3)  float32   made at LINE\n"
        "  b  (4, 3)  float32   made at LINE\n"
        "  sizes along axis -2 are 2, 4; they must be equal or 1",
        lambda: a + b,
    )


def test_leaves_and_integers() -> None:
    x = bp.ones(2, requires_grad=True)
    refused(
        bp.errors.GradientError,
        "x += y: this tensor is a leaf that requires a gradient, so it cannot change while "
        "gradients are recorded\n"
        "  a  (2,) float32   made at LINE\n"
        "  update it inside `with bp.no_grad():`, or compute a new tensor from it",
        lambda: x.__iadd__(1),
    )
    refused(
        bp.errors.DTypeError,
        "requires_grad: only floating point tensors have gradients, not int64\n"
        "  convert it with .astype(bp.float32)",
        lambda: bp.tensor([1], requires_grad=True),
    )


def test_backward() -> None:
    refused(
        bp.errors.GradientError,
        "backward: this tensor has no gradient history\n"
        "  a  (2,) float32   made at LINE\n"
        "  nothing that it was computed from has requires_grad=True, or it was computed inside "
        "no_grad or detached",
        lambda: (bp.ones(2) + 1).backward(bp.ones(2)),
    )
    x = bp.ones(1, requires_grad=True)
    y = x * 2
    y.backward()
    refused(
        bp.errors.GradientError,
        "backward: the graph behind multiply was freed by an earlier backward; "
        "keep it with backward(retain_graph=True) the first time",
        y.backward,
    )


def test_foreign_operands() -> None:
    for other in ("a", None, object(), {}):
        name = type(other).__name__
        with pytest.raises(TypeError, match=rf"for \+: 'Tensor' and '{name}'"):
            bp.ones(2) + other
        with pytest.raises(TypeError, match=rf"for -: '{name}' and 'Tensor'"):
            other - bp.ones(2)
        with pytest.raises(TypeError, match=f"'<' not supported between .* 'Tensor' and '{name}'"):
            bp.ones(2) < other


def test_a_foreign_operand_that_knows_tensors_is_asked() -> None:
    class Scale:
        def __rmul__(self, tensor: bp.Tensor) -> bp.Tensor:
            return tensor * 3

        def __gt__(self, tensor: bp.Tensor) -> str:
            return "greater"

    assert (bp.ones(2) * Scale()).tolist() == [3.0, 3.0]
    assert (bp.ones(2) < Scale()) == "greater"


def test_an_axis_is_named_once() -> None:
    x = bp.ones((2, 3))
    for name, call in (
        ("sum", lambda: x.sum(axis=0, dim=1)),
        ("max", lambda: bp.max(x, axis=0, dim=0)),
        ("logsumexp", lambda: bp.logsumexp(x, axis=0, dim=0)),
    ):
        refused(TypeError, f"{name}: axis and dim are one argument; give one", call)
    refused(
        TypeError,
        "mean: keepdims and keepdim are one argument; give one",
        lambda: x.mean(0, keepdims=True, keepdim=False),
    )


def test_shapes_of_gradients() -> None:
    x = bp.ones(2, requires_grad=True)
    y = x * 2
    refused(
        bp.errors.GradientError,
        "backward: the gradient of the root has the shape of the root\n"
        "  grad  (3,) float32   made at LINE\n"
        "  root  (2,) float32   made at LINE",
        lambda: y.backward(bp.ones(3)),
    )
    refused(
        bp.errors.GradientError,
        "backward: a root of several elements needs its gradient\n"
        "  root  (2,) float32   made at LINE\n"
        "  reduce it to one element, or pass backward(grad=...) of its shape",
        y.backward,
    )
    refused(
        bp.errors.ShapeError,
        "grad: a gradient has the shape of its tensor\n"
        "  grad  (3,) float32   made at LINE\n"
        "  a     (2,) float32   made at LINE",
        lambda: setattr(x, "grad", bp.ones(3)),
    )
    refused(
        bp.errors.GradientError,
        "requires_grad: a computed tensor has the history that it has\n"
        "  a  (2,) float32   made at LINE\n"
        "  use .detach() for the same value without it",
        lambda: setattr(y, "requires_grad", False),
    )
    refused(
        bp.errors.ShapeError,
        "mT: needs at least two axes, this tensor has 1\n"
        "  a  (2,) float32   made at LINE\n"
        "  give it another axis first, for example with x[None]",
        lambda: x.mT,
    )


def test_negative_sizes() -> None:
    x = bp.ones(4)
    for sizes in ((-2, -2), (-4, -1), (-4,)):
        with pytest.raises(bp.errors.ShapeError, match="reshape: "):
            x.reshape(*sizes)
    for sizes in ((-2, 4), (-3,)):
        with pytest.raises(bp.errors.ShapeError, match="broadcast_to: "):
            bp.ones(1).broadcast_to(*sizes)


def test_a_list_without_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(bp.errors.ShapeError, match=r"nested more than 64 deep; is it in"):
        bp.tensor(endless)


def test_what_is_no_dtype_and_no_generator() -> None:
    with pytest.raises(bp.errors.DTypeError, match="promote: expected a dtype, got Tensor"):
        bp.promote(bp.float32, bp.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"generator: expected a bp.Generator, got Tensor"):
        bp.nn.functional.dropout(bp.ones(2), generator=bp.ones(2))  # type: ignore[arg-type]


def test_a_foreign_value_is_in_no_tensor() -> None:
    assert Fraction(1, 3) not in bp.ones(2)
    assert 1 in bp.ones(2)


@pytest.mark.parametrize(
    "call",
    [lambda x: x.astype(None), lambda x: bp.result_type(None, x),
     lambda x: bp.MemoryManager().allocate(3, None), lambda x: bp.finfo(None)],
)  # fmt: skip
def test_none_is_no_dtype(call: Any) -> None:
    """NumPy takes it for float64, whose twofold memory nobody asked for."""
    with pytest.raises(bp.errors.DTypeError, match="unknown dtype None"):
        call(bp.tensor([1.0, 2.0]))
