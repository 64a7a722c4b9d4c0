"""Printed tensors, in terminals and in notebooks."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import bedplate as bp
from bedplate.tensor.notebook import _heat_map
from bedplate.tensor.text import values_text

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (bp.tensor([NAN, INF, -1.0]), "Tensor([nan, inf, -1.], dtype=float32)"),
        (bp.tensor([1e-8, 5.0]), "Tensor([1.e-08, 5.e+00], dtype=float32)"),
        (bp.tensor([1 + 2j, 1e-9j]), "Tensor([1.+2.e+00j, 0.+1.e-09j], dtype=complex64)"),
        (bp.tensor([[]]), "Tensor([], shape=(1, 0), dtype=float32)"),
        (bp.tensor(True), "Tensor(True, dtype=bool)"),
        (bp.zeros(5000), "Tensor([0., 0., 0., ..., 0., 0., 0.], shape=(5000,), dtype=float32)"),
        (
            bp.tensor([1.0], requires_grad=True) * 2,
            "Tensor([2.], dtype=float32, grad_fn=<multiply>)",
        ),
        (
            bp.nn.Parameter(bp.ones(1)),
            "Parameter([1.], dtype=float32, requires_grad=True)",
        ),
        (
            bp.tensor([[1, 20], [300, 4]], device="reference"),
            "Tensor([[  1,  20],\n        [300,   4]], shape=(2, 2), dtype=int64, "
            "device='reference')",
        ),
    ],
)
def test_text(x: bp.Tensor, text: str) -> None:
    assert repr(x) == text


@pytest.mark.parametrize(
    "shape", [(1001,), (7, 150), (6, 200), (8, 3, 50), (2, 2, 2, 200)], ids=str
)
def test_edges_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    ours = repr(bp.tensor(array)).removeprefix("Tensor(").rsplit(", shape=", 1)[0]
    theirs = np.array2string(array, separator=", ", threshold=1000, prefix=" " * 7)
    assert ours.split() == theirs.split()


@pytest.mark.parametrize("dtype", [np.float32, bp.bfloat16.numpy, np.complex64], ids=str)
def test_only_the_edges_are_looked_at(dtype: np.dtype) -> None:
    array = np.broadcast_to(np.ones((), dtype), (10**6, 10**7))  # all of it takes terabytes
    assert values_text(array).count("1.") >= 36
    assert "24 x 24 of (1000000, 10000000)" in _heat_map(array)


def test_the_text_is_a_setting() -> None:
    x = bp.tensor([[1 / 3, 2.0], [3.0, 4.0]])
    with bp.config(print_precision=2, print_threshold=2, print_edge=1):
        assert repr(x) == (
            "Tensor([[0.33, 2.  ],\n        [3.  , 4.  ]], shape=(2, 2), dtype=float32)"
        )
        assert "[0., ..., 0.]" in repr(bp.zeros(9))
    with bp.config(print_width=20):
        assert max(map(len, repr(bp.arange(100)).splitlines()[:-1])) <= 20


def test_a_captured_step_shows_no_values() -> None:
    seen: list[str] = []

    @bp.jit
    def step(x: bp.Tensor) -> bp.Tensor:
        y = x * 2
        seen.extend((repr(y), y._repr_html_()))
        return y

    step(bp.ones(3))
    assert seen[0] == "Tensor(not computed, shape=(3,), dtype=float32)"
    assert seen[1] == "<pre>Tensor(not computed, shape=(3,), dtype=float32)</pre>"


PICTURED = {
    "matrix": np.arange(400.0).reshape(20, 20),
    "large matrix": np.arange(40_000).reshape(200, 200),
    "vector": np.arange(100.0),
    "cube": np.ones((4, 4, 4), np.float16),
    "flags": np.eye(30, dtype=bool),
    "complex": np.full((5, 5), 3 + 4j),
    "nothing finite": np.full((5, 5), NAN),
    "some not finite": np.array([NAN, INF, -INF, 1.0] * 10),
    "huge": np.array([1.7e308, -1.7e308] * 20),
    "words": np.full(20, 2**64 - 1, np.uint64),
    "few": np.array([1, 2]),
    "none": np.zeros((0, 3)),
    "one": np.array(5.0),
}


@pytest.mark.parametrize("name", PICTURED)
def test_notebooks(name: str) -> None:
    x = bp.tensor(PICTURED[name])
    html = x._repr_html_()
    ET.fromstring(html)  # well formed
    assert len(html) < 10_000
    assert f"<td>{x.shape}</td>" in html
    assert f"<td>{x.dtype}</td>" in html
    assert ("<svg" in html) == (x.size > 16)
    assert "nan" not in re.sub("<title>.*?</title>|<small>.*?</small>|<pre>.*?</pre>", "", html)


def test_a_heat_map_shows_what_is_no_number() -> None:
    array = np.zeros((5, 5))
    array[2, 3] = NAN
    assert '<path stroke="#000" d="M3 2.5h1"/>' in bp.tensor(array)._repr_html_()


def test_names_are_escaped() -> None:
    strange = type("A<b>", (bp.Tensor,), {"__slots__": ()})
    assert "<th>A&lt;b&gt;</th>" in strange([1.0])._repr_html_()


def test_notebooks_say_what_gradients_make_of_it() -> None:
    x = bp.tensor([1.0], requires_grad=True)
    assert "<td>leaf</td>" in x._repr_html_()
    assert "<td>computed</td>" in (x * 2)._repr_html_()
