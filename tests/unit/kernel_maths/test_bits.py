"""The same bits for a scalar, a vector of any width and the interpreter; vector code everywhere."""

import numpy as np
import pytest

from bedplate.errors import KernelError
from bedplate.kernel import f32, f64, i32, kernel, load, maths, ptr, store
from bedplate.kernel.maths import sweep

NAMES = sorted(maths.__all__)
VECTOR_REGISTER = {"avx2": "%ymm", "avx512": "%zmm", "aarch64": "v0.4s"}


def few_arguments(name, type_, count):
    """Some ordinary arguments, some large and small, a NaN and an infinity."""
    inputs = sweep.arguments(name, type_, 40, seed=3)
    generator = np.random.default_rng(5)
    picked = generator.permutation(inputs[0].size)[: count - 3]
    extra = np.array([np.nan, np.inf, 0.0])
    return [np.append(x[picked], extra.astype(x.dtype)) for x in inputs]


def bits(array):
    quiet = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return quiet.view(f"u{array.itemsize}")


@pytest.mark.parametrize("type_", [f32, f64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_scalars_and_vectors_agree(name, type_):
    inputs = few_arguments(name, type_, 64)
    scalar = sweep.compute(name, type_, inputs, None)
    for lanes in (4, 16):
        vector = sweep.compute(name, type_, inputs, lanes)
        np.testing.assert_array_equal(bits(vector), bits(scalar))


@pytest.mark.parametrize("type_", [f32, f64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_interpreter_agrees(name, type_):
    inputs = few_arguments(name, type_, 12)
    native = sweep.compute(name, type_, inputs, 4)
    out = np.zeros_like(native)
    sweep.array_kernel(name, type_, 4).interpret(*inputs, out, 12, 1)
    np.testing.assert_array_equal(bits(out), bits(native))


@pytest.mark.parametrize("target", sorted(VECTOR_REGISTER))
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf"])
def test_compiles_to_vector_code(name, target):
    lanes = {"avx2": 8, "avx512": 16, "aarch64": 4}[target]
    text = sweep.array_kernel(name, f32, lanes).assembly(target)
    assert VECTOR_REGISTER[target] in text
    assert "call" not in text.replace("callq\t__", "call")  # no library function


def test_an_integer_is_refused_with_the_remedy():
    @kernel
    def wrong(x: ptr(i32)):
        store(x, maths.exp(load(x)))

    with pytest.raises(KernelError, match=r"exp: needs a floating-point value, got i32; cast\("):
        print(wrong.ir)
