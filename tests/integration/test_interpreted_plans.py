"""Every kernel of a plan runs in the interpreter, each access checked, with the machine's bits."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.compiler.compile_plan import compile_plan
from bedplate.compiler.signature import Signature
from bedplate.devices.cpu.runner import Slot, n_workers
from bedplate.graph.node import topological_order

GENERATOR = np.random.default_rng(11)
X = GENERATOR.standard_normal((5, 19)).astype(np.float32)
W = GENERATOR.standard_normal((19, 7)).astype(np.float32)
Q = GENERATOR.standard_normal((1, 2, 17, 8)).astype(np.float32)
TARGETS = np.array([3, 0, 18, 2, 7])


def _squared(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (function(x) ** 2).sum()


EXPRESSIONS: dict[str, Callable[[], Any]] = {
    "chain": lambda: bp.relu((bp.tensor(X) + 1) * 2).exp(),
    "softmax": lambda: bp.softmax(bp.tensor(X) * 3, axis=-1),
    "columns": lambda: bp.tensor(X).sum(axis=0),
    "view": lambda: bp.tensor(X).T[::-1, 1:4] - 1,
    "take": lambda: bp.take(bp.tensor(X), bp.tensor([4, 0, 2]), axis=0),
    "matmul": lambda: bp.relu(bp.tensor(X) @ bp.tensor(W)),
    "bfloat16": lambda: bp.tensor(X).to("bfloat16") * 1.5,
    "integers": lambda: bp.tensor(np.arange(-9, 9)) // 4 + bp.tensor(np.arange(18)) % 5,
    "attention": lambda: bp.attention(bp.tensor(Q), bp.tensor(Q), bp.tensor(Q), causal=True),
    "decoding": lambda: bp.attention(bp.tensor(Q[:, :, :1]), bp.tensor(Q), bp.tensor(Q)),
    "sort by ranks": lambda: bp.sort(bp.tensor(X), axis=1, descending=True),
    "sort by digits": lambda: bp.argsort(bp.tensor(Q).reshape(2, 136), axis=1),
    "top k": lambda: bp.topk(bp.tensor(np.tile(Q, 2).reshape(1, -1)), 3, largest=False).values,
    "search": lambda: bp.searchsorted(bp.sort(bp.tensor(X[0])), bp.tensor(X), side="right"),
    "rows joined": lambda: bp.index_reduce(
        bp.tensor(X), 0, bp.tensor([1, 4, 1]), bp.tensor(X[:3]), "amax"
    ),
    "elements joined": lambda: bp.scatter_add(
        bp.tensor(X), 1, bp.tensor(TARGETS.reshape(1, 5)), bp.tensor(X)
    ),
    "rows assigned": lambda: bp.index_copy(bp.tensor(X), 0, bp.tensor([1, 4, 1]), bp.tensor(X[:3])),
    "special": lambda: bp.special.zeta(2.5, bp.special.gammaln(bp.tensor(X[0]))),
    "convolution": lambda: bp.conv2d(bp.tensor(Q), bp.tensor(Q[0].reshape(4, 2, 2, 17)[..., :3])),
    "convolution of each channel": lambda: bp.conv2d(
        bp.tensor(Q), bp.tensor(Q.reshape(4, 1, 4, 17)[:, :, :3, :3]), groups=2, stride=2, padding=1
    ),
    "max pooling": lambda: F.max_pool2d(bp.tensor(Q), 3, 2, 1),
    "max pooling backwards": lambda: bp.grad(_squared(lambda x: F.max_pool2d(x, 3)))(bp.tensor(Q)),
    "means of windows": lambda: F.avg_pool2d(bp.tensor(Q), (5, 2), (3, 1)),
    "means of windows backwards": lambda: bp.grad(_squared(lambda x: F.avg_pool2d(x, 3, 2)))(
        bp.tensor(Q)
    ),
    "resampling": lambda: F.interpolate(bp.tensor(Q), (5, 20), mode="bilinear"),
    "cross entropy": lambda: bp.cross_entropy(bp.tensor(X), bp.tensor(TARGETS)),
}


def interpreted(value: Any) -> np.ndarray[Any, Any]:
    """The value of a tensor, by running its plan's tasks in the interpreter one by one."""
    root = value._node
    signature = Signature(topological_order([root]), [root])
    with bp.config(merging=False):  # a task for each launch
        plan = compile_plan(signature.lifted(), len(signature.inputs), len(signature.scalars))
    inputs = [node.array().copy() for node in signature.inputs]
    outputs = [np.zeros(max(n, 1), np.uint8) for n in plan.output_bytes]
    memory = [np.zeros(plan.arena_bytes + 64, np.uint8), np.zeros(8, np.int64), *inputs, *outputs]
    slots = [array.ctypes.data for array in memory]
    slots[0] += -slots[0] % 64
    slots += [_bits(number) for number in signature.scalars]
    for launches, tasks in zip(plan.regions, plan.native.regions, strict=True):
        for launch, task in zip(launches, tasks, strict=True):
            words = np.array([_word(word, slots) for word in task.words] or [0], np.int64)
            split = task.items // 2  # two workers share the items
            for worker, (first, last) in enumerate(((split, task.items), (0, split))):
                worker %= n_workers()
                launch.kernel.interpret(words, first, last, worker, memory=memory)
    (result,) = plan.results
    found = (inputs if result.alias else outputs)[result.index]
    return found.view(root.dtype.numpy)[: int(np.prod(root.shape))].reshape(root.shape)


def _bits(number: float) -> int:
    return struct.unpack("q", struct.pack("d", number))[0]


def _word(word: Any, slots: list[int]) -> int:
    if isinstance(word, Slot):
        return slots[word.index] + word.offset_bytes
    return _bits(word) if isinstance(word, float) else int(word)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_interpreted_plan_has_the_bits_of_the_machine(name: str) -> None:
    stepped = interpreted(EXPRESSIONS[name]())
    native = EXPRESSIONS[name]().numpy()
    assert stepped.dtype == native.dtype
    assert stepped.tobytes() == native.tobytes()
