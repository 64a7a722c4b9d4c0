"""Checks of gradients against finite differences, and of whole custom operations.

Everything runs in float64. A derivative by central differences with step h has an error of
about h^2 from the curve and 1e-16 / h from rounding; with h = 1e-6 both are near 1e-10, so a
gradient that is wrong by 0.1 % stands out by a factor of a hundred and more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bedplate.autograd.functional import vjp
from bedplate.autograd.mode import no_grad
from bedplate.dtypes import float64
from bedplate.errors import GradientError

STEP = 1e-6
RELATIVE = 1e-5
ABSOLUTE = 1e-7
N_THREADS = 8
Array = np.ndarray[Any, Any]


def gradcheck(
    function: Callable[..., Any],
    inputs: Any,
    step: float = STEP,
    rtol: float = RELATIVE,
    atol: float = ABSOLUTE,
) -> bool:
    """Compare the gradients of `function` with finite differences.

    function  of tensors, returns a tensor
    inputs    a tensor or several; floating point ones are checked, in float64
    step      of the differences, relative to an input of size 1
    rtol      bound of the difference, relative to the largest derivative
    returns   True
    raises    GradientError that names the input and the element which differ most
    >>> import bedplate as bp
    >>> bp.gradcheck(lambda x: x.exp(), bp.tensor([0.5, 1.0]))
    True
    """
    given = _as_float64(inputs)
    value, pull = vjp(function, *given)
    vector = _direction(value)
    analytic = [gradient.numpy() for gradient in pull(vector)]
    weights = vector.numpy()
    for index, x in enumerate(given):
        if x.dtype.is_float:
            numeric = _differences(function, given, index, weights, step)
            _compare(index, analytic[index], numeric, rtol, atol)
    return True


def gradgradcheck(
    function: Callable[..., Any],
    inputs: Any,
    step: float = STEP,
    rtol: float = RELATIVE,
    atol: float = ABSOLUTE,
) -> bool:
    """Compare the second derivatives of `function` with finite differences of its gradients.

    As `gradcheck`, for the function that gives the gradients.
    >>> import bedplate as bp
    >>> bp.gradgradcheck(lambda x: x**3, bp.tensor([0.5, 1.0]))
    True
    """
    given = _as_float64(inputs)
    places = [index for index, x in enumerate(given) if x.dtype.is_float]
    value, _ = vjp(function, *given)
    vector = _direction(value)
    directions = [_direction(given[place], 1 + place) for place in places]

    def gradients(seed: Any, *values: Any) -> Any:
        _, pull = vjp(function, *values)
        pulled = pull(seed)
        parts = [(pulled[p] * d).sum() for p, d in zip(places, directions, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    return gradcheck(gradients, [vector, *given], step, rtol, atol)


def _as_float64(inputs: Any) -> list[Any]:
    given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    for index, x in enumerate(given):
        if not hasattr(x, "_node"):
            raise TypeError(f"gradcheck: input {index} is {type(x).__name__}, not a tensor")
    result = [x.detach().astype(float64) if x.dtype.is_float else x for x in given]
    if not any(x.dtype.is_float for x in result):
        raise GradientError("gradcheck: no input is floating point")
    return result


def _direction(like: Any, seed: int = 0) -> Any:
    """Fixed weights between 0.5 and 1.5 with both signs, so that nothing cancels or vanishes."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.5, 1.5, like.shape) * generator.choice([-1.0, 1.0], like.shape)
    return like._lift(weights).astype(like.dtype)


def _differences(
    function: Callable[..., Any], inputs: list[Any], index: int, weights: Array, step: float
) -> Array:
    """d(weights . function) / d(input), element by element."""
    start = inputs[index].numpy()
    result = np.zeros_like(start)
    for place in np.ndindex(start.shape):
        h = step * max(1.0, abs(float(start[place])))
        ends = []
        for signed in (h, -h):
            moved = start.copy()
            moved[place] += signed
            given = [*inputs[:index], inputs[index]._lift(moved), *inputs[index + 1 :]]
            with no_grad():
                ends.append(function(*given).numpy().astype(np.float64))
        result[place] = ((ends[0] - ends[1]) * weights).sum() / (2 * h)
    return result


def _compare(index: int, analytic: Array, numeric: Array, rtol: float, atol: float) -> None:
    if not analytic.size:
        return
    error = np.abs(analytic - numeric)
    # against each element itself, but not below the rounding of the largest
    bound = atol + rtol * np.maximum(np.abs(numeric), 1e-3 * np.abs(numeric).max())
    wrong = ~(error <= bound)
    if wrong.any():
        excess = np.where(np.isnan(error), np.inf, error / bound)
        place = np.unravel_index(int(np.argmax(excess)), error.shape)
        raise GradientError(
            f"gradcheck: the gradient of input {index} is wrong at "
            f"{int(wrong.sum())} of {error.size} elements\n"
            f"  worst at {tuple(int(p) for p in place)}: gradient {analytic[place]:.10g}, "
            f"finite difference {numeric[place]:.10g}\n"
            f"  allowed: {bound[place]:.3g}, found: {error[place]:.3g}"
        )


def check_operation(
    operation: Any,
    *inputs: Any,
    reference: Callable[..., Any] | None = None,
    second: bool = True,
) -> dict[str, str]:
    """Check a custom op once and for all: value, gradients, layouts, broadcasting, threads.

    operation  an `Operation` class or instance, or a function of tensors
    inputs     tensors on which it is defined (a few elements each)
    reference  the same in NumPy, for the value
    second     check the second gradient too
    returns    {check: "passed" or why it does not apply}
    raises     GradientError that names the check which failed
    >>> import bedplate as bp
    >>> square = lambda x: x * x
    >>> bp.check_operation(square, bp.tensor([1.0, 2.0]), reference=square)["value"]
    'passed'
    """
    function = getattr(operation, "apply", operation)
    given = _as_float64(list(inputs))
    report = {"value": _check_value(function, given, reference)}
    _run(report, "gradient", lambda: gradcheck(function, given))
    if second:
        _run(report, "second gradient", lambda: gradgradcheck(function, given))
    else:
        report["second gradient"] = "not asked for"
    _run(report, "strides", lambda: _check_strides(function, given))
    _run(report, "broadcast gradient", lambda: _check_broadcast(function, given))
    report["empty input"] = _check_empty(function, given)
    _run(report, "threads", lambda: _check_threads(function, given))
    return report


def _run(report: dict[str, str], name: str, check: Callable[[], Any]) -> None:
    try:
        check()
    except GradientError as error:
        raise GradientError(f"check_operation: {name}\n{error}") from error
    report[name] = "passed"


def _check_value(function: Any, given: list[Any], reference: Any) -> str:
    value = function(*given).numpy()
    if reference is None:
        again = function(*given).numpy()
        if not np.array_equal(value, again, equal_nan=True):
            raise GradientError("check_operation: value\n  two applications differ")
        return "equal twice; no reference was given"
    expected = np.asarray(reference(*[x.numpy() for x in given]))
    if value.shape != expected.shape:
        raise GradientError(
            f"check_operation: value\n  shape {value.shape}, the reference has {expected.shape}"
        )
    if not np.allclose(value, expected, rtol=1e-6, atol=1e-9, equal_nan=True):
        worst = float(np.nanmax(np.abs(value - expected)))
        raise GradientError(f"check_operation: value\n  differs from the reference by {worst:.3g}")
    return "passed"


def _pulled(function: Any, given: Sequence[Any], vector: Any = None) -> tuple[Array, list[Array]]:
    value, pull = vjp(function, *given)
    seed = value * 0 + 1 if vector is None else vector
    return value.numpy(), [gradient.numpy() for gradient in pull(seed)]


def _check_strides(function: Any, given: list[Any]) -> None:
    """Inputs that are views of others: transposed, every second element, broadcast."""
    plain = _pulled(function, given)
    for name, view in (("transposed", _transposed), ("every second element", _stepped)):
        found = _pulled(function, [view(x) for x in given])
        _same(plain, found, f"inputs laid out {name}")
    views = [_expanded(x) for x in given]
    copies = [x._lift(view.numpy()) for x, view in zip(given, views, strict=True)]
    _same(_pulled(function, copies), _pulled(function, views), "inputs that are broadcast")


def _transposed(x: Any) -> Any:
    return x._lift(np.ascontiguousarray(x.numpy().T)).transpose()


def _stepped(x: Any) -> Any:
    if not x.ndim:
        return x
    return x._lift(np.repeat(x.numpy(), 2, axis=-1))[..., ::2]


def _expanded(x: Any) -> Any:
    """The first row in place of every row."""
    return x[:1].broadcast_to(x.shape) if x.ndim and x.shape[0] else x


def _check_broadcast(function: Any, given: list[Any]) -> None:
    """The gradient that `sum` sends back is one number seen from every element."""
    value, pull = vjp(function, *given)
    whole = pull(value._lift(np.ones(value.shape)).astype(value.dtype))
    one = value._lift(np.ones(())).astype(value.dtype).broadcast_to(value.shape)
    _same(
        (np.zeros(0), [g.numpy() for g in whole]),
        (np.zeros(0), [g.numpy() for g in pull(one)]),
        "a broadcast gradient",
    )


def _check_empty(function: Any, given: list[Any]) -> str:
    empty = [x[:0] if x.ndim else x for x in given]
    try:
        _, gradients = _pulled(function, empty)
    except (ValueError, IndexError, TypeError) as error:
        return f"refused: {str(error).splitlines()[0]}"
    for x, gradient in zip(empty, gradients, strict=True):
        if x.shape != gradient.shape:
            raise GradientError(
                f"check_operation: empty input\n  gradient of shape {gradient.shape} for {x.shape}"
            )
    return "passed"


def _check_threads(function: Any, given: list[Any]) -> None:
    """Several threads at once, each with its own graph."""
    plain = _pulled(function, given)
    faults: list[BaseException] = []
    barrier = threading.Barrier(N_THREADS)

    def work() -> None:
        try:
            barrier.wait()
            for _ in range(3):
                _same(plain, _pulled(function, [x.detach() for x in given]), "another thread")
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise GradientError(str(faults[0]))


def _same(plain: Any, found: Any, what: str) -> None:
    pairs = [(plain[0], found[0]), *zip(plain[1], found[1], strict=True)]
    for place, (expected, array) in enumerate(pairs):
        if not np.allclose(expected, array, rtol=1e-9, atol=1e-12, equal_nan=True):
            part = "the value" if place == 0 else f"the gradient of input {place - 1}"
            raise GradientError(f"  {what} changes {part}")
