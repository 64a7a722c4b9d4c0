"""What holds for all tests: the graph is verified after every pass of the compiler; how long the
sweeps over random inputs are; the garbage collector does not look at what pytest keeps.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

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
    for each in runtime.runtimes() if runtime is not None else ():
        for queue in each.queues():
            queue.settle_all()
            if queue.fault is not None or queue.broken is not None:
                queue.reset()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is collected becomes garbage: a third of the time went into looking for it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


# Tests of what looks at all objects and names their holders. With two million objects of pytest's
# each takes 2 s, without 0.02: so they are collected last, when the others' are out of sight.
LOOKS_AT_ALL = "inspect"
HIDDEN = pytest.StashKey[bool]()


def looks_at_all(node: pytest.Item | pytest.Collector) -> bool:
    return node.path.name == LOOKS_AT_ALL or node.path.parent.name == LOOKS_AT_ALL


class LastOfItsFolder:
    """A plugin of its own: pytest asks no conftest.py how the folders beside it are collected."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """What looks at all objects comes last of its folder, and sees nothing before it."""
        if collector.path.name == LOOKS_AT_ALL:
            gc.freeze()
        report = yield
        if isinstance(collector, pytest.Dir):
            report.result.sort(key=looks_at_all)
        return report


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LastOfItsFolder())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hide what was collected from the collector, for `gc.collect()` of tests and of our own.

    It stays hidden from the first test on that does not look at all objects, until one does.
    """
    hidden = item.config.stash.get(HIDDEN, False)
    if looks_at_all(item):
        if hidden:  # out of its turn: slow, but it sees the modules of the tests
            gc.unfreeze()
        item.config.stash[HIDDEN] = False
    elif not hidden:
        gc.freeze()
        item.config.stash[HIDDEN] = True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the sweeps: what takes the fixture, and the tests of hypothesis.

    What looks at all objects is run first, while there are few.
    """
    items.sort(key=lambda item: not looks_at_all(item))
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "sweep" in fixtures or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.sweep)
