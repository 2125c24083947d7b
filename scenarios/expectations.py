"""What a scenario may expect: the names of metrics, their values in a result, and the verdicts."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.errors import Fault, nearest
from edge_fed.federated.attacks import attackers
from scenarios.timeline import Expect, Scenario

METRICS: dict[str, str] = {
    "meta_objective": "return after one adaptation step, mean over the training agents, after the last round",
    "expected_return": "the same before adaptation",
    "honest_meta_objective": "meta_objective, mean over the agents without attack; only if others have one",
    "honest_expected_return": "the same before adaptation",
    "success": "fraction of successful episodes before adaptation, mean over the training agents",
    "success_adapted": "the same after one adaptation step",
    "rounds": "committed rounds",
    "skipped_rounds": "committed rounds that had too few updates and changed nothing",
    "excused": "updates that were asked for and did not come in time, or were refused",
    "trajectories": "contributed training trajectories, all agents",
    "bytes_sent": "by the server",
    "bytes_received": "by the server",
    "wall_s": "seconds from start to end",
    "onboarding.<m>.return": "mean over the onboarded goals, learned initialization, m trajectories",
    "onboarding.<m>.success": "the same, fraction of successful episodes",
    "scratch.<m>.return": "mean over the onboarded goals, trained from scratch on m trajectories",
    "scratch.<m>.success": "the same, fraction of successful episodes",
    "random.return": "mean over the onboarded goals, untrained policy",
    "random.success": "the same, fraction of successful episodes",
}
"""Every metric that an expectation may name."""

HONEST = ("honest_meta_objective", "honest_expected_return")

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
_ROW = re.compile(r"(?:(onboarding|scratch)\.(\d+)|(random))\.(return|success)")


class Verdict(msgspec.Struct, frozen=True):
    """One expectation against what was found; ``found`` is None if the run did not measure it."""

    metric: str
    comparison: str
    value: float
    found: float | None
    met: bool


def expectation_faults(scenario: Scenario) -> Iterable[Fault]:
    """Names of metrics that do not exist, or that this scenario does not measure."""
    for index, expect in enumerate(scenario.expect):
        path = f"expect.{index}"
        row = _ROW.fullmatch(expect.metric)
        if row:
            yield from _unmeasured(scenario, row, f"{path}.metric")
        elif expect.metric in HONEST and not attackers(scenario):
            yield Fault(
                f"{path}.metric", "nobody attacks in this scenario", expect.metric.removeprefix("honest_")
            )
        elif expect.metric not in METRICS or "<" in expect.metric:
            yield Fault(
                f"{path}.metric", f"unknown metric {expect.metric!r}", nearest(expect.metric, METRICS)
            )


def _unmeasured(config: RunConfig, row: re.Match[str], path: str) -> Iterable[Fault]:
    onboarding = config.onboarding
    if not onboarding.goals:
        yield Fault(path, "nobody is onboarded in this scenario", "name [onboarding] goals")
    elif row[3] and not onboarding.random:
        yield Fault(path, "the untrained policy is not scored", "set onboarding.random = true")
    elif row[1]:
        key = "m_adapt" if row[1] == "onboarding" else "scratch"
        budgets = getattr(onboarding, key)
        if int(row[2]) not in budgets:
            measured = ", ".join(map(str, budgets)) or "none"
            yield Fault(path, f"{row[2]} is not in onboarding.{key}", f"measured: {measured}")


def judge(
    expects: Iterable[Expect], values: Mapping[str, float | None], rows: Iterable[Mapping[str, Any]]
) -> list[Verdict]:
    """Compares every expectation with the result.

    Args:
        expects: What was expected.
        values: Metrics of the run by name; None where it has none.
        rows: Onboarding rows.
    """
    rows = list(rows)
    verdicts = []
    for expect in expects:
        row = _ROW.fullmatch(expect.metric)
        found = _mean(rows, row) if row else values.get(expect.metric)
        met = found is not None and COMPARISONS[expect.comparison](found, expect.value)
        verdicts.append(Verdict(expect.metric, expect.comparison, expect.value, found, met))
    return verdicts


def _mean(rows: Iterable[Mapping[str, Any]], wanted: re.Match[str]) -> float | None:
    kind = "random" if wanted[3] else {"onboarding": "learned", "scratch": "scratch"}[wanted[1]]
    found = [
        row[wanted[4]]
        for row in rows
        if row["init"] == kind and (kind == "random" or row["m_adapt"] == int(wanted[2]))
    ]
    numbers = [float(value) for value in found if value is not None]
    return sum(numbers) / len(numbers) if numbers else None
