"""The harness's end of a peer: starts its process, speaks to it, names all that there are."""

from __future__ import annotations

import functools
import json
import os
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


@dataclass(frozen=True)
class Peer:
    """Where a peer's code is and what its process needs."""

    module: str
    environment: dict[str, str] = field(default_factory=dict)
    is_ours: bool = False


PEERS = {
    "bedplate": Peer("bedplate_peer", is_ours=True),
    "bedplate-jit": Peer("bedplate_peer", {"BENCHMARK_JIT": "1"}, is_ours=True),
    "numpy": Peer("numpy_peer"),
    "torch": Peer("torch_peer"),
    "torch-kept": Peer("torch_peer", KEPT),
    "torch.compile": Peer("torch_peer", {**COMPILED, **KEPT}),
    "transformers": Peer("transformers_peer"),
    "transformers-kept": Peer("transformers_peer", KEPT),
    "transformers-compiled": Peer("transformers_peer", {**COMPILED, **KEPT}),
    "jax": Peer("jax_peer"),
    "numba": Peer("numba_peer"),
    "limit-arithmetic": Peer("limit_peer", {"BENCHMARK_LIMIT": "arithmetic"}, is_ours=True),
    "limit-memory": Peer("limit_peer", {"BENCHMARK_LIMIT": "memory"}, is_ours=True),
    "limit-memory-nontemporal": Peer(
        "limit_peer", {"BENCHMARK_LIMIT": "memory", "BENCHMARK_NONTEMPORAL": "1"}, is_ours=True
    ),
}
LIMITS = tuple(name for name in PEERS if name.startswith("limit-"))
USUAL = (
    "bedplate", "bedplate-jit", "numpy", "torch", "torch-kept", "jax", "transformers",
    "transformers-kept",
)  # fmt: skip


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
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    }
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "BEDPLATE"):
        environment[f"{name}_NUM_THREADS"] = str(threads)
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
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable if peer.is_ours else python, "-m", "benchmarks.worker", peer.module],
            cwd=ROOT,
            env=child_environment(threads, {**peer.environment, **(more or {})}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads]),
        )

    @functools.cached_property
    def version(self) -> str:
        """The peer's version, once its process has started."""
        return self.ask("versions")["version"]

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one command. Raises PeerError with the peer's own words if it failed."""
        if self.process.stdin is None or self.process.stdout is None:
            raise PeerError(f"{self.name}: no pipes")
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            raise PeerError(f"{self.name} ended:\n{self.log.read()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
