"""The emission of every elementwise op as a kernel of its own: the compiled kernel against the
reference, and the interpreter against the compiled kernel, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bedplate import kernel as language
from bedplate.dtypes import as_dtype, bool_
from bedplate.ops.record import REGISTRY

LANES = 4


def element(array: Any) -> Any:
    dtype = as_dtype(array.dtype)
    return language.i1 if dtype is bool_ else language.from_dtype(dtype)


def make_kernel(op: Any, attributes: Any, arrays: list[Any], result: Any) -> Any:
    """A kernel (n, out, *inputs) that applies the op to vectors, with a masked tail."""
    types, out_type = [element(array) for array in arrays], element(result)

    def body(n: Any, out: Any, *pointers: Any) -> None:
        for i in language.loop(0, n, LANES):
            mask = language.tail_mask(n - i, LANES)
            values = [language.load(p + i, LANES, mask=mask) for p in pointers]
            language.store(out + i, op.emit(out_type, values, attributes), mask=mask)

    names = [f"p{number}" for number in range(len(arrays))]
    parameters = {"n": language.i64, "out": language.ptr(out_type)}
    parameters |= {name: language.ptr(t) for name, t in zip(names, types, strict=True)}
    source = f"def {op.name}_alone({', '.join(parameters)}):\n    body({', '.join(parameters)})\n"
    scope: dict[str, Any] = {"body": body}
    exec(compile(source, __file__, "exec"), scope)
    function = scope[f"{op.name}_alone"]
    function.__annotations__ = parameters
    return language.kernel(function)


def case_of(op: Any, sample: Any) -> tuple[list[Any], Any]:
    """The inputs, broadcast, and the result of the reference."""
    arrays = [np.asarray(a) for a in sample.inputs(np.random.default_rng(5))]
    arrays = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays]
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    arrays = [np.broadcast_to(a, shape).copy() for a in arrays]
    return arrays, np.asarray(op.reference(*arrays, **sample.attributes))


@pytest.mark.parametrize("name", [n for n, op in sorted(REGISTRY.items()) if op.emit])
def test_emission(name: str, toolbox: Any) -> None:
    op = REGISTRY[name]
    for sample in op.samples:
        arrays, wanted = case_of(op, sample)
        kernel = make_kernel(op, sample.attributes, arrays, wanted)
        compiled, interpreted = np.zeros_like(wanted), np.zeros_like(wanted)
        kernel(wanted.size, compiled, *arrays)
        toolbox.assert_close(compiled, wanted.astype(np.float64), 3e-6, f"{name} {sample.name}")
        kernel.interpret(wanted.size, interpreted, *arrays)
        assert compiled.tobytes() == interpreted.tobytes(), f"{name} {sample.name}: interpreter"
