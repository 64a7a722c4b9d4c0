"""The harness's end of a peer: starts its process, speaks to it, names all that there are."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# glibc: take memory from the heap only and never give it back, as a caching allocator would
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
COMPILED = {"BENCHMARK_TORCH_COMPILE": "1"}
# what would slow a peer down: the last one makes every import compile what has changed
DROPPED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True)
class Peer:
    """Where a peer's code is and what its process needs.

    package  whose import is measured for it, and that (unless `install` says so) is installed
    """

    module: str
    environment: dict[str, str] = field(default_factory=dict)
    is_ours: bool = False
    package: str = ""
    install: str = ""

    def advice(self, python: str) -> str:
        """How to have it."""
        return f"{python} -m pip install {self.install or self.package}"


def _transformers(environment: dict[str, str] | None = None) -> Peer:
    return Peer(
        "transformers_peer",
        environment or {},
        install="torch transformers",
    )


PEERS = {
    "bedplate": Peer("bedplate_peer", is_ours=True, package="bedplate"),
    "bedplate-jit": Peer("bedplate_peer", {"BENCHMARK_JIT": "1"}, is_ours=True),
    "numpy": Peer("numpy_peer", package="numpy"),
    "torch": Peer("torch_peer", package="torch"),
    "torch-kept": Peer("torch_peer", KEPT, package="torch"),
    "torch.compile": Peer("torch_peer", {**COMPILED, **KEPT}, package="torch"),
    "transformers": _transformers(),
    "transformers-kept": _transformers(KEPT),
    "transformers-compiled": _transformers({**COMPILED, **KEPT}),
    "jax": Peer("jax_peer", package="jax"),
    "numba": Peer("numba_peer", package="numba"),
    "tinygrad": Peer(
        "tinygrad_peer", {"DEV": "CPU"}, package="tinygrad",
        install="tinygrad  (and a C compiler named clang)",
    ),
    "limit-arithmetic": Peer("limit_peer", {"BENCHMARK_LIMIT": "arithmetic"}, is_ours=True),
    "limit-memory": Peer("limit_peer", {"BENCHMARK_LIMIT": "memory"}, is_ours=True),
    "limit-memory-nontemporal": Peer(
        "limit_peer", {"BENCHMARK_LIMIT": "memory", "BENCHMARK_NONTEMPORAL": "1"}, is_ours=True
    ),
}  # fmt: skip
LIMITS = tuple(name for name in PEERS if name.startswith("limit-"))
ALL = tuple(name for name in PEERS if name not in LIMITS)
# what a case may take to be prepared (torch.compile: minutes), and a turn: then the peer is ended
PREPARE_SECONDS, TURN_SECONDS = 240.0, 60.0


class PeerError(Exception):
    """A peer's process failed; the text is its traceback."""


def peers_python() -> str:
    """The interpreter that has the peers: BEDPLATE_PEERS_PYTHON, .venv-peers, or this one."""
    named = os.environ.get("BEDPLATE_PEERS_PYTHON")
    if named:
        return named
    own = ROOT / ".venv-peers" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def child_environment(threads: int, more: dict[str, str]) -> dict[str, str]:
    """This environment with `threads` everywhere and without what would slow a peer down."""
    environment = {key: value for key, value in os.environ.items() if key not in DROPPED}
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "BEDPLATE"):
        environment[f"{name}_NUM_THREADS"] = str(threads)
    environment["NUM_CPU_THREADS"] = str(threads)  # tinygrad's
    environment["TOKENIZERS_PARALLELISM"] = "false"
    environment["TRANSFORMERS_VERBOSITY"] = "error"
    return {**environment, **more}


class Process:
    """A running peer. `ask(do, **arguments)` sends a command and waits for the answer."""

    def __init__(
        self, name: str, python: str, threads: int, more: dict[str, str] | None = None
    ) -> None:
        peer = PEERS[name]
        self.name = name
        self.command = [sys.executable if peer.is_ours else python, "-m", "benchmarks.worker"]
        self.command.append(peer.module)
        self.environment = child_environment(threads, {**peer.environment, **(more or {})})
        # compilers that were installed beside the peers
        self.environment["PATH"] = f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self.processors = sorted(os.sched_getaffinity(0))[:threads]
        self._start()

    def _start(self) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, self.processors),
        )

    @functools.cached_property
    def version(self) -> str:
        """The peer's version, once its process has started."""
        return self.ask("versions")["version"]

    def ask(self, do: str, limit: float = PREPARE_SECONDS, **arguments: Any) -> dict[str, Any]:
        """Send one command.

        limit   seconds after which the process is ended
        raises  PeerError with the peer's own words if it failed; a process that ended is begun
                anew, for the next case
        """
        line = self._answer(json.dumps({"do": do, **arguments}) + "\n", limit)
        if not line:
            self.log.seek(0)
            words = self.log.read()[-2000:]
            self.restart()
            raise PeerError(f"{self.name} ended:\n{words}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def _answer(self, line: str, limit: float) -> str:
        """One line of the process, or nothing if it is gone or takes longer than `limit`."""
        pipes = self.process.stdin, self.process.stdout
        if pipes[0] is None or pipes[1] is None:
            return ""
        try:
            pipes[0].write(line)
            pipes[0].flush()
        except BrokenPipeError:
            return ""
        if not select.select([pipes[1]], [], [], limit)[0]:
            self.process.kill()
            self.log.seek(0, os.SEEK_END)
            self.log.write(f"took more than {limit:.0f} s")
        return pipes[1].readline()

    def restart(self) -> None:
        """End the process, and begin it anew with nothing prepared."""
        self.close()
        self._start()

    def close(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()
