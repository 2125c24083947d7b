"""``python -m scenarios faults``: which faults, where they run, and the report."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.faults.suite import chosen, library, run_suite
from scenarios.faults.verdict import Verdict, judge
from scenarios.proxy.rules import KINDS
from scenarios.report import output, table_of
from scenarios.script import load_scenario
from scenarios.study.progress import open_bar

FOLDER = Path("runs/faults")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    command.add_argument("names", nargs="*", metavar="NAME", help="faults of the suite; default: all")
    command.add_argument("--list", action="store_true", help="say what each one proves, and run nothing")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time; default: 1")
    command.add_argument("--transport", choices=("ipc", "tcp"), default="ipc", help="default: ipc")
    command.add_argument("--run-dir", type=Path, default=FOLDER, metavar="DIR",
                         help=f"for the run folders, which are replaced; default: {FOLDER}")  # fmt: skip


def faults(options: argparse.Namespace) -> int:
    """Lists or runs the suite; returns 1 if a fault did not go as it should.

    Raises:
        ConfigError: A name or flag is wrong.
    """
    if options.jobs < 1:
        raise ConfigError([Fault("--jobs", f"is {options.jobs}", "at least 1")], "command line")
    names = chosen(options.names)
    if options.list:
        return _list(names, as_json=options.json)
    began = time.monotonic()
    with open_bar("faults") as report:
        report(0.0, "1 run" if len(names) == 1 else f"{len(names)} runs")
        evidence = run_suite(names, options.run_dir, options.jobs, options.transport, report)
        verdicts = [judge(one) for one in evidence]
    failed = [verdict for verdict in verdicts if verdict.findings]
    seconds = time.monotonic() - began
    if options.json:
        rows = [msgspec.to_builtins(verdict) for verdict in verdicts]
        print(json.dumps({"success": not failed, "seconds": round(seconds, 1), "faults": rows}))
    else:
        _print(verdicts, seconds, options.run_dir)
    return 1 if failed else 0


def _list(names: Sequence[str], *, as_json: bool) -> int:
    rows = [(name, load_scenario(str(library()[name])).description) for name in names]
    if as_json:
        print(json.dumps([dict(zip(("name", "proves"), row, strict=True)) for row in rows]))
    else:
        console = output()
        console.print(table_of("Faults", ("name", "what it proves"), rows))
        kinds = [(name, kind.meaning, ", ".join((*kind.needs, *kind.takes))) for name, kind in KINDS.items()]
        title = 'For a timeline of your own: do = "fault", args = { kind = ... }; also direction, for_s'
        console.print(table_of(title, ("kind", "meaning", "arguments"), kinds))
    return 0


def _print(verdicts: Sequence[Verdict], seconds: float, folder: Path) -> None:
    for verdict in verdicts:
        print(line_of(verdict))
        for finding in verdict.findings:
            print(f"    {finding}")
        if verdict.findings:
            path = library()[verdict.name]
            print(f"    see {folder / verdict.name}; again: python -m scenarios run {path}")
    failed = sum(bool(verdict.findings) for verdict in verdicts)
    print(f"{len(verdicts) - failed} of {len(verdicts)} passed in {seconds:.0f} s")


def line_of(verdict: Verdict) -> str:
    """One line of the report: the verdict, the figures, what the fault did, and who was excused."""
    passed = "FAILED" if verdict.findings else "same bits" if verdict.same_bits else "passed"
    again, copies = verdict.reconnects, verdict.copies_refused
    figures = (
        f"{verdict.rounds} rounds, reconnected {again}x, refused {copies}x as a copy, {verdict.seconds:.0f} s"
    )
    excused = ", ".join(
        f"agent {agent} in round {round_} ({reason})"
        for round_, missing in verdict.excused.items()
        for agent, reason in missing.items()
    )
    did = ", ".join(what if times == 1 else f"{what} x{times}" for what, times in most(verdict.acted))
    tail = f"; excused: {excused}" if excused else ""
    return f"{verdict.name:<20}{passed:<11}{figures}; {did}{tail}"


def most(acted: dict[str, int], shown: int = 3) -> list[tuple[str, int]]:
    """What happened most often; the rest as one entry."""
    ranked = sorted(acted.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = sum(times for _, times in ranked[shown:])
    return ranked[:shown] + ([("others", rest)] if rest else [])
