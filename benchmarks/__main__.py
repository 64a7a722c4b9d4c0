"""The command: python -m benchmarks [--only spine] [--peers numpy,torch] [--json FILE]."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.cases import Case, chosen
from benchmarks.harness import Harness, Measured
from benchmarks.peer import LIMITS, PEERS, USUAL, PeerError, Process, peers_python
from benchmarks.report import machine, print_table, write_json

CONSOLE = Console(width=None if sys.stdout.isatty() else 150)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help="the group spine, or part of a case's name")
    parser.add_argument("--peers", default=",".join(USUAL), help=f"of {', '.join(PEERS)}, or all")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--budget", type=float, default=0.15, help="seconds a turn (default 0.15)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--python", default=peers_python(), help="interpreter that has the peers")
    return parser.parse_args()


def peer_names(text: str) -> list[str]:
    """The peers that `--peers` means, and those that measure the limits."""
    names = list(PEERS) if text == "all" else text.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        sys.exit(f"unknown peer {unknown[0]}; there are {', '.join(PEERS)}")
    return list(dict.fromkeys([*names, *LIMITS]))


class Session:
    """One run of the command: its processes and the folder of their kernel cache."""

    def __init__(self, options: argparse.Namespace, cache: Path) -> None:
        self.options = options
        self.cache = cache
        self.n_fresh = 0
        self.processes = self._start_all(peer_names(options.peers))
        self.harness = Harness(self.processes, options.rounds, options.budget, print)

    def _start(self, name: str, cache: Path) -> Process:
        more = {"BEDPLATE_CACHE_DIR": str(cache)}
        return Process(name, self.options.python, self.options.threads, more)

    def _start_all(self, names: list[str]) -> list[Process]:
        """The processes of those peers that this machine has."""
        processes = []
        for name in names:
            process = self._start(name, self.cache / "shared")
            try:
                print(f"{name:26}{process.version}")
                processes.append(process)
            except PeerError as error:
                print(f"{name:26}absent: {str(error).strip().splitlines()[-1]}")
                process.close()
        return processes

    def _start_cold(self, name: str) -> Process:
        self.n_fresh += 1
        return self._start(name, self.cache / f"cold-{self.n_fresh}")

    def _start_warm(self, name: str) -> Process:
        return self._start(name, self.cache / "warm")

    def measure(self, case: Case) -> list[Measured]:
        if case.kind != "first_step":
            return self.harness.measure(case)
        rows = []
        for name in self.harness.peers_with(case):
            rows += self.harness.first_calls(case, name, self._start_cold, name)
            if PEERS[name].is_ours:
                self.harness.first_calls(case, name, self._start_warm, name, n_calls=1)
                rows += self.harness.first_calls(case, name, self._start_warm, f"{name} warm")
        return rows

    def close(self) -> None:
        for process in self.processes:
            process.close()


def run(cases: list[Case], options: argparse.Namespace) -> list[Measured]:
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory() as cache:
        session = Session(options, Path(cache))
        try:
            for case in cases:
                start = time.monotonic()
                measured += session.measure(case)
                print(f"{case.name:40}{time.monotonic() - start:6.1f} s", file=sys.stderr)
        finally:
            session.close()
    return measured


def main() -> None:
    options = arguments()
    cases = chosen(options.only)
    if not cases:
        sys.exit(f"no case matches {options.only!r}; see --list")
    if options.list:
        print("\n".join(case.name for case in cases))
        return
    print(", ".join(f"{key}: {value}" for key, value in machine(options.threads).items()))
    measured = run(cases, options)
    print_table(measured, CONSOLE)
    if options.json:
        write_json(options.json, measured, options.threads)


if __name__ == "__main__":
    main()
