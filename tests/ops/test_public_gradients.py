"""Every public function that has gradients, at first and second order, on every layout.

The records hold the ops; what is composed of them has none. So the sample calls come from where
every public function has one: its docstring. The example is run with the function replaced by one
that notes its arguments; floats among them become float64 and are moved off ties and kinks.
"""

from __future__ import annotations

import doctest
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.tensor import fft, functions, linalg, network, special

SPACES = {
    "bp": (bp, functions), "bp.linalg": (bp.linalg, linalg), "bp.fft": (bp.fft, fft),
    "bp.special": (bp.special, special), "bp.nn.functional": (bp.nn.functional, network),
}  # fmt: skip
# what an example may show without being a call to differentiate
REFUSALS = (
    ValueError, IndexError, TypeError, bp.errors.GradientError, bp.errors.LinAlgError,
)  # fmt: skip
# how far inputs are moved off the round numbers of examples: up, down, both ways, or somewhere else
MOVES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, r: x + r.uniform(0.01, 0.06, x.shape),
    lambda x, r: x - r.uniform(0.01, 0.06, x.shape),
    lambda x, r: x + r.uniform(0.01, 0.06, x.shape) * r.choice([-1.0, 1.0], x.shape),
    lambda x, r: r.uniform(0.2, 0.8, x.shape),
)
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "transposed": lambda x: (
        x._lift(np.ascontiguousarray(x.numpy().T)).permute(*reversed(range(x.ndim)))
        if x.ndim > 1
        else x
    ),
    "stepped": lambda x: x._lift(np.repeat(x.numpy(), 2, axis=-1))[..., ::2] if x.ndim else x,
    "broadcast": lambda x: x[:1].broadcast_to(x.shape) if x.ndim and x.shape[0] else x,
    "empty": lambda x: x[:0] if x.ndim else x,
    "0-d": lambda x: x.reshape(-1)[0] if x.size else x,
}
MOST = 8
# what gives floats that no gradient flows into
CONSTANT = {
    "empty_like": "its values are not those of its argument",
    "full_like": "its values are not those of its argument",
    "ones_like": "its values are not those of its argument",
    "zeros_like": "its values are not those of its argument",
    "fftfreq": "it is made of numbers",
    "rfftfreq": "it is made of numbers",
    "histc": "it counts",
    "one_hot": "it is made of integers",
    "histogram": "it counts; the edges depend on the extremes alone",
    "run_kernel": "it has no gradient of its own",
}
# what must refuse to be differentiated, and a part of the reason that it gives: a function, or one
# on a layout
REFUSING = {
    "nextafter": "it steps from one float to the next",
    **dict.fromkeys(
        ("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
        "how many different values there are changes with the values",
    ),
    ("slogdet", "broadcast"): "Singular matrix",
    ("logdet", "broadcast"): "Singular matrix",
    ("svd", "empty"): "the vectors beyond the singular values are any basis",
}


@dataclass
class Call:
    """A call of a public function: its arguments, with the places of its floats."""

    function: Callable[..., Any]
    arguments: Any
    named: dict[str, Any]
    floats: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.floats = [x for x in _leaves((self.arguments, self.named)) if x.dtype.kind in "fc"]

    def of(self, *values: Any) -> Any:
        """The outputs that have gradients, with the floats replaced by `values`."""
        rest = iter(values)
        arguments, named = _mapped(
            (self.arguments, self.named), lambda x: next(rest) if x.dtype.kind in "fc" else x
        )
        found = self.function(*arguments, **named)
        outputs = list(_leaves(found))
        return tuple(y for y in outputs if y.dtype.kind in "fc")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, bp.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, bp.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(_mapped(part, change) for part in value)
    return value


def public() -> dict[str, tuple[Any, str, Callable[..., Any]]]:
    """{name: (its space, its name there, the function)}"""
    return {
        f"{space}.{name}": (place, name, getattr(module, name))
        for space, (place, module) in SPACES.items()
        for name in module.__all__
    }


PUBLIC = public()


def examples(name: str) -> list[Call]:
    """The calls of a function that its docstring makes."""
    _, short, function = PUBLIC[name]
    noted: list[Call] = []

    def note(*arguments: Any, **named: Any) -> Any:
        noted.append(Call(function, arguments, named))
        return function(*arguments, **named)

    finder = doctest.DocTestParser()
    test = finder.get_doctest(function.__doc__ or "", {}, short, None, 0)
    with pytest.MonkeyPatch.context() as patch:
        for other_place, other_short, other in PUBLIC.values():
            if other is function:  # one function under several names
                patch.setattr(other_place, other_short, note)
        doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None)
    return noted


def samples(name: str) -> Iterator[Call]:
    """The calls that can be differentiated: with floats in float64, where all is finite."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    seen = set()
    for call in examples(name):
        if not call.floats:  # an example on integers: its first tensor as floats
            first = next(_leaves((call.arguments, call.named)), None)
            if first is None or first.dtype.kind == "b":
                continue
            call.arguments = _mapped(
                call.arguments, lambda x, first=first: x.astype(bp.float64) if x is first else x
            )
            call.__post_init__()
        key = str([x.shape for x in call.floats])
        if call.floats and key not in seen:
            seen.add(key)
            moved = _moved(call, generator)
            if moved is not None:
                yield moved


def _moved(call: Call, generator: Any) -> Call | None:
    """The call on float64 numbers off its kinks; None if it has no float output there."""
    for move in MOVES:
        state = generator.bit_generator.state

        def change(x: Any, move: Any = move) -> Any:
            if x.dtype.kind == "c":
                return bp.Tensor(x.numpy().astype(np.complex128) + (0.03 - 0.02j), "reference")
            if x.dtype.kind != "f":
                return x.to("reference")
            return bp.Tensor(move(x.numpy().astype(np.float64), generator), "reference")

        generator.bit_generator.state = state
        arguments, named = _mapped((call.arguments, call.named), change)
        moved = Call(call.function, arguments, named)
        try:
            outputs = moved.of(*moved.floats)
            again = moved.of(*moved.floats)
        except REFUSALS:
            continue
        if not outputs or any(y.dtype not in (bp.float64, bp.complex128) for y in outputs):
            return None
        values = [y.numpy() for y in outputs]
        if any(a.tobytes() != b.numpy().tobytes() for a, b in zip(values, again, strict=True)):
            return None  # random numbers
        if all(np.isfinite(v).all() for v in values):
            return moved
    return None


def differentiable(call: Call) -> bool:
    """Whether any output depends on the floats in a way that the tape knows."""
    leaves = [x.detach().requires_grad_() for x in call.floats]
    return any(y.requires_grad for y in call.of(*leaves))


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_gradients(name: str, sweep: str) -> None:
    layouts = LAYOUTS if sweep == "full" else {"plain": LAYOUTS["plain"]}
    checked = False
    short = name.rpartition(".")[2]
    for call in samples(name):
        if not differentiable(call):
            continue
        checked = True
        for layout, view in layouts.items():
            inputs = [view(x) for x in call.floats]
            try:
                for output in call.of(*inputs):
                    output.realise()
            except REFUSALS as error:
                assert layout != "plain", error
                continue
            reason = REFUSING.get(short) or REFUSING.get((short, layout))
            if reason is not None:
                with pytest.raises((bp.errors.GradientError, bp.errors.LinAlgError), match=reason):
                    gradients(call, inputs)
            elif layout == "broadcast":  # ties and singular matrices: no place for differences
                compare(call, inputs, f"{name}, {layout}")
            else:
                check(call, inputs, f"{name}, {layout}")
    assert checked or short in CONSTANT or not gives_floats(name), (
        "show a call in its docstring that has a gradient, or say in CONSTANT why there is none"
    )
    assert not (checked and short in CONSTANT)


def gives_floats(name: str) -> bool:
    """Whether any example gives a float: then its gradient should have been checked."""
    found = [call.function(*call.arguments, **call.named) for call in examples(name)]
    return any(y.dtype.kind in "fc" for y in _leaves(found))


def compare(call: Call, views: list[Any], what: str) -> None:
    """The gradients on views are those on copies of them."""
    copies = [x._lift(x.numpy()) for x in views]
    for plain, viewed in zip(gradients(call, copies), gradients(call, views), strict=True):
        assert (plain is None) == (viewed is None), what
        if plain is not None:
            np.testing.assert_allclose(viewed, plain, rtol=1e-9, atol=1e-12, err_msg=what)


def gradients(call: Call, inputs: list[Any]) -> list[Any]:
    """Of the sum of all outputs, None for what none flows into; raises where there is none."""
    leaves = [x._from_node(x._node).requires_grad_() for x in inputs]
    outputs = [bp.abs(y).sum() if y.dtype.kind == "c" else y.sum() for y in call.of(*leaves)]
    total = outputs[0]
    for output in outputs[1:]:
        total = total + output
    found = bp.Autograd.current().backward(total)
    return [found[x].numpy() if x in found else None for x in leaves]


class Once(bp.Operation):
    """x squared, with a gradient that has none."""

    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x * x

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * 2 * bp.nextafter(self.x, self.x + 1)


def test_a_lost_second_gradient_is_seen() -> None:
    """The checker itself: a function whose gradient has none must not pass."""
    x = bp.tensor([0.3, 0.5], dtype=bp.float64, device="reference")
    with pytest.raises(AssertionError, match="it: nextafter: has no gradient"):
        check(Call(Once.apply, (x,), {}), [x], "it")


def check(call: Call, inputs: list[Any], what: str) -> None:
    """Both orders, at up to MOST elements of each input."""
    generator = np.random.default_rng(0)
    masks = []
    for x in inputs:
        chosen = generator.permutation(x.size)[:MOST]
        masks.append(np.isin(np.arange(x.size), chosen).reshape(x.shape))
    try:
        assert bp.gradcheck(call.of, inputs, masks=masks), what
        assert bp.gradgradcheck(call.of, inputs, masks=masks), what
    except bp.errors.GradientError as error:
        raise AssertionError(f"{what}: {error}") from error
