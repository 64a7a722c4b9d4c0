"""The kernel of random bits: Philox 4x32-10, sixteen blocks of the counter at a time.

    for each group of 16 blocks:               block b is philox(counter b, draw; seed): 4 words
        out[words of the group] = word 0 of all 16, then word 1 of all, word 2, word 3
        (64-bit results: words 0 and 1 of all 16 together, then words 2 and 3)

So a vector of results is a vector of words, and nothing changes lanes; which element has which
word depends on its place alone, on every machine. All words of a block are used.

    integer operations   10 rounds of 2 products and 6 others a block
    bytes                the results once; bound by the products
"""

from __future__ import annotations

from typing import Any

from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    constant,
    from_dtype,
    i64,
    iota,
    kernel,
    load,
    local,
    loop,
    minimum,
    ptr,
    splat,
    store,
    tail_mask,
    u32,
    u64,
    word_int,
    word_pointer,
)
from bedplate.ops.random.philox import (
    BLOCKS,
    INCREMENTS,
    MULTIPLIERS,
    PART_BIT,
    ROUNDS,
    WORD,
    results_of,
)

GROUPS = 256  # of an item: some 10 us

STATE, OUT, COUNT, PART, EPILOGUE = range(5)  # words of the task; an epilogue's follow
_kernels: dict[Any, Kernel] = {}


def lower(builder: Any, node: Any, inputs: Any, outputs: Any, epilogue: Any = None) -> None:
    """Enter the launch of one draw; see compiler/builder.py for what the arguments are."""
    (state,), (out,) = inputs, outputs
    per_item = GROUPS * BLOCKS * results_of(node.attributes["pair"])
    if not out.size:
        return
    builder.launch(
        _kernel(node.attributes["pair"], from_dtype(out.dtype), state.strides[0], epilogue),
        [state, out, out.size, node.attributes["part"], *(epilogue.words if epilogue else ())],
        -(-out.size // per_item), reads=[state.buffer], writes=[out.buffer],
        flops=float(2 * ROUNDS * out.size / results_of(node.attributes["pair"])),
        nbytes=float(out.size * out.dtype.itemsize), name="random_bits",
    )  # fmt: skip


def _kernel(pair: bool, result: Type, step: int, epilogue: Any) -> Kernel:
    """The kernel of a variant and an epilogue, made once."""
    key = pair, result, step, None if epilogue is None else epilogue.key
    found = _kernels.get(key)
    if found is None:
        made = make_kernel(pair, result, step, None if epilogue is None else epilogue.emit)
        found = _kernels.setdefault(key, made)
    return found


def make_kernel(pair: bool, result: Type, step: int, emit: Any = None) -> Kernel:
    """The task kernel; an item is some groups of blocks.

    step   from word to word of the state
    emit   what finishes each vector of bits, or None
    """
    drawn, count = u64 if pair else u32, results_of(pair)
    size = BLOCKS * count

    @kernel
    def random_bits(args: ptr(i64), begin: i64, end: i64, worker: i64):
        state, out = word_pointer(args, STATE, u32), word_pointer(args, OUT, result)
        n, part = word_int(args, COUNT), cast(word_int(args, PART), u64) << PART_BIT
        seed = [cast(load(state + i * step), u64) for i in range(4)]
        keys = _round_keys(seed[0], seed[1])
        vectors = local(drawn, size)
        groups = (n + (size - 1)) // size
        for group in loop(begin * GROUPS, minimum(end * GROUPS, groups)):
            counter = splat(cast(group * BLOCKS, u64), BLOCKS) + iota(u64, BLOCKS)
            high = (counter >> 32) | splat(part, BLOCKS)
            words = _philox([counter, high, splat(seed[2], BLOCKS), splat(seed[3], BLOCKS)], keys)
            for i, vector in enumerate(_results(words, pair)):
                store(vectors + i * BLOCKS, vector)
            for first in loop(0, size, BLOCKS):
                column = group * size + first
                mask = tail_mask(n - column, BLOCKS)
                value = load(vectors + first, BLOCKS)
                if emit is not None:
                    zero = constant(i64, 0)
                    value = emit(value, zero, zero, column, BLOCKS, mask, args, EPILOGUE)
                store(out + column, value, mask)

    return random_bits


def _round_keys(low: Value, high: Value) -> list[tuple[Value, Value]]:
    """The keys of all rounds, each a word in 64 bits."""
    return [
        ((low + r * INCREMENTS[0]) & WORD, (high + r * INCREMENTS[1]) & WORD) for r in range(ROUNDS)
    ]


def _philox(words: list[Value], keys: list[tuple[Value, Value]]) -> list[Value]:
    """The words of each block in 64 bits, so that one product gives both halves; what stands
    above bit 31 of a word means nothing."""
    x0, x1, x2, x3 = words
    for key0, key1 in keys:
        product0, product1 = (x0 & WORD) * MULTIPLIERS[0], (x2 & WORD) * MULTIPLIERS[1]
        x0 = (product1 >> 32) ^ x1 ^ splat(key0, BLOCKS)
        x2 = (product0 >> 32) ^ x3 ^ splat(key1, BLOCKS)
        x1, x3 = product1, product0
    return [x0, x1, x2, x3]


def _results(words: list[Value], pair: bool) -> list[Value]:
    if pair:
        return [(words[i] & WORD) | (words[i + 1] << 32) for i in (0, 2)]
    return [cast(word, u32) for word in words]
