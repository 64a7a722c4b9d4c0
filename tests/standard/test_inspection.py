"""The inspection of the namespace, and the refusals of the functions on dtypes."""

from __future__ import annotations

import array_api_strict as strict
import pytest

import bedplate as bp
from bedplate.devices.registry import BACKENDS

INFO = bp.__array_namespace_info__()
THEIRS = strict.__array_namespace_info__()
KINDS = (
    None, "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric", ("bool", "integral"), (),
)  # fmt: skip


def test_capabilities_hold() -> None:
    capabilities = INFO.capabilities()
    assert set(capabilities) == set(THEIRS.capabilities())
    x = bp.zeros((1,) * capabilities["max dimensions"])
    assert (x + 1).sum().item() == 1
    assert capabilities["boolean indexing"] and x[x == 0].shape == (1,)
    assert capabilities["data-dependent shapes"] and bp.nonzero(x[..., 0])[0].shape == (0,)


def test_devices() -> None:
    assert {device.name for device in INFO.devices()} == set(BACKENDS)
    assert INFO.default_device() in INFO.devices()
    with bp.default_device("reference"):
        assert INFO.default_device() == bp.Device("reference") == bp.zeros(1).device


def test_default_dtypes_are_those_of_new_tensors() -> None:
    found = INFO.default_dtypes()
    assert set(found) == set(THEIRS.default_dtypes())
    assert bp.asarray(1.5).dtype is found["real floating"] is bp.zeros(1).dtype
    assert bp.asarray(1j).dtype is found["complex floating"]
    assert bp.asarray(1).dtype is found["integral"]
    assert bp.argmax(bp.ones(2)).dtype is found["indexing"]
    assert INFO.default_dtypes(device="reference") == found


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_dtypes(kind: str | tuple[str, ...] | None) -> None:
    found = INFO.dtypes(kind=kind)
    assert set(found) == set(THEIRS.dtypes(kind=kind))
    assert all(getattr(bp, name) is dtype for name, dtype in found.items())


def test_unknown_kinds_and_devices() -> None:
    with pytest.raises(ValueError, match="dtypes: unknown kind 'whole'; there are bool"):
        INFO.dtypes(kind="whole")
    with pytest.raises(ValueError, match="isdtype: unknown kind 'whole'"):
        bp.isdtype(bp.int8, "whole")
    with pytest.raises(bp.errors.DeviceError, match="'tpu' is unknown"):
        INFO.dtypes(device="tpu")


def test_dtypes_that_are_none() -> None:
    with pytest.raises(bp.errors.DTypeError, match="finfo: int8 is not floating point"):
        bp.finfo(bp.int8)
    with pytest.raises(bp.errors.DTypeError, match="iinfo: float32 is no integer dtype"):
        bp.iinfo(bp.float32)
    with pytest.raises(bp.errors.DTypeError, match="unknown dtype"):
        bp.can_cast("floating", bp.float32)
    with pytest.raises(ValueError, match="result_type: at least one tensor or dtype"):
        bp.result_type(1, 2.0)
    with pytest.raises(bp.errors.DTypeError, match="no integer dtype holds both"):
        bp.result_type(bp.int8, bp.uint64)
    assert not bp.can_cast(bp.int8, bp.uint64)


def test_limits_of_short_floats() -> None:
    assert (bp.finfo(bp.float16).max, bp.finfo(bp.bfloat16).eps) == (65504.0, 2.0**-7)
    assert bp.finfo(bp.ones(1, dtype=bp.complex64)).dtype is bp.float32


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(bp.errors.ShapeError, match=r"\(2, 3\), \(4,\) do not broadcast"):
        bp.broadcast_shapes((2, 3), (4,))
    assert bp.broadcast_shapes((0, 1), (1, 1), ()) == (0, 1)
