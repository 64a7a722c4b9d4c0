"""What every device must say where others went wrong: language models and their functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.contract.values import INF, near, same, tensor

import bedplate as bp
from bedplate.olmo.rope import RopeScaling, rope_tables


def test_cross_entropy_of_a_large_vocabulary_in_bfloat16(device: Any) -> None:
    """B61"""
    logits = bp.zeros((1, 100352), dtype=bp.bfloat16, device=device)
    loss = bp.cross_entropy(logits, bp.Tensor(np.array([7]), device))
    assert loss.dtype is bp.float32
    assert loss.item() == pytest.approx(math.log(100352), rel=1e-6)


def test_cross_entropy_target_out_of_range(device: Any) -> None:
    logits = tensor(np.zeros((2, 5)), device)
    with pytest.raises(IndexError, match=r"cross_entropy: target.*5"):
        bp.cross_entropy(logits, bp.Tensor(np.array([0, 5]), device)).numpy()


def test_rms_norm_in_half_precision(device: Any) -> None:
    """B71"""
    x = tensor([[300.0] * 8], device, bp.float16)
    same(bp.rms_norm(x, tensor([1.0] * 8, device, bp.float16)), [[1.0] * 8])
    zeros = tensor([[0.0] * 4], device, bp.bfloat16, grad=True)
    bp.rms_norm(zeros).sum().backward()
    assert np.isfinite(zeros.grad.numpy().astype(np.float32)).all()
    same(bp.rms_norm(zeros), [[0.0] * 4])
    generator = np.random.default_rng(0)
    values = tensor(generator.normal(size=(4, 1024)), device, bp.bfloat16)
    weight = tensor(generator.normal(size=1024), device, bp.bfloat16)
    wide = values.numpy().astype(np.float32)
    unit_rows = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    wanted = (unit_rows * weight.numpy().astype(np.float32)).astype(bp.bfloat16.numpy)
    differing = np.mean(bp.rms_norm(values, weight).numpy() != wanted)
    assert differing < 0.002  # multiplying after the cast differs in about 0.22


def test_functions_at_their_ends(device: Any) -> None:
    """B82"""
    same(bp.sigmoid(tensor([-1000.0, 1000.0], device)), [0, 1])
    same(bp.softplus(tensor([-1000.0, 1000.0], device)), [0, 1000])
    same(bp.log(tensor([0.0, INF], device)), [-INF, INF])
    same(bp.exp(tensor([-INF, 1000.0], device)), [0, INF])
    same(bp.silu(tensor([-1000.0, 1000.0], device)), [-0.0, 1000])


@pytest.mark.parametrize("dtype", [bp.float32, bp.bfloat16], ids=str)
def test_embedding_gradient_has_the_same_bits_on_any_threads(dtype: Any) -> None:
    """Rows that were chosen often are added in the order of the choices, in float32."""
    generator = np.random.default_rng(0)
    ids = bp.Tensor(generator.integers(0, 40, (64, 50)), "cpu")
    grad = generator.normal(size=(64, 50, 300)).astype(dtype.numpy)
    results = []
    for threads in (True, False):
        with bp.config(threads=threads):
            weight = bp.zeros((40, 300), dtype=dtype, device="cpu", requires_grad=True)
            bp.embedding(ids, weight).backward(bp.Tensor(grad, "cpu"))
            results.append(weight.grad.numpy())
    assert results[0].tobytes() == results[1].tobytes()
    wanted = np.zeros((40, 300), np.float32)
    np.add.at(wanted, ids.numpy(), grad.astype(np.float32))
    np.testing.assert_array_equal(results[0], wanted.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [bp.float16, bp.bfloat16, bp.float32, bp.float64], ids=str)
def test_losses_of_extreme_logits(device: Any, dtype: Any) -> None:
    """B82"""
    loss = bp.nn.functional.binary_cross_entropy_with_logits
    x = tensor([1000.0, -1000.0, 1000.0, -1000.0], device, dtype, grad=True)
    target = tensor([1.0, 0.0, 0.0, 1.0], device, dtype)
    y = loss(x, target, reduction="none")
    same(y, [0, 0, 1000, 1000])
    y.sum().backward()
    same(abs(x.grad), [0, 0, 1, 1])
    logits = tensor([[1000.0, -1000.0, 0.0]], device, dtype, grad=True)
    y = bp.cross_entropy(logits, bp.Tensor(np.array([1]), device))
    assert y.item() == 2000
    y.backward()
    same(abs(logits.grad), [[1, 1, 0]])
    same(bp.softmax(logits, axis=1), [[1, 0, 0]])
    same(bp.log_softmax(logits, axis=1), [[0, -2000, -1000]])
    same(bp.nn.functional.logsigmoid(tensor([-1000.0, 1000.0], device, dtype)), [-1000, -0.0])


def test_query_and_key_norm_runs_over_the_whole_projection(device: Any) -> None:
    """B71"""
    x = tensor([[1.0, 2.0, 3.0, 40.0]], device)
    near(bp.rms_norm(x, eps=1e-6), [[0.04978, 0.09957, 0.14935, 1.99131]], 1e-4)


def test_norms_of_large_offsets_and_zero_spread(device: Any) -> None:
    """B71, B04"""
    x = tensor([[1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3]], device, grad=True)
    y = bp.layer_norm(x)
    near(y, [[d / (1.25 + 1e-5) ** 0.5 for d in (-1.5, -0.5, 0.5, 1.5)]], 1e-5)
    y.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
    for dtype in (bp.float16, bp.bfloat16, bp.float32):
        flat = tensor([[5.0] * 8], device, dtype, grad=True)
        y = bp.layer_norm(flat)
        same(y, [[0.0] * 8])
        y.sum().backward()
        assert np.isfinite(flat.grad.numpy().astype(np.float64)).all()


def test_angles_of_far_positions() -> None:
    """B65: more of it in tests/unit/olmo/test_rope.py"""
    rope = RopeScaling()
    for position, pair, wanted in ((15962, 0, -0.9080), (4095, 1, 0.87087), (131071, 1, -0.81732)):
        cosines, _ = rope_tables(rope, 128, position, position + 1)
        assert cosines[0, pair] == pytest.approx(wanted, abs=5e-5)


def test_one_accumulator_for_half_precision(device: Any) -> None:
    """B61, B05: a bfloat16 accumulator stops at 256"""
    ones = bp.ones((1, 5000), dtype=bp.bfloat16, device=device)
    same(bp.matmul(ones, bp.ones((5000, 1), dtype=bp.bfloat16, device=device)), [[4992]])
    zeros = bp.zeros((1, 100352), dtype=bp.bfloat16, device=device)
    near(bp.logsumexp(zeros, axis=1), [11.5], 1e-2)
    shares = bp.softmax(bp.zeros((1, 4096), dtype=bp.bfloat16, device=device), axis=1)
    same(shares, np.full((1, 4096), 2.0**-12))
