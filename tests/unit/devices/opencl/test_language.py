"""Every kernel of the tests of the language, on the OpenCL device: the same results."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.devices.opencl.on_device import OnDevice
from tests.unit.kernel import (
    test_calls,
    test_dots,
    test_edges,
    test_instructions,
    test_memory,
    test_statements,
)
from tests.unit.kernel.conftest import assert_same, samples

from bedplate.kernel.staging import Kernel

__all__ = ["assert_same", "samples"]

# What looks at this processor's code, or calls code and symbols of this process.
_OF_THE_PROCESSOR = {
    "test_large_callees_stay_functions", "test_call_of_an_address", "test_call_of_the_c_library",
    "test_unknown_symbol", "test_atomic_add_from_several_threads",
    "test_pointers_through_the_boundary", "test_only_processors_that_have_it_get_the_instruction",
    "test_the_program_is_there_while_another_thread_compiles",
    "test_masks_on_a_machine_without_masked_instructions",
}  # fmt: skip

for module in (test_calls, test_dots, test_edges, test_instructions, test_memory, test_statements):
    for name, test in vars(module).items():
        if name.startswith("test_") and callable(test) and name not in _OF_THE_PROCESSOR:
            globals()[name] = test


@pytest.fixture(autouse=True)
def _on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, Any] = {}

    def compile(self: Kernel, target: Any = None) -> Any:
        if id(self) not in made:
            made[id(self)] = OnDevice(self), self
        return made[id(self)][0]

    monkeypatch.setattr(Kernel, "compile", compile)
