"""``python -m scenarios study FILE|NAME``: runs a study, resumes what is half done, writes one tidy table.

Also draws it; and with ``--from-results`` it draws without running.
"""

import argparse
import json
import os
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.report import output, table_of
from scenarios.study import arms_picture
from scenarios.study.arms_picture import Shown
from scenarios.study.arms_table import arms_table
from scenarios.study.claims_command import Judgement, as_json, judged_in, print_claims
from scenarios.study.gate import gate_line, gate_of, held_out_table
from scenarios.study.plan import Study, load_study, paper_studies
from scenarios.study.pool import run_study
from scenarios.study.preregistration import as_ranges, registration_of, require_preregistered
from scenarios.study.progress import open_bar
from scenarios.study.results import Results
from scenarios.study.seeds import first_seeds, parse_seeds
from scenarios.study.tables import absent, committed, read_table


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
    command.add_argument("--results", type=Path, metavar="DIR",
                         help="where it runs, and is gone on with; default: runs/studies/<name>")  # fmt: skip
    command.add_argument("--from-results", action="store_true",
                         help="run nothing: read the table of edge_fed, or of --results")  # fmt: skip
    command.add_argument("--prereg", action="store_true",
                         help="run only what the preregistration says; judge its claims")  # fmt: skip
    arms_picture.add_arguments(command)


def study(options: argparse.Namespace) -> int:
    """Runs it, or reads its table; returns the exit code.

    Raises:
        ConfigError: The study, a flag or results that lie in the folder are wrong.
        ProgramError: The picture cannot be drawn or written.
    """
    if options.study is None:
        if options.prereg or options.from_results or options.picture:
            fault = Fault("FILE|NAME", "is missing", "python -m scenarios study lists those of the paper")
            raise ConfigError([fault], "command line")
        return _list(options)
    planned = load_study(options.study)
    seeds = seeds_of(options.seeds, planned)
    _check(options, planned)
    if options.from_results:
        results = _read(planned, options.results or committed(), seeds if options.seeds else None)
    else:
        results = _run(planned, seeds, options)
    if options.picture:
        arms_picture.write_picture(results, planned.name, options)
    registered = None
    if options.prereg:
        folder = Path(results.source).parent
        # other studies lie beside this one's folder
        registered = judged_in([folder, folder.parent], planned, path=registration_of(planned.name))
    _print(planned, results, options, registered)
    return 0


def _check(options: argparse.Namespace, planned: Study) -> None:
    """Before anything runs for hours.

    Raises:
        ConfigError: A flag is wrong.
        ProgramError: The picture could not be drawn.
    """
    if options.jobs < 1:
        raise ConfigError([Fault("--jobs", f"is {options.jobs}", "at least 1")], "command line")
    if options.from_results and options.prereg:
        fault = Fault("--prereg", "is about a run, --from-results runs nothing", "python -m scenarios claims")
        raise ConfigError([fault], "command line")
    if options.picture:
        arms_picture.check(options, planned.outcomes)


def _run(planned: Study, seeds: tuple[int, ...], options: argparse.Namespace) -> Results:
    path = registration_of(planned.name)
    preregistration = require_preregistered(planned, seeds, path) if options.prereg else None
    folder = options.results or Path("runs") / "studies" / planned.name
    with open_bar(planned.name) as report:
        return run_study(planned, folder, options.jobs, report, seeds, preregistration)


def _read(planned: Study, folder: Path, seeds: tuple[int, ...] | None) -> Results:
    """Raises: ConfigError: There is no table, or it was made with another configuration."""
    found = read_table(planned, folder, seeds)
    if found is None:
        fault = Fault(planned.name, f"no results{' of these seeds' if seeds else ''} in {folder}",
                      "run it without --from-results, or name its folder with --results")  # fmt: skip
        raise ConfigError([fault], "command line")
    return found


def seeds_of(given: str | None, planned: Study) -> tuple[int, ...]:
    """The seeds to run: ``--seeds`` is a number of them, or ranges.

    Raises:
        ConfigError: It is neither, or none.
    """
    if given is None:
        return planned.seeds
    if given.isdecimal():
        return first_seeds(given, "--seeds", "command line")
    return parse_seeds(given, "--seeds", "command line")


def _list(options: argparse.Namespace) -> int:
    studies = [load_study(name) for name in paper_studies()]
    rows = [(s.name, s.description, f"{len(s.arms)} arms, {len(s.seeds)} seeds") for s in studies]
    heads = ("name", "description", "size")
    if options.json:
        listed = [dict(zip(heads, row, strict=True)) for row in rows]
        print(json.dumps({"success": True, "studies": listed}))
    else:
        output().print(table_of("Studies", heads, rows))
    return 0


def _print(
    planned: Study, results: Results, options: argparse.Namespace, registered: Judgement | None
) -> None:
    picture, gate = str(options.picture) if options.picture else None, gate_of(results)
    if options.json:
        found = {"success": True, "study": planned.name, "results": results.source,
                 "arms": list(results.arms), "rows": len(results.rows), "picture": picture,
                 "absent": absent(planned, results, seeds_of(options.seeds, planned))}  # fmt: skip
        found |= {"claims": as_json(registered)} if registered else {}
        found |= {"gate": {**msgspec.to_builtins(gate), "passed": gate.passed}} if gate else {}
        print(json.dumps(found))
        return
    if registered:
        print_claims(registered)
    table = arms_table(results, Shown(options.outcome, options.policy, options.m))
    if table is not None:
        output().print(table)
    if gate is not None:
        output().print(held_out_table(results))
        output().print(gate_line(gate), soft_wrap=True, highlight=False, markup=False)
    print(f"{planned.name}: {len(results.rows)} measurements of {len(results.arms)} arms in {results.source}")
    for arm, seeds in absent(planned, results, seeds_of(options.seeds, planned)).items():
        print(f"no results yet of {arm}, seeds {as_ranges(seeds)}")
    if picture:
        print(f"picture: {picture}")
    print(f"compare two arms: python -m scenarios compare {results.source}:{results.arms[0]} ...")
