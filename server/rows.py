"""What agents may report as measured: keys, types and bounds of rows. Pure.

A listed agent may be wrong, or lie within what its goal could give; it may not put into the record what no
measurement gives: other keys, values that are not finite, counts beyond what it was asked for.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edge_fed.config import Onboarding, RunConfig
from edge_fed.learner import Blueprint
from edge_fed.meta.careful import LEAST
from protocol.messages import Report

LARGEST = 1e100  # of a figure: means and sums of such figures stay finite
MOST = 10**12  # trajectories or samples of one report, where the settings do not bound them

Count = Annotated[int, Meta(ge=0, le=MOST)]
Part = Annotated[float, Meta(ge=0, le=1)]


class EvaluationRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The row of an evaluation, see `edge_fed.evaluation.evaluate`."""

    agent: int
    kind: Literal["dp", "mc"]
    expected_return: float
    meta_objective: float
    success: Part | None
    success_adapted: Part | None
    m_adapt: Count | None
    trajectories: Count
    env_steps: Count
    adapt_trajectories: Count = 0
    eval_trajectories: Count = 0
    protocol: Annotated[str, Meta(max_length=40)] = ""


class OnboardingRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of an onboarder, see `edge_fed.learner.Onboarded`."""

    goal: int
    init: Literal["learned", "careful", "scratch", "random"]
    m_adapt: Count
    ret: float = msgspec.field(name="return")
    success: Part | None
    trajectories: Count
    factor: Part | None = None
    protocol: Annotated[str, Meta(max_length=40)] = ""


class Rules:
    """What follows from a run's settings.

    Args:
        config: The run's.
        shape: Of its tasks.
    """

    def __init__(self, config: RunConfig, shape: Blueprint) -> None:
        onboarding, steps = config.onboarding, config.algorithm.adapt_steps
        self._onboarding = onboarding
        self._steps = steps
        self._measured = shape.measured
        self._private = config.privacy.noisy
        self._horizon = config.environment.horizon + 1
        self._budgets = _budgets(onboarding)
        adapted = 0 if shape.measured == "dp" else onboarding.adapt_episodes
        self._m_adapt = adapted or None
        known = config.task.kind == "reinforcement"  # of others, the scored examples are the agent's to know
        self._evaluation = adapted * steps + 2 * onboarding.eval_episodes if known else MOST
        rows = self._rows = sum(len(budgets) for budgets in self._budgets.values())
        work = (1 + 2 * steps) * sum(onboarding.m_adapt) + sum(onboarding.scratch)
        self._report = work + rows * onboarding.eval_episodes if known else MOST

    def evaluation(self, agent: int, report: Report) -> str:
        """What is wrong with a report on an evaluation; empty: nothing."""
        if report.kind != "evaluation" or len(report.rows) != 1:
            return "an evaluation has exactly one row"
        row, fault = _checked(report.rows[0], EvaluationRow)
        if row is None:
            return fault
        if row.agent != agent:
            return f"it is a row of agent {row.agent}"
        if row.kind != self._measured:
            return f"it was measured by {row.kind}, in this run agents measure by {self._measured}"
        if row.m_adapt != self._m_adapt:
            return f"m_adapt is {row.m_adapt}, the run says {self._m_adapt}"
        counts = row.trajectories, row.adapt_trajectories, row.eval_trajectories
        if max(counts) > self._evaluation:
            return f"{max(counts)} trajectories: at most {self._evaluation} are asked for"
        if row.env_steps > row.trajectories * self._horizon:
            return f"{row.env_steps} steps of the environment in {row.trajectories} trajectories"
        return ""

    def onboarding(self, goal: int, report: Report) -> str:
        """What is wrong with an onboarder's report; empty: nothing."""
        if report.kind != "onboarding":
            return "an onboarder reports onboarding"
        if self._rows and not report.rows and not self._private:  # an agent's own noise may keep them at home
            return "it has no rows"
        if report.trajectories > self._report:
            return f"{report.trajectories} trajectories: at most {self._report} are asked for"
        seen: set[tuple[str, int]] = set()
        for place, found in enumerate(report.rows):
            row, fault = _checked(found, OnboardingRow)
            fault = fault if row is None else self._row(goal, row, seen)
            if fault:
                return f"row {place}: {fault}"
        return ""

    def _row(self, goal: int, row: OnboardingRow, seen: set[tuple[str, int]]) -> str:
        if row.goal != goal:
            return f"it is of goal {row.goal}"
        if row.m_adapt not in self._budgets[row.init]:
            return f"m_adapt {row.m_adapt} is no budget of this run for {row.init}"
        if (row.init, row.m_adapt) in seen:
            return f"a second one of {row.init} with m_adapt {row.m_adapt}"
        seen.add((row.init, row.m_adapt))
        if row.trajectories > row.m_adapt * self._steps:
            return f"{row.trajectories} trajectories: at most {row.m_adapt * self._steps} are asked for"
        if (row.factor is not None) != (row.init == "careful"):
            return f"factor {row.factor} of {row.init}: careful rows have one, others none"
        return ""


def _budgets(onboarding: Onboarding) -> dict[str, frozenset[int]]:
    """Initialization -> what may stand in ``m_adapt``."""
    careful = [m for m in onboarding.m_adapt if m >= LEAST] if onboarding.careful else []
    return {
        "learned": frozenset(onboarding.m_adapt),
        "careful": frozenset(careful),
        "scratch": frozenset(onboarding.scratch),
        "random": frozenset({0} if onboarding.random else ()),
    }


def _checked(row: Mapping[str, Any], kind: Any) -> tuple[Any, str]:
    try:
        found = msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        return None, str(error)[:300]
    for name, value in row.items():
        if isinstance(value, float) and not abs(value) <= LARGEST:  # nor NaN
            return None, f"{name} is {value:g}: not finite, or beyond {LARGEST:g}"
    return found, ""
