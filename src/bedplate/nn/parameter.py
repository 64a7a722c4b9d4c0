"""Parameter: a tensor that a module trains."""

from __future__ import annotations

from typing import Any

from bedplate.graph.pending import LOCAL
from bedplate.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module finds by itself, and that asks for gradients.

    data   a tensor (its value is taken, its history is not) or anything `bp.tensor` takes
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        value = data.detach() if isinstance(data, Tensor) else Tensor(data)
        super().__init__(value, requires_grad=requires_grad)
        if self._node.block is None:
            # memory of its own from the first run on, so that a captured step sees it as state
            LOCAL.state.nodes.append(self._node)
