"""``python -m scenarios claims``: the preregistered claims, judged on the committed results or on others."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.markup import escape

from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.program.exit_codes import ExitCode
from scenarios.report import output, table_of
from scenarios.study.claims import Evidence, Judged, Verdict, judge, read_evidence
from scenarios.study.plan import Study, load_study, paper_studies
from scenarios.study.preregistration import (
    REGISTERED,
    load_preregistration,
    preregistration_sha256,
    registration_of,
)
from scenarios.study.statistics import Difference, number
from scenarios.study.tables import committed, find_table

EPILOG = "exit codes: 0 all were judged, also if a claim is not shown; 1 one cannot be judged; 2 usage"
HEADS = ("condition", "found", "limit", "95 % interval", "n", "p", "p Holm")
LEGEND = (
    "95 % interval: BCa bootstrap, marked (t) with fewer than six seeds; p: Welch's test; "
    "p Holm: the largest of the claim, corrected over all claims of differences"
)


class Judgement(msgspec.Struct, frozen=True):
    """All claims.

    Attributes:
        preregistration: SHA-256 of the file, which results name that kept to it.
        sources: Registered study -> its table; a study without one is left out.
        claims: In the order of the file.
    """

    preregistration: str
    sources: dict[str, str]
    claims: tuple[Verdict, ...]

    @property
    def whole(self) -> bool:
        """Whether every claim could be judged."""
        return all(verdict.verdict != "cannot be judged" for verdict in self.claims)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    command.epilog = EPILOG
    command.add_argument(
        "--results", type=Path, metavar="DIR",
        help="tables in DIR or in DIR/STUDY, where studies ran; default: those that come with edge_fed",
    )  # fmt: skip
    command.add_argument(
        "--of",
        metavar="STUDY",
        help="claims that were registered with this study; default: those of the paper",
    )


def claims(options: argparse.Namespace) -> int:
    """Judges and prints; returns the exit code.

    Raises:
        ConfigError: There is no preregistration, it is wrong, or the folder is none.
        ProgramError: scipy is not installed.
    """
    folder = options.results or committed()
    if not folder.is_dir():
        raise ConfigError([Fault("--results", f"{folder} is no folder")], "command line")
    found = judged_in([folder], path=registration_of(options.of) if options.of else None)
    if options.json:
        print(json.dumps({"success": found.whole, **as_json(found)}, allow_nan=False))
    else:
        print_claims(found)
    return int(ExitCode.OK if found.whole else ExitCode.FAILED)


def judged_in(folders: Sequence[Path], *studies: Study, path: Path | None = None) -> Judgement:
    """Judges the preregistered claims on the first table of each study that lies in one of the folders.

    Args:
        folders: Where tables may lie.
        studies: Those that are loaded already; the others are studies of the paper.
        path: The preregistration; None: the first one.

    Raises:
        ConfigError: The preregistration is missing or wrong.
        ProgramError: scipy is not installed.
    """
    path = path or REGISTERED
    registered, sha256 = load_preregistration(path), preregistration_sha256(path)
    tables = {}
    for study in (known.name for known in registered.studies):
        places = (find_table(folder, study) for folder in folders)
        if table := next((place for place in places if place), None):
            tables[study] = table
    verdicts = judge(registered, sha256, _evidence(tables, {study.name: study for study in studies}))
    return Judgement(sha256, {study: str(table) for study, table in tables.items()}, verdicts)


def _evidence(tables: Mapping[str, Path], loaded: Mapping[str, Study]) -> dict[str, Evidence | ConfigError]:
    """A table that cannot be read costs its own claims only, as a study does."""
    found: dict[str, Evidence | ConfigError] = {}
    for study, table in tables.items():
        try:
            found[study] = read_evidence(table, loaded.get(study) or _of_the_paper(study))
        except ConfigError as error:
            found[study] = error
    return found


def _of_the_paper(study: str) -> Study:
    """Raises: ConfigError: There is no such study, or it is wrong."""
    known = paper_studies()
    if study not in known:
        raise ConfigError([Fault(study, f"is no study of the paper; {nearest(study, known)}")], "claims")
    return load_study(str(known[study]))


def as_json(found: Judgement) -> dict[str, object]:
    """Everything, with every value of every seed; what is no number, which JSON has not, as null."""
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


def print_claims(found: Judgement) -> None:
    """One table per claim: its verdict, its conditions, and the claim in words."""
    console = output()
    for verdict in found.claims:
        rows = [_row(part, verdict) for part in verdict.conditions]
        title = f"{verdict.name}: {verdict.verdict}"
        console.print(table_of(escape(title), HEADS, rows) if rows else escape(title), highlight=False)
        for line in _lines(verdict):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    for line in (LEGEND, *(f"{study}: {source}" for study, source in found.sources.items())):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"claim: {verdict.text}"
    if verdict.reason:
        yield verdict.reason
    yield ""


def _row(part: Judged, verdict: Verdict) -> tuple[str, ...]:
    figures, p, corrected = part.figures, "", ""
    if isinstance(figures, Difference):
        n = str(figures.n_a) if figures.n_a == figures.n_b else f"{figures.n_a} and {figures.n_b}"
        p, corrected = f"{figures.p:.3g}", "" if verdict.p_holm is None else f"{verdict.p_holm:.3g}"
    else:
        n = str(figures.n)
    interval = f"{number(figures.interval.low)} to {number(figures.interval.high)}"
    if figures.interval.method.endswith("t"):
        interval += " (t)"
    if not isinstance(figures, Difference) and figures.threshold is not None:
        interval = ""  # a fraction was counted; the interval is one of the mean
    words = escape(part.words) if part.holds else f"NOT: {escape(part.words)}"
    return words, number(part.found), number(part.limit), interval, n, p, corrected
