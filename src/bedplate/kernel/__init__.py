"""The kernel language: staged Python functions over typed values, compiled by LLVM.

See docs/kernel-language.md. Types are in types.py, the program that a trace leaves in ir.py,
one record per instruction in instructions/, the functions that users call in language/.
"""

from bedplate.kernel.language.atomics import (
    atomic_add,
    atomic_cas,
    atomic_exchange,
    atomic_load,
    atomic_store,
    fence,
    pause,
)
from bedplate.kernel.language.blocks import (
    block_barrier,
    from_lane,
    load_matrices,
    mma,
    shared,
    thread_lane,
    thread_warp,
    warp_barrier,
)
from bedplate.kernel.language.calls import call, call_pointer, extern
from bedplate.kernel.language.conversions import bitcast, cast, constant, iota, splat, zeros
from bedplate.kernel.language.memory import gather, load, local, prefetch, scatter, store
from bedplate.kernel.language.numbers import (
    bfloat16_dot,
    byte_dot,
    ceil,
    copysign,
    ctlz,
    cttz,
    floor,
    fma,
    maximum,
    minimum,
    mul_high,
    popcount,
    quotient,
    raw_max,
    raw_min,
    remainder,
    round_even,
    scale,
    sqrt,
    trunc,
)
from bedplate.kernel.language.statements import (
    Variable,
    give_back,
    loop,
    otherwise,
    var,
    when,
    while_,
)
from bedplate.kernel.language.vectors import (
    all_of,
    any_of,
    extract,
    insert,
    reduce_add,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_mul,
    reduce_or,
    select,
    shuffle,
    tail_mask,
)
from bedplate.kernel.native import Compiled
from bedplate.kernel.staging import Kernel, kernel
from bedplate.kernel.target import Target, host
from bedplate.kernel.task import word_float, word_int, word_pointer
from bedplate.kernel.types import (
    Type,
    bf16,
    element,
    f16,
    f32,
    f64,
    from_dtype,
    i1,
    i8,
    i16,
    i32,
    i64,
    ptr,
    u8,
    u16,
    u32,
    u64,
    vec,
)
from bedplate.kernel.values import Value

__all__ = [
    "Compiled", "Kernel", "Target", "Type", "Value", "Variable", "all_of", "any_of", "atomic_add",
    "atomic_cas", "atomic_exchange", "atomic_load", "atomic_store", "bf16", "bfloat16_dot",
    "bitcast", "block_barrier", "byte_dot", "call", "call_pointer", "cast", "ceil", "constant",
    "copysign", "ctlz", "cttz", "element", "extern", "extract", "f16", "f32", "f64", "fence",
    "floor", "fma", "from_dtype", "from_lane", "gather", "give_back", "host", "i1", "i8", "i16",
    "i32", "i64", "insert", "iota", "kernel", "load", "load_matrices", "local", "loop", "maximum",
    "minimum", "mma", "mul_high", "otherwise", "pause", "popcount", "prefetch", "ptr", "quotient",
    "raw_max", "raw_min", "reduce_add", "reduce_and", "reduce_max", "reduce_min", "reduce_mul",
    "reduce_or", "remainder", "round_even", "scale", "scatter", "select", "shared", "shuffle",
    "splat", "sqrt", "store", "tail_mask", "thread_lane", "thread_warp", "trunc", "u8", "u16",
    "u32", "u64", "var", "vec", "warp_barrier", "when", "while_", "word_float", "word_int",
    "word_pointer", "zeros",
]  # fmt: skip
