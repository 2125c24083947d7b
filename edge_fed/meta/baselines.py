"""Baselines of the policy gradient and of both curvature terms (methods.md 3).

`none` and `loo` are stateless; `value` is a linear value function that the agent learns over its local
steps. All leave the estimators unbiased: none depends on an action of the trajectory it is subtracted from.
"""

from typing import Any

import numpy as np

from edge_fed.meta.base import AgentState, Baseline, Task, insist_on_state
from edge_fed.meta.regression import regression
from edge_fed.params import F8
from edge_fed.returns import reward_to_go
from edge_fed.rollouts import Trajectories
from edge_fed.tables import Table

FORGETTING = 0.9  # of the sums of earlier local steps, which come from older parameters


class NoBaseline(Baseline):
    """The paper: b = 0."""

    def advantages(self, batch: Trajectories) -> F8:
        """R^h, ``[H+1, m]``."""
        return reward_to_go(batch.rewards)


class LeaveOneOut(Baseline):
    """b_h of a trajectory = mean over the OTHER trajectories of the batch of R^h; ended ones count 0."""

    def advantages(self, batch: Trajectories) -> F8:
        """R^h - b_h = m / (m - 1) (R^h - mean R^h), ``[H+1, m]``.

        Raises:
            ValueError: The batch is a single trajectory.
        """
        m = batch.size
        if m < 2:
            raise ValueError("baseline 'loo' needs batches of 2 trajectories or more; this one has 1")
        to_go = reward_to_go(batch.rewards)
        centred: F8 = (to_go - to_go.mean(axis=1, keepdims=True)) * (m / (m - 1))
        return batch.masked(centred)


class ValueBaseline(Baseline):
    """b_h(s) = zeta_h phi(s) . w, fitted to R^h on the batches of EARLIER local steps.

    w = (A + 1e-3 I)^-1 b once, before the step samples, for all of its batches; afterwards
    A <- 0.9 A + sum x x^T and b <- 0.9 b + sum x R^h with x = zeta_h phi(s_h), over all of its batches.
    """

    def __init__(self, task: Task, state: AgentState) -> None:
        super().__init__(task, state)
        insist_on_state("value baseline", state, self.initial(task))
        self._regression = regression(task.environment.spaces)
        self._weights = self._regression.solve(state["A"], state["b"])
        self._zeta = remaining_share(task.environment.horizon, task.environment.discount)
        self._seen: list[tuple[Any, F8]] = []

    @classmethod
    def initial(cls, task: Task) -> AgentState:
        """A = 0.01 I and b = 0, so that the first w is 0."""
        A, b = regression(task.environment.spaces).initial()
        return {"A": A, "b": b}

    def advantages(self, batch: Trajectories) -> F8:
        """R^h - b_h(s_h), ``[H+1, m]``."""
        to_go = reward_to_go(batch.rewards)
        x = self._regression.features(batch.states, batch.masked(self._zeta))
        self._seen.append((x, to_go))
        return to_go - self._regression.predict(x, self._weights)

    def after(self) -> AgentState:
        """The state with this step's batches counted in."""
        A, b = FORGETTING * self.state["A"], FORGETTING * self.state["b"]
        for x, to_go in self._seen:
            self._regression.add(x, to_go, A, b)
        return {"A": A, "b": b}


def remaining_share(horizon: int, discount: float) -> F8:
    """zeta_h = gamma^h (1 - gamma^(H+1-h)) / (1 - gamma^(H+1)), ``[H+1, 1]``.

    The share of the discounted horizon that is still to come, by which R^h shrinks; at gamma = 1 its
    limit (H+1-h) / (H+1).
    """
    h = np.arange(horizon + 1, dtype=np.float64)[:, None]
    if discount == 1.0:
        return (horizon + 1 - h) / (horizon + 1)
    share: F8 = discount**h * (1 - discount ** (horizon + 1 - h)) / (1 - discount ** (horizon + 1))
    return share


BASELINES: Table[type[Baseline]] = Table(
    "baseline",
    {
        "none": NoBaseline,
        "loo": LeaveOneOut,
        "value": ValueBaseline,
    },
)
"""The table of ``baseline`` and ``adapt_baseline``: a new baseline is one class and one line here."""


def initial_state(task: Task) -> AgentState:
    """The state of an agent that never trained: empty unless its baseline learns."""
    return BASELINES[task.settings.baseline].initial(task)
