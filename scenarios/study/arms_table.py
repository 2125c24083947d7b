"""What ``study`` prints of its arms: mean over the seeds and 95 % interval, of one outcome.

Where some agents attack, the honest ones are shown: the others' return is nobody's aim.
"""

from collections.abc import Iterator

from rich.table import Table

from scenarios.report import table_of
from scenarios.study.arms_picture import Shown
from scenarios.study.results import Results
from scenarios.study.statistics import number, summarize

COLUMNS = ("arm", "agents", "seeds", "mean", "95 % interval")


def arms_table(results: Results, shown: Shown) -> Table | None:
    """One row per arm that has the outcome; None if none has."""
    rows = list(_rows(results, shown))
    return table_of(f"{shown.label}, newest round", COLUMNS, rows) if rows else None


def _rows(results: Results, shown: Shown) -> Iterator[tuple[str, ...]]:
    there = {
        (row.arm, row.policy) for row in results.rows if (row.outcome, row.m) == (shown.outcome, shown.m)
    }
    for arm in results.arms:
        policy = "honest" if shown.policy == "shared" and (arm, "honest") in there else shown.policy
        if (arm, policy) not in there:
            continue
        found = [*results.values(arm, shown.outcome, policy, shown.m).values()]
        mean, interval = number(found[0]), "one seed"
        if len(found) > 1:
            summary = summarize(found)
            mean = number(summary.mean)
            interval = f"{number(summary.interval.low)} to {number(summary.interval.high)}"
        yield arm, policy, str(len(found)), mean, interval
