"""Apart: a program of our own in a process of its own, for compilers that may end a process.

LLVM and the compilers of drivers end the process that they run in when they meet a fault of
their own (an assertion, a signal). Here that ends a helper, and the caller gets an error. A helper
is started at the first question, and again after it ended; it ends with the process that asks.

What goes through the pipes, both ways: one byte (of an answer: b"+" good, b"-" a refusal in
words), the length in 8 bytes, the content.
"""

from __future__ import annotations

import atexit
import os
import struct
import subprocess
import sys
import threading
import weakref
from typing import Any

_HEAD = struct.Struct("<cQ")
_WAIT_SECONDS = 5.0  # for a helper to end by itself, once its input has ended


class Ended(RuntimeError):
    """The helper ended while it worked on the question."""


class Refused(RuntimeError):
    """The helper answered that it cannot, and why."""


class Apart:
    """A helper process.

    command  arguments of this Python: a script, or -m and a module; it serves with `serve`
    """

    def __init__(self, *command: str) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        _all.add(self)

    def ask(self, question: bytes) -> bytes:
        """The answer to a question; one at a time.

        raises  Ended, Refused
        """
        with self._lock:
            process = self._started()
            try:
                write(process.stdin, b"?", question)
                kind, answer = read(process.stdout)
            except (OSError, EOFError) as error:
                self._stop()
                raise Ended(f"the helper ended: {_cause(process)}") from error
            except BaseException:  # Ctrl-C in the middle: the answer would be taken for the next
                self._stop()
                raise
        if kind == b"-":
            raise Refused(answer.decode(errors="replace"))
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-P", *self._command], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                continue
        try:
            process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End the helper; the next question starts another."""
        with self._lock:
            self._stop()

    def after_fork(self) -> None:
        """In a child the pipes are the parent's: they are closed, and nobody is waited for."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is None:
            return
        process.returncode = 0  # so that nobody waits for what is no child of this process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


_all: weakref.WeakSet[Apart] = weakref.WeakSet()


def _stop_all() -> None:
    for each in list(_all):
        each.stop()


def _after_fork() -> None:
    for each in list(_all):
        each.after_fork()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _cause(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
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
