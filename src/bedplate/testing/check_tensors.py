"""The checks of a device as users meet it: operations and gradients, moves, errors, training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bedplate import nn, optim
from bedplate.devices import Device, reset
from bedplate.dtypes import as_dtype, float32, real_dtype
from bedplate.errors import DeviceError
from bedplate.kernel import f32, i64, kernel, load, loop, ptr, store
from bedplate.nn import functional as F
from bedplate.ops.custom_kernel import kernel_output, run_kernel
from bedplate.ops.record import Op
from bedplate.tensor import Tensor, arange, ones, tensor
from bedplate.tensor.functions import take
from bedplate.tensor.linalg import inv
from bedplate.tensor.values import synchronize
from bedplate.testing.report import Check, Fault, require
from bedplate.testing.samples import EPSILON, WIDE, Case, cases, is_differentiable, weights_for

GRADIENT_ROUNDINGS = 64  # of a gradient against that of the CPU
STEPS = 3


# ---- operations


def family_of(op: Op) -> str:
    """The folder of `ops` in which an op stands; its kind where that cannot be told."""
    functions = (op.infer, op.reference, op.gradient, op.emit, op.lower, op.expand)
    for function in functions:
        parts = (getattr(function, "__module__", None) or "").split(".")
        if parts[:2] == ["bedplate", "ops"] and len(parts) > 3:
            return parts[2]
    return op.kind


def operation_checks(device: Device, every_dtype: bool) -> Iterator[Check]:
    """A check for each op: its samples by value, and by gradient where there is one."""
    by_op: dict[str, list[Case]] = {}
    for case in cases(every_dtype):
        by_op.setdefault(case.op.name, []).append(case)
    ordered = sorted(by_op.values(), key=lambda found: (family_of(found[0].op), found[0].op.name))
    for found in ordered:
        op = found[0].op
        yield Check(
            f"operations, {family_of(op)}", op.name,
            lambda found=found: _check_op(device, found),
        )  # fmt: skip


def _check_op(device: Device, found: list[Case]) -> str | None:
    same = total = 0
    for case in found:
        here, there = _computed(case, device), _computed(case, Device("cpu"))
        _check_value(case, here[0])
        for number, (mine, other) in enumerate(zip(here[1:], there[1:], strict=True)):
            _check_gradient(case, number, mine, other)
        total += len(here)
        same += sum(a.tobytes() == b.tobytes() for a, b in zip(here, there, strict=True))
    return None if same == total else f"{same} of {total} values have the bits of the CPU"


def _computed(case: Case, device: Device) -> list[Any]:
    """The value of a case, and its gradients where it has any."""
    arrays = case.arrays()
    inputs = [Tensor(array, device) for array in arrays]
    smooth = is_differentiable(case)
    for x in inputs if smooth else ():
        if x.dtype.kind in "fc":
            x.requires_grad = True
    y = case.run(*inputs)
    results = [y]
    if smooth and y.requires_grad:
        seed = weights_for(case, arrays).astype(y.dtype.numpy)
        y.backward(Tensor(seed, device))
        results += [x.grad for x in inputs if x.grad is not None]
    return [result.numpy() for result in results]


def _check_value(case: Case, value: Any) -> None:
    arrays = case.arrays()
    wanted = case.oracle(*arrays)
    dtype = as_dtype(value.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        limited = wanted.astype(value.dtype).astype(wanted.dtype)
    wanted = np.where(np.isinf(limited) & np.isfinite(wanted), limited, wanted)
    _require_close(f"{case}: the value", value, wanted, case.tolerance(dtype, arrays), case)


def _check_gradient(case: Case, number: int, mine: Any, other: Any) -> None:
    dtype = as_dtype(other.dtype)
    tolerance = EPSILON[real_dtype(dtype).name] * GRADIENT_ROUNDINGS if dtype.kind in "fc" else 0
    what = f"{case}: gradient {number} (expected is that of the CPU)"
    _require_close(what, mine, other, tolerance, case)


def _require_close(what: str, value: Any, wanted: Any, tolerance: float, case: Case) -> None:
    """raises Fault that names the element which differs"""
    inputs = ", ".join(f"{a.shape} {a.dtype}" for a in case.arrays())
    about = f"\n  inputs {inputs}; {case.sample.attributes or 'no attributes'}"
    if value.shape != wanted.shape:
        raise Fault(f"{what} has shape {value.shape}, expected {wanted.shape}{about}")
    wide: Any = WIDE.get(value.dtype.kind)
    if wide is None:
        wrong = value != wanted
    else:
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = float(finite.max()) if finite.size else 1.0
        wrong = ~np.isclose(
            value.astype(wide), wanted.astype(wide), rtol=tolerance, atol=tolerance * scale,
            equal_nan=True,
        )  # fmt: skip
    if not wrong.any():
        return
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    raise Fault(
        f"{what} differs in {int(wrong.sum())} of {wrong.size} elements\n"
        f"  at {list(place)} it is {value[place]!r}, expected {wanted[place]!r} "
        f"(within {tolerance:.1e} of the largest){about}"
    )


# ---- moves


def _moves_there_and_back(device: Device) -> None:
    for shape in ((), (1,), (3, 5), (0, 4), (257, 129)):
        for dtype in (np.float32, np.int64, np.bool_, np.complex64, np.uint8):
            array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
            there = Tensor(array).to(device)
            require(there.device == device, f".to({str(device)!r}) gave a tensor on {there.device}")
            back = there.to("cpu").numpy()
            require(
                back.tobytes() == array.tobytes(), f"{shape} {array.dtype} came back as other bytes"
            )
            require(there.tolist() == array.tolist(), f"tolist() of {shape} {array.dtype} is wrong")


def _moves_in_the_middle_of_a_graph(device: Device) -> None:
    x = tensor(np.linspace(0, 1, 100), requires_grad=True)
    y = ((x * 3).to(device).exp().to("cpu") * x + (x * 2).to(device).to("cpu")).sum()
    y.backward()
    x2 = tensor(np.linspace(0, 1, 100), requires_grad=True)
    z = ((x2 * 3).exp() * x2 + x2 * 2).sum()
    z.backward()
    _same("a sum with moves in the middle", y, z)
    _same("its gradient", x.grad, x2.grad)


def _keeps_values_apart(device: Device) -> None:
    """Memory is reused by size and queue while copies and kernels are under way."""
    kept = []
    for number in range(300):
        x = Tensor(np.full(1000 + number % 3, number, np.float32), device)
        y = (x * 2 + 1).realise()
        if number % 7 == 0:
            kept.append((number, y, x.to("cpu")))
    for number, y, x in kept:
        require(
            bool((y.numpy() == 2 * number + 1).all() and (x.numpy() == number).all()),
            f"the values of round {number} were overwritten by a later one: memory was reused "
            "before work that used it was done",
        )


MOVES: dict[str, Callable[[Device], str | None]] = {
    "tensors there and back": _moves_there_and_back,
    "moves in the middle of a graph, and gradients": _moves_in_the_middle_of_a_graph,
    "memory is reused in order": _keeps_values_apart,
}


# ---- errors


def _tells_wrong_indices(device: Device) -> None:
    x = Tensor(np.arange(5.0), device)
    y = take(x, Tensor([1, 9], device), axis=0)
    depends = y * 2 + 1
    for what, value in (("", y), (" a second time", y), (" that depends on it", depends)):
        try:
            value.numpy()
        except IndexError as error:
            require("index 9" in str(error), f"the error is {error}, which does not name index 9")
        else:
            raise Fault(
                f"index 9 of 5 elements: reading the value{what} raised nothing, expected "
                "IndexError; kernels write such faults to the error record, which is read back"
            )
    _same("a value that does not depend on it", x + 1, tensor(np.arange(5.0)) + 1)
    try:
        synchronize(device)
    except IndexError:
        pass
    else:
        raise Fault("an error of a stream does not stick: synchronize() raised nothing")
    reset(device)
    synchronize(device)


def _tells_failed_launches(device: Device) -> str | None:
    runtime: Any = device.runtime
    if not hasattr(runtime.driver, "fail_next_launch") or not device.is_planned:
        return "not looked at: the driver has no fail_next_launch(reason)"
    x = Tensor(np.arange(5.0), device)
    x.numpy()
    runtime.driver.fail_next_launch("the kit wants it so")
    y = (x * 3).exp()
    for turn in range(2):
        try:
            y.numpy()
        except DeviceError as error:
            for part in ("the kit wants it so", "exp, made at"):
                require(part in str(error), f"the error does not name {part}:\n{error}")
        else:
            raise Fault(f"a failed launch is not told when its value is read, time {turn + 1}")
    reset(device)
    _same("a value computed after the reset", (x * 3).exp(), (tensor(np.arange(5.0)) * 3).exp())
    return None


def _refuses_mixed_devices(device: Device) -> None:
    try:
        _ = ones(3, device=device) + ones(3, device="cpu")
    except DeviceError as error:
        require("different devices" in str(error), f"the error is {error}")
    else:
        raise Fault("a sum of tensors on two devices was not refused")


ERRORS: dict[str, Callable[[Device], str | None]] = {
    "a wrong index is told at each read, and sticks": _tells_wrong_indices,
    "a failed launch names operation and line": _tells_failed_launches,
    "devices do not mix": _refuses_mixed_devices,
}


# ---- users' kernels, NumPy in the middle, training


@kernel
def double_rows(x: ptr(f32), y: ptr(f32), begin: i64, end: i64):
    """y[i] = x[i] * 2 of the items begin ... end"""
    for i in loop(begin, end):
        store(y + i, load(x + i) * 2)


def _runs_kernels_of_users(device: Device) -> None:
    x = arange(1000, dtype=float32, device=device)
    y = run_kernel(double_rows, x, kernel_output(x.shape, x.dtype), items=1000) + 1
    _same("a kernel of a user", y, tensor(np.arange(1000, dtype=np.float32)) * 2 + 1)


def _calls_numpy_in_the_middle(device: Device) -> None:
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    x = Tensor(matrix, device)
    found = inv(x * 2 + 1).mT * 3 + x.sum()
    _same("an inverse between kernels", found, inv(tensor(matrix) * 2 + 1).mT * 3 + matrix.sum())


def _trained(device: Device) -> dict[str, Any]:
    """A few steps of a small model: what came out, by name."""
    generator = np.random.default_rng(5)
    draw = lambda *shape: generator.normal(0, 0.3, shape).astype(np.float32)  # noqa: E731
    parameters = {
        "embedding": draw(11, 8), "weight": draw(8, 16), "scale": draw(16) + 1, "head": draw(16, 11)
    }  # fmt: skip
    tensors = {n: nn.Parameter(Tensor(value, device)) for n, value in parameters.items()}
    optimizer = optim.AdamW(list(tensors.values()), lr=0.01, weight_decay=0.1)
    tokens = generator.integers(0, 11, (STEPS, 24))
    results: dict[str, Any] = {}
    for step in range(STEPS):
        here = Tensor(tokens[step], device)
        hidden = F.silu(take(tensors["embedding"], here, axis=0) @ tensors["weight"])
        hidden = F.rms_norm(hidden, (16,), tensors["scale"])
        loss = F.cross_entropy(hidden @ tensors["head"], (here + 1) % 11)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results[f"the loss of step {step + 1}"] = loss
    return {**results, **{f"the parameter {n}": t for n, t in tensors.items()}}


def _trains(device: Device) -> str:
    mine, other = _trained(device), _trained(Device("cpu"))
    for name, value in mine.items():
        _same(name, value, other[name], 1e-4)
    same = sum(v.numpy().tobytes() == other[n].numpy().tobytes() for n, v in mine.items())
    return f"{same} of {len(mine)} values have the bits of the CPU"


def _same(what: str, mine: Any, other: Any, tolerance: float = 1e-6) -> None:
    """raises Fault unless a value of the device is that of the CPU"""
    found, wanted = mine.numpy(), other.numpy()
    require(found.shape == wanted.shape, f"{what} has shape {found.shape}, not {wanted.shape}")
    if not np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
        place = tuple(np.argwhere(~np.isclose(found, wanted, rtol=tolerance, atol=tolerance))[0])
        raise Fault(
            f"{what} differs at {[int(i) for i in place]}: it is {found[place]!r}, on the CPU "
            f"{wanted[place]!r}"
        )


WHOLE: dict[str, Callable[[Device], str | None]] = {
    "kernels of users": _runs_kernels_of_users,
    "NumPy between kernels": _calls_numpy_in_the_middle,
    "three steps of training": _trains,
}
