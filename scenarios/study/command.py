"""``python -m scenarios study FILE|NAME``: runs a study, resumes what is half done, writes one tidy table."""

import argparse
import json
import os
from pathlib import Path

from rich.console import Console

from edge_fed.config import parse_goals
from edge_fed.errors import ConfigError, Fault
from scenarios.report import table_of
from scenarios.study.plan import Study, load_study, paper_studies
from scenarios.study.pool import run_study
from scenarios.study.preregistration import require_preregistered
from scenarios.study.progress import open_bar
from scenarios.study.results import Results


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    command.add_argument(
        "study", metavar="FILE|NAME", nargs="?", help="a TOML file, or a study of the paper; none: list those"
    )
    command.add_argument(
        "--seeds", metavar="N|RANGES", help="so many from 0 on, or e.g. 1000-1039; default: the study's"
    )
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                         help="processes at a time; default: one per core")  # fmt: skip
    command.add_argument("--results", type=Path, metavar="DIR", help="default: runs/studies/<name>")
    command.add_argument("--prereg", action="store_true",
                         help="refuse to run what differs from the committed preregistration")  # fmt: skip


def study(options: argparse.Namespace) -> int:
    """Runs it; returns the exit code.

    Raises:
        ConfigError: The study, the seeds or results that lie in the folder are wrong.
    """
    if options.study is None:
        return _list(options)
    planned = load_study(options.study)
    seeds = seeds_of(options.seeds, planned)
    if options.jobs < 1:
        raise ConfigError([Fault("--jobs", f"is {options.jobs}", "at least 1")], "command line")
    preregistration = require_preregistered(planned, seeds) if options.prereg else None
    folder = options.results or Path("runs") / "studies" / planned.name
    with open_bar(planned.name) as report:
        results = run_study(planned, folder, options.jobs, report, seeds, preregistration)
    _print(planned, results, as_json=options.json)
    return 0


def seeds_of(given: str | None, planned: Study) -> tuple[int, ...]:
    """The seeds to run: ``--seeds`` is a number of them, or ranges.

    Raises:
        ConfigError: It is neither, or none.
    """
    if given is None:
        return planned.seeds
    if given.isdecimal():
        found = tuple(range(int(given)))
    else:
        try:
            found = parse_goals(given)
        except ValueError:
            found = ()
    if not found:
        fault = Fault(
            "--seeds", f"is {given!r}", "write a number of seeds, 1 or more, or ranges like 1000-1039"
        )
        raise ConfigError([fault], "command line")
    return found


def _list(options: argparse.Namespace) -> int:
    studies = [load_study(name) for name in paper_studies()]
    rows = [(s.name, s.description, f"{len(s.arms)} arms, {len(s.seeds)} seeds") for s in studies]
    heads = ("name", "description", "size")
    if options.json:
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows]))
    else:
        Console().print(table_of("Studies", heads, rows))
    return 0


def _print(planned: Study, results: Results, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"success": True, "study": planned.name, "results": results.source,
                          "arms": list(results.arms), "rows": len(results.rows)}))  # fmt: skip
        return
    print(f"{planned.name}: {len(results.rows)} measurements of {len(planned.arms)} arms in {results.source}")
    print(f"compare two arms: python -m scenarios compare {results.source}:{results.arms[0]} ...")
