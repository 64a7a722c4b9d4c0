"""Gradients of functions: grad, value_and_grad, vjp, jvp.

Each calls the function on fresh leaves, so that no gradient reaches the caller's tensors'
`.grad`; the results can be differentiated again by the same functions, to any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bedplate.autograd import tape
from bedplate.autograd.mode import enable_grad
from bedplate.errors import GradientError, ShapeError
from bedplate.graph.pending import LOCAL
from bedplate.ops.build import number

Arguments = int | tuple[int, ...]


def grad(function: Callable[..., Any], argnums: Arguments = 0) -> Callable[..., Any]:
    """The function that gives the gradient of `function`, which returns one element.

    argnums  which positional arguments; for a tuple the result is a tuple
    raises   GradientError if the value does not have exactly one element
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
    raises   GradientError if the value does not have exactly one element
    >>> import bedplate as bp
    >>> value, gradient = bp.value_and_grad(lambda x: (x * x).sum())(bp.tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

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

    primals   tensors
    tangents  v: one per primal, of its shape
    returns   (value, J v)
    source    the transpose of a transpose: v -> v^T J is linear, and its own vector-Jacobian
              product is J v; https://j-towns.github.io/2017/06/12/A-new-trick.html
    >>> import bedplate as bp
    >>> bp.jvp(lambda x: x * x, [bp.tensor([1.0, 2.0])], [bp.tensor([1.0, 1.0])])[1].tolist()
    [2.0, 4.0]
    """
    primals, tangents = list(primals), list(tangents)
    for index, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        if primal.shape != tangent.shape:
            raise ShapeError(f"jvp: tangent {index} has shape {tangent.shape}, not {primal.shape}")
    value, inner = _call(function, primals)
    if value._entry is None:
        return value, _zeros(value)
    with enable_grad():
        vector = _zeros(value).requires_grad_()
        pulled = _pull(value, vector, inner, create=True)
        parts = [
            (g * t).sum() for g, t in zip(pulled, tangents, strict=True) if g._entry is not None
        ]
        total = functools.reduce(lambda a, b: a + b, parts) if parts else _zeros(value).sum()
    return _for_caller(value, inner), _pull(total, None, [vector], own=inner)[0]


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


def _call(function: Callable[..., Any], primals: list[Any]) -> tuple[Any, list[Any]]:
    """The value of `function` on stand-ins for `primals`, and these.

    A stand-in is a leaf of its own, or a recorded alias of a tensor that has history itself.
    """
    inner = []
    for primal in primals:
        if primal._entry is not None and LOCAL.state.recording:
            inner.append(primal._wrap(primal._node, tape.alias_entry(primal)))
        else:
            leaf = primal._from_node(primal._node)
            inner.append(leaf.requires_grad_() if primal.dtype.kind in "fc" else leaf)
    with enable_grad():
        value = function(*inner)
    if not hasattr(value, "_node"):
        raise TypeError(f"grad: the function must return a tensor, got {type(value).__name__}")
    return value, inner


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
    again = create or _is_watched(value, [*inner, *own])
    seed = value._seed(vector)
    found: dict[Any, Any] = {}
    if value._entry is not None:
        found = tape.walk(value._entry, seed, value._wrap, retain or again, again, keep_all=True)
    gradients = [None if x._entry is None else found.get(x._entry) for x in inner]
    return [_zeros(x) if g is None else g for g, x in zip(gradients, inner, strict=True)]


def _zeros(like: Any) -> Any:
    return number(like, 0).broadcast_to(like.shape)
