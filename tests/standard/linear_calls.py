"""Linear algebra and Fourier transforms of the standard: stacks of matrices, every keyword.

What is unique only up to signs, phases or order (factors, vectors) is put together again and
compared with the matrix; the rest with array_api_strict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.standard.calls import Call, Dtype, Property, array_of, close
from tests.standard.strategies import (
    ALL,
    COMPLEX,
    FLOATS,
    INEXACT,
    NUMBERS,
    arrays,
    axes_of,
    elements,
    keywords,
    kinds_of,
    promotable,
    reduced_axes,
    several_axes,
    tame,
)

STACKS = st.sampled_from([(), (), (2,), (3, 1), (0,)])
ROUNDINGS = 64


def magnitude(x: Any) -> float:
    """The largest absolute value that is finite, or 1."""
    finite = np.abs(x[np.isfinite(x)]) if x.dtype.kind in "fc" else np.abs(x.astype(np.float64))
    return max(1.0, float(finite.max())) if finite.size else 1.0


@st.composite
def matrices(draw: Any, dtypes: Any = INEXACT, square: bool = True, kind: str = "any") -> Any:
    """Stacks of matrices, `kind`: any, regular (well conditioned), hermitian, positive."""
    n = draw(st.integers(0 if kind != "any" else 1, 4))
    m = n if square else draw(st.integers(1, 5))
    dtype = draw(kinds_of(dtypes))
    shape = (*draw(STACKS), n, m)
    # no tiny numbers: beside them LAPACK's balancing loses eigenvectors
    x = draw(hnp.arrays(dtype, shape, elements=elements(dtype, -1, 1, False)))
    x = np.asarray(np.round(x * 64) / 64, dtype)
    if kind == "regular":
        x = x + 2 * n * np.eye(n, dtype=dtype)
    if kind in ("hermitian", "positive"):
        x = x + np.conj(np.swapaxes(x, -1, -2))
    if kind == "positive":
        x = x + 4 * n * np.eye(n, dtype=dtype)
    return np.asarray(x, dtype)


@st.composite
def on_matrices(draw: Any, values: Any, **choices: Any) -> Call:
    x = draw(values)
    return Call((x,), draw(keywords(**choices)), magnitude(x) * max(1, x.shape[-1]) * 4)


# ------------------------------------------------------------------- what is put together again


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def same_form(got: Any, wanted: Any) -> list[Any]:
    """Equal fields, shapes and dtypes; gives the values of ours."""
    assert got._fields == wanted._fields
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype.name == other.dtype._np_dtype.name
        assert one.shape == other.shape
    return [array_of(one) for one in got]


def orthonormal(q: Any) -> None:
    unit = np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], *q.shape[-1:] * 2))
    close(adjoint(q) @ q, unit, ROUNDINGS, 1.0)


def triangles(got: Any, wanted: Any, call: Call) -> None:
    x = call.arguments[0]
    q, r = same_form(got, wanted)
    orthonormal(q)
    np.testing.assert_array_equal(r, np.triu(r))
    close(q @ r, x, ROUNDINGS, call.scale)


def singular(got: Any, wanted: Any, call: Call) -> None:
    x = call.arguments[0]
    u, s, vh = same_form(got, wanted)
    orthonormal(u)
    orthonormal(adjoint(vh))
    close(s, array_of(wanted[1]), ROUNDINGS, call.scale)
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, ROUNDINGS, call.scale)


def hermitian(got: Any, wanted: Any, call: Call) -> None:
    x = call.arguments[0]
    values, vectors = same_form(got, wanted)
    orthonormal(vectors)
    close(values, array_of(wanted[0]), ROUNDINGS, call.scale)
    close(x @ vectors, vectors * values[..., None, :], ROUNDINGS, call.scale)


def general(got: Any, wanted: Any, call: Call) -> None:
    """Each vector is turned into itself, times its value."""
    x = call.arguments[0]
    values, vectors = same_form(got, wanted)
    close(x @ vectors, vectors * values[..., None, :], 4 * ROUNDINGS, call.scale)


def values_alone(got: Any, wanted: Any, call: Call) -> None:
    """The values in any order: their sum and the sum of their squares are those of the matrix."""
    x = call.arguments[0]
    assert (got.dtype.name, got.shape) == (wanted.dtype._np_dtype.name, wanted.shape)
    values = array_of(got)
    close(
        values.sum(axis=-1), np.trace(x, axis1=-2, axis2=-1).astype(values.dtype), 256, call.scale
    )
    squares = np.trace(x @ x, axis1=-2, axis2=-1).astype(values.dtype)
    close((values**2).sum(axis=-1), squares, 256, (call.scale or 1) ** 2)


# ------------------------------------------------------------------------------------ products


@st.composite
def products(draw: Any) -> Call:
    """Matrices, stacks and vectors whose inner sizes agree."""
    k, m, n = (draw(st.integers(0, 5)) for _ in range(3))
    left = draw(st.sampled_from([(k,), (m, k), (2, m, k), (3, 1, m, k)]))
    right = draw(st.sampled_from([(k,), (k, n), (2, k, n), (2, k, n)]))
    a, b = draw(st.sampled_from(promotable(NUMBERS)))
    x = draw(arrays((a,), st.just(left), -9, 9))
    y = draw(arrays((b,), st.just(right), -9, 9))
    return Call((x, y), {}, 81.0 * max(k, 1) * 2)


@st.composite
def dots(draw: Any) -> Call:
    shapes = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=2, max_side=3)
    )
    size = draw(st.integers(0, 5))
    a, b = draw(st.sampled_from(promotable(NUMBERS)))
    x, y = (
        draw(arrays((kind,), st.just((*shape, size)), -9, 9))
        for kind, shape in zip((a, b), shapes.input_shapes, strict=True)
    )
    return Call((x, y), draw(keywords(axis=st.just(-1))), 81.0 * max(size, 1) * 2)


@st.composite
def contractions(draw: Any) -> Call:
    """Axes as a count, or as two lists that pair."""
    inner = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    outer = [tuple(draw(st.lists(st.integers(1, 3), max_size=2))) for _ in range(2)]
    kind = draw(kinds_of(NUMBERS))
    x = draw(arrays((kind,), st.just((*outer[0], *inner)), -9, 9))
    scale = 81.0 * max(1, int(np.prod(inner))) * 2
    if draw(st.booleans()):
        y = draw(arrays((kind,), st.just((*inner, *outer[1])), -9, 9))
        return Call((x, y), {} if len(inner) == 2 else {"axes": len(inner)}, scale)
    y = draw(arrays((kind,), st.just((*outer[1], *inner)), -9, 9))
    places = [range(len(shape), len(shape) + len(inner)) for shape in outer]
    return Call((x, y), {"axes": tuple(tuple(place) for place in places)}, scale)


@st.composite
def outers(draw: Any) -> Call:
    a, b = draw(st.sampled_from(promotable(NUMBERS)))
    vectors = [arrays((kind,), st.tuples(st.integers(0, 5)), -9, 9) for kind in (a, b)]
    return Call(tuple(draw(vector) for vector in vectors), {}, 200.0)


@st.composite
def crosses(draw: Any) -> Call:
    """Vectors of three along an axis; the other axes broadcast."""
    a, b = draw(st.sampled_from(promotable(NUMBERS)))
    axis = draw(st.sampled_from([-1, -2]))
    rest = draw(st.sampled_from([((), ()), ((4,), (4,)), ((2, 4), (2, 1)), ((0,), (0,))]))
    shapes = [(*shape, 3) if axis == -1 else (*shape[:-1], 3, *shape[-1:]) for shape in rest]
    axis = axis if len(shapes[0]) > 1 else -1
    x, y = (draw(arrays((k,), st.just(s), -9, 9)) for k, s in zip((a, b), shapes, strict=True))
    return Call((x, y), {} if axis == -1 else {"axis": axis}, 400.0)


# ------------------------------------------------------------------------- systems and functions


@st.composite
def systems(draw: Any) -> Call:
    """A well conditioned matrix and one right side, or several."""
    x = draw(matrices(FLOATS + COMPLEX, kind="regular").filter(lambda x: x.ndim == 2 or x.shape[0]))
    n = x.shape[-1]
    shape = draw(st.sampled_from([(n,), (*x.shape[:-1], 2), (n, 3)]))
    b = draw(arrays((x.dtype.name,), st.just(shape), -4, 4))
    return Call((x, b), {}, 8.0)


@st.composite
def powers(draw: Any) -> Call:
    x = draw(matrices(kind="regular"))
    n = draw(st.integers(-2, 3))
    return Call((x, n), {}, float((4 * max(1, x.shape[-1])) ** max(n, 1)))


@st.composite
def traces(draw: Any) -> Call:
    x = draw(arrays(NUMBERS, hnp.array_shapes(min_dims=2, max_dims=3, min_side=0), -9, 9))
    named = draw(keywords(offset=st.integers(-5, 5)))
    if draw(st.booleans()):
        named["dtype"] = Dtype(
            {"i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}[x.dtype.kind]
        )
    return Call((x,), named, 100.0)


@st.composite
def lengths(draw: Any) -> Call:
    x = draw(tame(INEXACT, hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=5)))
    orders = st.sampled_from([1, 2, 3, 0, 0.5, float("inf"), float("-inf"), 2.5])
    named = draw(keywords(axis=reduced_axes(x.ndim), keepdims=st.booleans(), ord=orders))
    fractional = named.get("ord") in (0.5,)
    return Call((x,), named, magnitude(x) * x.size ** (2 if fractional else 1))


ORDERS = st.sampled_from([None, "fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")])


@st.composite
def ranks(draw: Any) -> Call:
    """Matrices of small whole numbers, some of whose rows are others: no doubtful ranks."""
    x = np.round(draw(matrices(FLOATS, square=False)) * 3)
    if x.shape[-2] > 1 and draw(st.booleans()):
        x[..., -1, :] = 2 * x[..., 0, :]
    return Call((x,), draw(keywords(rtol=st.sampled_from([1e-3, None]))))


MATRICES = arrays(ALL, hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=4))
LINALG = {
    "cholesky": Property(on_matrices(matrices(kind="positive"), upper=st.booleans()), ROUNDINGS),
    "cross": Property(crosses(), ROUNDINGS),
    "det": Property(
        matrices(kind="regular").map(
            lambda x: Call((x,), {}, (4.0 * max(1, x.shape[-1])) ** x.shape[-1])
        ),
        ROUNDINGS,
    ),
    "diagonal": Property(
        st.builds(lambda x, named: Call((x,), named), MATRICES, keywords(offset=st.integers(-4, 4)))
    ),
    "eig": Property(on_matrices(matrices()), compare=general),
    "eigh": Property(on_matrices(matrices(kind="hermitian")), compare=hermitian),
    "eigvals": Property(on_matrices(matrices()), compare=values_alone),
    "eigvalsh": Property(on_matrices(matrices(kind="hermitian")), ROUNDINGS),
    "inv": Property(on_matrices(matrices(kind="regular")), ROUNDINGS),
    "matmul": Property(products(), ROUNDINGS),
    "matrix_norm": Property(
        on_matrices(matrices(square=False), ord=ORDERS, keepdims=st.booleans()), ROUNDINGS
    ),
    "matrix_power": Property(powers(), ROUNDINGS),
    "matrix_rank": Property(ranks()),
    "matrix_transpose": Property(MATRICES.map(lambda x: Call((x,)))),
    "outer": Property(outers(), ROUNDINGS),
    "pinv": Property(
        on_matrices(matrices(kind="regular"), rtol=st.sampled_from([None, 1e-4])), ROUNDINGS
    ),
    "qr": Property(
        on_matrices(matrices(square=False), mode=st.sampled_from(["reduced", "complete"])),
        compare=triangles,
    ),
    "slogdet": Property(on_matrices(matrices(kind="regular")), ROUNDINGS),
    "solve": Property(systems(), ROUNDINGS),
    "svd": Property(
        on_matrices(matrices(square=False), full_matrices=st.booleans()), compare=singular
    ),
    "svdvals": Property(on_matrices(matrices(square=False)), ROUNDINGS),
    "tensordot": Property(contractions(), ROUNDINGS),
    "trace": Property(traces(), ROUNDINGS),
    "vecdot": Property(dots(), ROUNDINGS),
    "vector_norm": Property(lengths(), ROUNDINGS),
}

# ---------------------------------------------------------------------------- Fourier transforms

NORMS = st.sampled_from(["backward", "ortho", "forward"])
SIGNALS = hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=6) | st.sampled_from(
    [(37,), (64,)]
)


@st.composite
def transforms(draw: Any, dtypes: Any) -> Call:
    """Along one axis, perhaps cut or filled up to n."""
    x = draw(arrays(dtypes, SIGNALS, -10, 10))
    named = draw(keywords(n=st.integers(2, 9), axis=axes_of(x.ndim), norm=NORMS))
    return Call((x,), named, 10.0 * 2 * max(x.shape) ** 1.0)


@st.composite
def transforms_of_many(draw: Any, dtypes: Any) -> Call:
    x = draw(arrays(dtypes, SIGNALS, -10, 10))
    named = draw(keywords(norm=NORMS))
    form = draw(st.sampled_from(["all", "axes", "sizes and axes"]))
    if form != "all":
        axes = draw(several_axes(x.ndim, 1))
        named["axes"] = axes
        if form == "sizes and axes":
            named["s"] = tuple(draw(st.integers(2, 6)) for _ in axes)
    return Call((x,), named, 20.0 * x.size)


@st.composite
def frequencies(draw: Any) -> Call:
    named = draw(keywords(d=st.sampled_from([1.0, 0.5, 3.0])))
    return Call((draw(st.integers(1, 40)),), named | {"dtype": Dtype(draw(kinds_of(FLOATS)))})


@st.composite
def shifted(draw: Any) -> Call:
    x = draw(arrays(INEXACT, SIGNALS))
    return Call((x,), draw(keywords(axes=st.none() | axes_of(x.ndim) | several_axes(x.ndim))))


FFT = {
    "fft": Property(transforms(COMPLEX), ROUNDINGS),
    "fftfreq": Property(frequencies(), 4),
    "fftn": Property(transforms_of_many(COMPLEX), ROUNDINGS),
    "fftshift": Property(shifted()),
    "hfft": Property(transforms(COMPLEX), ROUNDINGS),
    "ifft": Property(transforms(COMPLEX), ROUNDINGS),
    "ifftn": Property(transforms_of_many(COMPLEX), ROUNDINGS),
    "ifftshift": Property(shifted()),
    "ihfft": Property(transforms(FLOATS), ROUNDINGS),
    "irfft": Property(transforms(COMPLEX), ROUNDINGS),
    "irfftn": Property(transforms_of_many(COMPLEX), ROUNDINGS),
    "rfft": Property(transforms(FLOATS), ROUNDINGS),
    "rfftfreq": Property(frequencies(), 4),
    "rfftn": Property(transforms_of_many(FLOATS), ROUNDINGS),
}

CALLS = {f"linalg.{name}": found for name, found in LINALG.items()}
CALLS |= {f"fft.{name}": found for name, found in FFT.items()}
CALLS |= {name: LINALG[name] for name in ("matmul", "tensordot", "vecdot")}
