"""``python -m scenarios reproduce``: the paper's figures from runs or from results, its numbers judged."""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError, nearest
from edge_fed.program.exit_codes import ExitCode, ProgramError
from scenarios.paper.figures import FIGURES, write_figure
from scenarios.paper.figures.style import Material
from scenarios.paper.gathering import (
    ROLLOUTS,
    absent_arms,
    plans_of,
    read_tables,
    rollouts_of,
    run_tables,
)
from scenarios.paper.published import TABLE_2, TARGETS
from scenarios.paper.published_supervised import FIGURE as SUPERVISED
from scenarios.paper.published_supervised import IN_FLOAT64, READINGS, SUPERVISED_TARGETS
from scenarios.paper.report import print_reproduction
from scenarios.paper.supervised_table import SupervisedTable, supervised_table
from scenarios.paper.table2 import Compared, as_markdown, compare_settings
from scenarios.paper.verdicts import Verdict, judge
from scenarios.patience import only_if_slow
from scenarios.study.figure import require_matplotlib
from scenarios.study.plan import load_study
from scenarios.study.seeds import MOST
from scenarios.study.tables import committed

TABLE = "table2"
NAMES = (*FIGURES, TABLE)
"""What ``all`` means. The supervised table is asked for by name: it needs images, and hours."""

RUNS = Path("runs/reproduce")
MOST_JOBS = 1_000
EPILOG = "exit codes: 0 done, also where published values are missed; 1 a figure has no results; 2 usage"


class Made(msgspec.Struct, frozen=True):
    """One figure.

    Attributes:
        name: Its name.
        files: What was written; empty: it could not be drawn.
        why: Why not.
    """

    name: str
    files: tuple[str, ...]
    why: str = ""


class Reproduction(msgspec.Struct, frozen=True):
    """All that came out.

    Attributes:
        figures: In the order of the paper.
        verdicts: On the published statements of these figures.
        settings: Of Table 2, if asked for.
        supervised: The table of supervised Per-FedAvg, if asked for.
        sources: Study -> the table that was used.
        absent: Study -> arms of which the table has nothing.
        seeds: How many seeds of each study were asked for; None: all of them.
    """

    figures: list[Made]
    verdicts: list[Verdict]
    settings: list[Compared]
    supervised: SupervisedTable | None
    sources: dict[str, str]
    absent: dict[str, list[str]]
    seeds: int | None


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    command.epilog = EPILOG
    # fmt: off
    command.add_argument("figures", metavar="FIGURE", nargs="*", default=["all"],
                         help="default all: " + ", ".join(NAMES) + f"; beside them {SUPERVISED}, which "
                         "needs images in EDGE_FED_DATA unless --from-results")
    command.add_argument("--from-results", action="store_true",
                         help="run nothing: draw the results that come with edge_fed, or those of --results")
    command.add_argument("--seeds", type=int, metavar="N",
                         help="the first N seeds of each study; default: all; fewer reproduce nothing")
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                         help="processes at a time; default: one per core")
    command.add_argument("--results", type=Path, metavar="DIR",
                         help=f"where studies are run, each in DIR/STUDY, and gone on with; default {RUNS}")
    command.add_argument("--output", type=Path, default=RUNS / "figures", metavar="DIR",
                         help=f"of figures and verdicts.json; default {RUNS / 'figures'}")
    # fmt: on


def reproduce(options: argparse.Namespace) -> int:
    """Runs what is missing, draws, judges and reports; returns the exit code.

    Raises:
        ConfigError: Results are of another configuration.
        ProgramError: A flag is wrong, matplotlib is not installed, or the output cannot be written.
    """
    names = wanted(options.figures)
    for flag, most in (("seeds", MOST), ("jobs", MOST_JOBS)):
        value = getattr(options, flag)
        if value is not None and not 1 <= value <= most:
            raise _usage(f"--{flag} is {value}, it must be 1 to {most}")
    if names != [TABLE]:
        require_matplotlib()
    _make(options.output)
    found = _reproduce(names, _material(names, options), options)
    plain = json.loads(msgspec.json.encode(found))  # NaN becomes null
    _write(options.output / "verdicts.json", json.dumps(plain, indent=1, allow_nan=False))
    whole = all(made.files for made in found.figures)
    if options.json:
        print(json.dumps({"success": whole, **plain}, allow_nan=False))
    else:
        print_reproduction(found)
    return int(ExitCode.OK if whole else ExitCode.FAILED)


def wanted(names: Sequence[str]) -> list[str]:
    """The figures that are asked for, each once, in the order of the paper.

    Raises:
        ProgramError: There is no such figure; the message names those that start like it, or the nearest.
    """
    known = (*NAMES, SUPERVISED, "all")
    for name in names:
        if name not in known:
            longer = [repr(other) for other in known if name and other.startswith(name)]
            meant = f"did you mean {' or '.join(longer)}?" if longer else nearest(name, known)
            raise _usage(f"there is no figure {name!r}; {meant}")
    found = [name for name in NAMES if name in names or "all" in names]
    return [*found, SUPERVISED] if SUPERVISED in names else found


def _usage(message: str) -> ProgramError:
    return ProgramError(ExitCode.USAGE, message, "see python -m scenarios reproduce --help")


def _material(names: Sequence[str], options: argparse.Namespace) -> Material:
    """Everything that the figures need; read it is only what is there."""
    drawings = [FIGURES[name] for name in names if name in FIGURES]
    studies = dict.fromkeys(study for drawing in drawings for study in drawing.studies)
    if SUPERVISED in names:
        studies |= dict.fromkeys((*(reading.study for reading in READINGS), IN_FLOAT64))
    if options.from_results:
        folder = options.results or committed()
        tables = read_tables(studies, folder, options.seeds)
    else:
        folder = options.results or RUNS
        tables = run_tables(studies, folder, options.seeds, options.jobs)
    if not any(drawing.rollouts for drawing in drawings):
        return Material(tables)
    return Material(tables, rollouts_of(folder, make=not options.from_results))


def _reproduce(names: Sequence[str], material: Material, options: argparse.Namespace) -> Reproduction:
    settings: list[Compared] = []
    if TABLE in names:
        settings = compare_settings(map(load_study, TABLE_2))
        _write(options.output / f"{TABLE}.md", as_markdown(settings))
    report, figures = only_if_slow("reproduce"), [name for name in names if name in FIGURES]
    made = []
    for number, name in enumerate(figures, start=1):
        report(f"drawing {name}, {number} of {len(figures)}")
        made.append(_draw(name, material, options.output))
    supervised = None
    if SUPERVISED in names:
        folder = options.results or (committed() if options.from_results else RUNS)
        supervised = supervised_table(material.tables, folder, make=not options.from_results, told=report)
    report("judging the published statements")
    targets = [target for target in (*TARGETS, *SUPERVISED_TARGETS) if target.figure in names]
    return Reproduction(
        figures=made,
        verdicts=judge(targets, material.tables, plans_of(material.tables)),
        settings=settings,
        supervised=supervised,
        sources={study: table.source for study, table in material.tables.items()},
        absent=absent_arms(material.tables),
        seeds=options.seeds,
    )


def _draw(name: str, material: Material, output: Path) -> Made:
    drawing = FIGURES[name]
    lacking = [f"study {study}" for study in drawing.studies if study not in material.tables]
    lacking += [ROLLOUTS] if drawing.rollouts and material.rollouts is None else []
    if lacking:
        return Made(name, (), f"no results of {', '.join(lacking)}; without --from-results they are made")
    try:
        return Made(name, tuple(map(str, write_figure(name, material, output))))
    except ConfigError as error:
        return Made(name, (), str(error))


def _make(folder: Path) -> None:
    """Before anything runs for hours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf8")
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> ProgramError:
    message = f"cannot write {path}: {error.strerror}"
    return ProgramError(ExitCode.USAGE, message, "choose another --output")
