"""The CUDA back end: its calls, on a fake driver."""

from __future__ import annotations

import contextlib
import gc

import numpy as np
import pytest
from tests.unit.devices.cuda.fake import BACKEND as FAKE
from tests.unit.devices.cuda.fake import FakeCuda, FakeDriver

import bedplate as bp
from bedplate.devices import register
from bedplate.devices.cuda import BACKEND, backend
from bedplate.devices.cuda.api import Api, CudaError
from bedplate.devices.cuda.driver import Event, Stream
from bedplate.devices.cuda.staging import Buffer
from bedplate.errors import DeviceError, KernelError
from bedplate.kernel import i64, kernel, ptr
from bedplate.kernel.device.ptx import architecture, ptx_text
from bedplate.testing.backend import check_backend

SECTIONS = ("memory", "copies", "queues and events", "kernels", "failures", "moves", "errors",
            "whole programs")  # fmt: skip


@pytest.fixture(scope="module")
def device() -> bp.Device:
    register(FAKE)
    return bp.Device("fakecuda")


def test_the_conformance_kit(device: bp.Device) -> None:
    check_backend(device, SECTIONS).raise_failures()


def test_values_and_gradients(device: bp.Device) -> None:
    a, b = (np.random.default_rng(i).normal(size=(5, 5)).astype(np.float32) for i in range(2))
    found = []
    for place in ("cpu", device):
        x = bp.tensor(a, device=place, requires_grad=True)
        ((x @ bp.tensor(b, device=place)).tanh() * x).sum().backward()
        found.append(x.grad.numpy().tobytes())
    assert found[0] == found[1]


def test_a_large_write_goes_in_pieces() -> None:
    driver = FakeCuda(Api(FakeDriver()), 0)
    content = np.random.default_rng(0).integers(0, 256, (1 << 26) + 12345, np.uint8)
    address, queue = driver.allocate(content.nbytes), driver.make_queue()
    back = np.zeros_like(content)
    given = content.copy()
    driver.write(queue, address, given)
    given[:] = 0  # it was staged
    driver.read(queue, back, address)
    driver.synchronise(driver.record(queue))
    assert (back == content).all()
    driver.free(address)


def test_nothing_is_left() -> None:
    fake = FakeDriver()
    driver = FakeCuda(Api(fake), 0)
    for _ in range(20):
        queue = driver.make_queue()
        address = driver.allocate(256)
        driver.write(queue, address, np.ones(256, np.uint8))
        driver.synchronise(driver.record(queue))
        driver.free(address)
    del queue
    assert len(fake.pinned) == 1
    del driver
    gc.collect()
    assert fake.live == 0 and not fake.pinned


def test_no_room() -> None:
    driver = FakeCuda(Api(FakeDriver(1 << 20)), 0)
    with pytest.raises(MemoryError, match="no room for 2097152 bytes"):
        driver.allocate(1 << 21)
    with pytest.raises(DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS: a fault"):
        driver.copy(driver.make_queue(), 64, 128, 8)
    with pytest.raises(DeviceError, match="device 3 does not open"):
        FakeCuda(Api(FakeDriver()), 3)


def test_after_a_fault_nothing_raises_but_what_waits() -> None:
    fake = FakeDriver()
    driver = FakeCuda(Api(fake), 0)
    queue = driver.make_queue()
    event = driver.record(queue)
    fake.faulty = True
    assert driver.is_reached(event)
    with pytest.raises(DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        driver.synchronise(event)
    del queue, event  # a finaliser that raised would be a warning, which is an error here
    gc.collect()


@pytest.mark.parametrize("failing", ["cuMemAllocHost", "cuStreamCreate", "cuEventCreate"])
def test_what_was_made_before_a_failure_is_given_back(
    failing: str, recwarn: pytest.WarningsRecorder
) -> None:
    made: list[object] = []

    class Failing(Api):
        def __init__(self) -> None:
            self.driver = FakeDriver()

        def __call__(self, name: str, *arguments: object) -> object:
            if name == failing:
                raise CudaError(2, f"{name}: out of memory")
            if name in ("cuMemAllocHost", "cuStreamCreate", "cuEventCreate"):
                made.append(len(made) + 1)
                return made[-1]
            if name in ("cuMemFreeHost", "cuStreamDestroy", "cuEventDestroy"):
                made.remove(arguments[0])
            return None

    api = Failing()
    for make in (lambda: Buffer(api, 64), lambda: Stream(api), lambda: Event(api, Stream(api))):
        with contextlib.suppress(CudaError):
            make()
    gc.collect()
    assert made == [] and not recwarn.list


def test_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "api", lambda: None)  # as it is there
    assert BACKEND.count() == 0
    with pytest.raises(DeviceError, match="'cuda' has no device on this machine"):
        bp.Device("cuda")
    with pytest.raises(DeviceError, match="NVIDIA's driver is not installed"):
        BACKEND.open(0)


def test_architectures() -> None:
    assert [architecture(*c) for c in ((8, 0), (8, 9), (9, 0), (10, 3))] == [
        "sm_80", "sm_80", "sm_90", "sm_100",
    ]  # fmt: skip
    with pytest.raises(KernelError, match=r"compute capability 7\.5 is too old"):
        architecture(7, 5)


def test_only_tasks() -> None:
    @kernel
    def other(x: ptr(i64)):
        pass

    with pytest.raises(KernelError, match="devices run tasks"):
        ptx_text(other.ir, "other", "sm_90")
