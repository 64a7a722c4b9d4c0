"""The functions of the standard that make arrays, change their shape, or choose from them.

Long, because each function of the standard has its row here, and rows are read in one piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.standard.calls import Call, Dtype, Property, agree
from tests.standard.strategies import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    SHAPES,
    arrays,
    axes_of,
    elements,
    keywords,
    kinds_of,
    promotable,
    several_axes,
    tame,
)

ANYTHING = arrays(ALL)
WITH_AXES = arrays(
    ALL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4) | st.just((37,))
)
NOT_EMPTY = arrays(ALL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
MATRICES = arrays(ALL, hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=5))
SMALL_SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def dtypes(names: Any) -> st.SearchStrategy[Dtype]:
    return kinds_of(names).map(Dtype)


# ------------------------------------------------------------------------------------ creation


@st.composite
def ranges(draw: Any) -> Call:
    """One, two or three numbers and a dtype: whole numbers exactly, halves too."""
    whole = draw(st.booleans())
    numbers = st.integers(-40, 40) if whole else st.integers(-80, 80).map(lambda n: n / 2)
    step = draw(numbers.filter(bool))
    arguments = draw(
        st.sampled_from(
            [(draw(numbers),), (draw(numbers), draw(numbers)), (draw(numbers), draw(numbers), step)]
        )
    )
    names = ("int32", "int64", *FLOATS) if whole else FLOATS
    return Call(arguments, {"dtype": draw(dtypes(names))})


@st.composite
def filled(draw: Any) -> Call:
    dtype = draw(kinds_of(ALL))
    return Call(
        (draw(SMALL_SHAPES), draw(elements(dtype, None, None, False))), {"dtype": Dtype(dtype)}
    )


@st.composite
def filled_like(draw: Any) -> Call:
    x = draw(ANYTHING)
    dtype = draw(st.sampled_from([x.dtype.name, draw(kinds_of(ALL))]))
    named = {} if dtype == x.dtype.name else {"dtype": Dtype(dtype)}
    return Call((x, draw(elements(dtype, None, None, False))), named)


def of_shape(names: Any = ALL) -> Any:
    return st.builds(
        lambda shape, dtype: Call((shape,), {"dtype": dtype}),
        SMALL_SHAPES | st.integers(0, 40),
        dtypes(names),
    )


def like(names: Any = ALL) -> Any:
    return st.builds(
        lambda x, named: Call((x,), named), ANYTHING, keywords(dtype=st.none() | dtypes(names))
    )


def same_shape(got: Any, wanted: Any, call: Call) -> None:
    """The values of an empty array do not matter."""
    assert (got.shape, got.dtype.name) == (wanted.shape, wanted.dtype._np_dtype.name)


@st.composite
def lists(draw: Any) -> Call:
    """Nested lists of numbers of a dtype."""
    dtype = draw(kinds_of(ALL))
    values = draw(hnp.arrays(dtype, SMALL_SHAPES, elements=elements(dtype, -100, 100, False)))
    return Call((values.tolist(),), {"dtype": Dtype(dtype)})


def as_arrays() -> Any:
    copies = keywords(copy=st.sampled_from([None, True]))
    return lists() | st.builds(lambda x, named: Call((x,), named), ANYTHING, copies)


@st.composite
def spaces(draw: Any) -> Call:
    ends = st.integers(-99, 99) | st.floats(-99, 99, width=16)
    named = draw(keywords(endpoint=st.booleans()))
    start, stop = draw(ends), draw(ends)
    largest = float(max(abs(start), abs(stop)))
    return Call(
        (start, stop, draw(st.integers(0, 40))), {**named, "dtype": draw(dtypes(FLOATS))}, largest
    )


@st.composite
def grids(draw: Any) -> Call:
    vectors = st.integers(0, 4).flatmap(lambda n: arrays(("float32",), st.just((n,))))
    named = draw(keywords(indexing=st.sampled_from(["xy", "ij"])))
    return Call(tuple(draw(st.lists(vectors, min_size=1, max_size=3))), named)


@st.composite
def identities(draw: Any) -> Call:
    sizes = st.integers(0, 6)
    arguments = draw(st.sampled_from([(draw(sizes),), (draw(sizes), draw(sizes | st.none()))]))
    return Call(arguments, draw(keywords(k=st.integers(-7, 7))) | {"dtype": draw(dtypes(ALL))})


def with_keywords(values: Any, **choices: Any) -> Any:
    return st.builds(lambda x, named: Call((x,), named), values, keywords(**choices))


CREATION = {
    "arange": Property(ranges(), 2),
    "asarray": Property(as_arrays()),
    "empty": Property(of_shape(), compare=same_shape),
    "empty_like": Property(like(), compare=same_shape),
    "eye": Property(identities()),
    "full": Property(filled()),
    "full_like": Property(filled_like()),
    "linspace": Property(spaces(), 4),
    "meshgrid": Property(grids()),
    "ones": Property(of_shape()),
    "ones_like": Property(like()),
    "tril": Property(with_keywords(MATRICES, k=st.integers(-6, 6))),
    "triu": Property(with_keywords(MATRICES, k=st.integers(-6, 6))),
    "zeros": Property(of_shape()),
    "zeros_like": Property(like()),
}

# -------------------------------------------------------------------------------- manipulation


@st.composite
def along_one(draw: Any, values: Any = WITH_AXES) -> Call:
    x = draw(values)
    return Call((x,), draw(keywords(axis=axes_of(x.ndim))))


@st.composite
def shapes_to_broadcast(draw: Any) -> Call:
    x = draw(ANYTHING)
    wider = tuple(draw(st.integers(0, 3)) if size == 1 else size for size in x.shape)
    front = draw(st.sampled_from([(), (2,), (0,), (3, 1)]))
    return Call((x, (*front, *wider)))


@st.composite
def several_to_broadcast(draw: Any) -> Call:
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4))
    count = draw(st.integers(1, 3))
    return Call(tuple(draw(arrays(ALL, st.just(shape))) for shape in found.input_shapes[:count]))


@st.composite
def concatenated(draw: Any) -> Call:
    """Arrays of dtypes that promote, equal in shape but along one axis; or flattened."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    axis = draw(axes_of(len(shape)))
    first = draw(kinds_of(ALL))
    kinds = sorted(
        {b for a, b in promotable(ALL) if a == first and np.dtype(b).kind == np.dtype(a).kind}
    )
    pieces = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = list(shape)
        sizes[axis] = draw(st.integers(0, 3))
        pieces.append(draw(arrays(kinds, st.just(tuple(sizes)))))
    if draw(st.booleans()):
        return Call((pieces,), {"axis": None})
    return Call((pieces,), {"axis": axis} if axis else {})


@st.composite
def stacked(draw: Any) -> Call:
    shape = draw(SMALL_SHAPES)
    dtype = draw(kinds_of(ALL))
    pieces = draw(st.lists(arrays((dtype,), st.just(shape)), min_size=1, max_size=3))
    return Call((pieces,), draw(keywords(axis=axes_of(len(shape) + 1))))


@st.composite
def expanded(draw: Any) -> Call:
    x = draw(ANYTHING)
    many = draw(st.booleans())
    axis = draw(several_axes(x.ndim + 2, 2) if many else axes_of(x.ndim + 1))
    axis = axis[:2] if many else axis
    return Call((x, axis))


@st.composite
def flipped(draw: Any) -> Call:
    x = draw(ANYTHING)
    return Call((x,), draw(keywords(axis=st.none() | several_axes(x.ndim))))


@st.composite
def moved(draw: Any) -> Call:
    x = draw(WITH_AXES)
    source = draw(several_axes(x.ndim))
    target = draw(several_axes(x.ndim, x.ndim))[: len(source)]
    one = len(source) == 1 and draw(st.booleans())
    return Call((x, source[0], target[0]) if one else (x, source, target))


@st.composite
def permuted(draw: Any) -> Call:
    x = draw(ANYTHING)
    return Call((x, draw(several_axes(x.ndim, x.ndim))))


@st.composite
def repeated(draw: Any) -> Call:
    x = draw(WITH_AXES)
    axis = draw(st.none() | axes_of(x.ndim))
    size = x.size if axis is None else x.shape[axis]
    kind = draw(st.sampled_from(["int32", "int64", "uint8"]))
    counts = hnp.arrays(kind, st.sampled_from([(size,), (1,)]), elements=st.integers(0, 3))
    repeats = draw(st.integers(0, 3) | counts)
    return Call((x, repeats), {} if axis is None else {"axis": axis})


@st.composite
def reshaped(draw: Any) -> Call:
    """A shape of as many elements, one size perhaps left to be told."""
    x = draw(
        arrays(ALL, st.sampled_from([(12,), (3, 4), (2, 3, 2), (), (1,), (0, 3), (4, 0), (2, 0)]))
    )
    shapes = {12: [(12,), (2, 6), (3, 2, 2)], 1: [(), (1,), (1, 1)], 0: [(0,), (2, 0), (0, 5)]}
    shape = list(draw(st.sampled_from(shapes[x.size])))
    if x.size and shape and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = -1
    return Call((x, tuple(shape)), draw(keywords(copy=st.sampled_from([None, True]))))


@st.composite
def rolled(draw: Any) -> Call:
    x = draw(ANYTHING)
    shifts = st.integers(-9, 9)
    axes = draw(st.none() | several_axes(x.ndim, 1)) if x.ndim else None
    if axes is None:
        return Call((x, draw(shifts)))
    if draw(st.booleans()):
        return Call((x, draw(shifts)), {"axis": axes})
    return Call((x, tuple(draw(shifts) for _ in axes)), {"axis": axes})


@st.composite
def squeezed(draw: Any) -> Call:
    x = draw(arrays(ALL, st.sampled_from([(1,), (1, 3), (2, 1, 1), (1, 0, 1), (1, 1, 1)])))
    ones = [a for a, size in enumerate(x.shape) if size == 1]
    chosen = (
        draw(st.sets(st.sampled_from(ones))) if draw(st.booleans()) else draw(st.sampled_from(ones))
    )
    return Call((x, tuple(chosen) if isinstance(chosen, set) else chosen))


TILES = st.lists(st.integers(0, 3), max_size=4).map(tuple)
MANIPULATION = {
    "broadcast_arrays": Property(several_to_broadcast()),
    "broadcast_to": Property(shapes_to_broadcast()),
    "concat": Property(concatenated()),
    "expand_dims": Property(expanded()),
    "flip": Property(flipped()),
    "matrix_transpose": Property(MATRICES.map(lambda x: Call((x,)))),
    "moveaxis": Property(moved()),
    "permute_dims": Property(permuted()),
    "repeat": Property(repeated()),
    "reshape": Property(reshaped()),
    "roll": Property(rolled()),
    "squeeze": Property(squeezed()),
    "stack": Property(stacked()),
    "tile": Property(st.builds(lambda x, counts: Call((x, counts)), ANYTHING, TILES)),
    "unstack": Property(along_one()),
}

# ---------------------------------------------------------------------- choosing, searching, sets


@st.composite
def taken(draw: Any) -> Call:
    x = draw(NOT_EMPTY)
    axis = draw(axes_of(x.ndim))
    size = x.shape[axis]
    kind = draw(st.sampled_from(["int8", "int32", "int64", "uint16"]))
    low = 0 if kind.startswith("u") else -size
    indices = draw(
        hnp.arrays(kind, st.tuples(st.integers(0, 6)), elements=st.integers(low, size - 1))
    )
    return Call((x, indices), {} if x.ndim == 1 and draw(st.booleans()) else {"axis": axis})


@st.composite
def taken_along(draw: Any) -> Call:
    x = draw(NOT_EMPTY)
    axis = draw(axes_of(x.ndim))
    shape = list(x.shape)
    shape[axis] = draw(st.integers(0, 5))
    bounds = st.integers(-x.shape[axis], x.shape[axis] - 1)
    indices = draw(hnp.arrays("int64", tuple(shape), elements=bounds))
    return Call((x, indices), {} if axis == -1 and draw(st.booleans()) else {"axis": axis})


@st.composite
def chosen(draw: Any) -> Call:
    """A condition and two sides of one kind that broadcast; a side may be a Python number."""
    found = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4)
    ).input_shapes
    a, b = draw(st.sampled_from(promotable(ALL)))
    sides = [draw(arrays((a,), st.just(found[1]))), draw(arrays((b,), st.just(found[2])))]
    if draw(st.booleans()) and a == b:
        sides[draw(st.integers(0, 1))] = draw(elements(a, -9, 9, False))
    return Call((draw(arrays(("bool",), st.just(found[0]))), *sides))


def whole(x: Any) -> Any:
    """Rounded, so that there are ties, and without negative zeros."""
    return np.asarray(np.round(x) + 0, x.dtype)


@st.composite
def sorted_calls(draw: Any) -> Call:
    """Finite numbers with ties: where the standard leaves no choice but the order of equal ones."""
    x = draw(
        tame(
            REAL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6) | st.just((70,))
        )
    )
    x = whole(x)
    return Call(
        (x,), draw(keywords(axis=axes_of(x.ndim), descending=st.booleans(), stable=st.just(True)))
    )


@st.composite
def searched(draw: Any) -> Call:
    kind = draw(kinds_of(REAL))
    table = draw(
        hnp.arrays(kind, st.tuples(st.integers(0, 9)), elements=elements(kind, -20, 20, False))
    )
    values = draw(hnp.arrays(kind, SMALL_SHAPES, elements=elements(kind, -25, 25, False)))
    if draw(st.booleans()):
        values = values.flat[0].item() if values.size else values
    named = draw(keywords(side=st.sampled_from(["left", "right"])))
    if draw(st.booleans()):
        return Call((table, values), named | {"sorter": np.argsort(table, kind="stable")})
    return Call((np.sort(table), values), named)


@st.composite
def members(draw: Any) -> Call:
    kind = draw(kinds_of(INTEGERS))
    few = elements(kind, 0, 4, False)
    a, b = (draw(hnp.arrays(kind, SMALL_SHAPES, elements=few)) for _ in range(2))
    form = draw(st.sampled_from(["arrays", "left", "right"]))
    number = draw(st.integers(0, 4))
    if np.dtype(kind).kind in "iu":
        a = number if form == "left" else a
        b = number if form == "right" else b
    return Call((a, b), draw(keywords(invert=st.booleans())))


def membership(got: Any, wanted: Any, call: Call) -> None:
    """array_api_strict 2.6.1 does not look at `invert`."""
    values = np.asarray(wanted._array)
    assert got.dtype.name == "bool"
    np.testing.assert_array_equal(got.numpy(), ~values if call.keywords.get("invert") else values)


def same_sets(got: Any, wanted: Any, call: Call) -> None:
    """The order of the unique values is not specified: compare by value."""
    names = getattr(wanted, "_fields", ("values",))
    assert getattr(got, "_fields", ("values",)) == names
    ours = dict(zip(names, got if isinstance(got, tuple) else (got,), strict=True))
    theirs = dict(zip(names, wanted if isinstance(wanted, tuple) else (wanted,), strict=True))
    order = {}
    for key, found in (("ours", ours), ("theirs", theirs)):
        values = np.asarray(found["values"].numpy() if key == "ours" else found["values"]._array)
        order[key] = np.argsort(values, kind="stable")
    for name in names:
        mine, other = ours[name].numpy(), np.asarray(theirs[name]._array)
        assert mine.dtype == other.dtype
        if name == "inverse_indices":
            values = ours["values"].numpy()
            np.testing.assert_array_equal(values[mine], call.arguments[0])
        elif name == "indices":
            flat = call.arguments[0].reshape(-1)
            np.testing.assert_array_equal(flat[mine], ours["values"].numpy())
        else:
            np.testing.assert_array_equal(mine[order["ours"]], other[order["theirs"]])


FEW = arrays(REAL, SHAPES, -3, 3).map(whole)
UNIQUE = Property(FEW.map(lambda x: Call((x,))), compare=same_sets)


@st.composite
def counted(draw: Any) -> Call:
    x = draw(arrays(ALL, SHAPES, 0, 2))
    return Call((x,), draw(keywords(axis=st.none() | several_axes(x.ndim), keepdims=st.booleans())))


@st.composite
def extremes(draw: Any) -> Call:
    """Of at least one element, without NaN: which of several counts is not specified."""
    x = draw(
        tame(
            REAL, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5) | st.just((70,))
        )
    )
    return Call((x,), draw(keywords(axis=st.none() | axes_of(x.ndim), keepdims=st.booleans())))


def some_true(got: Any, wanted: Any, call: Call) -> None:
    agree(got, wanted, 0)
    assert all(index.shape == got[0].shape for index in got)


CHOICE = {
    "argmax": Property(extremes()),
    "argmin": Property(extremes()),
    "argsort": Property(sorted_calls()),
    "count_nonzero": Property(counted()),
    "isin": Property(members(), compare=membership),
    "nonzero": Property(WITH_AXES.map(lambda x: Call((x,))), compare=some_true),
    "searchsorted": Property(searched()),
    "sort": Property(sorted_calls()),
    "take": Property(taken()),
    "take_along_axis": Property(taken_along()),
    "unique_all": UNIQUE,
    "unique_counts": UNIQUE,
    "unique_inverse": UNIQUE,
    "unique_values": UNIQUE,
    "where": Property(chosen()),
}

# ----------------------------------------------------------------------------- dtypes and shapes


@st.composite
def pairs_of_dtypes(draw: Any) -> Call:
    """Of one kind: what the standard leaves open between kinds, we do not refuse."""
    a, b = draw(st.sampled_from(promotable(ALL)))
    return Call((Dtype(a), Dtype(b)))


@st.composite
def mixtures(draw: Any) -> Call:
    a, b = draw(st.sampled_from(promotable(ALL)))
    x = np.zeros(draw(SMALL_SHAPES), a)
    number = {"b": True, "i": 1, "u": 1, "f": 1.5, "c": 1.5}[np.dtype(a).kind]
    return Call(tuple(draw(st.permutations([x, Dtype(b), number]))))


@st.composite
def kinds_asked(draw: Any) -> Call:
    words = (
        "bool", "signed integer", "unsigned integer", "integral", "real floating",
        "complex floating", "numeric",
    )  # fmt: skip
    kind = st.sampled_from(words) | dtypes(ALL)
    return Call((draw(dtypes(ALL)), draw(kind | st.tuples(kind, kind))))


@st.composite
def casts(draw: Any) -> Call:
    """Values that fit the other dtype; never from complex to real."""
    x = draw(arrays(NUMBERS, SHAPES, 0, 100))
    to = draw(kinds_of(("complex64", "complex128") if x.dtype.kind == "c" else ALL))
    return Call((x, Dtype(to)), draw(keywords(copy=st.booleans())))


def same_limits(got: Any, wanted: Any, call: Call) -> None:
    for name in ("bits", "max", "min", "eps", "smallest_normal"):
        if hasattr(wanted, name):
            assert getattr(got, name) == getattr(wanted, name)
            assert type(getattr(got, name)) is type(getattr(wanted, name))
    assert got.dtype.name == wanted.dtype._np_dtype.name


def same_dtype(got: Any, wanted: Any, call: Call) -> None:
    assert got.name == wanted._np_dtype.name


BROADCAST = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4).map(
    lambda found: Call(found.input_shapes)
)
DTYPES = {
    "astype": Property(casts()),
    "broadcast_shapes": Property(BROADCAST),
    "can_cast": Property(pairs_of_dtypes()),
    "finfo": Property(
        dtypes((*FLOATS, "complex64", "complex128")).map(lambda d: Call((d,)))
        | arrays(FLOATS).map(lambda x: Call((x,))),
        compare=same_limits,
    ),
    "iinfo": Property(
        dtypes(INTEGERS).map(lambda d: Call((d,))) | arrays(INTEGERS).map(lambda x: Call((x,))),
        compare=same_limits,
    ),
    "isdtype": Property(kinds_asked()),
    "result_type": Property(mixtures(), compare=same_dtype),
}

CALLS = CREATION | MANIPULATION | CHOICE | DTYPES
