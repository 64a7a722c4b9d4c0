"""matmul as users meet it: 1-d operands, promotion, broadcasting, refusals, gradients."""

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import config
from bedplate.errors import DTypeError, ShapeError


def floats(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 6)), ((0, 4), (4, 3)), ((3, 0), (0, 4)), ((60, 70), (70, 90)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_shapes_follow_numpy(shapes, device):
    a, b = floats(1, *shapes[0]), floats(2, *shapes[1])
    out = bp.matmul(bp.tensor(a, device=device), bp.tensor(b, device=device))
    expected = np.matmul(a, b)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_transposed_and_sliced_operands():
    a, b = floats(3, 70, 60), floats(4, 80, 70)
    x, y = bp.tensor(a), bp.tensor(b)
    np.testing.assert_allclose((x.T @ y.T).numpy(), a.T @ b.T, rtol=1e-5, atol=1e-4)
    out = x[::2, 3:] @ y.T[:57, ::-1]
    np.testing.assert_allclose(out.numpy(), a[::2, 3:] @ b.T[:57, ::-1], rtol=1e-5, atol=1e-4)


def test_dtypes_are_promoted():
    whole, real = bp.tensor([[1, 2], [3, 4]]), bp.tensor([[0.5, 1.0], [1.5, 2.0]])
    assert (whole @ real).dtype is bp.float32
    np.testing.assert_array_equal((whole @ real).numpy(), [[3.5, 5.0], [7.5, 11.0]])
    assert (whole @ whole).dtype is bp.int64


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("columns", [7, 33])
@pytest.mark.parametrize("depth", [5, 64])
def test_every_rest_of_rows_stays_inside(name, columns, depth):
    """Values are finished (rounded, relu) in a buffer as large as the tallest tile."""
    a = bp.tensor(floats(11, 79, depth) * 9).to(name)
    b = bp.tensor(floats(12, depth, columns) * 9).to(name)
    whole = bp.relu(a @ b).numpy()
    with config(check=True):
        for rows in range(65, 79):  # every rest of a tile's rows, past the few-row kernel
            np.testing.assert_array_equal(bp.relu(a[:rows] @ b).numpy(), whole[:rows])


REFUSALS = [
    ((8, 3, 4), (2, 4), ShapeError, r"matmul: inner sizes differ\n"
     r"  a  \(8, 3, 4\)  float32   made at .*test_matmul.py:\d+\n"
     r"  b  \(2, 4\)     float32   made at .*test_matmul.py:\d+\n"
     r"  the last size of a \(4\) must equal the second-to-last size of b \(2\)\n"
     r"  try matmul\(a, b.transpose\(-1, -2\)\)"),
    ((4, 3), (4, 5), ShapeError, r"try matmul\(a.transpose\(-1, -2\), b\)"),
    ((3, 4), (5,), ShapeError, r"the last size of a \(4\) must equal the size of b \(5\)"),
    ((), (3, 4), ShapeError, r"a 0-d value has no axis to sum over"),
    ((2, 3, 4), (5, 4, 3), ShapeError, r"the batch sizes do not broadcast\n(.*\n)+.*\(2,\) and "
     r"\(5,\) must be equal or 1"),
]  # fmt: skip


@pytest.mark.parametrize("a_shape, b_shape, error, text", REFUSALS)
def test_refusals_name_the_operands(a_shape, b_shape, error, text):
    a, b = bp.tensor(floats(5, *a_shape)), bp.tensor(floats(6, *b_shape))
    with pytest.raises(error, match=text):
        bp.matmul(a, b)


def test_bools_are_refused():
    with pytest.raises(DTypeError, match="no such op for this dtype"):
        bp.matmul(bp.tensor([[True]]), bp.tensor([[True]]))


GRADIENT_SHAPES = [
    ((5, 4), (4, 3)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
    ((4,), (2, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", GRADIENT_SHAPES, ids=str)
def test_gradient(shapes):
    a, b = floats(7, *shapes[0]), floats(8, *shapes[1])
    x, y = bp.tensor(a, requires_grad=True), bp.tensor(b, requires_grad=True)
    out = bp.matmul(x, y)
    seed = floats(9, *out.shape)
    out.backward(bp.tensor(seed))
    eps = 1e-2
    for value, grad in ((a, x.grad.numpy()), (b, y.grad.numpy())):
        place = tuple(np.random.default_rng(10).integers(value.shape))
        moved = value.astype(np.float64)
        moved[place] += eps
        pair = (moved, b) if value is a else (a, moved)
        slope = ((np.matmul(*pair) - np.matmul(a.astype(np.float64), b)) * seed).sum() / eps
        np.testing.assert_allclose(grad[place], slope, rtol=1e-3, atol=1e-3)
        assert grad.shape == value.shape


@pytest.mark.parametrize("shapes", [((70, 40), (40, 33)), ((1, 40), (40, 70)), ((5, 40), (40,))])
def test_truth_of_a_product(shapes):
    """A comparison behind a product is its epilogue, and bools lie as bytes."""
    a, b = floats(1, *shapes[0]), floats(2, *shapes[1])
    found = bp.matmul(bp.tensor(a), bp.tensor(b)) > 0.25
    assert found.dtype is bp.bool
    values = bp.matmul(bp.tensor(a), bp.tensor(b)).numpy()
    np.testing.assert_array_equal(found.numpy(), values > 0.25)
