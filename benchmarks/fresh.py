"""What is measured in processes that begin anew: first calls, and the import of a package.

A first call has an empty cache of compiled kernels (cold), or one that an earlier process of the
same peer has filled (warm); caches are folders of this run, so that nothing older helps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.case import IMPORT, Case
from benchmarks.harness import Harness, Measured
from benchmarks.peer import PEERS, ROOT, Process, child_environment

# a peer that compiles for long is started once, others so often that a median means something
SLOW_SECONDS, N_STARTS = 6.0, 3
CACHES = ("BEDPLATE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
IMPORTED = """
import json, time
start = time.perf_counter()
import {package}
seconds = time.perf_counter() - start
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([seconds, 1024 * int(status["VmRSS"].split()[0]), str({package}.__version__)]))
"""


class Fresh:
    """Starts peers for one case each.

    python, threads   as for the other processes
    folder            where the caches are
    """

    def __init__(self, harness: Harness, python: str, threads: int, folder: Path) -> None:
        self.harness = harness
        self.python, self.threads, self.folder = python, threads, folder
        self.count = 0
        self.filled: dict[tuple[str, str], Path] = {}  # caches, by peer and model

    def start(self, name: str, cache: Path) -> Process:
        return Process(name, self.python, self.threads, {key: str(cache) for key in CACHES})

    def measure(self, case: Case) -> list[Measured]:
        """All peers that have the case; another C allocator makes no other first call."""
        if case.kind == IMPORT:
            return self.imports(case)
        rows = []
        names = self.harness.peers_with(case)
        for name in (name for name in names if not name.endswith("-kept")):
            row = self._first(case, name)
            rows += [row] if row else []
        return rows

    def _first(self, case: Case, name: str) -> Measured | None:
        key = name, str(case.parameters["config"])
        if case.parameters["cache"] == "cold":
            caches = [self._new_folder() for _ in range(N_STARTS)]
            row = self.first_calls(case, name, caches)
            self.filled[key] = caches[0]
            return row
        if key not in self.filled:
            self.filled[key] = self._new_folder()
            self.first_calls(case, name, [self.filled[key]])
        return self.first_calls(case, name, [self.filled[key]] * N_STARTS)

    def _new_folder(self) -> Path:
        self.count += 1
        return self.folder / f"cache-{self.count}"

    def first_calls(self, case: Case, name: str, caches: list[Path]) -> Measured | None:
        """Seconds of the first call, in a new process for each cache; fewer if one takes long."""
        row: Measured | None = None
        for cache in caches:
            process = self.start(name, cache)
            found = self.harness.prepare(process, case)
            process.close()
            if found is None:
                return None
            row = row or Measured(case, name, found.first_seconds, found.version)
            row.rounds.append(found.first_seconds)
            if found.first_seconds > SLOW_SECONDS:
                break
        return row

    def imports(self, case: Case) -> list[Measured]:
        """Seconds of the import, or bytes resident after it; every package once a round."""
        rows: dict[str, Measured] = {}
        names = [p.name for p in self.harness.processes if PEERS[p.name].package]
        packages = {PEERS[name].package: name for name in reversed(names)}
        for turn in range(self.harness.rounds + 1):
            for package, name in packages.items():
                python = sys.executable if PEERS[name].is_ours else self.python
                seconds, resident, version = self._import(python, package)
                row = rows.setdefault(name, Measured(case, name, version=version))
                if turn:  # the first reads the files from the disk
                    row.rounds.append(seconds if case.unit == "s" else resident)
        return list(rows.values())

    def _import(self, python: str, package: str) -> tuple[float, float, str]:
        done = subprocess.run(
            [python, "-c", IMPORTED.format(package=package)],
            cwd=ROOT / "benchmarks",
            env=child_environment(self.threads, {}),
            capture_output=True,
            text=True,
            check=True,
        )
        return tuple(json.loads(done.stdout.splitlines()[-1]))
