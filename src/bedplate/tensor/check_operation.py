"""check_operation: everything that an author of a custom operation should look at, in one call.

The checks are the rows of `CHECKS`. Each raises GradientError, which the caller gives the check's
name, or says in a word why it does not apply.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.autograd import gradcheck, gradgradcheck, vjp
from bedplate.autograd.check import Array, as_float64
from bedplate.devices.registry import BACKENDS
from bedplate.dtypes import float32
from bedplate.errors import CaptureError, GradientError
from bedplate.tensor.jit import jit

N_THREADS = 8
N_CALLS = 4  # of a captured step: two captures and two replays
REFUSALS = (ValueError, IndexError, TypeError)
PASSED = "passed"


@dataclass(frozen=True)
class _Subject:
    """What is checked.

    function   of tensors; gives a tensor or several
    given      its inputs, in float64
    reference  the same in NumPy, or None
    second     whether second derivatives are to be right
    """

    function: Callable[..., Any]
    given: list[Any]
    reference: Callable[..., Any] | None
    second: bool


def check_operation(
    operation: Any,
    *inputs: Any,
    reference: Callable[..., Any] | None = None,
    second: bool = True,
) -> dict[str, str]:
    """Check a custom op once and for all: the list is in the result.

    operation  an `Operation` class or instance, or a function of tensors; may give several tensors
    inputs     tensors on which it is defined (a few elements each)
    reference  the same in NumPy, for the value
    second     check second derivatives; else they may be refused, but not be wrong
    returns    {check: "passed" or why it does not apply}
    raises     GradientError that names the check which failed
    >>> import bedplate as bp
    >>> square = lambda x: x * x
    >>> report = bp.check_operation(square, bp.tensor([1.0, 2.0]), reference=lambda x: x**2)
    >>> report["value"], report["captured"]
    ('passed', 'passed')
    """
    function = getattr(operation, "apply", operation)
    subject = _Subject(function, as_float64(list(inputs)), reference, second)
    return {name: _checked(name, check, subject) for name, check in CHECKS.items()}


def _checked(name: str, check: Callable[[_Subject], str | None], subject: _Subject) -> str:
    try:
        return check(subject) or PASSED
    except GradientError as error:
        raise GradientError(f"check_operation: {name}\n  {error}") from error


def _outputs(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _values(function: Any, given: list[Any]) -> list[Array]:
    return [output.numpy() for output in _outputs(function(*given))]


def _float_outputs(function: Any) -> Callable[..., Any]:
    """The function whose outputs that have gradients are summed, with different weights."""

    def total(*inputs: Any) -> Any:
        outputs = [y for y in _outputs(function(*inputs)) if y.dtype.kind in "fc"]
        if len(outputs) == 1:
            return outputs[0]
        return sum((i + 1.0) * y.sum() for i, y in enumerate(outputs))

    return total


def _pulled(function: Any, given: list[Any], seed: Any = None) -> list[Array]:
    """The values and the gradients."""
    value, pull = vjp(_float_outputs(function), *given)
    vector = value * 0 + 1 if seed is None else seed(value)
    return [*_values(function, given), *(gradient.numpy() for gradient in pull(vector))]


def _same(plain: list[Array], found: list[Array], what: str, tolerance: float = 1e-9) -> None:
    if len(plain) != len(found):
        raise GradientError(f"{what} changes the number of outputs")
    for place, (expected, array) in enumerate(zip(plain, found, strict=True)):
        if expected.shape != array.shape or not np.allclose(
            expected, array, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True
        ):
            raise GradientError(f"{what} changes result {place} (values, then gradients)")


# ------------------------------------------------------------------------------ the checks


def _check_value(subject: _Subject) -> str | None:
    values = _values(subject.function, subject.given)
    again = _values(subject.function, subject.given)
    if any(a.tobytes() != b.tobytes() for a, b in zip(values, again, strict=True)):
        raise GradientError("two applications differ")
    if subject.reference is None:
        return "equal twice; no reference was given"
    expected = _outputs(subject.reference(*[x.numpy() for x in subject.given]))
    if len(expected) != len(values):
        raise GradientError(f"{len(values)} outputs, the reference has {len(expected)}")
    for value, wanted in zip(values, map(np.asarray, expected), strict=True):
        if value.shape != wanted.shape:
            raise GradientError(f"shape {value.shape}, the reference has {wanted.shape}")
        if not np.allclose(value, wanted, rtol=1e-6, atol=1e-9, equal_nan=True):
            worst = float(np.nanmax(np.abs(value - wanted)))
            raise GradientError(f"differs from the reference by {worst:.3g}")
    return None


def _check_dtype(subject: _Subject) -> str | None:
    """float32 in, float32 out, of the same shape and about the same value."""
    narrow = [x.astype(float32) if x.dtype.is_float else x for x in subject.given]
    wide = _outputs(subject.function(*subject.given))
    for y, wanted in zip(_outputs(subject.function(*narrow)), wide, strict=True):
        if y.shape != wanted.shape:
            raise GradientError(f"shape {y.shape} for float32, {wanted.shape} for float64")
        if wanted.dtype.is_float and y.dtype is not float32:
            raise GradientError(f"float32 inputs give {y.dtype}")
        if not np.allclose(y.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4, equal_nan=True):
            raise GradientError("the value in float32 is another than in float64")
    return None


def _check_inputs(subject: _Subject) -> str | None:
    """The inputs are what they were."""
    nodes = [x._node for x in subject.given]
    before = [x.numpy().tobytes() for x in subject.given]
    _values(subject.function, subject.given)
    for index, x in enumerate(subject.given):
        if x._node is not nodes[index] or x.numpy().tobytes() != before[index]:
            raise GradientError(f"input {index} was changed")
    return None


def _check_gradient(subject: _Subject) -> str | None:
    gradcheck(subject.function, subject.given)
    return None


def _check_second(subject: _Subject) -> str | None:
    if subject.second:
        gradgradcheck(subject.function, subject.given)
        return None
    try:
        gradgradcheck(subject.function, subject.given)
    except GradientError as error:
        if "gradcheck:" in str(error):
            raise
        return f"refused: {str(error).splitlines()[0]}"
    return None


def _check_strides(subject: _Subject) -> str | None:
    """Inputs that are views of others: transposed, every second element, broadcast."""
    function, given = subject.function, subject.given
    plain = _pulled(function, given)
    for name, view in (("transposed", _transposed), ("every second element", _stepped)):
        _same(plain, _pulled(function, [view(x) for x in given]), f"an input laid out {name}")
    views = [_expanded(x) for x in given]
    copies = [x._lift(view.numpy()) for x, view in zip(given, views, strict=True)]
    _same(_pulled(function, copies), _pulled(function, views), "an input that is broadcast")
    return None


def _transposed(x: Any) -> Any:
    axes = tuple(reversed(range(x.ndim)))
    return x._lift(np.ascontiguousarray(x.numpy().T)).permute(*axes) if x.ndim > 1 else x


def _stepped(x: Any) -> Any:
    return x._lift(np.repeat(x.numpy(), 2, axis=-1))[..., ::2] if x.ndim else x


def _expanded(x: Any) -> Any:
    """The first row in place of every row."""
    return x[:1].broadcast_to(x.shape) if x.ndim and x.shape[0] else x


def _check_broadcast(subject: _Subject) -> str | None:
    """The gradient that `sum` sends back is one number seen from every element."""
    whole = _pulled(subject.function, subject.given, lambda y: y._lift(np.ones(y.shape)))
    one = _pulled(
        subject.function, subject.given, lambda y: y._lift(np.ones(())).broadcast_to(y.shape)
    )
    _same(whole, one, "a broadcast gradient")
    return None


def _check_empty(subject: _Subject) -> str | None:
    empty = [x[:0] if x.ndim else x for x in subject.given]
    if all(x.ndim == 0 for x in empty):
        return "no input has axes"
    try:
        results = _pulled(subject.function, empty)
    except REFUSALS as error:
        return f"refused: {str(error).splitlines()[0]}"
    for x, gradient in zip(empty, results[-len(empty) :], strict=True):
        if x.shape != gradient.shape:
            raise GradientError(f"gradient of shape {gradient.shape} for {x.shape}")
    return None


def _check_single(subject: _Subject) -> str | None:
    single = [x.reshape(-1)[0] if x.size else x for x in subject.given]
    try:
        _values(subject.function, single)
    except REFUSALS as error:
        return f"refused: {str(error).splitlines()[0]}"
    gradcheck(subject.function, single)
    return None


def _check_threads(subject: _Subject) -> str | None:
    """Several threads at once, each with its own graph."""
    plain = _pulled(subject.function, subject.given)
    faults: list[BaseException] = []
    barrier = threading.Barrier(N_THREADS)

    def work() -> None:
        try:
            barrier.wait()
            for _ in range(3):
                own = [x.detach() for x in subject.given]
                _same(plain, _pulled(subject.function, own), "another thread")
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise GradientError(str(faults[0]))
    return None


def _check_captured(subject: _Subject) -> str | None:
    """Under jit: the same bits, for these inputs and for others of their kind."""
    try:
        step = jit(lambda *inputs: tuple(_outputs(subject.function(*inputs))))
        gradient = jit(lambda *inputs: tuple(_gradients(subject.function, inputs)))
        for given in (subject.given, [x * 2 if x.dtype.is_float else x for x in subject.given]):
            plain = [y.numpy() for y in _outputs(subject.function(*given))]
            plain += [g.numpy() for g in _gradients(subject.function, given)]
            for _ in range(N_CALLS):
                found = [y.numpy() for y in (*step(*given), *gradient(*given))]
                if any(a.tobytes() != b.tobytes() for a, b in zip(plain, found, strict=True)):
                    raise GradientError("a captured call gives other bits")
    except CaptureError as error:
        return f"refused: {str(error).splitlines()[0]}"
    return None


def _gradients(function: Any, inputs: Any) -> list[Any]:
    value, pull = vjp(_float_outputs(function), *inputs)
    return list(pull(value * 0 + 1))


def _check_devices(subject: _Subject) -> str | None:
    plain = _pulled(subject.function, subject.given)
    names = sorted(BACKENDS)
    for name in names:
        moved = [x.to(name) for x in subject.given]
        seed = lambda y, name=name: y._lift(np.ones(y.shape)).to(name)  # noqa: E731
        _same(plain, _pulled(subject.function, moved, seed), f"the device {name!r}")
    return f"{PASSED}: {', '.join(names)}"


CHECKS: dict[str, Callable[[_Subject], str | None]] = {
    "inputs left alone": _check_inputs,
    "value": _check_value,
    "dtype and shape": _check_dtype,
    "gradient": _check_gradient,
    "second gradient": _check_second,
    "strides": _check_strides,
    "broadcast gradient": _check_broadcast,
    "empty input": _check_empty,
    "0-d input": _check_single,
    "threads": _check_threads,
    "captured": _check_captured,
    "devices": _check_devices,
}
