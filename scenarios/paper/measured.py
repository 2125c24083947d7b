"""What the tables say at the places that published statements name, with 95 % intervals."""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from edge_fed.errors import ConfigError, Fault
from scenarios.paper.targets import Cell, Number
from scenarios.study.plan import Study
from scenarios.study.results import Results
from scenarios.study.statistics import difference, interval_of_mean

TAIL = 0.025

Values = dict[int, float]
"""Seed -> value."""

Interval = tuple[float, float] | None
"""None: too few seeds, or values that are not finite."""


class Planned(msgspec.Struct, frozen=True):
    """What a study was to measure, so that a fragment of its table is not taken for the whole.

    Attributes:
        seeds: All of them.
        rounds: Arm -> its last training round.
    """

    seeds: tuple[int, ...]
    rounds: Mapping[str, int]


def planned(study: Study) -> Planned:
    """Reads it from the study."""
    return Planned(study.seeds, {arm.name: arm.scenario.algorithm.rounds for arm in study.arms})


def values_of(results: Results, cell: Cell, plan: Planned) -> Values:
    """The cell's value of each seed; a cell that names no round is of the last one, not of the newest.

    Raises:
        ConfigError: The table has none; the message says what it has.
    """
    if cell.trajectories is not None:
        return _at_trajectories(results, cell, cell.trajectories, plan)
    at = plan.rounds.get(cell.arm) if cell.round is None else cell.round
    return results.values(cell.arm, cell.outcome, cell.policy, cell.m, at)


def _at_trajectories(results: Results, cell: Cell, wanted: int, plan: Planned) -> Values:
    """Between two checkpoints by linear interpolation: every round costs the same (science.md A18).

    A seed counts if both checkpoints are there.
    """
    curve = results.curve(cell.arm, cell.outcome, cell.policy, cell.m)
    total = results.values(cell.arm, "train_trajectories_per_agent", "run")
    last = plan.rounds[cell.arm]
    found: Values = {}
    for seed, spent in sorted(total.items()):
        if not spent >= wanted:
            message = f"{cell.arm} ends at {spent:g} trajectories per agent, before {wanted}"
            raise ConfigError([Fault("trajectories", message)], results.source)
        at = wanted / spent * last
        around = _checkpoints_around(curve, at, results.source)
        if all(seed in curve[number] for number in around):
            found[seed] = float(np.interp(at, around, [curve[number][seed] for number in around]))
    if not found:
        message = f"no seed of {cell.arm} has the checkpoints around {wanted} trajectories"
        raise ConfigError([Fault("trajectories", message)], results.source)
    return found


def _checkpoints_around(curve: Mapping[int, Values], at: float, source: str) -> list[int]:
    """The measured rounds before and after ``at``; one round if it is measured itself."""
    before = [number for number in curve if number <= at]
    after = [number for number in curve if number >= at]
    if not (before and after):
        message = f"round {at:.3g} is not between measured ones, {min(curve)} to {max(curve)}"
        raise ConfigError([Fault("trajectories", message)], source)
    return sorted({max(before), min(after)})


def statistic_of(target: Number, values: Sequence[float]) -> tuple[float, Interval]:
    """The target's statistic over seeds; a fraction is the mean of an indicator."""
    match target.statistic:
        case "median":
            return float(np.median(values)), median_interval(values)
        case "fraction_at_least":
            values = [float(value >= target.threshold) for value in values]
        case "fraction_at_most":
            values = [float(value <= target.threshold) for value in values]
        case "mean":
            pass
    return float(np.mean(values)), mean_interval(values)


def mean_interval(values: Sequence[float]) -> Interval:
    """Bootstrap interval of the mean."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    found = interval_of_mean(values)
    return found.low, found.high


def median_interval(values: Sequence[float]) -> Interval:
    """Between two order statistics, free of any distribution (David and Nagaraja, Order Statistics, 7.1).

    The k-th smallest and the k-th largest of n hold the median with probability 1 - 2 P(Bin(n, 1/2) < k);
    k is the largest that keeps this at 95 % or more. Fewer than six values have none.
    """
    n, ordered = len(values), sorted(values)
    k, below = 0, 0.5**n  # below = P(Bin(n, 1/2) <= k)
    while below <= TAIL:
        k += 1
        below += math.comb(n, k) * 0.5**n
    return (ordered[k - 1], ordered[n - k]) if k and np.isfinite(values).all() else None


def gap_of(above: Values, below: Values) -> float:
    """Difference of the means."""
    return float(np.mean(list(above.values())) - np.mean(list(below.values())))


def gap_interval(above: Values, below: Values) -> Interval:
    """Of `gap_of`; the seeds of the two are independent."""
    a, b = list(above.values()), list(below.values())
    if min(len(a), len(b)) < 2 or not np.isfinite([*a, *b]).all():
        return None
    found = difference(a, b).interval
    return found.low, found.high
