"""Accesses: views as strides, and the axes that several accesses have in common."""

from __future__ import annotations

import numpy as np
import pytest

from bedplate.compiler.access import access_of, by_axes, merged, split
from bedplate.compiler.domain import aligned, compatible, cuts_of
from bedplate.devices.device import Device
from bedplate.dtypes import float32
from bedplate.ops.leaves import iota, placeholder

CPU = Device("cpu")


def leaf(*shape):
    return placeholder(0, shape, float32, CPU)


def walked(dims, offset=0):
    """The places in memory that an access visits, in order."""
    places = np.zeros((), np.int64)
    for size, stride in dims:
        places = places[..., None] + np.arange(size) * stride
    return (places + offset).reshape(-1)


VIEWS = {
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "slice": (lambda x: x[:, 1:3, ::2], lambda a: a[:, 1:3, ::2]),
    "flip": (lambda x: x[:, ::-1], lambda a: a[:, ::-1]),
    "reshape of slice": (lambda x: x[1:].reshape((12, 4)), lambda a: a[1:].reshape(12, 4)),
    "split heads": (
        lambda x: x.reshape((3, 3, 2, 4)).permute(0, 2, 1, 3),
        lambda a: a.reshape(3, 3, 2, 4).transpose(0, 2, 1, 3),
    ),
    "broadcast": (
        lambda x: x[:1].broadcast_to((5, 6, 4)),
        lambda a: np.broadcast_to(a[:1], (5, 6, 4)),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_chain_of_views_visits_the_right_places(name):
    view, expected = VIEWS[name]
    shape = (3, 6, 4) if "split" not in name else (3, 3, 8)
    access = access_of(view(leaf(*shape)), {})
    places = np.arange(np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(walked(access.dims, access.offset), expected(places).reshape(-1))


def test_views_without_a_strided_form_have_no_access():
    x = leaf(3, 4).permute(1, 0).reshape((12,))[::5]
    assert access_of(x, {}) is None


def test_an_iota_is_an_access_that_counts():
    node = iota(1, (2, 3, 2), float32, CPU)
    assert walked(access_of(node, {}).dims).tolist() == [0, 0, 1, 1, 2, 2] * 2


def test_pairs_are_joined_and_cut():
    assert merged(((2, 12), (3, 4), (1, 99), (4, 1))) == ((24, 1),)
    assert split(((24, 1),), 8) == (((3, 8),), ((8, 1),))
    assert split(((3, 5), (4, 1)), 6) is None
    assert by_axes(((6, 1),), (2, 3)) == [((2, 3),), ((3, 1),)]


def test_common_axes():
    contiguous, transposed, rows = ((24, 1),), ((4, 1), (6, 4)), ((4, 1), (6, 0))
    assert aligned([contiguous], 24) == ([24], [[1]])
    assert aligned([contiguous, transposed, rows], 24) == ([4, 6], [[6, 1], [1, 4], [1, 0]])
    assert aligned([((4, 1), (6, 4)), ((6, 1), (4, 6))], 24) is None
    assert not compatible(cuts_of(((4, 1), (6, 4))) | cuts_of(((6, 1), (4, 6))))
