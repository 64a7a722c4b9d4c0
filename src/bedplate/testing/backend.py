"""The conformance kit: does a back end keep the protocol of `bedplate.devices.backend`?

    python -m bedplate.testing.backend toy
    python -m bedplate.testing.backend my_package.module:BACKEND --only memory,copies

prints a line a check, by section, and ends with status 1 if one fails; each failure says what is
wrong. In pytest:

    def test_my_back_end():
        check_backend("toy").raise_failures()
"""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bedplate.devices import Device, register, reset
from bedplate.errors import BedplateError, DeviceError, SettingError
from bedplate.testing import check_driver, check_kernels, check_tensors
from bedplate.testing.report import Check, Report, line_of

# in the order of the report: what stands on nothing else first
SECTIONS = (
    "memory", "copies", "queues and events", "kernels", "failures", "moves", "errors",
    "operations", "whole programs",
)  # fmt: skip


def checks(
    device: Device | str, sections: Sequence[str] = (), every_dtype: bool = False
) -> Iterator[Check]:
    """The checks of a device, those of the driver by itself first.

    sections     which of them; by default all
    every_dtype  each op in each of its dtypes, not in those of its samples alone
    raises       DeviceError for a device that is not there, or lies in the host's memory;
                 SettingError for an unknown section
    """
    place = Device(device)
    wanted = _known(sections)
    if place.runtime is None:
        raise DeviceError(f"{place}: values lie in the host's memory, there is no driver")
    driver = place.runtime.driver
    if check_driver.absent(driver):  # whatever else failed would fail for that
        yield from _bound("protocol", check_driver.PROTOCOL, driver)
        return
    bench = check_driver.Bench(driver)
    kernels = check_kernels.Kernels(bench)
    if "memory" in wanted:
        yield from _bound("memory", check_driver.MEMORY, bench)
    if "copies" in wanted:
        yield from _bound("copies", check_driver.COPIES, bench)
    if "queues and events" in wanted:
        yield from _bound("queues and events", check_driver.QUEUES, bench)
    if place.is_planned and "kernels" in wanted:
        yield from _bound("kernels", check_kernels.KERNELS, kernels)
    if place.is_planned and "failures" in wanted:
        yield from _bound("failures", check_kernels.FAILURES, kernels)
    if "moves" in wanted:
        yield from _bound("moves", check_tensors.MOVES, place)
    if place.is_planned and "errors" in wanted:
        yield from _bound("errors", check_tensors.ERRORS, place)
    if "operations" in wanted:
        yield from check_tensors.operation_checks(place, every_dtype)
    if "whole programs" in wanted:
        yield from _bound("whole programs", check_tensors.WHOLE, place)


def _bound(section: str, table: Mapping[str, Callable[[Any], Any]], given: Any) -> Iterator[Check]:
    for name, function in table.items():
        yield Check(section, name, functools.partial(function, given))


def _known(sections: Sequence[str]) -> Sequence[str]:
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        raise SettingError(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    return sections or SECTIONS


def check_backend(
    device: Device | str,
    sections: Sequence[str] = (),
    every_dtype: bool = False,
    tell: Callable[[str], Any] | None = None,
) -> Report:
    """Run the checks of a device; what a failure leaves behind on its streams is forgotten.

    tell     hears the line of each check when it is done
    returns  a report: `str()` of it is a line a section, `failures` and `raise_failures()`
    """
    place = Device(device)
    report = Report(str(place))
    for check in checks(place, sections, every_dtype):
        report.add([check], tell)
        if report.outcomes[-1].fault is not None:
            reset(place)
    return report


def named(text: str) -> Device:
    """A device by name, or of the back end that `module:attribute` names.

    raises  DeviceError, ImportError
    """
    module, colon, attribute = text.partition(":")
    if colon and not attribute.isdigit():
        backend = getattr(importlib.import_module(module), attribute)
        register(backend)
        return Device(backend.name)
    return Device(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bedplate.testing.backend", description="Check a back end."
    )
    parser.add_argument("device", help="NAME, NAME:INDEX, or MODULE:BACKEND")
    parser.add_argument("--only", default="", help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--every-dtype", action="store_true", help="each op in each of its dtypes")
    parser.add_argument("--quiet", action="store_true", help="print failures and the sum alone")
    options = parser.parse_args(arguments)
    sections = [name.strip() for name in options.only.split(",") if name.strip()]
    try:
        report = check_backend(
            named(options.device), sections, options.every_dtype, None if options.quiet else _say
        )
    except (BedplateError, ImportError, AttributeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.quiet:
        for outcome in report.failures:
            _say(line_of(outcome))
    _say(str(report))
    return 1 if report.failures else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
