"""profile: watch what runs, and give a report of its time and its memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bedplate.config import config
from bedplate.errors import SettingError
from bedplate.inspect.recorder import Recorder
from bedplate.inspect.report import Pending, Report, make_report

_running = threading.Lock()
TIMED = 2  # the level of config.debug from which the runner times regions


@contextmanager
def profile() -> Iterator[Report]:
    """Watch all that runs inside the block, on all threads.

    returns  a report, which is filled in when the block ends: `print(report)` shows time by kernel
             with a verdict, module and source line, and memory by kind; `report.kernels`,
             `.modules`, `.peak`, `.spent` are its tables, `report.trace(path)` writes a trace,
             `report.json()` gives all numbers
    raises   SettingError if a profile is running already, or config.debug is 2 or more
    cost     0.1 us for each chunk of work and some micro-seconds for each run of a plan;
             0.3 s at the end, in which the limits of the machine are measured. What was planned
             before is planned anew, so that its lines are known
    >>> import bedplate as bp
    >>> x = bp.ones((256, 256))
    >>> with bp.profile() as report:
    ...     y = (x @ x).realise()
    >>> "matmul" in [row.name for row in report.kernels]
    True
    """
    if config.debug >= TIMED:
        raise SettingError(
            f"profile: config.debug={config.debug} times each run itself\n"
            "  set it, or BEDPLATE_DEBUG, to 0 or 1"
        )
    if not _running.acquire(blocking=False):
        raise SettingError("profile: one is running already\n  end it before the next begins")
    try:
        recorder = Recorder()
        pending = Pending()
        recorder.start()
        try:
            yield pending  # type: ignore[misc]  # it stands for the report that comes to be in it
        except BaseException as raised:
            try:
                pending.fill(make_report(recorder.stop()))
            except Exception as error:  # must not hide what the block raised
                raised.add_note(f"profile: no report could be made: {error!r}")
            raise
        pending.fill(make_report(recorder.stop()))
    finally:
        _running.release()
