"""Tensors made from data or from nothing but a shape.

Those without data are lazy: a plan that reads `zeros(...)` folds it into its kernels.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from bedplate.devices.device import Device, current_device
from bedplate.dtypes import DType, as_dtype, complex64, float32, int64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Node, Shape
from bedplate.graph.pending import user_site
from bedplate.ops.leaves import constant
from bedplate.ops.shape import creation
from bedplate.ops.shape.views import as_sizes
from bedplate.tensor.dlpack import from_dlpack as array_from_dlpack
from bedplate.tensor.tensor import Tensor, wrap
from bedplate.tensor.values import foreign_node

Number = bool | int | float


def tensor(
    data: Any,
    device: Device | str | None = None,
    dtype: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`; the same as `Tensor(...)`.

    data           numbers, nested lists (also of tensors), arrays, anything with `__array__` or
                   `__dlpack__`; a tensor's history does not come along: `bp.stack` keeps it
    device         by default that of `default_device`
    dtype          by default: Python integers int64, Python floats float32, others theirs
    requires_grad  gradients are computed for it
    raises         ShapeError for a ragged list; DTypeError or TypeError for what is no number
    >>> import bedplate as bp
    >>> bp.tensor([1, 2]).dtype, bp.tensor([1.0, 2.0]).dtype
    (bedplate.int64, bedplate.float32)
    """
    return Tensor(data, device, dtype, requires_grad)


def asarray(data: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """`data` as a tensor: itself if it is one of this dtype on this device.

    copy     True: never itself, but with its history: gradients flow through (`bp.tensor(x)` has
             none). False: itself, or the memory of an array as `from_dlpack` takes it
    data     as for `tensor`
    dtype    of the result; by default that of the data
    device   of the result
    returns  the shape of the data
    raises   ValueError for copy=False where the values must be converted or gathered
    >>> import bedplate as bp
    >>> x = bp.ones(2)
    >>> bp.asarray(x) is x, bp.asarray(x, copy=True) is x
    (True, False)
    """
    if isinstance(data, Tensor):
        moved = data if device is None else data.to(Device(device))
        result = moved.astype(moved.dtype if dtype is None else dtype, copy=bool(copy))
        if copy is not False or result is data:
            return result
    elif copy is not False:
        return Tensor(data, device, dtype)
    elif hasattr(data, "__dlpack__"):
        with contextlib.suppress(BufferError):
            result = from_dlpack(data, device=device, copy=False)
            if dtype is None or result.dtype is as_dtype(dtype):
                return result
    raise ValueError(
        f"asarray: {type(data).__name__} cannot become this tensor without a copy\n"
        "  leave out copy=False"
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an object of another library that has `__dlpack__`.

    The memory stays its owner's, who must not write it while the tensor, or anything that is
    computed from it and not read yet, is in use: lazy values read it later. `copy=True` (or
    `bp.tensor(x)`) makes a value that nobody can change. Bedplate never writes such memory.

    x        what has `__dlpack__` and `__dlpack_device__`, in the CPU's memory
    device   of the result; all of this machine's devices read the CPU's memory
    copy     None: its memory if it can be used as it is, else a copy; True: a copy; False: its
             memory, or BufferError
    raises   TypeError if it has no `__dlpack__`; BufferError if it is elsewhere, or its owner
             does not give it (PyTorch: a tensor that requires a gradient); DTypeError
    >>> import bedplate as bp
    >>> array = np.array([1.0, 2.0])
    >>> x = bp.from_dlpack(array)
    >>> x.tolist(), np.shares_memory(np.from_dlpack(x), array)
    ([1.0, 2.0], True)
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack: {type(x).__name__} has no __dlpack__ and __dlpack_device__; "
            "bp.tensor(...) takes lists, numbers and arrays"
        )
    place = current_device() if device is None else Device(device)
    if isinstance(x, Tensor) and not copy:
        return x.detach() if device is None else x.detach().to(place)
    return _shared(array_from_dlpack(x, False if copy is False else None), place, copy)


def _shared(array: Any, device: Device, copy: bool | None) -> Tensor:
    """A tensor over the memory of an array, if `copy` and its layout allow it."""
    node = None if copy else foreign_node(array, device)
    if node is None and copy is False:
        raise BufferError(
            f"from_dlpack: shape {array.shape} with strides of {array.strides} bytes cannot be "
            "used as it lies\n  a tensor's elements lie side by side; leave out copy=False"
        )
    return Tensor(array, device) if node is None else wrap(node)


def from_numpy(array: Any) -> Tensor:
    """A tensor with a copy of a NumPy array, in its dtype.

    array    any shape and layout
    returns  shape of the array; `from_dlpack` shares its memory instead
    raises   DTypeError for a dtype that is no number
    >>> from_numpy(np.arange(2, dtype=np.int16)).dtype
    bedplate.int16
    """
    return Tensor(np.asarray(array))


def new_shape(name: str, shape: tuple[Any, ...]) -> Shape:
    """The shape of a new tensor, given as one tuple or one size after the other.

    raises  ShapeError for a negative size, TypeError for what is no integer
    """
    sizes = as_sizes(name, shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"{name}: sizes must not be negative, got {sizes}")
    return sizes


def _like(device: Device | str | None, dtype: DType) -> Node:
    """A node from which the functions of the ops floor take the device."""
    return constant(0, dtype, current_device() if device is None else Device(device))


def _made(node: Node, requires_grad: bool) -> Tensor:
    if node.site is None and node.inputs:
        node.site = user_site(3)
    result = wrap(node)
    if requires_grad:
        result.requires_grad = True
    return result


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`fill_value` in every element.

    fill_value  a number, or a tensor of no axes
    dtype       by default that of the value: bool, int64, float32, complex64 for Python's
    shape       sizes, a tuple or one integer
    returns     the shape; lazy: it takes no memory before somebody needs it
    raises      DTypeError if an integer dtype does not hold the number
    >>> import bedplate as bp
    >>> bp.full((2,), 7).tolist()
    [7, 7]
    """
    wanted = as_dtype(getattr(fill_value, "dtype", type(fill_value)) if dtype is None else dtype)
    sizes = new_shape("full", (shape,))
    if isinstance(fill_value, Tensor):
        filled = asarray(fill_value, wanted, device).broadcast_to(sizes)
        return filled.requires_grad_() if requires_grad else filled
    try:
        result = creation.full(_like(device, wanted), sizes, fill_value, wanted)
    except DTypeError as error:
        raise DTypeError(f"full: {error}") from None
    return _made(result, requires_grad)


def zeros(
    shape: Any = (),
    *more: int,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0 in every element.

    shape    sizes, as one tuple or one after the other
    dtype    by default float32
    device   by default that of `default_device`
    returns  the shape; lazy: it takes no memory before somebody needs it
    >>> import bedplate as bp
    >>> bp.zeros(2, 1).tolist()
    [[0.0], [0.0]]
    """
    sizes = new_shape("zeros", (shape, *more))
    return full(sizes, 0, float32 if dtype is None else dtype, device, requires_grad)


def ones(
    shape: Any = (),
    *more: int,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 in every element.

    shape    sizes, as one tuple or one after the other
    dtype    by default float32
    device   by default that of `default_device`
    returns  the shape; lazy: it takes no memory before somebody needs it
    >>> import bedplate as bp
    >>> bp.ones((2,)).tolist()
    [1.0, 1.0]
    """
    sizes = new_shape("ones", (shape, *more))
    return full(sizes, 1, float32 if dtype is None else dtype, device, requires_grad)


def empty(
    shape: Any = (),
    *more: int,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose values do not matter; they are zeros, since nothing reads stale memory.

    shape    sizes, as one tuple or one after the other
    dtype    by default float32
    device   by default that of `default_device`
    returns  the shape; lazy: it takes no memory before somebody needs it
    >>> empty(2, 1).shape
    (2, 1)
    """
    sizes = new_shape("empty", (shape, *more))
    return zeros(sizes, dtype=dtype, device=device, requires_grad=requires_grad)


def arange(
    start: Number,
    stop: Number | None = None,
    step: Number = 1,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... before stop; with one argument from 0 up to it.

    dtype          by default int64 if all numbers are integers, else float32
    start, stop    numbers; stop itself is left out
    requires_grad  gradients are computed for it
    returns        (ceil((stop - start) / step),), y[i] = start + i step
    raises         ValueError if the step is 0 or a number is not finite; DTypeError for bool and
                   complex
    >>> import bedplate as bp
    >>> bp.arange(3).tolist(), bp.arange(1.0, 2.0, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """
    bounds = (0, start) if stop is None else (start, stop)
    first, end, by = (_plain(number) for number in (*bounds, step))
    if any(isinstance(number, float) and not math.isfinite(number) for number in (first, end, by)):
        raise ValueError(f"arange: {first}, {end}, {by} are no finite start, stop and step")
    whole = all(isinstance(number, int) for number in (first, end, by))
    wanted = (int64 if whole else float32) if dtype is None else as_dtype(dtype)
    if wanted.kind not in "iuf":
        raise DTypeError(f"arange: expected an integer or floating point dtype, got {wanted}")
    made = creation.arange(_like(device, wanted), first, end, by, wanted)
    return _made(made, requires_grad)


def _plain(number: Any) -> Any:
    """The Python number of a NumPy scalar or a tensor of one element."""
    return number.item() if hasattr(number, "item") else number


def linspace(
    start: complex,
    stop: complex,
    num: int,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """`num` numbers from start to stop at equal distances.

    dtype     by default float32, or complex64 if an end is complex
    endpoint  whether stop is the last of them
    start     the first number
    num       how many
    returns   (num,), y[i] = start + i (stop - start) / (num - 1), or / num without the endpoint
    >>> import bedplate as bp
    >>> bp.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    start, stop = _plain(start), _plain(stop)
    kind = complex64 if isinstance(start, complex) or isinstance(stop, complex) else float32
    wanted = kind if dtype is None else as_dtype(dtype)
    made = creation.linspace(_like(device, wanted), start, stop, num, wanted, endpoint)
    return _made(made, requires_grad)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 on a diagonal, 0 elsewhere.

    n_cols   by default n_rows
    k        which diagonal: above the main one if positive
    n_rows   how many
    returns  (n_rows, n_cols), y[i, j] = 1 if j == i + k else 0
    >>> import bedplate as bp
    >>> bp.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    wanted = float32 if dtype is None else as_dtype(dtype)
    rows, columns = new_shape("eye", ((n_rows, n_rows if n_cols is None else n_cols),))
    return _made(creation.eye(_like(device, wanted), rows, columns, k, wanted), requires_grad)
