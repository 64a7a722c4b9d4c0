"""The command `bedplate`: its commands, and how each kind of failure leaves it.

Exit status: 0 done, 1 something failed or the reader of the output has gone, 2 wrong arguments or
input, 130 interrupted. A mistake of the caller's is told in one line on standard error;
only a fault of Bedplate's own shows a traceback.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, cast

import typer

from bedplate.cli.doctor import doctor
from bedplate.cli.generate import generate
from bedplate.cli.profile import profile
from bedplate.cli.train import train
from bedplate.errors import DeviceError, OutOfMemoryError, UserError

# typer carries its own copy of click in some releases; the classes are found through its own
_CLICK_ERROR = cast(type[Exception], typer.BadParameter.__mro__[2])

app = typer.Typer(
    name="bedplate",
    help="Train OLMo 3 models, generate text, look at this machine, profile a script.",
    epilog="bedplate COMMAND --help shows examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bedplate {version('bedplate')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
        ),
    ] = False,
) -> None:
    """Train OLMo 3 models, generate text, look at this machine, profile a script."""


app.command()(train)
app.command()(generate)
app.command()(doctor)
# what follows the script is the script's own
app.command(context_settings={"allow_interspersed_args": False})(profile)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; leaves the process with its exit status."""
    _mend_streams()
    sys.exit(_guarded(lambda: app(arguments, standalone_mode=False, prog_name="bedplate")))


def _mend_streams() -> None:
    """Give the program streams where the caller has closed them or they cannot hold all text."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _guarded(command: Callable[[], Any]) -> int:
    """Run a command and give its exit status."""
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except _CLICK_ERROR as error:
        return _say(_usage_text(error), 2)
    except (DeviceError, OutOfMemoryError) as error:
        return _say(str(error), 1)
    except UserError as error:
        return _say(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", 130)
    except BrokenPipeError:
        _forget_output()
        return 1
    except OSError as error:
        if error.filename is None:  # no name: of a write, as to a full disk
            _forget_output()
            return _say(error.strerror or str(error), 1)
        return _say(f"{error.strerror}: {error.filename}", 2)


def _forget_output() -> None:
    """Let go of what is buffered and cannot be written: the interpreter complains of it at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_text(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "bedplate"
    message = error.format_message().strip().rstrip(".")
    return f"{' '.join(message.split())} (see {command} --help)" if message else ""


def _say(message: str, status: int) -> int:
    if message:
        print(f"bedplate: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
