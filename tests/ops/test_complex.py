"""Complex tensors: how they are made and read, parts, promotion, gradients, layouts, refusals."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.dtypes import COMPLEX, FLOATS, INTEGERS
from bedplate.errors import DTypeError, GradientError, ShapeError
from bedplate.ops.complex_numbers.form import FORMS
from bedplate.ops.record import REGISTRY, apply
from bedplate.ops.shape.views import outputs

SHAPES = [(3, 5), (), (0, 4), (2, 0), (37,), (1,)]


def numbers(*shape: int, seed: int = 0, dtype: Any = np.complex128) -> Any:
    r = np.random.default_rng(seed)
    return np.asarray(r.normal(size=shape) + 1j * r.normal(size=shape)).astype(dtype)


# ---- making and reading


def test_complex_tensors_are_made_of_numbers_lists_and_arrays() -> None:
    assert bp.tensor(1 + 2j).item() == 1 + 2j
    assert bp.tensor([1, 2j]).dtype is bp.complex64
    assert bp.tensor([[1 + 2j, 3]]).tolist() == [[1 + 2j, 3 + 0j]]
    z = numbers(3, 4)
    for given in (z, z.T, z[::2], np.complex64(1j), np.complex128(2)):
        made = bp.tensor(given)
        assert made.dtype.numpy == given.dtype and (made.numpy() == given).all()
    assert bp.tensor([1, 2], dtype=bp.complex128).tolist() == [1 + 0j, 2 + 0j]
    assert bp.asarray(z).dtype.kind == "c"
    assert complex(bp.tensor(1 - 1j)) == 1 - 1j


def test_complex_tensors_are_made_of_a_shape() -> None:
    assert bp.zeros(2, dtype=bp.complex64).tolist() == [0j, 0j]
    assert bp.ones(2, dtype="complex128").tolist() == [1 + 0j] * 2
    assert bp.full((2,), 1 - 2j).tolist() == [1 - 2j] * 2
    assert bp.full((1,), complex(math.inf, math.nan), dtype=bp.complex128).numpy().real == math.inf
    assert bp.eye(2, dtype=bp.complex64).tolist() == [[1, 0], [0, 1]]
    assert bp.zeros_like(bp.tensor([1j])).dtype is bp.complex64
    points = bp.linspace(0, 1 + 1j, 3, dtype=bp.complex128)
    np.testing.assert_allclose(points.numpy(), np.linspace(0, 1 + 1j, 3))


def test_a_complex_tensor_prints_copies_pickles_and_is_saved(tmp_path: Any) -> None:
    x = bp.tensor(numbers(2, 2))
    assert "j" in repr(x) and "complex128" in repr(x)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (other == x).all() and other.dtype is x.dtype
    bp.save(tmp_path / "x.npy", x)
    assert (bp.load(tmp_path / "x.npy") == x).all()
    assert np.from_dlpack(x).dtype == np.complex128
    assert np.asarray(x).dtype == np.complex128


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_and_pairs(shape: tuple[int, ...], device: Any) -> None:
    z = numbers(*shape)
    x = bp.Tensor(z, device)
    for got, wanted in (
        (x.real, z.real), (x.imag, z.imag), (bp.conj(x), z.conj()), (x.conj(), z.conj()),
        (bp.as_real(x), np.stack([z.real, z.imag], -1)), (bp.complex(x.real, x.imag), z),
        (bp.as_complex(bp.as_real(x)), z), (bp.view_as_complex(bp.view_as_real(x)), z),
        (bp.angle(x), np.angle(z)), (bp.polar(bp.abs(x), bp.angle(x)), z),
    ):  # fmt: skip
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-14, atol=1e-14)
        assert got.shape == wanted.shape


def test_parts_of_real_tensors() -> None:
    x = bp.tensor([1.0, -2.0])
    assert bp.real(x).tolist() == bp.conj(x).tolist() == [1.0, -2.0]
    assert bp.angle(x).tolist() == [0.0, pytest.approx(math.pi)]
    assert bp.complex(bp.tensor([1, 2]), 0.5).dtype is bp.complex64
    assert bp.complex(1.0, bp.tensor([1.0], dtype=bp.float64)).dtype is bp.complex128
    assert bp.complex(bp.ones(1, dtype=bp.float16), 1).dtype is bp.complex64
    infinite = bp.complex(bp.tensor([math.inf]), bp.tensor([math.nan])).numpy()[0]
    assert infinite.real == math.inf and math.isnan(infinite.imag)


# ---- promotion


def test_promotion_follows_the_table_of_the_standard() -> None:
    for other in (*INTEGERS, *FLOATS, bp.bool_, *COMPLEX):
        for dtype in COMPLEX:
            wide = other in (bp.float64, bp.complex128) or dtype is bp.complex128
            wanted = bp.complex128 if wide else bp.complex64
            assert bp.promote(other, dtype) is bp.promote(dtype, other) is wanted
            x = bp.ones(2, dtype=other) + bp.ones(2, dtype=dtype)
            assert x.dtype is wanted and x.tolist() == [2, 2]


def test_a_complex_scalar_takes_the_precision_of_the_tensor() -> None:
    for dtype, wanted in (
        (bp.float64, bp.complex128), (bp.float32, bp.complex64), (bp.float16, bp.complex64),
        (bp.int64, bp.complex64), (bp.complex128, bp.complex128), (bp.complex64, bp.complex64),
    ):  # fmt: skip
        x = bp.ones(2, dtype=dtype)
        for y in (x * 1j, 1j * x):
            assert y.dtype is wanted and y.tolist() == [1j, 1j]
    assert (bp.tensor([2.0]) / 1j).tolist() == [-2j]
    assert (np.complex128(1j) * bp.tensor([1.0])).tolist() == [1j]
    assert (np.array([1j]) * bp.tensor([1.0])).dtype is bp.complex128


def test_casts_between_real_and_complex() -> None:
    x = bp.tensor([1.5, math.inf], dtype=bp.float64)
    assert x.astype(bp.complex64).dtype is bp.complex64
    y = x.astype(bp.complex128).numpy()
    assert (y.real == [1.5, math.inf]).all() and (y.imag == 0).all()
    assert bp.tensor([0j, 1j, 1]).astype(bp.bool_).tolist() == [False, True, True]
    assert bp.tensor([1, 0]).astype(bp.complex64).tolist() == [1, 0]


# ---- views, indexing, assignment


def test_views_read_and_write_complex_numbers(device: Any) -> None:
    z = numbers(4, 6)
    x = bp.Tensor(z, device)
    kept = bp.Tensor(abs(z) > 1, device)
    pairs = [
        (x.T, z.T), (x[1:, ::-2], z[1:, ::-2]), (x[2], z[2]), (x[..., None], z[..., None]),
        (x[bp.Tensor([3, 0], device)], z[[3, 0]]), (x[kept], z[abs(z) > 1]),
        (x.reshape(-1), z.reshape(-1)), (x[:1].broadcast_to((3, 6)), np.repeat(z[:1], 3, 0)),
        (bp.concat([x, x]), np.concatenate([z, z])), (bp.stack([x, x]), np.stack([z, z])),
        (bp.pad(x, 1, value=2 - 1j), np.pad(z, 1, constant_values=2 - 1j)),
        (bp.roll(x, 2, 1), np.roll(z, 2, 1)), (bp.tril(x), np.tril(z)),
        (bp.where(kept, x, 1j), np.where(abs(z) > 1, z, 1j)),
        (bp.take_along_axis(x, bp.Tensor([[1], [0], [5], [2]], device), axis=1),
         np.take_along_axis(z, np.array([[1], [0], [5], [2]]), 1)),
    ]  # fmt: skip
    for got, wanted in pairs:
        np.testing.assert_array_equal(got.numpy(), wanted)
    x[0] = 1j
    x[1, 2:4] = bp.Tensor([1.0, 2.0], device)
    x[kept] = 0
    x += 1
    z[0] = 1j
    z[1, 2:4] = [1, 2]
    z[kept.numpy()] = 0
    np.testing.assert_array_equal(x.numpy(), z + 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_and_layout(shape: tuple[int, ...], device: Any) -> None:
    z = numbers(*shape)
    x = bp.Tensor(z, device)
    w = np.repeat(z[..., None], 2, -1)
    strided = bp.Tensor(w, device)[..., 1]
    for y, a in ((x, z), (strided, w[..., 1]), (x.transpose(), z.T)):
        np.testing.assert_allclose((y * y + 1j).numpy(), a * a + 1j, rtol=1e-14)
        np.testing.assert_allclose(bp.exp(y).numpy(), np.exp(a), rtol=1e-14)
        np.testing.assert_allclose(y.sum().numpy(), a.sum(), rtol=1e-13)
        np.testing.assert_allclose(bp.prod(y).numpy(), a.prod(), rtol=1e-13)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (0, 1, 2)])
def test_reductions(axis: Any, device: Any) -> None:
    z = numbers(3, 4, 5)
    x = bp.Tensor(z, device)
    for name in ("sum", "prod", "mean", "var", "std"):
        got, wanted = getattr(bp, name)(x, axis=axis), getattr(np, name)(z, axis=axis)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)
    assert bp.any(x).item() and not bp.all(x * 0).item()


def test_cumulative_sums_and_products(device: Any) -> None:
    z = numbers(3, 40)
    x = bp.Tensor(z, device)
    np.testing.assert_allclose(bp.cumulative_sum(x, axis=1).numpy(), z.cumsum(1), rtol=1e-12)
    np.testing.assert_allclose(bp.cumulative_prod(x, axis=1).numpy(), z.cumprod(1), rtol=1e-12)
    first = bp.cumulative_prod(x, axis=0, include_initial=True).numpy()
    np.testing.assert_allclose(first[1:], z.cumprod(0), rtol=1e-13)
    assert (first[0] == 1).all()
    y = np.zeros_like(z)
    a = numbers(3, 40, seed=1)
    for i in range(40):
        y[:, i] = a[:, i] * (y[:, i - 1] if i else 0) + z[:, i]
    got = bp.linear_recurrence(bp.Tensor(a, device), x).numpy()
    np.testing.assert_allclose(got, y, rtol=1e-9)


@pytest.mark.parametrize("accumulate", [None, "float64", "compensated"])
@pytest.mark.parametrize(
    "shapes",
    [((4, 5), (5, 3)), ((2, 4, 5), (5, 3)), ((5,), (5,)), ((3, 0), (0, 2)), ((4, 5), (5,))],
)
def test_matrix_products(shapes: Any, accumulate: Any, device: Any) -> None:
    a, b = (numbers(*shape, seed=i, dtype=np.complex64) for i, shape in enumerate(shapes))
    got = bp.matmul(bp.Tensor(a, device), bp.Tensor(b, device), accumulate=accumulate)
    assert got.dtype is bp.complex64
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-5, atol=1e-5)


# ---- gradients


def test_a_gradient_is_by_the_parts() -> None:
    """dL/dx + i dL/dy of L = re(z^2) + 3 im(z) = x^2 - y^2 + 3 y."""
    z = bp.tensor([1 + 2j], dtype=bp.complex128, requires_grad=True)
    (bp.real(z * z) + 3 * bp.imag(z)).sum().backward()
    assert z.grad is not None and z.grad.tolist() == [2 - 1j]
    assert bp.grad(lambda z: bp.real(z * z) + 3 * bp.imag(z))(bp.tensor(1 + 2j)).item() == 2 - 1j


def test_descent_along_the_gradient_goes_down() -> None:
    z, goal = bp.tensor(numbers(5)), bp.tensor(numbers(5, seed=1))
    loss = lambda z: bp.sum(bp.abs(z - goal) ** 2)  # noqa: E731
    for _ in range(20):
        z = z - 0.25 * bp.grad(loss)(z)
    assert loss(z).item() < 1e-8


def test_a_complex_root_needs_its_gradient() -> None:
    z = bp.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(GradientError, match="a complex root needs its gradient"):
        (z * z).backward()
    with pytest.raises(GradientError, match="a loss is real: take"):
        bp.grad(lambda z: (z * z).sum())(z)
    (z * z).backward(bp.tensor([1j]))
    assert z.grad is not None and z.grad.tolist() == [(2 - 4j) * 1j]


def test_a_real_input_of_complex_arithmetic_has_a_real_gradient() -> None:
    x = bp.tensor([1.0, 2.0], requires_grad=True)
    z = bp.tensor([1 + 2j, 3 - 1j])
    bp.real(x * z * 1j).sum().backward()
    assert x.grad is not None and x.grad.dtype is bp.float32
    assert x.grad.tolist() == [-2.0, 1.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda z, w: z / w + z**2, lambda z, w: bp.abs(z) * bp.sign(w), lambda z, w: z @ w.T,
        lambda z, w: bp.angle(z) * bp.real(w), lambda z, w: bp.prod(z, axis=1),
        lambda z, w: bp.cumulative_prod(z, axis=1) * w, lambda z, w: bp.var(z, axis=0),
        lambda z, w: bp.mean(z * bp.conj(w)), lambda z, w: bp.polar(z.real, w.imag),
        lambda z, w: bp.where(bp.abs(z) > 1, z, bp.exp(w)), lambda z, w: bp.as_real(z * w).sum(-1),
        lambda z, w: z.T[1:, ::-1] * w.T[1:], lambda z, w: z[:1] * w, lambda z, w: z * 2.5 + 1j,
        lambda z, w: bp.linear_recurrence(z, w), lambda z, w: bp.std(z) + bp.rsqrt(w),
    ],
)  # fmt: skip
def test_gradients_and_second_gradients(function: Any) -> None:
    inputs = [bp.tensor(numbers(2, 2, seed=i)) for i in (3, 4)]
    assert bp.gradcheck(function, inputs)
    assert bp.gradgradcheck(function, inputs)


def test_gradients_of_empty_and_single_numbers() -> None:
    for shape in ((), (0, 3), (1,)):
        z = bp.Tensor(numbers(*shape), requires_grad=True)
        bp.sum(bp.abs(bp.exp(z) * z)).backward()
        assert z.grad is not None and z.grad.shape == shape and z.grad.dtype is bp.complex128


def test_gradients_at_zero() -> None:
    for function in (bp.abs, bp.angle, lambda z: bp.real(bp.sign(z))):
        z = bp.tensor([0j], requires_grad=True)
        function(z).sum().backward()
        assert z.grad is not None and z.grad.tolist() == [0j]


def test_forward_mode() -> None:
    z, t = bp.tensor(numbers(4)), bp.tensor(numbers(4, seed=1))
    _, slope = bp.jvp(lambda z: bp.exp(z) * z, [z], [t])
    a = z.numpy()
    np.testing.assert_allclose(slope.numpy(), np.exp(a) * (1 + a) * t.numpy(), rtol=1e-12)


# ---- jit, switches, threads


def step(z: Any, w: Any) -> Any:
    return bp.exp(z @ w) / (1 + bp.abs(z @ w)), (z * z.conj()).sum()


def test_a_captured_step_computes_complex_numbers() -> None:
    captured = bp.jit(step)
    for seed in range(4):
        z, w = bp.tensor(numbers(3, 4, seed=seed)), bp.tensor(numbers(4, 3, seed=9))
        for got, wanted in zip(captured(z, w), step(z, w), strict=True):
            assert got.numpy().tobytes() == wanted.numpy().tobytes()
    assert "replayed" in captured.report()


def test_a_captured_step_updates_a_complex_state() -> None:
    state = bp.tensor([1 + 1j, 2.0])

    @bp.jit
    def turn(k: Any) -> Any:
        state.assign(state * 1j + k)
        return state * 1

    for _ in range(4):
        last = turn(bp.tensor([1.0, 0.0]))
    assert last.tolist() == state.tolist() == [1 + 1j, 2 + 0j]


@pytest.mark.parametrize("setting", ["fusion", "folding", "cse", "algebra", "check", "num_threads"])
def test_bits_depend_on_no_switch(setting: str) -> None:
    z = numbers(130, 70)
    results = []
    for value in (1, 2) if setting == "num_threads" else (True, False):
        with bp.config(**{setting: value}):
            x = bp.tensor(z)
            results.append([y.numpy() for y in (*step(x, x.T), bp.asin(x) + x.T.sum(), x.prod(1))])
    for first, second in zip(*results, strict=True):
        assert first.tobytes() == second.tobytes()


def test_a_chain_of_complex_operations_is_one_kernel() -> None:
    z, w = bp.tensor(numbers(64, 32)), bp.tensor(numbers(32, 64))
    launches = bp.explain((z * w.T + 1j) / z).launches()
    assert len(launches) == 1


# ---- refusals


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda z: z < z, "less: no such op for this dtype"),
        (lambda z: z >= 1, "greater_equal: no such op for this dtype"),
        (lambda z: bp.maximum(z, z), r"take bp.real\(z\), bp.imag\(z\) or bp.abs\(z\) first"),
        (lambda z: bp.max(z), "max: no such op for this dtype"),
        (lambda z: bp.argmax(z), "argmax: no such op for this dtype"),
        (lambda z: bp.clip(z, 0, 1), "clip: no such op for this dtype"),
        (lambda z: z // 2, "floor_divide: no such op for this dtype"),
        (lambda z: z % 2, "remainder: no such op for this dtype"),
        (lambda z: bp.floor(z), "floor: no such op for this dtype"),
        (lambda z: bp.relu(z), "relu: no such op for this dtype"),
        (lambda z: bp.atan2(z, z), "atan2: no such op for this dtype"),
        (lambda z: z & z, "bitwise_and: no such op for this dtype"),
        (lambda z: bp.cummax(z, 0), "cummax: no such op for this dtype"),
        (lambda z: z.astype(bp.float32), "astype: a complex value does not become float32"),
        (lambda z: z.astype(int), "take bp.real"),
        (lambda z: bp.tensor([1j], dtype=bp.float32), "astype: a complex value does not become"),
        (
            lambda z: bp.full((2,), 1j, dtype=bp.int32),
            "the complex number 1j does not become int32",
        ),
        (lambda z: bp.arange(3, dtype=bp.complex64), "arange: expected an integer or floating"),
        (lambda z: bp.imag(bp.ones(2)), "imag: no such op for this dtype"),
        (lambda z: bp.complex(z, 1.0), "complex: the parts must be real"),
        (lambda z: bp.polar(z, 1.0), "polar: the parts must be real"),
        (lambda z: bp.as_real(bp.ones(2)), "as_real: the value is not complex"),
        (lambda z: bp.as_complex(bp.ones(2, dtype=bp.float16)), "no complex dtype has such parts"),
        (lambda z: bp.rope(z, bp.ones((2, 1)), bp.ones((2, 1))), "rope: no such op"),
    ],
)
def test_what_complex_numbers_do_not_have_is_refused(function: Any, text: str) -> None:
    with pytest.raises(DTypeError, match=text):
        function(bp.tensor([[1 + 2j, 3j], [0, 1]]))


def test_pairs_have_a_last_axis_of_two() -> None:
    with pytest.raises(ShapeError, match="as_complex: the last axis must have size 2"):
        bp.as_complex(bp.ones((2, 3)))


def test_a_float_tensor_takes_no_complex_value() -> None:
    x = bp.zeros(2)
    with pytest.raises(DTypeError, match="v is complex"):
        x[0] = 1j
    with pytest.raises(TypeError, match="real number"):
        float(bp.tensor(1j))


def test_every_op_computes_complex_numbers_or_refuses_them() -> None:
    """None gets as far as the compiler without a form."""
    for op in REGISTRY.values():
        declared = bp.complex128 in op.dtypes
        if declared and op.kind not in ("view", "leaf", "composed"):
            assert op in FORMS or op.by_parts, f"{op.name} has no complex form"
        if declared or op.by_parts or op in FORMS or not op.samples:
            continue
        arrays = [np.asarray(a) for a in op.samples[0].inputs(np.random.default_rng(0))]
        if not any(array.dtype.kind == "f" for array in arrays):
            continue
        inputs = tuple(bp.tensor(a.astype(complex) if a.dtype.kind == "f" else a) for a in arrays)
        with pytest.raises(DTypeError, match=r"^\w+: "):
            result = apply(op, inputs, op.samples[0].attributes)
            (result if op.n_outputs == 1 else outputs(result)[0]).realise()
            raise AssertionError(f"{op.name} takes complex numbers although its record does not")
