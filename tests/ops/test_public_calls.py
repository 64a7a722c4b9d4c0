"""What holds for the call of every public function, whatever it computes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.errors import DTypeError, ShapeError
from bedplate.ops.public import OTHER_WORDS, VALUES

SPACES = {
    "bp": bp,
    "bp.linalg": bp.linalg,
    "bp.fft": bp.fft,
    "bp.special": bp.special,
    "bp.nn.functional": F,
}
KIND = inspect.Parameter
NO_TENSORS = [[1.0, 2.0], None, 3, "abc", np.ones((2, 3), np.float32), object()]
# what a call needs beside tensors, where a number will not do
NEEDED = {"upper": True, "subscripts": "i,i"}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function of tensors, by its name with its space."""
    for space, module in SPACES.items():
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isfunction(member) and any(map(is_value, parameters(member))):
                yield f"{space}.{name}", member


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def is_value(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in VALUES


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_tensor_is_refused_in_the_same_words(name: str) -> None:
    function = FUNCTIONS[name]
    plain = name.rpartition(".")[2]
    for thing in NO_TENSORS:
        given: list[Any] = []
        named = {}
        for parameter in parameters(function):
            value = thing if is_value(parameter) else NEEDED.get(parameter.name, 1)
            if parameter.kind is KIND.VAR_POSITIONAL and is_value(parameter):
                given.append(value)
            elif parameter.default is not KIND.empty or parameter.kind is KIND.VAR_POSITIONAL:
                continue
            elif parameter.kind is KIND.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                given.append(value)
        text = rf"^{plain}: expected a tensor, got {type(thing).__name__}.*bp.tensor\(...\)$"
        with pytest.raises(TypeError, match=text):
            function(*given, **named)


WITH_AXIS = [
    (name, ours) for name, f in FUNCTIONS.items()
    for ours in OTHER_WORDS.values() if ours in inspect.signature(f).parameters
]  # fmt: skip


@pytest.mark.parametrize(("name", "ours"), WITH_AXIS)
def test_the_words_of_pytorch_are_understood(name: str, ours: str) -> None:
    """Both words at once are refused by the function that knows both."""
    theirs = {ours: theirs for theirs, ours in OTHER_WORDS.items()}[ours]
    with pytest.raises(TypeError, match=rf"{ours} and {theirs} are one argument; give one"):
        FUNCTIONS[name](**{ours: 0, theirs: 0})


@pytest.mark.parametrize("name", sorted({n for n in dir(bp.Tensor) if not n.startswith("_")}))
def test_methods_understand_the_words_of_pytorch(name: str) -> None:
    method = getattr(bp.Tensor, name)
    if not inspect.isfunction(method):
        return
    for theirs, ours in OTHER_WORDS.items():
        if ours in inspect.signature(method).parameters:
            with pytest.raises(TypeError, match=f"{ours} and {theirs} are one argument"):
                method(bp.ones(2), **{ours: 0, theirs: 0})


def test_the_words_mean_the_same() -> None:
    x = bp.ones((1, 2))
    assert bp.concat([x, x], dim=0).shape == (2, 2)
    assert x.squeeze(dim=0).shape == (2,)
    assert bp.stack([x, x], dim=-1).shape == (1, 2, 2)
    assert [part.shape for part in x.split(1, dim=1)] == [(1, 1), (1, 1)]


X = bp.tensor([[1.0, 2.0], [3.0, 4.0]])
LISTS = [
    (lambda i: bp.gather(X, 0, i), [[0, 1]]),
    (lambda i: bp.take_along_axis(X, i, 1), [[0], [1]]),
    (lambda i: X.take_along_axis(i, 1), [[0], [1]]),
    (lambda i: bp.scatter(X, 0, i, X), [[1, 0], [0, 1]]),
    (lambda i: bp.index_add(X, 0, i, X), [1, 0]),
    (lambda i: X.index_add(0, i, X), [1, 0]),
    (lambda t: bp.cross_entropy(X, t), [1, 0]),
    (lambda t: F.cross_entropy(X, t), [1, 0]),
    (lambda t: F.mse_loss(X, t), [[1.0, 0.0], [0.0, 2.0]]),
    (lambda w: F.linear(X, w), [[1.0, 2.0], [0.0, 1.0]]),
    (lambda w: bp.layer_norm(X, w), [1.0, 2.0]),
    (lambda v: bp.linalg.solve(X, v), [1.0, 2.0]),
    (lambda v: bp.linalg.vecdot(v, X), [1.0, 2.0]),
]


@pytest.mark.parametrize(("call", "data"), LISTS)
def test_nested_lists_and_arrays_beside_a_tensor(call: Any, data: Any) -> None:
    wanted = call(bp.tensor(data)).numpy()
    np.testing.assert_array_equal(call(data).numpy(), wanted)
    array = bp.tensor(data).numpy()
    np.testing.assert_array_equal(call(array).numpy(), wanted)


def test_what_cannot_be_made_a_tensor_beside_one() -> None:
    with pytest.raises(TypeError, match=r"^gather: expected a tensor, got int; make one"):
        bp.gather(X, 0, 3)
    with pytest.raises(TypeError, match=r"^cross_entropy: expected a tensor, got str; make one"):
        bp.cross_entropy(X, "abc")


BOOLS = bp.tensor([True, False])
NAMES = [
    (lambda: bp.special.zeta(2, 1.0), "zeta"),
    (lambda: bp.vecdot(BOOLS, BOOLS), "vecdot"),
    (lambda: bp.tensordot(BOOLS, BOOLS, axes=1), "tensordot"),
    (lambda: bp.einsum("i,i->", BOOLS, BOOLS), "einsum"),
    (lambda: F.softmin(BOOLS, axis=3), "softmin"),
    (lambda: bp.histogram(BOOLS), "histogram"),
]


@pytest.mark.parametrize(("call", "name"), NAMES, ids=[name for _, name in NAMES])
def test_errors_have_the_name_that_was_called(call: Any, name: str) -> None:
    with pytest.raises((DTypeError, TypeError, IndexError), match=f"^{re.escape(name)}: "):
        call()


def test_an_error_inside_a_function_that_was_given_keeps_its_name() -> None:
    def distance(a: Any, b: Any) -> Any:
        return bp.linalg.vector_norm(a - b, axis=7)

    with pytest.raises(IndexError, match=r"^vector_norm: axis 7"):
        F.triplet_margin_with_distance_loss(X, X, X, distance_function=distance)


SMALL = bp.tensor([1, 2], dtype=bp.uint8)
MASK = bp.tensor([True, False])
PLACE = bp.tensor([0])
TAKES_A_NUMBER = {
    "full": lambda y, v: bp.full((2,), v, dtype=y.dtype),
    "full_like": bp.full_like,
    "pad": lambda y, v: bp.pad(y, 1, v),
    "masked_fill": lambda y, v: bp.masked_fill(y, MASK, v),
    "scatter": lambda y, v: bp.scatter(y, 0, PLACE, v),
    "scatter_add": lambda y, v: bp.scatter_add(y, 0, PLACE, v),
    "scatter_reduce": lambda y, v: bp.scatter_reduce(y, 0, PLACE, v, "sum"),
    "put_along_axis": lambda y, v: bp.put_along_axis(y, PLACE, v, 0),
    "index_fill": lambda y, v: bp.index_fill(y, 0, PLACE, v),
    "index_put": lambda y, v: bp.index_put(y, (PLACE,), v),
    "index_add": lambda y, v: bp.index_add(y, 0, PLACE, y[:1], alpha=v),
    "threshold": lambda y, v: F.threshold(y, 1, v),
    "diff": lambda y, v: bp.diff(y, prepend=v),
}


@pytest.mark.parametrize("name", TAKES_A_NUMBER)
def test_a_number_neither_wraps_nor_is_cut(name: str) -> None:
    call = TAKES_A_NUMBER[name]
    with pytest.raises(DTypeError, match=rf"^{name}: the Python number 300 does not fit uint8 \(0"):
        call(SMALL, 300)
    with pytest.raises(DTypeError, match=rf"^{name}: the Python number 1.5 does not fit int64"):
        call(SMALL.astype(bp.int64), 1.5)
    with pytest.raises(DTypeError, match=rf"^{name}: the Python integer of 1329 bits does not fit"):
        call(bp.ones(2), 10**400)
    assert call(SMALL, 255).dtype is bp.uint8
    assert call(SMALL, 1.0).dtype is bp.uint8


def test_a_shift_count_is_an_integer() -> None:
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        bp.tensor([1, 2]) << 1.5


N = np.int64
ROWS = bp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
TAKES_AN_INDEX = {
    "histogram": lambda i: bp.histogram(ROWS, bins=i(3)),
    "split": lambda i: bp.split(ROWS, i(1)),
    "tensordot": lambda i: bp.tensordot(ROWS, ROWS, axes=i(2)),
    "fftn": lambda i: bp.fft.fftn(ROWS, axes=i(1)),
    "layer_norm": lambda i: F.layer_norm(ROWS, i(3)),
    "norm": lambda i: bp.linalg.norm(ROWS, axis=i(1), ord=1),
    "sum": lambda i: bp.sum(ROWS, axis=i(1)),
    "squeeze": lambda i: bp.squeeze(ROWS[:1], i(0)),
    "roll": lambda i: bp.roll(ROWS, i(1), axis=i(1)),
    "concat": lambda i: bp.concat([ROWS, ROWS], axis=i(1)),
}


@pytest.mark.parametrize("name", TAKES_AN_INDEX)
def test_an_index_is_whatever_stands_for_an_integer(name: str) -> None:
    call = TAKES_AN_INDEX[name]
    got, wanted = call(N), call(int)
    several = isinstance(got, tuple)
    for one, other in zip(got, wanted, strict=True) if several else [(got, wanted)]:
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    with pytest.raises((TypeError, ShapeError), match=rf"^{name}: .*(integer|axes=2.0)"):
        call(float)


def test_axes_in_an_array() -> None:
    assert bp.sum(ROWS, axis=np.array([0, 1])).item() == 21
    assert bp.kernel_output(N(3), bp.float32).shape == (3,)


COUNTS = bp.tensor([[3, 1, 2], [5, 4, 9]])
OF_FLOATS = {
    "softmax": bp.softmax,
    "log_softmax": bp.log_softmax,
    "softmin": F.softmin,
    "logsumexp": bp.logsumexp,
    "logcumsumexp": lambda x: bp.logcumsumexp(x, axis=1),
    "quantile": lambda x: bp.quantile(x, 0.3, axis=1),
    "median": lambda x: bp.median(x, axis=1),
    "normalize": F.normalize,
    "bp.layer_norm": bp.layer_norm,
    "bp.rms_norm": bp.rms_norm,
    "layer_norm": lambda x: F.layer_norm(x, 3),
    "rms_norm": lambda x: F.rms_norm(x, 3),
    "gelu": F.gelu,
}


@pytest.mark.parametrize("name", OF_FLOATS)
def test_functions_of_floats_take_integers_as_float32(name: str) -> None:
    got, wanted = (OF_FLOATS[name](x) for x in (COUNTS, COUNTS.astype(bp.float32)))
    assert got.dtype is bp.float32
    np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_what_python_would_refuse_in_words_of_its_own() -> None:
    with pytest.raises(TypeError, match=r"^one_hot: 'numpy.float32' object cannot be interpreted"):
        F.one_hot(bp.tensor([0, 1]), np.float32(2))
    with pytest.raises(DTypeError, match=r"^softmax: unknown dtype Tensor; there are bool, int8"):
        bp.softmax(ROWS, dtype=ROWS)
    for n in (200, "a", 1.5):
        with pytest.raises(ValueError, match=r"^polygamma: n must be an integer from 0 to 168"):
            bp.special.polygamma(n, ROWS)
    with pytest.raises(ShapeError, match=r"^interpolate: 2.5 does not fit\n  expected one"):
        F.interpolate(ROWS[None], size=2.5)


def test_elementwise_functions_take_their_arguments_by_place() -> None:
    """As they are declared: what a signature says must be what a call does."""
    for name, function in FUNCTIONS.items():
        if hasattr(function, "op"):
            kinds = {parameter.kind for parameter in parameters(function)}
            assert kinds == {KIND.POSITIONAL_ONLY}, name
    with pytest.raises(TypeError, match="positional-only arguments passed as keyword"):
        bp.add(a=X, b=X)  # type: ignore[call-arg]


def test_layers_and_operators_refuse_in_the_same_words() -> None:
    with pytest.raises(TypeError, match=r"^Flatten: expected a tensor, got int; make one"):
        bp.nn.Flatten()(3)
    with pytest.raises(TypeError, match=r"floor_divide: expected a tensor, got Output; make one"):
        bp.floor_divide(bp.kernel_output((3,), bp.float32), X[0])
    with pytest.raises(TypeError, match=r"^jvp: expected a tensor, got int; make one"):
        bp.jvp(bp.exp, (X,), (3,))
    with pytest.raises(TypeError, match=r"^pixel_shuffle: 'list' object cannot be interpreted"):
        F.pixel_shuffle(X, [0, -1])
