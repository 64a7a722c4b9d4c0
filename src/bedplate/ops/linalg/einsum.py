"""einsum: sums of products by named axes, lowered to matrix products, reductions and views.

Operands are contracted two at a time, cheapest first. Two operands become one product of
matrices (or a stack of them): axes that both have and the result keeps are the stack, axes that
are summed are the inner size, the others are rows and columns. Axes that follow each other are
joined by a view; rows that do not are left in the stack, where the other operand repeats, so
that nothing is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bedplate.dtypes import DType
from bedplate.errors import ShapeError
from bedplate.ops.build import Value, as_type, as_values, common_dtype
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.pointwise.arithmetic import multiply
from bedplate.ops.reduction.reduce import accumulator, sum_
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.shape.regions import slice_
from bedplate.ops.shape.views import permute, reshape

ELLIPSIS = "..."
# rows of a product below which copying an operand costs less than many products
FEW_ROWS = 32
Labels = tuple[str, ...]  # one a axis: a letter, or "...k" for the k-th axis from the right


@dataclass(frozen=True)
class Term:
    """An operand, or a product of several: a value and the labels of its axes."""

    value: Value
    labels: Labels

    def size(self, label: str) -> int:
        return self.value.shape[self.labels.index(label)]


def einsum(subscripts: Any, *operands: Any) -> Value:
    """Sum products of elements over named axes.

    subscripts  one letter for each axis of each operand, commas between operands, as in
                "bij,bjk->bik"; what stands behind the arrow is the result, in this order. Without
                an arrow: the letters that come once, sorted. A letter that comes twice in one
                operand takes its diagonal. "..." stands for axes without names, which broadcast.
                Or, as in NumPy, operands and lists of integers in turn.
    operands    any number of values; dtypes are promoted; a size 1 broadcasts
    returns     the sum over all letters that the result lacks; float16 and bfloat16 are summed in
                float32 and rounded after each contraction
    raises      ValueError for subscripts that make no sense, ShapeError for sizes that do not fit
    cost        two operands at a time, where the intermediate result is smallest; each by one
                product of matrices where there is a letter to sum over
    >>> import bedplate as bp
    >>> x = bp.tensor([[1, 2], [3, 4]])
    >>> bp.einsum("ij,jk->ik", x, x).tolist(), bp.einsum("ii", x).item()
    ([[7, 10], [15, 22]], 5)
    """
    text, values = _as_text(subscripts, operands)
    if not values:
        raise ValueError(f"einsum: {text!r} was given no operands")
    values = as_values("einsum", tuple(values))
    inputs, result = _parsed(text, values)
    _check_sizes(text, inputs, values)
    dtype = common_dtype("einsum", values)
    wanted = frozenset(result)
    whole = [
        _without_ones(_without_repeats(Term(as_type(value, dtype), labels)))
        for value, labels in zip(values, inputs, strict=True)
    ]
    terms = [
        _summed(term, wanted | _labels_of([*whole[:i], *whole[i + 1 :]]))
        for i, term in enumerate(whole)
    ]
    while len(terms) > 1:
        i, j = _cheapest(terms, wanted)
        second, first = terms.pop(j), terms.pop(i)
        order = result if not terms else None
        terms.append(_contracted(first, second, wanted | _labels_of(terms), order))
    total = as_type(_arranged(terms[0], result), dtype)
    return total._alias() if any(total is value for value in values) else total


def _labels_of(terms: Sequence[Term]) -> frozenset[str]:
    return frozenset(label for term in terms for label in term.labels)


# reading the subscripts


def _as_text(subscripts: Any, operands: tuple[Any, ...]) -> tuple[str, Sequence[Any]]:
    """The subscripts as a text, and the operands."""
    if isinstance(subscripts, str):
        several = len(operands) == 1 and isinstance(operands[0], list | tuple)
        return subscripts, operands[0] if several else operands
    given = [subscripts, *operands]
    values, lists = given[0::2], given[1::2]
    result = ""
    if len(values) > len(lists):
        result = f"->{_letters(values.pop())}"
    return ",".join(_letters(axes) for axes in lists) + result, values


def _letters(axes: Any) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    try:
        return "".join(ELLIPSIS if axis is Ellipsis else alphabet[axis] for axis in axes)
    except (TypeError, IndexError):
        raise ValueError(
            f"einsum: {axes!r} does not name axes\n  expected a list of integers from 0 to 51"
        ) from None


def _parsed(text: str, values: tuple[Any, ...]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes, and of the result's."""
    left, arrow, right = text.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(values):
        raise ValueError(
            f"einsum: {text!r} names {len(parts)} operands, and {len(values)} were given"
        )
    inputs = [_labels(text, part, len(v.shape), v) for part, v in zip(parts, values, strict=True)]
    unnamed = max((sum(map(_is_unnamed, labels)) for labels in inputs), default=0)
    dots = tuple(f"{ELLIPSIS}{k}" for k in range(unnamed, 0, -1))
    if not arrow:
        counts: dict[str, int] = {}
        for label in (label for labels in inputs for label in labels):
            counts[label] = counts.get(label, 0) + 1
        once = sorted(k for k, n in counts.items() if n == 1 and not _is_unnamed(k))
        return inputs, (*dots, *once)
    result = _split(text, right, dots)
    known = {label for labels in inputs for label in labels}
    for label in result:
        if label not in known:
            raise ValueError(f"einsum: {text!r} has {label!r} in the result and in no operand")
        if result.count(label) > 1:
            raise ValueError(f"einsum: {text!r} has {label!r} twice in the result")
    return inputs, result


def _is_unnamed(label: str) -> bool:
    return label.startswith(ELLIPSIS)


def _labels(text: str, part: str, ndim: int, value: Value) -> Labels:
    named = len(part.replace(ELLIPSIS, ""))
    has_dots = ELLIPSIS in part
    if named > ndim or (named < ndim and not has_dots):
        refuse_inputs(
            ShapeError, "einsum",
            f"{part!r} in {text!r} names {named} axes, the operand has {ndim}",
            (value,), "put ... where axes without names stand",
        )  # fmt: skip
    dots = tuple(f"{ELLIPSIS}{k}" for k in range(ndim - named, 0, -1))
    return _split(text, part, dots)


def _split(text: str, part: str, dots: Labels) -> Labels:
    before, found, after = part.partition(ELLIPSIS)
    letters = before + after
    if not (letters.isascii() and letters.isalpha()) and letters:
        wrong = next(c for c in letters if not (c.isascii() and c.isalpha()))
        raise ValueError(
            f"einsum: {wrong!r} in {text!r}\n  axes are letters a to z and A to Z, and one ... an "
            "operand"
        )
    return (*before, *(dots if found else ()), *after)


def _check_sizes(text: str, inputs: list[Labels], values: tuple[Value, ...]) -> None:
    sizes: dict[str, int] = {}
    for labels, value in zip(inputs, values, strict=True):
        for label, size in zip(labels, value.shape, strict=True):
            known = sizes.get(label, 1)
            if size not in (1, known) and known != 1:
                name = "an axis of ..." if _is_unnamed(label) else f"{label!r}"
                refuse_inputs(
                    ShapeError, "einsum", f"{name} in {text!r} has sizes {known} and {size}", values
                )
            sizes[label] = max(known, size) if 0 not in (known, size) else 0
        for label in set(labels) if len(set(labels)) < len(labels) else ():
            own = {s for x, s in zip(labels, value.shape, strict=True) if x == label}
            if len(own) > 1:
                refuse_inputs(
                    ShapeError, "einsum",
                    f"{label!r} in {text!r} has sizes {' and '.join(map(str, sorted(own)))} in one "
                    "operand", (value,),
                )  # fmt: skip


# one term


def _without_ones(term: Term) -> Term:
    """Without axes of size 1: there is nothing to sum, and what others have is repeated."""
    if 1 not in term.value.shape:
        return term
    kept = [i for i, size in enumerate(term.value.shape) if size != 1]
    value = reshape(term.value, tuple(term.value.shape[i] for i in kept))
    return Term(value, tuple(term.labels[i] for i in kept))


def _without_repeats(term: Term) -> Term:
    """The diagonal over each label that comes twice."""
    while len(set(term.labels)) < len(term.labels):
        label = next(x for x in term.labels if term.labels.count(x) > 1)
        first, second = [i for i, x in enumerate(term.labels) if x == label][:2]
        rest = [i for i in range(len(term.labels)) if i not in (first, second)]
        x = permute(term.value, (*rest, first, second))
        n, batch = x.shape[-1], x.shape[:-2]
        flat = reshape(x, (*batch, n * n))
        start = (0,) * (len(batch) + 1)
        steps = (*(1 for _ in batch), n + 1)
        labels = (*(term.labels[i] for i in rest), label)
        term = Term(slice_(flat, start, flat.shape, steps), labels)
    return term


def _summed(term: Term, kept: frozenset[str]) -> Term:
    """Summed over the labels that are not kept."""
    axes = tuple(i for i, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    value = sum_(term.value, axis=axes, dtype=term.value.dtype)
    return Term(value, tuple(label for label in term.labels if label in kept))


def _arranged(term: Term, result: Labels) -> Value:
    """The value with its axes in the order of the result, each there."""
    if term.labels == result:
        return term.value
    missing = [label for label in result if label not in term.labels]
    value = permute(term.value, tuple(term.labels.index(x) for x in result if x not in missing))
    if missing:  # those of size 1
        sizes = iter(value.shape)
        value = reshape(value, tuple(1 if x in missing else next(sizes) for x in result))
    return value


# two terms


def _cheapest(terms: list[Term], wanted: frozenset[str]) -> tuple[int, int]:
    """The pair whose product grows memory least; of several that with the least arithmetic."""
    best, chosen = (math.inf, math.inf), (0, 1)
    for j in range(1, len(terms)):
        for i in range(j):
            first, second = terms[i], terms[j]
            others = [term for k, term in enumerate(terms) if k not in (i, j)]
            kept = wanted | _labels_of(others)
            sizes = {label: term.size(label) for term in (first, second) for label in term.labels}
            grown = math.prod(size for label, size in sizes.items() if label in kept)
            grown -= math.prod(first.value.shape) + math.prod(second.value.shape)
            cost = (grown, math.prod(sizes.values()))
            if cost < best:
                best, chosen = cost, (i, j)
    return chosen


def _contracted(a: Term, b: Term, kept: frozenset[str], order: Labels | None) -> Term:
    """The product of two terms, summed over the labels that are not kept."""
    summed = [x for x in a.labels if x in b.labels and x not in kept]
    stack = [x for x in a.labels if x in b.labels and x in kept]
    if order is not None:
        stack.sort(key=order.index)
        if order and order[-1] in a.labels and order[-1] not in b.labels:
            a, b = b, a  # the columns of the result are its last axis
    rows = [x for x in a.labels if x not in b.labels]
    columns = [x for x in b.labels if x not in a.labels]
    narrow = a.value.dtype
    if not summed:
        return _multiplied(a, b, (*stack, *rows, *columns))
    if not rows and not columns:
        wide = accumulator(narrow)
        both = _multiplied(_cast(a, wide), _cast(b, wide), (*stack, *summed))
        return _cast(_summed(both, frozenset(stack)), narrow)
    return _product(a, b, stack, rows, columns, summed)


def contract(
    x1: Value, x2: Value, labels1: Sequence[str], labels2: Sequence[str], result: Sequence[str]
) -> Value:
    """Two values of one dtype, multiplied and summed over the labels that the result lacks."""
    a, b = Term(x1, tuple(labels1)), Term(x2, tuple(labels2))
    product = _contracted(_without_ones(a), _without_ones(b), frozenset(result), tuple(result))
    return _arranged(product, tuple(result))


def _cast(term: Term, dtype: DType) -> Term:
    return Term(as_type(term.value, dtype), term.labels)


def _multiplied(a: Term, b: Term, labels: Labels) -> Term:
    """Elements times elements, broadcast to the labels."""
    x, y = (_arranged(term, labels) for term in (a, b))
    return Term(multiply(x, y), labels)


def _product(
    a: Term, b: Term, stack: list[str], rows: list[str], columns: list[str], summed: list[str]
) -> Term:
    """One product of matrices, or a stack of them."""
    inner = sorted(summed, key=(a if _is_joined(a, summed) else b).labels.index)
    outer_rows, rows = _free_axes(a, rows)
    outer_columns, columns = _free_axes(b, columns)
    x = _matrices(a, stack, 0, outer_rows, len(outer_columns), rows, inner)
    y = _matrices(b, stack, len(outer_rows), outer_columns, 0, inner, columns)
    labels = (*stack, *outer_rows, *outer_columns, *rows, *columns)
    value = matmul(x, y)
    if len(rows) == len(columns) == 1:
        return Term(value, labels)
    sizes = {label: term.size(label) for term in (a, b) for label in term.labels}
    return Term(reshape(value, tuple(sizes[label] for label in labels)), labels)


def _is_joined(term: Term, labels: Sequence[str]) -> bool:
    """Whether axes follow each other, in any order of the labels."""
    places = sorted(term.labels.index(label) for label in labels)
    return not places or places[-1] - places[0] == len(places) - 1


def _free_axes(term: Term, labels: list[str]) -> tuple[list[str], list[str]]:
    """Axes for the stack, and those that are joined to the rows (or columns) of one product."""
    runs: list[list[str]] = []
    for label in labels:
        if runs and _is_joined(term, [runs[-1][-1], label]):
            runs[-1].append(label)
        else:
            runs.append([label])
    if len(runs) < 2:
        return [], labels
    sizes = [math.prod(term.size(label) for label in run) for run in runs]
    largest = sizes.index(max(sizes))
    if sizes[largest] < FEW_ROWS:
        return [], labels
    outer = [label for i, run in enumerate(runs) if i != largest for label in run]
    return outer, runs[largest]


def _matrices(
    term: Term, stack: Sequence[str], ones: int, outer: Sequence[str], ones_after: int,
    first: Sequence[str], second: Sequence[str],
) -> Value:  # fmt: skip
    """The value as stacks of matrices, with axes of size 1 where the other operand has more."""
    order = (*stack, *outer, *first, *second)
    value = _arranged(term, order)
    if len(first) == len(second) == 1 and not ones and not ones_after:
        return value
    sizes = [[term.size(label) for label in part] for part in (stack, outer, first, second)]
    before = (*sizes[0], *(1,) * ones, *sizes[1], *(1,) * ones_after)
    return reshape(value, (*before, math.prod(sizes[2]), math.prod(sizes[3])))
