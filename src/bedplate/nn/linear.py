"""Linear and Embedding: products with a trained table."""

from __future__ import annotations

import math
from collections.abc import Callable

from bedplate.dtypes import DType, float32
from bedplate.nn import functional
from bedplate.nn.init import kaiming_init, normal_init, uniform_init
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.tensor import Tensor

Initialiser = Callable[[tuple[int, ...], DType], Tensor]


def uniform_by_fan_in(shape: tuple[int, ...], dtype: DType) -> Tensor:
    return kaiming_init(shape, gain=1 / math.sqrt(3), distribution="uniform", dtype=dtype)


def _standard_normal(shape: tuple[int, ...], dtype: DType) -> Tensor:
    return normal_init(shape, dtype=dtype)


class Linear(Module):
    """Multiply by a trained matrix, and add a trained vector.

    y = x @ weight.T + bias

    weight   (out_features, in_features), from init(shape, dtype); by default, like the bias,
             uniform within 1 / sqrt(in_features)
    bias     (out_features,), or None
    x        (..., in_features) -> (..., out_features)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DType = float32,
        init: Initialiser | None = None,
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        init = init or uniform_by_fan_in
        self.weight = Parameter(init((out_features, in_features), dtype))
        self.bias = None
        if bias:
            bound = 1 / math.sqrt(max(1, in_features))
            self.bias = Parameter(uniform_init((out_features,), -bound, bound, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        bias = "" if self.bias is not None else ", bias=False"
        return f"{self.in_features}, {self.out_features}{bias}"


class Embedding(Module):
    """Rows of a trained table, by index.

    weight       (num_embeddings, embedding_dim), from init(shape, dtype); standard normal by
                 default
    padding_idx  the row of this id starts as zeros and gets no gradient
    ids          integers of any shape -> (*shape, embedding_dim)
    raises       IndexError for an index outside the table
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        dtype: DType = float32,
        init: Initialiser | None = None,
        padding_idx: int | None = None,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        weight = (init or _standard_normal)((num_embeddings, embedding_dim), dtype)
        if padding_idx is not None:
            weight[padding_idx] = 0.0
        self.weight = Parameter(weight)

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class EmbeddingBag(Embedding):
    """Rows of a trained table, by index, joined by bag; see `embedding_bag`.

    mode       "sum", "mean" or "max"
    ids        (n_bags, size), or (n,) with the offsets of the bags -> (n_bags, embedding_dim)
    raises     IndexError for an index outside the table
    >>> from bedplate.tensor import tensor
    >>> EmbeddingBag(10, 3)(tensor([[1, 2, 4], [4, 3, 9]])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        dtype: DType = float32,
        init: Initialiser | None = None,
        padding_idx: int | None = None,
        include_last_offset: bool = False,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, dtype, init, padding_idx)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self,
        ids: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return functional.embedding_bag(
            ids, self.weight, offsets, self.mode, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip
