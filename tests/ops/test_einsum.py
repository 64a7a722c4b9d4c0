"""einsum against NumPy: fixed and random subscripts, dtypes, gradients, refusals, no copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bedplate as bp
from bedplate.errors import ShapeError

GENERATOR = np.random.default_rng(5)
Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def close(text: str, arrays: list[Array]) -> None:
    found = bp.einsum(text, *map(bp.tensor, arrays)).numpy()
    wanted = np.einsum(text, *arrays)
    assert found.shape == wanted.shape
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * scale)


CASES: list[tuple[str, list[Shape]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("ba,cb", [(3, 4), (4, 3)]),
    ("i->", [(3,)]),
    ("->", [()]),
    (",i->i", [(), (4,)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->ji", [(3, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("ijij->ji", [(2, 3, 2, 3)]),
    ("ij->ji", [(3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 6)]),
    ("ij...,jk->...ik", [(3, 4, 7), (4, 2)]),
    ("...,...", [(3, 4), (4,)]),
    ("i...->...", [(3, 4)]),
    ("...i->...", [(3, 4)]),
    ("a...b,b...->...a", [(2, 5, 3), (3, 5)]),
    ("ijk,jl->ikl", [(3, 4, 50), (4, 5)]),
    ("ijk,jl->kil", [(3, 4, 5), (4, 6)]),
    ("abc,bcd,de->ae", [(2, 3, 4), (3, 4, 5), (5, 6)]),
    ("a,b,c->cab", [(2,), (3,), (4,)]),
    ("ij,ij->", [(3, 4), (3, 4)]),
    ("ij,ji->", [(3, 4), (4, 3)]),
    ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)]),
    ("i,ij,j->", [(3,), (3, 4), (4,)]),
    ("ij,kl->ijkl", [(1, 4), (2, 3)]),
    ("ij,jk->ik", [(3, 0), (0, 5)]),
    ("ij,jk->ik", [(0, 3), (3, 5)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("abcd,ebfd->aecf", [(2, 3, 40, 5), (3, 3, 50, 5)]),
    ("ij , jk -> ki", [(3, 4), (4, 5)]),
    ("aB,Bc->ac", [(2, 3), (3, 4)]),
    ("ij,jk->ik", [(3, 1), (1, 5)]),
    ("ij,ij->ij", [(3, 1), (1, 5)]),
    ("ijk,k->ij", [(3, 4, 5), (5,)]),
    ("k,kij->ij", [(5,), (5, 3, 4)]),
    ("k,k->k", [(5,), (5,)]),
]


@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_agrees_with_numpy(text: str, shapes: list[Shape]) -> None:
    close(text, [GENERATOR.normal(size=shape) for shape in shapes])


SIZES = dict(zip("abcdef", (2, 3, 1, 4, 2, 5), strict=True))


@st.composite
def contractions(draw: Any) -> tuple[str, list[Shape]]:
    """Subscripts of up to four operands, with repeated letters and a result of any of them."""
    letters = draw(
        st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), min_size=1, max_size=4)
    )
    known = sorted({letter for part in letters for letter in part})
    result = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    text = ",".join("".join(part) for part in letters) + "->" + "".join(result)
    return text, [tuple(SIZES[letter] for letter in part) for part in letters]


@given(contractions())
def test_random_contractions(case: tuple[str, list[Shape]]) -> None:
    text, shapes = case
    generator = np.random.default_rng(len(text))
    close(text, [generator.normal(size=shape) for shape in shapes])


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int32", "int8", "uint16"])
def test_dtypes(dtype: str) -> None:
    x, y = ((10 * GENERATOR.normal(size=(3, 3))).astype(dtype) for _ in range(2))
    for text in ("ij,jk->ik", "ij,ij->i", "ii,jj->ij"):
        found = bp.einsum(text, bp.tensor(x), bp.tensor(y))
        wanted = np.einsum(text, x, y)
        assert found.dtype.numpy == wanted.dtype
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4)


def test_narrow_floats_are_summed_in_float32() -> None:
    x = bp.ones((1, 4096), dtype="bfloat16")
    for text in ("ij,kj->ik", "ij,ij->i"):
        found = bp.einsum(text, x, x)
        assert found.dtype is bp.bfloat16 and found.item() == 4096.0


def test_mixed_dtypes_are_promoted() -> None:
    assert bp.einsum("i,i->", bp.tensor([1, 2]), bp.tensor([0.5, 1.0])).dtype is bp.float32


def test_other_forms_of_the_arguments() -> None:
    x, y = GENERATOR.normal(size=(3, 4)), GENERATOR.normal(size=(4, 5))
    a, b = bp.tensor(x), bp.tensor(y)
    for found in (
        bp.einsum(a, [0, 1], b, [1, 2], [0, 2]),
        bp.einsum(a, [0, 1], b, [1, 2]),
        bp.einsum(a, [..., 1], b, [1, 2], [..., 2]),
        bp.einsum("ij,jk->ik", [a, b]),
        bp.einsum("ij,jk->ik", a, y),
    ):
        np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("iij,jk,k...->i...", [(2, 2, 3), (3, 4), (4, 2)]),
        ("bij,bjk->bki", [(2, 2, 3), (1, 3, 2)]),
        ("ij,ij->i", [(2, 3), (2, 1)]),
        ("i,j,ij->", [(2,), (3,), (2, 3)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
        (",->", [(), ()]),
    ],
)
def test_gradients_of_both_orders(text: str, shapes: list[Shape]) -> None:
    inputs = [bp.tensor(GENERATOR.normal(size=shape)) for shape in shapes]
    assert bp.gradcheck(lambda *x: bp.einsum(text, *x), inputs)
    assert bp.gradgradcheck(lambda *x: bp.einsum(text, *x), inputs)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(40, 50), (50, 60)]),
        ("ji,kj->ik", [(50, 40), (60, 50)]),
        ("abc,bcd->ad", [(40, 5, 6), (5, 6, 40)]),
        ("abij,abjk->abik", [(2, 3, 40, 50), (2, 3, 50, 60)]),
        ("ijk,jl->ikl", [(3, 40, 50), (40, 60)]),
        ("bqhd,bkhd->bhqk", [(2, 40, 3, 16), (2, 50, 3, 16)]),
    ],
)
def test_one_product_and_no_copies(text: str, shapes: list[Shape]) -> None:
    """Views bring the operands to a product of matrices: nothing else is launched."""
    inputs = [bp.ones(shape).realise() for shape in shapes]
    launches = bp.explain(bp.einsum(text, *inputs)).launches()
    names = [launch.name for launch in launches if "pack" not in launch.name]
    assert len(names) == 1 and "map" not in names[0], names


def test_the_cheapest_pair_is_contracted_first() -> None:
    """A vector is multiplied into the chain, rather than matrices into each other."""
    a, b, v = bp.ones((64, 64)), bp.ones((64, 64)), bp.ones((64,))
    launches = bp.explain(bp.einsum("ij,jk,k->i", a, b, v)).launches()
    assert sum(launch.flops for launch in launches) < 64**3


def text_only(text: str, *shapes: Shape) -> Callable[[], Any]:
    return lambda: bp.einsum(text, *(bp.ones(shape) for shape in shapes))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (text_only("ij,jk->ik", (3, 4), (5, 6)), ShapeError,
         r"einsum: 'j' in 'ij,jk->ik' has sizes 4 and 5\n  a  \(3, 4\).*\n  b  \(5, 6\)"),
        (text_only("ii", (3, 4)), ShapeError, "einsum: 'i' in 'ii' has sizes 3 and 4"),
        (text_only("...,...->...", (3, 4), (3, 5)), ShapeError, "an axis of ... in .* has sizes 4"),
        (text_only("ij,jk->ik", (3, 4)), ValueError, "names 2 operands, and 1 were given"),
        (text_only("i->i"), ValueError, "'i->i' was given no operands"),
        (text_only("ijk->i", (3, 4)), ShapeError, "'ijk' in 'ijk->i' names 3 axes, the operand"),
        (text_only("i->i", (3, 4)), ShapeError, "names 1 axes, the operand has 2"),
        (text_only("ij->iz", (3, 4)), ValueError, "has 'z' in the result and in no operand"),
        (text_only("ij->ii", (3, 4)), ValueError, "has 'i' twice in the result"),
        (text_only("i1->i", (3, 4)), ValueError, "einsum: '1' in 'i1->i'"),
        (text_only("...i...->i", (3, 4)), ValueError, "einsum: '.' in"),
        (text_only("i.j->i", (3, 4)), (ValueError, ShapeError), "einsum: '.*' in"),
        (lambda: bp.einsum(bp.ones(3), ["i"], []), ValueError, "does not name axes"),
        (lambda: bp.einsum(bp.ones(3), [99], []), ValueError, r"\[99\] does not name axes"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
