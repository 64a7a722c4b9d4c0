"""The command: python -m benchmarks [--only spine,conv] [--peers numpy,torch] [--json FILE] ..."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.case import FIRST_STEP, IMPORT, Case
from benchmarks.cases import chosen
from benchmarks.compare import print_comparison
from benchmarks.fresh import Fresh
from benchmarks.harness import Harness, Measured, last_line
from benchmarks.machine import machine
from benchmarks.peer import ALL, LIMITS, PEERS, PeerError, Process, peers_python
from benchmarks.report import print_table
from benchmarks.results import Row, json_rows, keep, read_rows, write_rows

CONSOLE = Console(width=None if sys.stdout.isatty() else 150)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help="groups (spine, inference), or parts of names, by comma")
    parser.add_argument("--peers", default="all", help=f"of {', '.join(ALL)}; all unless given")
    parser.add_argument("--json", type=Path, help="write the rows to this file, case by case")
    parser.add_argument("--resume", action="store_true", help="leave out what --json's file has")
    parser.add_argument("--keep", action="store_true", help="keep the rows in benchmarks/results/")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="what changed since these rows")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds a turn (default 0.1)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--check", action="store_true", help="compare the results, time nothing")
    parser.add_argument("--python", default=peers_python(), help="interpreter that has the peers")
    return parser.parse_args()


def peer_names(text: str) -> list[str]:
    """The peers that `--peers` means, and those that measure the limits."""
    names = list(ALL) if text == "all" else text.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        sys.exit(f"unknown peer {unknown[0]}; there are {', '.join(ALL)}")
    return list(dict.fromkeys([*names, *LIMITS]))


class Session:
    """One run of the command: its processes and the folder of their kernel cache."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.processes: list[Process] = []
        more = {"BEDPLATE_CACHE_DIR": str(folder / "shared")}
        started = [
            Process(name, options.python, options.threads, more)
            for name in peer_names(options.peers)
        ]
        for process in started:
            self._greet(process)
        self.harness = Harness(self.processes, options.rounds, options.budget, print)
        self.fresh = Fresh(self.harness, options.python, options.threads, folder)

    def _greet(self, process: Process) -> None:
        """Say which version a peer has, or how to have the peer."""
        try:
            print(f"{process.name:26}{process.version}")
            self.processes.append(process)
        except PeerError as error:
            advice = PEERS[process.name].advice(self.options.python)
            print(f"{process.name:26}absent: {last_line(error)}\n{'':26}to have it: {advice}")
            process.close()

    def measure(self, case: Case) -> list[Measured]:
        is_fresh = case.kind in (FIRST_STEP, IMPORT)
        return self.fresh.measure(case) if is_fresh else self.harness.measure(case)

    def check(self, case: Case) -> None:
        """Say whose results are right; nothing is timed."""
        names = [process.name for process, _ in self.harness.ready(case)]
        self.harness.drop()
        names = [name for name in names if name not in LIMITS]
        print(f"{case.name:40}{' '.join(names)}", flush=True)

    def close(self) -> None:
        for process in self.processes:
            process.close()


def run(cases: list[Case], options: argparse.Namespace) -> list[Row]:
    """The rows of the cases, and those of the file that is resumed; Ctrl-C ends with what is there.

    The file is written after each case, so that a run that is killed has lost one case.
    """
    rows = read_rows(options.json) if options.resume else []
    known = {row["case"] for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        session = Session(options, Path(folder))
        try:
            for case in cases:
                if case.name in known:
                    continue
                start = time.monotonic()
                if options.check:
                    session.check(case)
                    continue
                rows += json_rows(session.measure(case), options.threads)
                if options.json:
                    write_rows(options.json, rows)
                print(f"{case.name:40}{time.monotonic() - start:6.1f} s", file=sys.stderr)
        except KeyboardInterrupt:
            options.keep = False  # the kept file is of whole runs
            print("interrupted; what was measured before:", file=sys.stderr)
        finally:
            session.close()
    return rows


def refuse(options: argparse.Namespace) -> None:
    """Say which files are missing, before anything is measured."""
    if options.compare and not options.compare.is_file():
        sys.exit(f"no file {options.compare} to compare with; one is written by --json or --keep")
    if options.resume and not (options.json and options.json.is_file()):
        sys.exit("--resume goes on with the file of --json, which is not there")


def main() -> None:
    options = arguments()
    cases = chosen(options.only)
    if not cases:
        sys.exit(f"no case matches {options.only!r}; see --list")
    refuse(options)
    if options.list:
        print("\n".join(case.name for case in cases))
        return
    old = read_rows(options.compare) if options.compare else []
    print(", ".join(f"{key}: {value}" for key, value in machine(options.threads).items()))
    rows = run(cases, options)
    if options.check or not rows:
        return
    print_table(rows, CONSOLE)
    if options.keep:
        print(f"kept: {keep(rows)}\nthe page made from it: python -m benchmarks.page --write")
    if options.compare:
        print_comparison(old, rows, CONSOLE)


if __name__ == "__main__":
    main()
