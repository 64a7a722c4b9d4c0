"""Form: how an operation on complex numbers is computed with real ones.

A form is a function of the inputs' parts. It runs on graph nodes, when the pass
`legalise_complex` takes complex nodes apart, and builds real nodes with the functions of the
ops. Which op has which form stands in `arithmetic.py` and the files beside it; an op that does
the same to both parts (a view, a sum) says so in its record, by `by_parts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bedplate.errors import InternalError
from bedplate.ops.record import Op


class Pair(NamedTuple):
    """The real and the imaginary part of a complex value: two real values of one shape.

    whole  the same as one value of shape (..., 2), if there is one already
    """

    re: Any
    im: Any
    whole: Any = None


# (*inputs, **attributes) -> Pair or real value; complex inputs are Pairs, real ones are values
Form = Callable[..., Any]
FORMS: dict[Op, Form] = {}


def complex_form(function: Any) -> Callable[[Form], Form]:
    """Enter the decorated form for the op of `function`, or for a record."""
    op: Op = function if isinstance(function, Op) else function.op

    def enter(form: Form) -> Form:
        if op in FORMS or op.by_parts:
            raise InternalError(f"two complex forms for {op.name}")
        FORMS[op] = form
        return form

    return enter
