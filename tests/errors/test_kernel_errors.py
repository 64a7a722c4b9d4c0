"""What the kernel language refuses, with its text: rule, values and types, the user's line, what
would be legal.

Long, because each refusal shows the kernel that it is about.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bedplate import dtypes
from bedplate.errors import KernelError
from bedplate.kernel import (
    atomic_add,
    atomic_load,
    bitcast,
    call,
    call_pointer,
    cast,
    constant,
    copysign,
    extern,
    extract,
    f32,
    f64,
    fence,
    fma,
    from_dtype,
    gather,
    give_back,
    i1,
    i32,
    i64,
    insert,
    iota,
    kernel,
    load,
    local,
    loop,
    otherwise,
    prefetch,
    ptr,
    quotient,
    reduce_add,
    reduce_and,
    select,
    shuffle,
    splat,
    sqrt,
    store,
    u8,
    var,
    vec,
    when,
    while_,
    zeros,
)  # fmt: skip
from bedplate.kernel.target import find_target


def refuse(body: Callable[..., Any], *patterns: str) -> None:
    """Staging a kernel with this body must fail, with these texts and the line of the body."""

    @kernel
    def wrong(n: i64, m: i32, x: ptr(f32), y: f32, v: vec(f32, 8), flag: i1):
        body(n, m, x, y, v, flag)

    with pytest.raises(KernelError) as raised:
        wrong.ir
    text = str(raised.value)
    for pattern in patterns:
        assert re.search(pattern, text), text
    lines, first = inspect.getsourcelines(body)
    named = re.search(rf"{re.escape(__file__)}:(\d+)\n  legal: ", text)
    assert named, text
    assert first <= int(named[1]) < first + len(lines), text


def test_types_that_do_not_mix() -> None:
    refuse(
        lambda n, m, x, y, v, flag: n + m,
        "kernel wrong: add mixes i64 and i32", r"left  %1 i64  made at .*test_kernel_errors\.py",
        r"right  %2 i32", r"legal: two values of one type; cast\(x, T\) converts",
    )  # fmt: skip
    refuse(lambda n, m, x, y, v, flag: y < n, "less mixes f32 and i64")
    refuse(lambda n, m, x, y, v, flag: v + n, r"add mixes vec\(f32,8\) and i64")
    refuse(lambda n, m, x, y, v, flag: v + splat(y, 4), r"vec\(f32,8\) and vec\(f32,4\)")
    refuse(lambda n, m, x, y, v, flag: x < n, r"ptr\(f32\) and i64")
    refuse(lambda n, m, x, y, v, flag: flag + flag, "add needs numbers")
    refuse(lambda n, m, x, y, v, flag: y & y, "and needs integers", "bitcast floats first")
    refuse(lambda n, m, x, y, v, flag: y << 1, "shift_left needs integers")
    refuse(lambda n, m, x, y, v, flag: n / n, "/ divides floats", "// .* or quotient")
    refuse(lambda n, m, x, y, v, flag: ~y, "~ needs an integer or a mask")
    refuse(lambda n, m, x, y, v, flag: -flag, "negate needs a number")
    refuse(lambda n, m, x, y, v, flag: x * 2, "ptr")
    refuse(lambda n, m, x, y, v, flag: x + y, "a pointer moves by a whole number of elements")
    refuse(lambda n, m, x, y, v, flag: x + 1.5, "a pointer moves by a whole number of elements")


def test_numbers_that_do_not_fit() -> None:
    refuse(lambda n, m, x, y, v, flag: m + 2**31, "the number 2147483648 does not fit i32",
           "-2147483648 to 2147483647")  # fmt: skip
    refuse(lambda n, m, x, y, v, flag: n + 1.5, r"1.5 \(Python float\) cannot become i64")
    refuse(lambda n, m, x, y, v, flag: y + "a", r"'a' \(Python str\) cannot become f32")
    refuse(lambda n, m, x, y, v, flag: constant(u8, -1), "-1 does not fit u8", "0 to 255")


def test_run_time_values_in_python_control_flow() -> None:
    refuse(lambda n, m, x, y, v, flag: 1 if n > 0 else 2,
           "Python asked for the truth of a value", "with when", "select")  # fmt: skip
    refuse(lambda n, m, x, y, v, flag: flag and flag, "Python asked for the truth")
    refuse(lambda n, m, x, y, v, flag: list(range(n)),
           "Python asked for a number that is known only at run time", "for i in loop")  # fmt: skip
    refuse(lambda n, m, x, y, v, flag: float(y), "known only at run time")
    refuse(lambda n, m, x, y, v, flag: [*v], "cannot be iterated over", "extract")
    refuse(lambda n, m, x, y, v, flag: x[0], r"cannot be indexed with \[ \]", "load")


def test_memory() -> None:
    refuse(lambda n, m, x, y, v, flag: load(y), "load needs a pointer", "%4 f32")
    refuse(lambda n, m, x, y, v, flag: store(x, n), "the value stored has the wrong type")
    refuse(lambda n, m, x, y, v, flag: store(x, cast(v, f64)), "does not fit the pointer")
    refuse(lambda n, m, x, y, v, flag: load(x, 8, mask=n), "the mask has the wrong type")
    refuse(lambda n, m, x, y, v, flag: load(x, 8, flag, other=n), "other of load")
    refuse(lambda n, m, x, y, v, flag: gather(x, n), "gather needs a vector of indices")
    refuse(lambda n, m, x, y, v, flag: gather(x, v), "gather needs a vector of indices")
    refuse(lambda n, m, x, y, v, flag: prefetch(x, locality=4), "locality is out of range")
    refuse(lambda n, m, x, y, v, flag: local(f32, n), "a size known under trace")
    refuse(lambda n, m, x, y, v, flag: local(f32, 1 << 20), "larger than the stack allows")
    refuse(
        lambda n, m, x, y, v, flag: [local(f64, 1 << 16) for _ in range(3)],
        "larger than the stack allows",
    )
    refuse(lambda n, m, x, y, v, flag: atomic_add(x, 1), "an atomic needs a pointer to integers")
    refuse(lambda n, m, x, y, v, flag: atomic_load(cast(x, ptr(i32)), "release"),
           "the order 'release' does not fit")  # fmt: skip
    refuse(lambda n, m, x, y, v, flag: fence("relaxed"), "the order 'relaxed' does not fit")


def test_values() -> None:
    refuse(lambda n, m, x, y, v, flag: sqrt(n), "sqrt needs a float")
    refuse(lambda n, m, x, y, v, flag: quotient(y, y), "quotient needs an integer")
    refuse(lambda n, m, x, y, v, flag: copysign(n, n), "copysign needs a float")
    refuse(lambda n, m, x, y, v, flag: fma(y, y, n), "an operand of fma has the wrong type")
    refuse(lambda n, m, x, y, v, flag: fma(1, 2, 3), "fma needs a value")
    refuse(lambda n, m, x, y, v, flag: cast(x, i32), "cast of a pointer to i32")
    refuse(lambda n, m, x, y, v, flag: cast(y, ptr(f32)), "cast to a pointer needs an address")
    refuse(lambda n, m, x, y, v, flag: cast(v, vec(f64, 4)), "cast keeps the number of lanes")
    refuse(lambda n, m, x, y, v, flag: bitcast(y, i64), "bitcast to i64", "a number of 32 bits")
    refuse(lambda n, m, x, y, v, flag: select(n, y, y), "select needs a condition")
    refuse(lambda n, m, x, y, v, flag: select(splat(flag, 4), v, v), "select: lanes differ")
    refuse(lambda n, m, x, y, v, flag: extract(v, 8), "lane 8 of a vector of 8", "0 to 7")
    refuse(lambda n, m, x, y, v, flag: extract(y, 0), "extract needs a vector")
    refuse(lambda n, m, x, y, v, flag: insert(v, 0, n), "the value inserted has the wrong type")
    refuse(lambda n, m, x, y, v, flag: shuffle(v, None, [8]), "out of range", "0 to 7")
    refuse(lambda n, m, x, y, v, flag: reduce_add(v > 0), "reduce_add of a mask")
    refuse(lambda n, m, x, y, v, flag: reduce_and(v), "reduce_and needs integers")
    refuse(lambda n, m, x, y, v, flag: splat(v, 8), "splat needs a scalar value")
    refuse(lambda n, m, x, y, v, flag: var(0), "var needs a value with a type", "var.constant")
    refuse(lambda n, m, x, y, v, flag: var(y).set(n), "the value set has the wrong type")


def test_statements() -> None:
    refuse(lambda n, m, x, y, v, flag: next(loop(m)), "the end of a loop has the wrong type")
    refuse(lambda n, m, x, y, v, flag: next(loop(0, n, 0)), "a loop with step 0 never ends")
    refuse(lambda n, m, x, y, v, flag: when(n), "the condition of when has the wrong type")
    refuse(lambda n, m, x, y, v, flag: next(while_(lambda: n)), "the condition of while_")
    refuse(lambda n, m, x, y, v, flag: otherwise(), "otherwise.. without a `when` right before")
    refuse(lambda n, m, x, y, v, flag: give_back(n), "give_back does not fit the kernel's result")


def test_calls() -> None:
    @kernel
    def other(a: i64, b: ptr(f32)): ...

    refuse(lambda n, m, x, y, v, flag: call(other, n), "call other: 1 arguments",
           r"other\(i64, ptr\(f32\)\)")  # fmt: skip
    refuse(lambda n, m, x, y, v, flag: call(other, m, x), "argument 0 of other has the wrong type")
    refuse(lambda n, m, x, y, v, flag: call(len, n), "call needs a kernel")
    refuse(lambda n, m, x, y, v, flag: call_pointer(y, ()), "call_pointer needs an address")
    refuse(lambda n, m, x, y, v, flag: call_pointer(n, (i64,)), "1 types, 0 arguments")
    refuse(lambda n, m, x, y, v, flag: extern("labs", i64, (i64,))(), "extern labs: 0 arguments")


def test_a_value_outside_its_block() -> None:
    def after_loop(n: Any, m: Any, x: Any, y: Any, v: Any, flag: Any) -> None:
        for i in loop(n):
            last = load(x + i)
        store(x, last)

    def after_branch(n: Any, m: Any, x: Any, y: Any, v: Any, flag: Any) -> None:
        with when(flag):
            double = y * 2
        with otherwise():
            store(x, double)

    for body in (after_loop, after_branch):
        refuse(body, "used outside the loop or branch that made it", r"v\.set\(y\) inside it")


def test_a_value_of_another_kernel() -> None:
    kept: list[Any] = []

    @kernel
    def first(n: i64):
        kept.append(n)

    assert first.ir
    refuse(
        lambda n, m, x, y, v, flag: n + kept[0], "used outside the loop or branch|another kernel"
    )

    @kernel
    def outer(n: i64):
        @kernel
        def inner(k: i64) -> i64:
            give_back(k + n)

        call(inner, n)

    with pytest.raises(KernelError, match="a value of kernel outer is used in another kernel"):
        outer.ir


@pytest.mark.parametrize("how", ["break", "return", "next"])
def test_leaving_a_loop_by_python(how: str) -> None:
    @kernel
    def leave(n: i64):
        for _ in loop(n):
            if how == "break":
                break
            if how == "return":
                return

    @kernel
    def unfinished(n: i64):
        keep.append(loop(n))
        next(keep[0])

    keep: list[Any] = []
    wrong, text = (unfinished, "never closed") if how == "next" else (leave, "by break or return")
    with pytest.raises(KernelError, match=text):
        wrong.ir
    keep.clear()


def test_an_undefined_name_is_named_with_its_line() -> None:
    @kernel
    def wrong(n: i64):
        lane_count + n  # noqa: F821

    with pytest.raises(
        KernelError, match=r"kernel wrong: name 'lane_count' is not defined\n  at .*:"
    ):
        wrong(1)


def test_the_users_own_error_passes_through() -> None:
    @kernel
    def wrong(n: i64):
        {}["key"]

    with pytest.raises(KeyError, match="key"):
        wrong(1)
    with pytest.raises(KeyError, match="key"):
        wrong(1)


def test_a_value_returned_instead_of_given_back() -> None:
    @kernel
    def wrong(n: i64) -> i64:
        return n

    with pytest.raises(KernelError, match=r"return gives a value at trace time(.|\n)*give_back"):
        wrong(1)


def test_annotations() -> None:
    with pytest.raises(KernelError, match=r"parameter n has no annotation(.|\n)*legal: n: i64"):

        @kernel
        def bare(n): ...

    with pytest.raises(KernelError, match="parameter n has <class 'int'>"):

        @kernel
        def python_type(n: int): ...

    with pytest.raises(KernelError, match=r"the annotation 'ptr\(float32\)' fails"):

        @kernel
        def unknown(n: ptr(float32)): ...  # noqa: F821

    with pytest.raises(KernelError, match="the result is annotated"):

        @kernel
        def result(n: i64) -> int: ...

    with pytest.raises(KernelError, match="variable number of parameters"):

        @kernel
        def variadic(*n: i64): ...


def test_functions_of_the_language_outside_a_kernel() -> None:
    with pytest.raises(KernelError, match=rf"outside a kernel\n  at {re.escape(__file__)}"):
        zeros(f32) + iota(f32, 4)
    with pytest.raises(KernelError, match="outside a kernel"):
        fence()


def test_types_that_do_not_exist() -> None:
    with pytest.raises(KernelError, match=r"legal: a power of two from 1 to"):
        vec(f32, 3)
    with pytest.raises(KernelError, match="cannot be the element of a vector"):
        vec(ptr(f32), 4)
    with pytest.raises(KernelError, match="cannot be pointed at"):
        ptr(vec(f32, 4))
    with pytest.raises(KernelError, match="complex64 has no kernel type"):
        from_dtype(dtypes.complex64)


@kernel
def scale(n: i64, x: ptr(f32), factor: f32, flag: i1):
    for i in loop(n):
        store(x + i, load(x + i) * factor)


ARRAY = np.zeros(4, np.float32)


@pytest.mark.parametrize("how", ["call", "interpret"])
@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((1, ARRAY), r"scale: 2 arguments(.|\n)*legal: scale\(n: i64, x: ptr\(f32\), factor: f32"),
        ((1, ARRAY.astype(np.float64), 1, 0), r"argument x does not fit ptr\(f32\)\n  x  array "
                                              r"\(4,\) float64 strides \(8,\)(.|\n)*float32"),
        ((1, ARRAY[::2], 1, 0), "a contiguous array"),
        ((1, np.broadcast_to(np.float32(1), (4,)), 1, 0), "contiguous"),
        ((1, [1.0], 1, 0), "a NumPy array, or an address as a Python int"),
        ((1.5, ARRAY, 1, 0), r"argument n does not fit i64\n  n  1.5 \(Python float\)"),
        ((1 << 63, ARRAY, 1, 0), "-9223372036854775808 to 9223372036854775807"),
        ((1, ARRAY, "2", 0), r"argument factor does not fit f32(.|\n)*a Python number"),
        ((1, ARRAY, 1, 2), "argument flag does not fit i1(.|\n)*0 to 1"),
        ((1, -1, 1, 0), "a NumPy array, or an address"),
    ],
)  # fmt: skip
def test_arguments_of_a_call(how: str, args: Any, text: str) -> None:
    run = scale if how == "call" else scale.interpret
    with pytest.raises(KernelError, match=text) as raised:
        run(*args)
    assert f"at {__file__}:" in str(raised.value)


def test_read_only_arrays() -> None:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    with pytest.raises(KernelError, match="an array that may be written"):
        scale(4, array, 1, False)


def test_misaligned_arrays() -> None:
    array = np.zeros(20, np.uint8)[1:17].view(np.float32)
    with pytest.raises(KernelError, match="an aligned array"):
        scale(4, array, 1, False)


def test_vectors_cannot_come_from_python() -> None:
    @kernel
    def wrong(v: vec(f32, 4)): ...

    with pytest.raises(KernelError, match=r"Python cannot pass vectors(.|\n)*call\(kernel"):
        wrong(np.zeros(4, np.float32))


def test_unknown_target() -> None:
    with pytest.raises(KernelError, match="no target 'sse'\n  legal: host, avx2, avx512, aarch64"):
        scale.assembly("sse")
    other = "avx2" if find_target("aarch64").runs_here else "aarch64"
    with pytest.raises(KernelError, match=f"{other} is another kind of machine"):
        scale.compile(other)


def test_recursion() -> None:
    @kernel
    def again(n: i64):
        call(again, n)

    with pytest.raises(KernelError, match="a kernel cannot call itself"):
        again.ir


def test_a_parameter_with_a_default_is_a_constant_of_the_trace() -> None:
    @kernel
    def run(n: i64, factor=3) -> i64:
        give_back(n * factor)

    assert run(5) == run.interpret(5) == 15


def test_python_may_not_leave_a_branch() -> None:
    @kernel
    def returns(n: i64, x: ptr(f32)):
        with when(n > 3):
            store(x, 7.0)
            return
        store(x, 1.0)

    @kernel
    def breaks(n: i64, x: ptr(f32)):
        for k in range(4):
            with when(n > k):
                store(x + k, 7.0)
            with otherwise():
                break

    @kernel
    def continues(n: i64, x: ptr(f32)):
        for k in range(4):
            with when(n > k), when(n < 9):
                if k == 2:
                    continue
                store(x + k, 7.0)

    for wrong, word, line in ((returns, "return", 4), (breaks, "break", 6), (continues, "con", 5)):
        first = wrong.function.__code__.co_firstlineno
        where = re.escape(f"{__file__}:{first + line}")
        pattern = rf"kernel \w+: {word}\w* leaves a branch while it is traced\n  at {where}\n"
        with pytest.raises(KernelError, match=pattern + r"  legal: give_back\(\)"):
            wrong.ir

    @kernel
    def fine(n: i64, x: ptr(f32)):
        def helper(k: int) -> Any:
            return constant(f32, k)

        with when(n > 3):
            for k in range(9):
                if k == 2:
                    break
                store(x + k, helper(k))
        return

    assert fine.ir


def test_what_no_kernel_can_be_made_of() -> None:
    def add(k: int, n: i64) -> None:
        give_back()

    for wrong in (print, functools.partial(add, 3), 7, type("C", (), {})):
        with pytest.raises(KernelError, match=r"kernel: .* is no Python function\n  legal: def"):
            kernel(wrong)  # type: ignore[arg-type]

    def generates(n: i64) -> Any:
        yield n

    async def waits(n: i64) -> None:
        give_back()

    for wrong in (generates, waits):
        with pytest.raises(KernelError, match=r"does not run when it is called\n  at .*\n  legal"):
            kernel(wrong)
    with pytest.raises(KernelError, match=r"parameter n has no name outside\n  at .*\n  legal"):

        @kernel
        def unnamed(n: i64, /):
            give_back()

    @kernel
    def returns(n: i64):
        return 5

    with pytest.raises(KernelError, match=r"return gives a value at trace time"):
        returns.ir


def test_kernels_may_not_call_each_other_in_a_circle() -> None:
    @kernel
    def one(n: i64):
        call(two, n)

    @kernel
    def two(n: i64):
        call(one, n)

    with pytest.raises(KernelError, match=r"kernel one: a kernel cannot call itself, nor one that"):
        one.ir
    with pytest.raises(KernelError, match=r"kernel two: a kernel cannot call itself, nor one that"):
        two.ir


@pytest.mark.parametrize("name", ["no such", 'a"b', "llvm.trap", "", "1x", "é"])
def test_names_of_c_functions(name: str) -> None:
    with pytest.raises(KernelError, match=r"is no name of a C function\n  at .*\n  legal: letters"):
        extern(name, None, ())
