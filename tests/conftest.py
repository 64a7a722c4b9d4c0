"""What holds for all tests: the graph is verified after every pass of the compiler; how long the
sweeps over random inputs are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

os.environ.setdefault("BEDPLATE_VERIFY", "1")  # read when bedplate is imported

# a shell's job in the background ignores Ctrl-C, and so would the processes that tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SWEEP = os.environ.get("BEDPLATE_SWEEP", "quick")
EXAMPLES = {"quick": 10, "full": 200}

for name, count in EXAMPLES.items():
    settings.register_profile(
        name,
        max_examples=count,
        derandomize=True,  # the same examples in each run
        deadline=None,  # kernels compile in some of them
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(SWEEP)


@pytest.fixture(scope="session")
def sweep() -> str:
    """How long a sweep over random inputs is: "quick" by default, "full" in `make sweep`."""
    return SWEEP


@pytest.fixture(autouse=True)
def no_fault_is_left() -> Iterator[None]:
    """What failed on a device in one test is not told again in the next."""
    yield
    runtime = sys.modules.get("bedplate.devices.runtime")
    if runtime is not None:
        for each in runtime.runtimes():
            each.reset()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the sweeps: what takes the fixture, and the tests of hypothesis.

    What looks at all objects comes first, while there are few.
    """
    items.sort(key=lambda item: "unit/inspect" not in str(item.path))
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "sweep" in fixtures or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.sweep)
