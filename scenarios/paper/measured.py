"""What the tables say at the places that published statements name, with 95 % intervals."""

import math
from collections.abc import Sequence

import numpy as np

from edge_fed.errors import ConfigError, Fault
from scenarios.paper.targets import Cell, Number
from scenarios.study.results import Results
from scenarios.study.statistics import difference, interval_of_mean

TAIL = 0.025

Values = dict[int, float]
"""Seed -> value."""

Interval = tuple[float, float] | None
"""None: too few seeds, or values that are not finite."""


def values_of(results: Results, cell: Cell) -> Values:
    """The cell's value of each seed.

    Raises:
        ConfigError: The table has none; the message says what it has.
    """
    if cell.trajectories is not None:
        return _at_trajectories(results, cell, cell.trajectories)
    return results.values(cell.arm, cell.outcome, cell.policy, cell.m, cell.round)


def _at_trajectories(results: Results, cell: Cell, wanted: int) -> Values:
    """Between two checkpoints by linear interpolation: every round costs the same (science.md A18)."""
    curve = results.curve(cell.arm, cell.outcome, cell.policy, cell.m)
    total = results.values(cell.arm, "train_trajectories_per_agent", "run")
    rounds, last = list(curve), max(curve)
    found: Values = {}
    for seed in sorted(set.intersection(*map(set, curve.values())) & set(total)):
        at = wanted / total[seed] * last
        if at > last:
            message = f"{cell.arm} ends at {total[seed]:g} trajectories per agent, before {wanted}"
            raise ConfigError([Fault("trajectories", message)], results.source)
        found[seed] = float(np.interp(at, rounds, [curve[number][seed] for number in rounds]))
    return found


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
