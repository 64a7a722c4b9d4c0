"""Gradients of functions: grad, value_and_grad, vjp, jvp, jacobian, hessian.

Each calls the function on fresh leaves, so that no gradient reaches the caller's tensors'
`.grad`; the results can be differentiated again by the same functions, to any order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bedplate.autograd import tape
from bedplate.autograd.mode import enable_grad
from bedplate.autograd.stand_in import alias_entry
from bedplate.errors import GradientError, ShapeError
from bedplate.graph.pending import LOCAL
from bedplate.ops.build import number
from bedplate.ops.complex_numbers.parts import imag, real
from bedplate.ops.record import refuse_foreign
from bedplate.ops.shape.regions import concat

Arguments = int | tuple[int, ...]


def grad(function: Callable[..., Any], argnums: Arguments = 0) -> Callable[..., Any]:
    """The function that gives the gradient of `function`, which returns one element.

    argnums  which positional arguments; for a tuple the result is a tuple
    raises   GradientError if the value does not have exactly one element; TypeError for what is no
             function
    >>> import bedplate as bp
    >>> bp.grad(lambda x: x**3)(bp.tensor(2.0)).item()
    12.0
    >>> bp.grad(bp.grad(lambda x: x**3))(bp.tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(function, argnums)

    @functools.wraps(function)
    def gradient(*arguments: Any, **keywords: Any) -> Any:
        return both(*arguments, **keywords)[1]

    return gradient


def value_and_grad(function: Callable[..., Any], argnums: Arguments = 0) -> Callable[..., Any]:
    """The function that gives (value, gradient) of `function`, which returns one element.

    argnums  which positional arguments; for a tuple the gradient is a tuple
    raises   GradientError if the value does not have exactly one element; TypeError for what is no
             function
    >>> import bedplate as bp
    >>> value, gradient = bp.value_and_grad(lambda x: (x * x).sum())(bp.tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    numbers = _argument_numbers("grad", function, argnums)

    @functools.wraps(function)
    def both(*arguments: Any, **keywords: Any) -> Any:
        chosen = _chosen(function, arguments, numbers)
        leaves = [arguments[i] for i in chosen]
        value, inner = _call(
            lambda *given: function(*_put(arguments, chosen, given), **keywords), leaves
        )
        # before the walk, which may free the history
        result = _for_caller(value, inner)
        gradients = _pull(value, None, inner)
        return result, gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return both


def vjp(
    function: Callable[..., Any], *primals: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of `function` and its vector-Jacobian product.

    primals  tensors
    returns  (value, pull): pull(v) gives v^T J, one gradient per primal; may be called often
    >>> import bedplate as bp
    >>> value, pull = bp.vjp(lambda x: x * x, bp.tensor([1.0, 2.0]))
    >>> pull(bp.tensor([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    value, inner = _call(function, list(primals))

    def pull(vector: Any) -> tuple[Any, ...]:
        return tuple(_pull(value, vector, inner, retain=True))

    return _for_caller(value, inner), pull


def jvp(
    function: Callable[..., Any], primals: Iterable[Any], tangents: Iterable[Any]
) -> tuple[Any, Any]:
    """The value of `function` and its Jacobian-vector product J v.

    function  of tensors, gives a tensor or a tuple of them
    primals   tensors
    tangents  v: one per primal, of its shape; None for zeros, as for integers
    returns   (value, J v), each as the function gives them; zeros where nothing depends on primals
    raises    ShapeError for a tangent of another shape, GradientError for an op without gradient
    source    the transpose of a transpose: v -> v^T J is linear, and its own vector-Jacobian
              product is J v; https://j-towns.github.io/2017/06/12/A-new-trick.html
    >>> import bedplate as bp
    >>> bp.jvp(lambda x: x * x, [bp.tensor([1.0, 2.0])], [bp.tensor([1.0, 1.0])])[1].tolist()
    [2.0, 4.0]
    """
    primals, tangents = list(primals), list(tangents)
    _require_primals(primals)
    _check_tangents(primals, tangents)
    inner = _stand_ins(primals)
    with enable_grad():
        found = function(*inner)
    several = isinstance(found, tuple | list)
    values = list(found) if several else [found]
    _check_tensors(values)
    with enable_grad():
        vectors = [_zeros(y).requires_grad_() if y.dtype.kind in "fc" else None for y in values]
        pulled = _pulled_together(values, vectors, inner)
        parts = [
            _real_product(g, t)
            for g, t in zip(pulled, tangents, strict=True)
            if t is not None and g is not None and g._entry is not None
        ]
        total = functools.reduce(lambda a, b: a + b, parts) if parts else None
    slopes = [
        _zeros(y) if v is None or total is None else _pull(total, None, [v], True, own=inner)[0]
        for y, v in zip(values, vectors, strict=True)
    ]
    plain = [_for_caller(y, inner) for y in values]
    return (tuple(plain), tuple(slopes)) if several else (plain[0], slopes[0])


def _check_tangents(primals: list[Any], tangents: list[Any]) -> None:
    if len(primals) != len(tangents):
        raise ShapeError(f"jvp: {len(tangents)} tangents for {len(primals)} primals")
    for index, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        if tangent is None:
            continue
        refuse_foreign("jvp", (tangent,))
        if primal.shape != tangent.shape:
            raise ShapeError(f"jvp: tangent {index} has shape {tangent.shape}, not {primal.shape}")


def _pulled_together(values: list[Any], vectors: list[Any], inner: list[Any]) -> list[Any]:
    """For each of `inner` the sum over all values of its gradient; None for what has none."""
    sums: list[Any] = [None] * len(inner)
    for value, vector in zip(values, vectors, strict=True):
        if vector is None or value._entry is None:
            continue
        gradients = _pull(value, vector, inner, retain=True, create=True)
        for i, (x, gradient) in enumerate(zip(inner, gradients, strict=True)):
            if x._entry is not None:
                sums[i] = gradient if sums[i] is None else sums[i] + gradient
    return sums


def _real_product(a: Any, b: Any) -> Any:
    """The sum of the products of all parts: of complex numbers the real part of conj(a) b."""
    if a.dtype.kind != "c":
        return (a * b).sum()
    return (real(a) * real(b) + imag(a) * imag(b)).sum()


def jacobian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The function that gives the Jacobian of `function`: J[i, j] = d y[i] / d x[j].

    argnums  which positional argument x is
    returns  shape of y followed by that of x; can be differentiated again
    raises   GradientError for an argument without gradient
    cost     one walk back for each element of y
    >>> import bedplate as bp
    >>> bp.jacobian(lambda x: x * x[0])(bp.tensor([2.0, 3.0])).tolist()
    [[4.0, 0.0], [3.0, 2.0]]
    """
    numbers = _argument_numbers("jacobian", function, argnums)

    @functools.wraps(function)
    def rows(*arguments: Any, **keywords: Any) -> Any:
        (chosen,) = _chosen(function, arguments, numbers)

        def of_one(x: Any) -> Any:
            return function(*_put(arguments, [chosen], (x,)), **keywords)

        x = arguments[chosen]
        value, pull = vjp(of_one, x)
        size = math.prod(value.shape)
        basis = np.eye(size).reshape(size, *value.shape)
        found = [pull(value._lift(row).astype(value.dtype))[0] for row in basis]
        if not found:
            return number(x, 0).broadcast_to((*value.shape, *x.shape))
        return concat([row.reshape(1, *x.shape) for row in found], 0).reshape(
            *value.shape, *x.shape
        )

    return rows


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of `function`, which returns one element.

    H[i, j] = d^2 y / d x[i] d x[j]

    argnums  which positional argument x is
    returns  shape of x twice over
    cost     one walk back through the gradient for each element of x
    >>> import bedplate as bp
    >>> bp.hessian(lambda x: x[0] ** 2 * x[1])(bp.tensor([2.0, 3.0])).tolist()
    [[6.0, 4.0], [4.0, 0.0]]
    """
    _argument_numbers("hessian", function, argnums)
    return jacobian(grad(function, argnums), argnums)


def _argument_numbers(name: str, function: Any, argnums: Any) -> tuple[int, ...]:
    """The numbers of arguments as a tuple; refuses what PyTorch's functions of the name take."""
    numbers = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    if not callable(function) or not all(isinstance(one, int) for one in numbers):
        kinds = ", ".join(type(one).__name__ for one in (function, *numbers))
        raise TypeError(
            f"{name}: expected a function and which of its arguments, as integers, got {kinds}\n"
            f"  {name}(f) is a function: {name}(f)(x); or call loss.backward() and read x.grad"
        )
    return numbers


def _chosen(function: Any, arguments: tuple[Any, ...], numbers: tuple[int, ...]) -> list[int]:
    name = getattr(function, "__name__", "function")
    for number_ in numbers:
        if not -len(arguments) <= number_ < len(arguments):
            raise GradientError(
                f"grad of {name}: there is no argument {number_} among {len(arguments)}"
            )
        if not hasattr(arguments[number_], "_node"):
            kind = type(arguments[number_]).__name__
            raise GradientError(f"grad of {name}: argument {number_} is {kind}, not a tensor")
        if arguments[number_].dtype.kind not in "fc":
            raise GradientError(
                f"grad of {name}: argument {number_} is {arguments[number_].dtype}, "
                "which has no gradient"
            )
    return [number_ % len(arguments) for number_ in numbers]


def _put(arguments: tuple[Any, ...], places: list[int], values: tuple[Any, ...]) -> list[Any]:
    given = list(arguments)
    for place, value in zip(places, values, strict=True):
        given[place] = value
    return given


def _stand_ins(primals: list[Any]) -> list[Any]:
    """What the function is called on in place of `primals`.

    A stand-in is a leaf of its own, or a recorded alias of a tensor that has history itself.
    """
    inner = []
    _require_primals(primals)
    for primal in primals:
        if primal._entry is not None and LOCAL.state.recording:
            inner.append(primal._wrap(primal._node, alias_entry(primal)))
        else:
            leaf = primal._from_node(primal._node)
            inner.append(leaf.requires_grad_() if primal.dtype.kind in "fc" else leaf)
    return inner


def _call(function: Callable[..., Any], primals: list[Any]) -> tuple[Any, list[Any]]:
    """The value of `function` on stand-ins for `primals`, and these."""
    inner = _stand_ins(primals)
    with enable_grad():
        value = function(*inner)
    _check_tensors([value])
    return value, inner


def _require_primals(primals: list[Any]) -> None:
    for primal in primals:
        if not hasattr(primal, "_node"):
            kind = type(primal).__name__
            raise TypeError(f"grad: expected tensors to differentiate by, got {kind}")


def _check_tensors(values: list[Any]) -> None:
    for value in values:
        if not hasattr(value, "_node"):
            kind = type(value).__name__
            raise TypeError(f"grad: the function must return a tensor, got {kind}")


def _is_watched(value: Any, inner: list[Any]) -> bool:
    """Whether somebody else may want gradients through `value`: a leaf that is not a stand-in."""
    if value._entry is None or not LOCAL.state.recording:
        return False
    return bool(tape.leaves_behind(value._entry) - {x._entry for x in inner})


def _for_caller(value: Any, inner: list[Any]) -> Any:
    """The value; without its history if that ends in stand-ins only."""
    return value if _is_watched(value, inner) else value._from_node(value._node)


def _pull(
    value: Any,
    vector: Any,
    inner: list[Any],
    retain: bool = False,
    create: bool = False,
    own: Sequence[Any] = (),
) -> list[Any]:
    """The gradient of `value` for each of `inner`; zeros where it does not depend on one.

    own  other leaves whose gradients nobody wants
    """
    if value.dtype.kind not in "fc":
        reason = tape.why_no_history(value._node)
        raise GradientError(
            f"grad: the function gives {value.dtype}, and only floats have gradients\n"
            f"  value  {value.shape} {value.dtype}   made at {value._node.line()}"
            + (f"\n  {reason}" if reason else "")
        )
    again = create or _is_watched(value, [*inner, *own])
    seed = value._seed(vector)
    found: dict[Any, Any] = {}
    if value._entry is not None:
        found = tape.walk(value._entry, seed, value._wrap, retain or again, again, keep_all=True)
    gradients = [None if x._entry is None else found.get(x._entry) for x in inner]
    return [_zeros(x) if g is None else g for g, x in zip(gradients, inner, strict=True)]


def _zeros(like: Any) -> Any:
    return number(like, 0).broadcast_to(like.shape)
