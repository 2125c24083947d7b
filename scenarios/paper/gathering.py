"""What figures and verdicts are made from: tables that are read, or run where they are missing."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scenarios.paper.measured import Planned, planned
from scenarios.paper.rollouts import Rollouts, as_table, make_rollouts, read_rollouts, rollout_arm
from scenarios.study.plan import Study, load_study
from scenarios.study.pool import run_study
from scenarios.study.progress import open_bar
from scenarios.study.results import Results
from scenarios.study.tables import read_table

ROLLOUTS = "fig8.csv"


def run_tables(studies: Iterable[str], folder: Path, seeds: int | None, jobs: int) -> dict[str, Results]:
    """Runs what is missing of the studies, each in ``folder/<study>``.

    Args:
        studies: Names.
        folder: What is done there is not run again.
        seeds: How many, from the study's first one on; None: all of the study's.
        jobs: Processes at a time.

    Raises:
        ConfigError: Cells of another configuration lie there.
        EdgeFedError: A cell failed; what was done is kept.
    """
    tables = {}
    for study in map(load_study, studies):
        with open_bar(study.name) as report:
            tables[study.name] = run_study(study, folder / study.name, jobs, report, seeds_of(study, seeds))
    return tables


def read_tables(studies: Iterable[str], folder: Path, seeds: int | None) -> dict[str, Results]:
    """Reads the tables that are there, in ``folder`` or where `run_tables` leaves them.

    Raises:
        ConfigError: A table is none, or was made with another configuration.
    """
    tables = {}
    for study in map(load_study, studies):
        if table := read_table(study, folder, seeds_of(study, seeds)):
            tables[study.name] = table
    return tables


def seeds_of(study: Study, count: int | None) -> tuple[int, ...]:
    """So many seeds from the study's first one on; more than it has go on counting. None: the study's."""
    return study.seeds if count is None else tuple(range(study.seeds[0], study.seeds[0] + count))


def rollouts_of(folder: Path, *, make: bool) -> Rollouts | None:
    """Those of Figure 8; None: there are none, and none are to be made.

    Raises:
        ConfigError: The table is none, or was made with another configuration.
    """
    path, arm = folder / ROLLOUTS, rollout_arm()
    if path.is_file():
        return read_rollouts(path, arm)
    if not make:
        return None
    rollouts = make_rollouts(arm)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(as_table(rollouts), encoding="utf8")
    return rollouts


def plans_of(studies: Iterable[str]) -> dict[str, Planned]:
    """What these studies are to measure, whatever was run of them."""
    return {name: planned(load_study(name)) for name in studies}


def absent_arms(tables: Mapping[str, Results]) -> dict[str, list[str]]:
    """Arms of the studies of which a table has nothing (yet)."""
    found = {name: _absent(load_study(name), table.arms) for name, table in tables.items()}
    return {name: arms for name, arms in found.items() if arms}


def _absent(study: Study, there: Sequence[str]) -> list[str]:
    return [arm.name for arm in study.arms if arm.name not in there]
