"""`bedplate profile`: run a script or a module, then say where its time and its memory went."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from bedplate.errors import SettingError
from bedplate.inspect import Report
from bedplate.inspect import profile as watch
from bedplate.inspect.memory_report import peak
from bedplate.tensor.atomic import replacing

HELP = """Run a Python script and report its time and memory: by kernel, module and line.

Each kernel is compared with the limits of this machine, which are measured when
the script has ended. The report is printed, and the script's exit status kept,
however the script ends. Options of the profile stand before the script, all that
follows is the script's own.

\b
Examples:
  bedplate profile train.py --epochs 1
  bedplate profile --trace trace.json train.py      for ui.perfetto.dev
  bedplate profile --memory memory.html train.py    a page, for a browser
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
    memory: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write a page (HTML) of memory over time here."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of each table that are shown.")] = 20,
) -> None:
    for path in filter(None, (trace, memory)):
        _check_output(path)
    if json is not None and str(json) != "-":
        _check_output(json, streams=True)
    _check(target, module)
    shown = sys.stdout
    with nullcontext() if memory is None else peak() as held, watch() as report:
        status = _run(target, arguments or [], module)
    _flush(sys.stdout)  # the script may have put another in its place
    sys.stdout = shown if _is_open(shown) else _in_place_of_output()
    try:
        _write(report, trace, json, top)
        if held is not None and memory is not None:
            held.report().html(memory)
    finally:
        if status and sys.exc_info()[0] is BrokenPipeError:
            raise typer.Exit(status)
    raise typer.Exit(status)


profile.__doc__ = HELP


def _check(target: str, module: bool) -> None:
    """raises SettingError before anything runs"""
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


def _check_output(path: Path, streams: bool = False) -> None:
    """Refuse before the run what cannot be written behind it.

    streams  a pipe or a device will do
    raises   SettingError
    """
    folder = Path(os.path.realpath(path)).parent
    if streams and _is_stream(path):
        if not os.access(path, os.W_OK):
            raise SettingError(f"profile: {path} may not be written")
    elif not folder.is_dir():
        raise SettingError(f"profile: there is no folder {folder}")
    elif _is_stream(path):
        raise SettingError(f"profile: {path} is there, and is no regular file")
    else:
        _try_folder(folder)


def _try_folder(folder: Path) -> None:
    """Make a file and remove it: rights alone do not tell, as in /proc."""
    probe = folder / f".bedplate-profile-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingError(f"profile: {folder} takes no file: {error.strerror}") from None


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _is_open(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed


def _in_place_of_output() -> TextIO:
    """Where the report goes if the script has closed its output."""
    if _is_open(sys.stderr):
        return sys.stderr
    return open(os.devnull, "w", encoding="utf-8")


def _flush(stream: TextIO | None) -> None:
    if stream is not None and _is_open(stream):
        stream.flush()


def _write(report: Report, trace: Path | None, json: Path | None, top: int) -> None:
    """The report first: it is there even if a file cannot be written."""
    print(report.json() if str(json) == "-" else f"\n{report.text(top)}", flush=True)
    try:
        if trace is not None:
            report.trace(trace)
    finally:
        if json is not None and str(json) != "-":
            _write_json(report.json() + "\n", json)


def _write_json(content: str, path: Path) -> None:
    if _is_stream(path):
        path.write_text(content, encoding="utf-8")
    else:
        with replacing(path) as temporary:
            temporary.write_text(content, encoding="utf-8")


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
