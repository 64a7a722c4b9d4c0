"""Complex numbers and their parts: real, imag, conj, complex, and the pairs that hold them.

A complex value of shape s is kept as pairs of floats, (real, imaginary), of shape s + (2,);
`as_real` and `as_complex` read one as the other. No kernel sees a complex dtype: the pass
`legalise_complex` replaces every complex node by two real ones.

The gradient of a real loss L by a complex z = x + iy is dL/dx + i dL/dy, as in PyTorch. So the
gradient of a function with derivative f'(z) is grad_out times the conjugate of f'(z), and what
real code calls a gradient serves complex numbers too once it has taken the conjugate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.dtypes import COMPLEX, DType, complex64, complex128, float32, float64, real_dtype
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.build import Value, as_type, as_values, number, promoted, sum_to
from bedplate.ops.elementwise import binary, unary
from bedplate.ops.record import Op, apply, register
from bedplate.ops.refusal import refuse, refuse_inputs
from bedplate.ops.samples import Sample, mixed

Shapes = tuple[int, ...]
PARTS = (float32, float64)  # the dtypes that pairs may have
OF_PARTS = {float32: complex64, float64: complex128}


def complex_numbers(*shapes: Shapes, low: float = -2.0, high: float = 2.0) -> Sample:
    """One complex128 array a shape, both parts uniform in [low, high)."""

    def make(rng: np.random.Generator) -> list[Any]:
        return [rng.uniform(low, high, s) + 1j * rng.uniform(low, high, s) for s in shapes]

    return mixed(make, f"complex {' '.join(map(str, shapes))}")


ONE = tuple(complex_numbers(shape) for shape in ((3, 5), (37,), (), (0, 3)))


def real_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """Nothing comes back for the imaginary part."""
    return (complex_(grad_out, number(grad_out, 0.0)),)


@unary(
    reference=np.real,
    emit=None,
    gradient=real_gradient,
    samples=ONE,
    dtypes=COMPLEX,
    promote="common",
    result=real_dtype,
)
def _real(z: Value) -> Value:
    """The real part of a complex value."""


def real(z: Value) -> Value:
    """The real part: y = x for x + iy; a real value is its own.

    >>> import bedplate as bp
    >>> bp.real(bp.tensor([1 + 2j, 3.0])).tolist()
    [1.0, 3.0]
    """
    return _real(z) if z.dtype.kind == "c" else z._alias()


def imag_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """Nothing comes back for the real part."""
    return (complex_(number(grad_out, 0.0), grad_out),)


@unary(
    reference=np.imag,
    emit=None,
    gradient=imag_gradient,
    samples=ONE,
    dtypes=COMPLEX,
    promote="common",
    result=real_dtype,
)
def imag(z: Value) -> Value:
    """The imaginary part: y for x + iy.

    raises   DTypeError for a value that is not complex: it has none
    >>> import bedplate as bp
    >>> bp.imag(bp.tensor([1 + 2j, 3.0])).tolist()
    [2.0, 0.0]
    """


def conj_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """The conjugate of what comes."""
    return (conj(grad_out),)


@unary(
    reference=np.conj,
    emit=None,
    gradient=conj_gradient,
    samples=ONE,
    dtypes=COMPLEX,
    promote="common",
)
def _conj(x: Value) -> Value:
    """The conjugate of a complex value."""


def conj(x: Value) -> Value:
    """The complex conjugate: x - iy for x + iy; a real value is its own.

    >>> import bedplate as bp
    >>> bp.conj(bp.tensor([1 + 2j])).tolist()
    [(1-2j)]
    """
    return x if x.dtype.is_float or x.dtype.kind != "c" else _conj(x)


def complex_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """To each part its own."""
    re, im = inputs
    return sum_to(real(grad_out), re.shape), sum_to(imag(grad_out), im.shape)


def complex_result(dtype: DType) -> DType:
    """The dtype of complex numbers with parts of `dtype`."""
    return OF_PARTS[dtype]


def _complex_reference(re: Any, im: Any) -> Any:
    re, im = np.broadcast_arrays(re, im)
    result = np.empty(re.shape, OF_PARTS[PARTS[re.dtype.itemsize // 4 - 1]].numpy)
    result.real, result.imag = re, im  # re + 1j * im would make NaN of infinities
    return result


@binary(
    reference=_complex_reference,
    emit=None,
    gradient=complex_gradient,
    samples=(
        mixed(lambda r: [r.random((3, 5)), r.random((3, 5))], "equal shapes"),
        mixed(lambda r: [r.random((4, 1)), r.random((6,))], "broadcast"),
        mixed(lambda r: [r.random(()), r.random(())], "0-d"),
        mixed(lambda r: [r.random((0, 3)), r.random(())], "empty"),
    ),
    dtypes=PARTS,
    promote="float",
    result=complex_result,
)
def _complex(re: Value, im: Value) -> Value:
    """Complex numbers of their parts, both float32 or both float64."""


def complex_(re: Value, im: Value) -> Value:
    """Complex numbers of their parts: z = re + i im, without arithmetic (inf and NaN stay).

    re, im   real; shapes broadcast; float64 gives complex128, all else complex64
    returns  their common shape
    raises   DTypeError for complex parts
    >>> import bedplate as bp
    >>> bp.complex(bp.tensor([1.0, 3.0]), 2.0).tolist()
    [(1+2j), (3+2j)]
    """
    re, im = promoted("complex", (re, im), to_float=True)
    if re.dtype.kind == "c":
        refuse(
            DTypeError, "complex", "the parts must be real", {"re": re, "im": im},
            "add complex values: a + 1j * b",
        )  # fmt: skip
    if re.dtype not in PARTS:
        re, im = as_type(re, float32), as_type(im, float32)
    return _complex(re, im)


def as_real_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """The pairs of the gradient are its complex numbers."""
    return (as_complex(grad_out),)


def _as_real_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    if x.dtype.kind != "c":
        refuse_inputs(
            DTypeError, "as_real", "the value is not complex", inputs, "it has no pairs to show"
        )
    return (*x.shape, 2), float64 if x.dtype is complex128 else float32


def _as_real_reference(x: Any) -> Any:
    return np.stack([x.real, x.imag], -1)


AS_REAL = register(
    Op(
        "as_real",
        "view",
        _as_real_infer,
        reference=_as_real_reference,
        gradient=as_real_gradient,
        dtypes=COMPLEX,
        samples=ONE,
        doc="The pairs (real, imaginary) along a new last axis.",
    )
)


def as_real(x: Value) -> Value:
    """The pairs (real, imaginary) of complex numbers, along a new last axis.

    x        (...)     complex64 or complex128
    returns  (..., 2)  float32 or float64: the same bytes
    raises   DTypeError for other dtypes
    >>> import bedplate as bp
    >>> bp.as_real(bp.tensor([1 + 2j, 3.0])).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    return apply(AS_REAL, as_values("as_real", (x,)))


def as_complex_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """The complex numbers of the gradient are its pairs."""
    return (as_real(grad_out),)


def _as_complex_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (x,) = inputs
    if x.dtype not in PARTS:
        refuse_inputs(
            DTypeError, "as_complex", "no complex dtype has such parts", inputs,
            "cast first: x.astype(bp.float32)",
        )  # fmt: skip
    if not x.shape or x.shape[-1] != 2:
        refuse_inputs(
            ShapeError, "as_complex", "the last axis must have size 2", inputs,
            "it holds the real and the imaginary part",
        )  # fmt: skip
    return x.shape[:-1], OF_PARTS[x.dtype]


def _as_complex_reference(x: Any) -> Any:
    return _complex_reference(x[..., 0], x[..., 1])


AS_COMPLEX = register(
    Op(
        "as_complex",
        "view",
        _as_complex_infer,
        reference=_as_complex_reference,
        gradient=as_complex_gradient,
        dtypes=PARTS,
        samples=(
            mixed(lambda r: [r.random((3, 5, 2))], "matrix"),
            mixed(lambda r: [r.random((2,))], "0-d"),
            mixed(lambda r: [r.random((0, 2))], "empty"),
        ),
        doc="The complex numbers whose real and imaginary parts stand along the last axis.",
    )
)


def as_complex(x: Value) -> Value:
    """The complex numbers whose parts stand along the last axis: the inverse of `as_real`.

    x        (..., 2)  float32 or float64
    returns  (...)     complex64 or complex128: the same bytes
    raises   ShapeError if the last axis has another size, DTypeError for other dtypes
    >>> import bedplate as bp
    >>> bp.as_complex(bp.tensor([[1.0, 2.0], [3.0, 0.0]])).tolist()
    [(1+2j), (3+0j)]
    """
    return apply(AS_COMPLEX, as_values("as_complex", (x,)))


def view_as_real(x: Value) -> Value:
    """The pairs (real, imaginary), by PyTorch's name: see `as_real`.

    >>> import bedplate as bp
    >>> bp.view_as_real(bp.tensor(1 + 2j)).tolist()
    [1.0, 2.0]
    """
    return as_real(x)


def view_as_complex(x: Value) -> Value:
    """Complex numbers of pairs, by PyTorch's name: see `as_complex`.

    >>> import bedplate as bp
    >>> bp.view_as_complex(bp.tensor([1.0, 2.0])).item()
    (1+2j)
    """
    return as_complex(x)
