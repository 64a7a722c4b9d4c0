"""Random numbers depend on seed and creation order alone."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp


def test_reading_order_does_not_matter() -> None:
    """B52"""
    bp.manual_seed(3)
    a, b = bp.random.uniform((4,)), bp.random.uniform((4,))
    first = (a.tolist(), b.tolist())
    bp.manual_seed(3)
    a, b = bp.random.uniform((4,)), bp.random.uniform((4,))
    late = b.tolist()
    assert (a.tolist(), late) == first
    assert first[0] != first[1]


def test_two_draws_in_one_graph_differ() -> None:
    bp.manual_seed(3)
    together = (bp.random.uniform((4,)) - bp.random.uniform((4,))).tolist()
    assert 0.0 not in together


def test_a_state_can_be_saved() -> None:
    bp.manual_seed(5)
    bp.random.normal((3,))
    state = bp.random.get_state()
    first = bp.random.normal((3,)).tolist()
    bp.random.set_state(state)
    assert bp.random.normal((3,)).tolist() == first
    with pytest.raises(bp.errors.ShapeError, match="uint32"):
        bp.random.set_state(bp.zeros(4))


def test_own_generators_are_apart() -> None:
    one, two = bp.Generator(1), bp.Generator(2)
    a, b = one.uniform((8,)), two.uniform((8,))
    assert a.tolist() != b.tolist()
    assert bp.Generator(1).uniform((8,)).tolist() == a.tolist()


def test_devices_agree() -> None:
    on = {
        device: bp.Generator(7).uniform((64,), device=device).numpy()
        for device in ("cpu", "reference")
    }
    np.testing.assert_array_equal(on["cpu"], on["reference"])


def test_moments() -> None:
    x = bp.Generator(0).normal((20000,), mean=1.0, std=2.0).numpy()
    assert abs(x.mean() - 1) < 0.05
    assert abs(x.std() - 2) < 0.05
    u = bp.Generator(0).uniform((20000,), -1.0, 3.0).numpy()
    assert u.min() >= -1
    assert u.max() < 3
    assert abs(u.mean() - 1) < 0.05
    k = bp.Generator(0).randint(2, 5, (3000,)).numpy()
    assert set(k.tolist()) == {2, 3, 4}
    assert abs(bp.Generator(0).bernoulli((20000,), 0.3).numpy().mean() - 0.3) < 0.02


def test_shapes_and_dtypes() -> None:
    assert bp.random.rand(2, 3).shape == (2, 3)
    assert bp.random.randn(2, dtype=bp.float64).dtype is bp.float64
    assert bp.random.uniform((0, 3)).shape == (0, 3)
    assert bp.random.normal(()).shape == ()


def test_dropout_keeps_the_mean() -> None:
    x = bp.ones(10000, requires_grad=True)
    y = bp.random.dropout(x, 0.25)
    assert abs(y.numpy().mean() - 1) < 0.05
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())
