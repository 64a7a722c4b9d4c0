"""quantised_linear: what the numbers are, same bits alone and in a batch, refusals."""

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.realise import clear_plans
from bedplate.config import config
from bedplate.errors import DTypeError, SettingError, ShapeError
from bedplate.kernel import Target
from bedplate.nn import Linear, QuantisedLinear
from bedplate.ops.matmul import quantised_kernel, quantised_lower
from bedplate.ops.matmul.quantised_format import quantised, unpacked

BITS = [8, 4]
linear = bp.nn.functional.quantised_linear


def made(columns, depth, bits, seed=0):
    """Weights, and their packed form."""
    weight = np.random.default_rng(seed).normal(size=(columns, depth)).astype(np.float32)
    return weight, *quantised(weight, bits)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("columns", "depth"), [(64, 32), (1, 1), (67, 97), (130, 31)])
def test_each_weight_is_within_half_a_step(bits, columns, depth):
    weight, packed, scales = made(columns, depth, bits)
    found = unpacked(packed, scales, columns, depth)
    groups = -(-depth // 32)
    padded = np.zeros((columns, groups * 32), np.float32)
    padded[:, :depth] = np.abs(weight)
    step = padded.reshape(columns, groups, 32).max(2).repeat(32, 1)[:, :depth] / (
        127 if bits == 8 else 8
    )
    # at the other end of 4 bits there is no 8, and a scale has 8 significant bits
    assert (np.abs(found - weight) <= step * (0.75 if bits == 8 else 1.04)).all()
    assert np.abs(found - weight).mean() < step.mean() * 0.3


def test_zeros_and_tiny_weights_survive():
    for bits in BITS:
        weight = np.zeros((2, 64), np.float32)
        weight[1] = 1e-40
        weight[1, 32:] = np.float32(1e-30) * np.arange(32)
        found = unpacked(*quantised(weight, bits), 2, 64)
        assert (found[0] == 0).all()
        assert np.isfinite(found).all()
        assert np.abs(found[1, 32:] - weight[1, 32:]).max() < 31e-30 / 8


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(bits, dtype):
    columns, depth = 150, 100
    _, packed, scales = made(columns, depth, bits)
    x = bp.tensor(np.random.default_rng(1).normal(size=(131, depth))).astype(dtype)
    whole = linear(x, packed, scales, columns).astype("float64").numpy()
    for rows in (1, 2, 3, 4, 5, 7, 8, 47, 48, 49, 64):
        part = linear(x[:rows], packed, scales, columns).astype("float64").numpy()
        assert (part == whole[:rows]).all(), rows


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("rows", [1, 5, 60])
def test_threads_and_layouts_change_no_bit(bits, rows):
    columns, depth = 200, 96
    _, packed, scales = made(columns, depth, bits)
    x = np.random.default_rng(2).normal(size=(rows, depth)).astype(np.float32)
    wanted = linear(bp.tensor(x), packed, scales, columns).numpy()
    with config(threads=False):
        assert (linear(bp.tensor(x), packed, scales, columns).numpy() == wanted).all()
    turned = bp.tensor(np.ascontiguousarray(x.T)).T
    assert (linear(turned, packed, scales, columns).numpy() == wanted).all()
    batch = bp.tensor(x).reshape((1, rows, depth))
    assert (linear(batch, packed, scales, columns).numpy()[0] == wanted).all()


@pytest.mark.parametrize("rows", [1, 6, 60])
def test_an_epilogue_sees_every_element(rows):
    _, packed, scales = made(70, 64, 8)
    x = bp.tensor(np.random.default_rng(3).normal(size=(rows, 64)).astype(np.float32))
    plain = linear(x, packed, scales, 70).numpy()
    bias = bp.arange(70.0).realise()
    found = bp.relu(linear(x, packed, scales, 70) + bias).numpy()
    assert (found == np.maximum(plain + np.arange(70, dtype=np.float32), 0)).all()


def test_the_layer_rounds_a_linear_one_and_keeps_its_bias():
    whole = Linear(70, 30)
    layer = QuantisedLinear.of(whole, 8)
    x = bp.tensor(np.random.default_rng(4).normal(size=(3, 70)).astype(np.float32))
    x.requires_grad = True
    y = layer(x)
    assert np.abs(y.numpy() - whole(x).numpy()).max() < 0.02
    y.sum().backward()
    weights = unpacked(layer.packed.numpy(), layer.scales.numpy(), 30, 70)
    assert x.grad is not None
    assert x.grad.numpy() == pytest.approx(np.tile(weights.sum(0), (3, 1)), abs=1e-5)
    twin = QuantisedLinear(70, 30, 8)
    twin.bias = layer.bias
    twin.load_state_dict(layer.state_dict())
    assert (twin(x).numpy() == y.numpy()).all()


def test_what_does_not_fit_is_refused():
    _, packed, scales = made(64, 64, 8)
    x = bp.zeros((2, 64))
    with pytest.raises(ShapeError, match="64 features to 65"):
        linear(x, packed, scales, 65)
    with pytest.raises(ShapeError, match="32 features to 64"):
        linear(x[:, :32], packed, scales, 64)
    with pytest.raises(DTypeError, match="uint8"):
        linear(x, packed.astype(np.int32), scales, 64)
    with pytest.raises(DTypeError, match="rows of floats"):
        linear(bp.zeros((2, 64), dtype="int64"), packed, scales, 64)
    with pytest.raises(SettingError, match="there are 8 and 4"):
        QuantisedLinear(3, 4, 5)
    broken = Linear(3, 4)
    with bp.no_grad():
        broken.weight[0, 0] = float("nan")
    with pytest.raises(SettingError, match=r"infinite or NaN\n  weight\[0, 0\] is nan"):
        QuantisedLinear.of(broken)


@pytest.mark.parametrize("columns", [64.7, "64", None])
def test_a_number_of_outputs_that_is_no_integer_is_refused(columns):
    layer = bp.nn.QuantisedLinear.of(bp.nn.Linear(32, 64))
    with pytest.raises(TypeError, match=r"quantised_linear: out_features is .*\n  expected an int"):
        bp.nn.functional.quantised_linear(bp.zeros((2, 32)), layer.packed, layer.scales, columns)


@pytest.mark.parametrize("columns", [69, 71, 96, 64])
def test_rows_of_another_width_are_refused_within_a_group_too(columns):
    layer = bp.nn.QuantisedLinear.of(bp.nn.Linear(70, 37))
    with pytest.raises(ShapeError, match=r"expected \(\.\.\., 70\)"):
        layer(bp.zeros((2, columns)))


def test_layers_of_another_kind_and_bits_that_are_no_integer_are_refused():
    layer = bp.nn.QuantisedLinear.of(bp.nn.Linear(32, 8))
    with pytest.raises(TypeError, match="expected a Linear layer, got a QuantisedLinear"):
        bp.nn.QuantisedLinear.of(layer)
    with pytest.raises(SettingError, match="there are 8 and 4"):
        bp.nn.QuantisedLinear(5, 3, bits=8.0)


# what the results' own rounding adds to that of x, and of sums in the accumulator's type
ACCURACY = {"float64": 1e-14, "float32": 1e-6, "float16": 5e-4, "bfloat16": 3e-3}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", ACCURACY)
@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("spread", [1, 100])
def test_rounding_x_to_whole_numbers_costs_less_than_rounding_the_result(bits, dtype, rows, spread):
    columns, depth = 96, 1000
    _, packed, scales = made(columns, depth, bits)
    x = np.random.default_rng(6).normal(size=(rows, depth))
    x[:, ::37] *= spread  # the rest of their groups is rounded to their step
    x = bp.tensor(x).astype(dtype)
    weights = unpacked(packed, scales, columns, depth).astype(np.float64)
    wanted = x.astype("float64").numpy() @ weights.T
    found = linear(x, packed, scales, columns).astype("float64").numpy()
    error = np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean())
    assert error < ACCURACY[dtype]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("size", [1e-36, 1e-30, 1e30])
def test_rows_of_any_size_are_rounded_alike(dtype, size):
    _, packed, scales = made(40, 64, 8)
    x = np.random.default_rng(7).normal(size=(2, 64))
    small = bp.tensor(x * size).astype(dtype)
    wanted = small.astype("float64").numpy() @ unpacked(packed, scales, 40, 64).astype(float).T
    found = linear(small, packed, scales, 40).astype("float64").numpy()
    # below 2**-126 times 2**13 the step no longer shrinks
    limit = 0.02 if size == 1e-36 else 0.01
    assert np.abs(found - wanted).max() < limit * np.abs(wanted).max()
    assert (linear(bp.zeros((2, 64), dtype=dtype), packed, scales, 40).numpy() == 0).all()


@pytest.mark.parametrize("vector_bits", [128, 256])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("rows", [1, 5, 9])
def test_other_machines_give_the_same_bits(vector_bits, bits, rows, monkeypatch):
    columns, depth = 70, 65
    _, packed, scales = made(columns, depth, bits)
    x = bp.tensor(np.random.default_rng(8).normal(size=(rows, depth)).astype(np.float32))
    wanted = linear(x, packed, scales, columns).numpy()
    other = Target("narrow", vector_bits)
    monkeypatch.setattr(quantised_kernel, "host", lambda: other)
    monkeypatch.setattr(quantised_lower, "_kernels", {})
    clear_plans()
    assert (linear(x, packed, scales, columns).numpy() == wanted).all()


def test_an_infinity_in_x_gives_nan_and_reaches_no_other_row():
    _, packed, scales = made(40, 64, 8)
    x = np.random.default_rng(5).normal(size=(8, 64)).astype(np.float32)
    wanted = linear(bp.tensor(x), packed, scales, 40).numpy()
    x[2, 7] = np.inf
    found = linear(bp.tensor(x), packed, scales, 40).numpy()
    assert np.isnan(found[2]).all()
    rest = [i for i in range(8) if i != 2]
    assert (found[rest] == wanted[rest]).all()
