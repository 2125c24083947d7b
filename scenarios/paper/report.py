"""A reproduction as tables for people."""

from collections import Counter
from typing import TYPE_CHECKING

from scenarios.paper.diversity import rows_of as diversities
from scenarios.paper.figures import FIGURES
from scenarios.paper.published_supervised import FIGURE as SUPERVISED
from scenarios.paper.published_supervised import READINGS
from scenarios.paper.supervised_table import arithmetic_line
from scenarios.paper.supervised_table import grid as accuracies
from scenarios.paper.table2 import grid
from scenarios.paper.verdicts import Verdict
from scenarios.report import output, table_of
from scenarios.study.statistics import number

if TYPE_CHECKING:
    from scenarios.paper.reproduce import Reproduction

HEADS = ("statement", "published", "accepted", "ours", "95 % interval", "n", "verdict")


def print_reproduction(found: "Reproduction") -> None:
    """Published values beside ours, Table 2, what was drawn, and how many were missed."""
    console = output()
    for name in dict.fromkeys(verdict.figure for verdict in found.verdicts):
        rows = [_row(verdict) for verdict in found.verdicts if verdict.figure == name]
        console.print(table_of(f"{name}: {_title(name)}", HEADS, rows))
    if found.supervised is not None:
        for reading in READINGS:
            title = f"{SUPERVISED}: {reading.words}; accuracy in percent, 95 % intervals"
            console.print(table_of(title, *accuracies(found.supervised, reading)))
        if found.supervised.diversity:
            title = f"{SUPERVISED}: how different the users are (root mean squares over the users)"
            console.print(table_of(title, *diversities(found.supervised.diversity)))
    if found.settings:
        console.print(table_of("table2: settings of the studies' files", *grid(found.settings)))
    for line in summary_lines(found):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _title(name: str) -> str:
    return FIGURES[name].title if name in FIGURES else "the published statements"


def summary_lines(found: "Reproduction") -> list[str]:
    """Where the numbers come from, what was drawn, what is missing or missed, and the counts."""
    lines = [f"{study}: {source}" for study, source in found.sources.items()]
    lines += [f"{study}: no results yet of {', '.join(arms)}" for study, arms in found.absent.items()]
    lines += [f"{made.name}: {', '.join(made.files) or f'NOT DRAWN: {made.why}'}" for made in found.figures]
    lines += [
        ": ".join(filter(None, (verdict.figure, verdict.verdict, verdict.what, verdict.detail)))
        for verdict in found.verdicts
        if verdict.verdict != "reproduced"
    ]
    if found.supervised is not None:
        lines.append(f"{SUPERVISED}: {arithmetic_line(found.supervised)}")
    if found.settings:
        asked = f"; the {found.seeds} of --seeds are none" if found.seeds is not None else ""
        lines.append(f"table2: settings as the studies' files have them, also their seeds{asked}")
    lines += [
        f"table2: MISS: {cell.setting} of {cell.study}" for cell in found.settings if cell.verdict == "MISS"
    ]
    return [*lines, *_counts(found)]


def _counts(found: "Reproduction") -> list[str]:
    lines = []
    if total := len(found.verdicts):
        counts = Counter(verdict.verdict for verdict in found.verdicts)
        unsure = counts["reproduced, not significant"]
        lines.append(
            f"{counts['reproduced'] + unsure} of {total} published statements reproduced"
            + (f" ({unsure} of them not significant)" if unsure else "")
            + f", {counts['MISS']} missed, {counts['too few seeds']} with too few seeds, "
            f"{counts['missing']} without data"
        )
    if total := len(found.settings):
        same = sum(cell.verdict == "reproduced" for cell in found.settings)
        lines.append(f"{same} of {total} published settings reproduced, {total - same} missed")
    return lines


def _row(verdict: Verdict) -> tuple[str, ...]:
    interval = " to ".join(map(number, verdict.interval)) if verdict.interval else ""
    published = "" if verdict.published is None else number(verdict.published)
    ours = "" if verdict.ours is None else number(verdict.ours)
    by = f" {verdict.detail.partition(';')[0]}" if verdict.detail.startswith("by ") else ""
    few = f": {verdict.detail.partition(':')[0]}" if verdict.verdict == "too few seeds" else ""
    kind = verdict.verdict + by + few
    return verdict.what, published, verdict.accepted, ours, interval, str(verdict.n), kind
