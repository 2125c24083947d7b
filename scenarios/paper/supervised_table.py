"""``reproduce table-supervised``: the published table of Per-FedAvg beside ours, and how users differ."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np

from edge_fed.config import DatasetConfig, ModelConfig
from edge_fed.errors import ConfigError
from edge_fed.supervised.learner import partition_args
from edge_fed.supervised.users import needs
from scenarios.paper.diversity import Partition, measured
from scenarios.paper.measured import mean_interval
from scenarios.paper.published_supervised import (
    IN_FLOAT64,
    METHODS,
    PROTOCOLS,
    READINGS,
    ROWS,
    STUDY,
    Reading,
    cell,
    published,
)
from scenarios.study.plan import load_study
from scenarios.study.results import Results

MEASURED_ROWS = ("mnist-tau4-0.01", "cifar-tau4-0.01", "cifar-tau4-0.01-high")
"""One row of each partition."""


class Entry(msgspec.Struct, frozen=True):
    """One method in one row.

    Attributes:
        study: Which of the two networks.
        row: Of the published table.
        method: Which.
        published: Accuracy.
        ours: Protocol -> mean accuracy over seeds and 95 % interval; None: no results.
        n: Seeds.
    """

    study: str
    row: str
    method: str
    published: float
    ours: dict[str, tuple[float, tuple[float, float] | None]] | None
    n: int


class SupervisedTable(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        entries: Row by row.
        arithmetic: Largest difference of an accuracy between float32 and float64 inside the network, of the
            rows, methods, seeds and protocols that were run with both; None: there are none.
        compared: How many those are.
        diversity: Of the partitions; empty: not measured.
        floors: Row -> accuracy of users who always say the commonest class of their own images.
    """

    entries: list[Entry]
    arithmetic: float | None
    compared: int
    diversity: list[Partition]
    floors: dict[str, float]


def supervised_table(
    tables: Mapping[str, Results], folder: Path, *, make: bool, told: Callable[[str], None]
) -> SupervisedTable:
    """Makes it of what there is.

    Args:
        tables: Of the three studies, if they are there.
        folder: Where the measured diversity is kept.
        make: Whether to measure it if it is not there: that needs the images.
        told: Called before a partition is measured.
    """
    entries = [
        _entry(tables.get(reading.study), reading.study, row, method)
        for reading in READINGS
        for row in ROWS
        for method in reading.methods
    ]
    differences = _differences(tables)
    study = load_study(STUDY)
    configs = [
        msgspec.structs.replace(study.arm(f"{row}.hf").scenario, model=ModelConfig()) for row in MEASURED_ROWS
    ]
    diversity = measured([*configs], folder, make=make, told=told)
    floors = {row: floor(study.arm(f"{row}.hf").scenario.dataset) for row in ROWS}
    return SupervisedTable(entries, max(differences, default=None), len(differences), diversity, floors)


def floor(config: DatasetConfig) -> float:
    """Mean over the users of the share of their commonest class."""
    everybody = needs(config.family, partition_args(config), "test")
    return float(np.mean([max(wanted.values()) / sum(wanted.values()) for wanted in everybody]))


def _entry(results: Results | None, study: str, row: str, method: str) -> Entry:
    ours, n = {}, 0
    for policy, protocol in PROTOCOLS.items():
        values = _values(results, row, method, policy)
        if not values:
            return Entry(study, row, method, published(row, method), None, 0)
        numbers, n = list(values.values()), len(values)
        ours[protocol] = (float(np.mean(numbers)), mean_interval(numbers))
    return Entry(study, row, method, published(row, method), ours, n)


def _values(results: Results | None, row: str, method: str, policy: str) -> dict[int, float]:
    where = cell(row, method, policy)
    try:
        return results.values(where.arm, where.outcome, where.policy) if results else {}
    except ConfigError:  # not run yet
        return {}


def _differences(tables: Mapping[str, Results]) -> list[float]:
    """Of every accuracy that was computed with both arithmetics."""
    found = []
    for row in ROWS:
        for method in METHODS:
            for policy in PROTOCOLS:
                wide = _values(tables.get(IN_FLOAT64), row, method, policy)
                narrow = _values(tables.get(STUDY), row, method, policy)
                found += [abs(narrow[seed] - wide[seed]) for seed in narrow.keys() & wide.keys()]
    return found


def grid(table: SupervisedTable, reading: Reading) -> tuple[list[str], list[list[str]]]:
    """Heads and rows for people, accuracies in percent, of one of the networks."""
    heads = ["row", "method", "published", *(f"ours, {words}" for words in PROTOCOLS.values()), "n"]
    rows = []
    for entry in (entry for entry in table.entries if entry.study == reading.study):
        if entry.method == next(iter(METHODS)):
            floor = f"{100 * table.floors[entry.row]:.2f}"
            rows.append([ROWS[entry.row][0], "always one's commonest class", "", floor, floor, floor, ""])
        ours = entry.ours or {}
        numbers = [_percent(ours.get(protocol)) for protocol in PROTOCOLS.values()]
        rows.append(["", METHODS[entry.method], f"{100 * entry.published:.2f}", *numbers, str(entry.n)])
    return heads, rows


def _percent(found: tuple[float, tuple[float, float] | None] | None) -> str:
    if found is None:
        return "not run"
    mean, interval = found
    half = "" if interval is None else f" ({100 * interval[0]:.2f} to {100 * interval[1]:.2f})"
    return f"{100 * mean:.2f}{half}"


def arithmetic_line(table: SupervisedTable) -> str:
    """What float32 inside the network changes."""
    if table.arithmetic is None:
        return "float32 against float64 inside the network: not compared yet"
    return (
        f"float32 against float64 inside the network: {table.compared} accuracies of {IN_FLOAT64} differ by "
        f"at most {100 * table.arithmetic:.2f} points"
    )
