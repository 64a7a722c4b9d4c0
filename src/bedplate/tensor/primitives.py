"""TensorOps: the primitives by plain name, as static methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bedplate.tensor import functions


class _Names(type):
    """Finds a primitive by its name; an unknown one is an error that says what there is."""

    def __getattr__(cls, name: str) -> Callable[..., Any]:
        raise AttributeError(f"TensorOps has no {name!r}; there are {', '.join(functions.__all__)}")


class TensorOps(metaclass=_Names):
    """The primitives by plain name: `TensorOps.NAME` is the function `bp.NAME`.

    >>> import bedplate as bp
    >>> TensorOps.add(bp.tensor([1.0]), 2).tolist()
    [3.0]
    """


for _name in functions.__all__:
    setattr(TensorOps, _name, staticmethod(getattr(functions, _name)))
