"""`bedplate profile`: run a script or a module, then say where its time and its memory went."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bedplate.errors import SettingError
from bedplate.inspect import Report
from bedplate.inspect import profile as watch

HELP = """Run a Python script and report its time and memory: by kernel, module and line.

Each kernel is compared with the limits of this machine, which are measured when
the script has ended. The report is printed, and the script's exit status kept,
however the script ends. Options of the profile stand before the script, all that
follows is the script's own.

\b
Examples:
  bedplate profile train.py --epochs 1
  bedplate profile --trace trace.json train.py      for ui.perfetto.dev
  bedplate profile --json report.json --top 5 train.py
  bedplate profile -m bedplate train --steps 20 --out runs/profiled
"""
THIS = str(Path(__file__))


def profile(
    target: Annotated[str, typer.Argument(metavar="SCRIPT", help="A script, or with -m a module.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="Of the script.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module.")] = False,
    trace: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a Chrome / Perfetto trace here.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            allow_dash=True,
            help="Write all numbers here; -: instead of the report.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of each table that are shown.")] = 20,
) -> None:
    _check(target, module, [path for path in (trace, json) if path is not None])
    with watch() as report:
        status = _run(target, arguments or [], module)
    sys.stdout.flush()
    try:
        _write(report, trace, json, top)
    finally:
        if status and sys.exc_info()[0] is BrokenPipeError:
            raise typer.Exit(status)
    raise typer.Exit(status)


profile.__doc__ = HELP


def _check(target: str, module: bool, outputs: list[Path]) -> None:
    """raises SettingError before anything runs"""
    for path in outputs:
        if not path.absolute().parent.is_dir():
            raise SettingError(f"profile: there is no folder {path.absolute().parent}")
    if not module:
        if not Path(target).exists():
            raise SettingError(f"profile: there is no script {target}; -m takes a module's name")
        return
    with _as_main(target, [], Path.cwd()):
        try:
            found = importlib.util.find_spec(target)
        except ModuleNotFoundError:
            found = None
    if found is None:
        raise SettingError(f"profile: there is no module {target}")


def _write(report: Report, trace: Path | None, json: Path | None, top: int) -> None:
    if trace is not None:
        report.trace(trace)
    if json is not None and str(json) != "-":
        json.write_text(report.json() + "\n", encoding="utf-8")
    print(report.json() if str(json) == "-" else f"\n{report.text(top)}", flush=True)


def _run(target: str, arguments: list[str], module: bool) -> int:
    """Run the script as `python` would; its exit status."""
    before = set(threading.enumerate())
    where = Path.cwd() if module else Path(target).resolve().parent
    try:
        with _as_main(target, arguments, where):
            if module:
                runpy.run_module(target, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(target, run_name="__main__")
            for thread in set(threading.enumerate()) - before:
                if not thread.daemon:
                    thread.join()
    except SystemExit as left:
        return _status(left.code)
    except KeyboardInterrupt:
        print("bedplate: interrupted", file=sys.stderr)
        return 130
    except BaseException as error:  # the report is printed, whatever the script raises
        error.__traceback__ = _of_script(error.__traceback__)
        traceback.print_exception(error)
        return 1
    return 0


@contextmanager
def _as_main(target: str, arguments: list[str], where: Path) -> Iterator[None]:
    """The arguments and the path for imports that a script sees."""
    before = sys.argv, sys.path
    sys.argv, sys.path = [target, *arguments], [str(where), *sys.path[1:]]
    try:
        yield
    finally:
        sys.argv, sys.path = before


def _status(code: Any) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1


def _of_script(trace: Any) -> Any:
    """The traceback without the frames of this command; none if the script does not compile."""
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_ours(filename: str) -> bool:
    return filename == THIS or filename == "<frozen runpy>" or filename.endswith("runpy.py")
