"""How attention is computed: which kernel, which operands are copied first, how work is cut.

| queries a head | kernel                | an item is                                        |
|----------------|-----------------------|---------------------------------------------------|
| up to 8        | attention_decode      | a key head of a batch: its keys are read once     |
| more           | attention_forward     | a block of queries of a head                      |
|                | or attention_tensor_cores, where there are some, for 16-bit floats        |
| any, gradient  | attention_backward    | a key head of a batch with all that share it      |
|                | or attention_backward_queries and _keys, for 16-bit floats on tensor cores |

The kernels read rows of a head side by side: an operand whose last stride is not 1 (or which is
the same number over and over, as the gradient of a sum) is copied first.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from bedplate.kernel import (
    Kernel,
    Type,
    from_dtype,
    i64,
    kernel,
    load,
    loop,
    ptr,
    store,
    word_int,
    word_pointer,
)
from bedplate.ops.attention import decode as attention_decode
from bedplate.ops.attention import forward as attention_forward
from bedplate.ops.attention import reverse as attention_reverse
from bedplate.ops.attention import tensor_cores as attention_tensor_cores
from bedplate.ops.attention import tensor_cores_reverse as reverse_on_tensor_cores
from bedplate.ops.attention.tiles import Geometry
from bedplate.ops.matmul.lower_tensor_cores import on_tensor_cores

LINE = 64
# A window that no sequence reaches; positions are 32-bit numbers in the kernels.
LONGEST_WINDOW = 2**30


def geometry(q: Any, attributes: dict[str, Any], counted: bool) -> Geometry:
    """What specialises the kernels for these queries."""
    windowed = attributes["window"] is not None
    causal = attributes["causal"] or windowed
    return Geometry(from_dtype(q.dtype), q.shape[3], causal, windowed, counted)


def n_pairs(n_queries: int, n_keys: int, attributes: dict[str, Any]) -> int:
    """How many pairs of a query and a key see each other, in one head."""
    window = attributes["window"]
    if not attributes["causal"] and window is None:
        return n_queries * n_keys
    seen = np.clip(np.arange(n_queries) + n_keys - n_queries + 1, 0, n_keys)
    return int(np.minimum(seen, LONGEST_WINDOW if window is None else window).sum())


def lower_forward(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launches of attention; see compiler/builder.py for what the arguments are."""
    q, k, v = (with_rows(builder, view) for view in inputs[:3])
    length = list(inputs[3:])
    out, lse = outputs
    batch, n_heads, n_queries, head_dim = q.shape
    if not batch * n_heads * n_queries:
        return
    g = geometry(q, node.attributes, bool(length))
    n_key_heads, n_keys = k.shape[1:3]
    group = n_heads // n_key_heads
    if n_queries <= attention_decode.MOST_QUERIES:
        name, task = "attention_decode", attention_decode.decode_kernel(g)
        elements = attention_decode.scratch_elements(g, group * n_queries)
        blocks, items = 0, batch * n_key_heads
    elif on_tensor_cores(builder, q.dtype) and head_dim <= attention_tensor_cores.LARGEST_HEAD:
        name, elements = "attention_tensor_cores", 0
        task = attention_tensor_cores.forward_kernel(g, _is_aligned(q, k, v, out))
        blocks = -(-n_queries // attention_tensor_cores.QUERIES)
        items = batch * n_heads * blocks
    else:
        name, task = "attention_forward", attention_forward.forward_kernel(g)
        elements = attention_forward.scratch_elements(g)
        blocks = -(-n_queries // g.queries)
        items = batch * n_heads * blocks
    scratch, scratch_bytes = _scratch(builder, g, elements)
    words = [
        q, k, v, out, lse, scratch, scratch_bytes, n_heads, group, n_queries, n_keys, blocks,
        *q.strides[:3], *k.strides[:3], *v.strides[:3], *out.strides[:3], *_numbers(node), *length,
    ]  # fmt: skip
    pairs = batch * n_heads * n_pairs(n_queries, n_keys, node.attributes)
    builder.launch(
        task, words, items, reads=[view.buffer for view in (q, k, v, *length)],
        writes=[out.buffer, lse.buffer, scratch], flops=4.0 * head_dim * pairs,
        nbytes=float(sum(_nbytes(view) for view in (q, k, v, out))), name=name,
    )  # fmt: skip


def lower_backward(
    builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None
) -> None:
    """Enter the launches of attention's gradient."""
    q, k, v, out, lse, grad = (with_rows(builder, view) for view in inputs[:6])
    length = list(inputs[6:])
    if not lse.contiguous:
        lse = _copy(builder, lse)
    dq, dk, dv = outputs
    batch, n_heads, n_queries, head_dim = q.shape
    n_key_heads, n_keys = k.shape[1:3]
    if not batch * n_key_heads:
        return
    g = geometry(q, node.attributes, bool(length))
    if on_tensor_cores(builder, q.dtype) and head_dim <= attention_tensor_cores.LARGEST_HEAD:
        _reverse_on_tensor_cores(builder, node, g, (q, k, v, out, lse, grad), outputs, length)
        return
    scratch, scratch_bytes = _scratch(builder, g, attention_reverse.scratch_elements(g, n_keys))
    words = [
        q, k, v, out, lse, grad, dq, dk, dv, scratch, scratch_bytes, n_key_heads,
        n_heads // n_key_heads, n_queries, n_keys,
        *(stride for view in (q, k, v, out, grad, dv) for stride in view.strides[:3]),
        *_numbers(node), *length,
    ]  # fmt: skip
    pairs = batch * n_heads * n_pairs(n_queries, n_keys, node.attributes)
    builder.launch(
        attention_reverse.backward_kernel(g), words, batch * n_key_heads,
        reads=[view.buffer for view in (q, k, v, out, lse, grad, *length)],
        writes=[*(view.buffer for view in (dq, dk, dv)), scratch], flops=10.0 * head_dim * pairs,
        nbytes=float(sum(_nbytes(view) for view in (q, k, v, out, grad, dq, dk, dv))),
        name="attention_backward",
    )  # fmt: skip


def _reverse_on_tensor_cores(
    builder: Any, node: Any, g: Geometry, inputs: Any, outputs: Any, length: list[Any]
) -> None:
    """Enter the launches for queries and for keys; what the first leaves, the second reads."""
    q, k, v, out, lse, grad = inputs
    dq, dk, dv = outputs
    batch, n_heads, n_queries, head_dim = q.shape
    n_key_heads, n_keys = k.shape[1:3]
    delta = builder.temp(4 * batch * n_heads * n_queries)
    aligned = _is_aligned(q, k, v, out, grad, dq, dk, dv)
    pairs = batch * n_heads * n_pairs(n_queries, n_keys, node.attributes)
    reads = [view.buffer for view in (*inputs, *length)]
    for name, make, n_rows, heads, written, flops in (
        ("queries", reverse_on_tensor_cores.queries_kernel, n_queries, n_heads, (dq,), 4),
        ("keys", reverse_on_tensor_cores.keys_kernel, n_keys, n_key_heads, (dk, dv), 6),
    ):
        blocks = -(-n_rows // (reverse_on_tensor_cores.WARPS * reverse_on_tensor_cores.ROWS))
        words = [
            q, k, v, out, lse, grad, dq, dk, dv, delta, blocks, n_key_heads,
            n_heads // n_key_heads, n_queries, n_keys,
            *(stride for view in (q, k, v, out, grad, dv) for stride in view.strides[:3]),
            *_numbers(node), *length,
        ]  # fmt: skip
        targets = [view.buffer for view in written]
        builder.launch(
            make(g, aligned), words, batch * heads * blocks,
            reads=reads if name == "queries" else [*reads, delta],
            writes=[*targets, delta] if name == "queries" else targets,
            flops=float(flops * head_dim * pairs),
            nbytes=float(sum(_nbytes(view) for view in (q, k, v, out, grad, *written))),
            name=f"attention_backward_{name}",
        )  # fmt: skip


def _numbers(node: Any) -> list[Any]:
    window = node.attributes["window"]
    longest = LONGEST_WINDOW if window is None else min(window, LONGEST_WINDOW)
    return [longest, float(node.attributes["scale"])]


def _nbytes(view: Any) -> int:
    return view.size * view.dtype.itemsize


def _scratch(builder: Any, g: Geometry, elements: int) -> tuple[Any, int]:
    """Scratch and the distance in bytes from worker to worker."""
    nbytes = -(-elements * g.accumulator.itemsize // LINE) * LINE
    return builder.scratch(nbytes), nbytes


def _is_aligned(*views: Any) -> bool:
    """Whether every row of 16-bit numbers starts at a multiple of 16 bytes, as buffers do."""
    steps = [step for view in views for step in (view.offset, *view.strides[:3])]
    return not any(step % 8 for step in steps)


def with_rows(builder: Any, view: Any) -> Any:
    """The view, or a contiguous copy of it if the elements of a row do not lie side by side."""
    if len(view.shape) < 4 or view.strides[3] == 1 or view.shape[3] == 1 or 0 in view.shape:
        return view
    return _copy(builder, view)


def _copy(builder: Any, view: Any) -> Any:
    """Enter a launch that copies a view of rank 3 or 4 to contiguous memory."""
    buffer = builder.temp(_nbytes(view))
    pad = 4 - len(view.shape)
    shape, strides = (1,) * pad + tuple(view.shape), (0,) * pad + tuple(view.strides)
    builder.launch(
        copy_kernel(from_dtype(view.dtype)), [view, buffer, *shape[1:], *strides],
        shape[0] * shape[1] * shape[2], reads=[view.buffer], writes=[buffer],
        nbytes=2.0 * _nbytes(view), name="attention_copy",
    )  # fmt: skip
    steps = np.cumprod([1, *reversed(view.shape[1:])])[::-1]
    return dataclasses.replace(view, buffer=buffer, strides=tuple(map(int, steps)), offset=0)


@functools.cache
def copy_kernel(element: Type) -> Kernel:
    """Copies rows of any stride; an item is a row of the last axis."""

    @kernel
    def attention_copy(args: ptr(i64), begin: i64, end: i64, worker: i64):
        heads, rows, width = (word_int(args, i) for i in (2, 3, 4))
        for item in loop(begin, end):
            row, rest = item % rows, item // rows
            start = row * word_int(args, 7) + (rest % heads) * word_int(args, 6)
            source = word_pointer(args, 0, element) + start + (rest // heads) * word_int(args, 5)
            to = word_pointer(args, 1, element) + item * width
            for d in loop(width):
                store(to + d, load(source + d * word_int(args, 8)))

    return attention_copy
