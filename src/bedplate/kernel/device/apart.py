"""Programs of our own in processes of their own, for compilers that may end a process.

LLVM and the compilers of drivers end the process that they run in when they meet a fault of
their own (an assertion, a signal). Here that ends a helper, and the caller gets an error. A helper
is started by the first question, and another after it ended; it ends with the process that asks.

What goes through the pipes, both ways: one byte (of an answer: b"+" good, b"-" a refusal in
words), the length in 8 bytes, the content.
"""

from __future__ import annotations

import atexit
import os
import struct
import subprocess
import sys
import weakref
from typing import Any

_HEAD = struct.Struct("<cQ")
_WAIT_SECONDS = 5.0  # for a helper to end by itself, once its input has ended


class Ended(RuntimeError):
    """The helper ended while it worked on the question."""


class Refused(RuntimeError):
    """The helper answered that it cannot, and why."""


class Helpers:
    """Helper processes of one kind: as many as are asked at the same time.

    arguments  of this Python; what it runs answers with `read` and `write`
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._free: list[_Helper] = []  # taken and given back in one step each
        _all.add(self)

    def ask(self, question: bytes) -> bytes:
        """The answer to a question.

        raises  Ended, Refused
        """
        try:
            helper = self._free.pop()
        except IndexError:
            helper = _Helper(self._arguments)
        kind, answer = helper.ask(question)
        self._free.append(helper)
        if kind == b"-":
            raise Refused(answer.decode(errors="replace"))
        return answer

    def stop(self) -> None:
        """End those that nobody asks just now; the next question starts another."""
        while self._free:
            self._free.pop().stop()

    def after_fork(self) -> None:
        """In a child the pipes are the parent's: they are closed, and nobody is waited for."""
        while self._free:
            self._free.pop().leave()


class _Helper:
    """One process; whoever has taken it asks it alone."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def ask(self, question: bytes) -> tuple[bytes, bytes]:
        """One that does not answer, or whose answer nobody waits for (Ctrl-C), is ended."""
        try:
            write(self.process.stdin, b"?", question)
            return read(self.process.stdout)
        except (OSError, EOFError) as error:
            self.stop()
            raise Ended(f"the helper ended: {_cause(self.process.returncode)}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._close()
        try:
            self.process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def leave(self) -> None:
        self.process.returncode = 0  # so that nobody waits for what is no child of this process
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was not written yet
                continue


_all: weakref.WeakSet[Helpers] = weakref.WeakSet()


def _stop_all() -> None:
    for each in list(_all):
        each.stop()


def _after_fork() -> None:
    for each in list(_all):
        each.after_fork()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _cause(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"


def write(pipe: Any, kind: bytes, content: bytes) -> None:
    """Send one message."""
    pipe.write(_HEAD.pack(kind, len(content)))
    pipe.write(content)
    pipe.flush()


def read(pipe: Any) -> tuple[bytes, bytes]:
    """Wait for one message.

    raises  EOFError if the other side ended
    """
    kind, size = _HEAD.unpack(_exactly(pipe, _HEAD.size))
    return kind, _exactly(pipe, size)


def _exactly(pipe: Any, size: int) -> bytes:
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return content
