"""`pytest --bedplate-leaks`: a test fails that leaks memory of tensors, and says who holds it.

pytest loads every plugin it finds at its start, so nothing of Bedplate is imported here before a
test is to be watched. What is made in the body of a test and still held when it returns is judged
as by `bp.memory.expect_no_leak()`; what fixtures hold is pytest's to let go of.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

LEAKS = "bedplate_leaks"  # of a report: (file, line, text) of each leak; survives pytest-xdist


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the option."""
    parser.getgroup("bedplate").addoption(
        "--bedplate-leaks",
        action="store_true",
        dest=LEAKS,
        help="fail tests that leak memory of Bedplate's tensors, and name who holds it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch, if that is asked for."""
    if config.getoption(LEAKS):
        config.pluginmanager.register(LeakCheck(), "bedplate-leak-check")


class LeakCheck:
    """Watches the body of each test."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Raise what `bp.memory.expect_no_leak` would raise, if the test has passed."""
        leaks = importlib.import_module("bedplate.inspect.leaks")
        watch = leaks.Watch(sys._getframe())
        try:
            result = yield
            report = watch.found(sys._getframe())
        finally:
            watch.stop()
        if report:
            raise leaks.LeakError(str(report), report)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, Any, Any]:
        """A test that leaks is told by the report alone: its own lines are not at fault."""
        report = yield
        found: Any = None if call.excinfo is None else getattr(call.excinfo.value, "report", None)
        if call.excinfo is not None and type(found).__name__ == "LeakReport":
            report.longrepr = str(call.excinfo.value)  # its first line is that of the summary
            setattr(report, LEAKS, [(*leak.place, str(leak)) for leak in found])
        return report

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Annotations of the lines that leak, where a pipeline shows them."""
        annotations = importlib.import_module("bedplate.inspect.annotations")
        for report in terminalreporter.stats.get("failed", ()):
            for file, line, text in getattr(report, LEAKS, ()):
                shown = annotations.error(file, line, "memory leak", text, os.environ)
                if shown:
                    terminalreporter.write_line(shown)
