"""What a cut episode would still have paid: gamma^T V(s_T), V learned by the agent (methods.md 7).

An episode is cut if time ended it, after H+1 actions or by ``truncated``, and not the environment by
``terminated``. Its last reward gets gamma^T V(s_T) on top. Rewards-to-go, baselines, curvature and importance
weights follow from the rewards, so that all estimates of a local step are those of another objective,

    J_V = E[ sum over t < T of gamma^t r_t  +  1{cut} gamma^T V(s_T) ],

and unbiased for it: V is fixed before the step samples. V(s) = phi(s) . w, w = (A + 1e-3 I)^-1 b, is fitted
to G_h = R^h / gamma^h, in which R^h holds the bonus of the V before: where it settles, V is the mean of what
is paid without any cut, as far as features can say it. An agent that never trained has w = 0: its first
local step climbs what is paid.

V is clipped to [min r, max r] / (1 - gamma), over 0 and all rewards r of earlier local steps: 0 is what a
terminal state pays, and no future is worth more or less. Monomials say anything of states beyond those that
they were fitted on, and the last state of an episode is never one of those. So |V| <= max |r| / (1 - gamma)
for ever, and |G_h| too.
"""

from typing import Any

import numpy as np
from numpy.random import Generator

from edge_fed.errors import NonFinite
from edge_fed.meta.base import AgentState, Task, insist_on_state
from edge_fed.meta.baselines import FORGETTING
from edge_fed.meta.regression import regression
from edge_fed.params import F8
from edge_fed.returns import discounts, reward_to_go
from edge_fed.rollouts import BaseSampler, Batches, Ends, Outcomes, Trajectories

SMALLEST = 1e-200  # of gamma^h: below it G_h would be the ratio of two numbers that lose their digits


class Bootstrap(BaseSampler):
    """The task's sampler, which goes on counting, with the bonus of ONE local step; counts for itself, too.

    Args:
        task: The agent's.
        state: Its state before the step, left as it is.

    Raises:
        ShapeError: ``state`` does not fit the task.
        NonFinite: The weights of V are beyond all numbers.
    """

    def __init__(self, task: Task, state: AgentState) -> None:
        super().__init__(task.policy)
        insist_on_state("bootstrap", state, self.initial(task))
        self._task, self._state = task, state
        self._A, self._b = state["bootstrap_A"], state["bootstrap_b"]
        self._regression = regression(task.environment.spaces)
        self._weights = self._regression.solve(self._A, self._b)
        if not np.isfinite(self._weights).all():
            raise NonFinite("bootstrap: the fitted V is not finite; scale observations, or bootstrap 'none'")
        self._range = state["bootstrap_range"]
        self._discounts = discounts(task.environment.horizon, task.environment.discount)
        self._seen: list[tuple[Any, F8]] = []
        self._least, self._most = self._range
        self._added = 0.0

    @staticmethod
    def initial(task: Task) -> AgentState:
        """A = 0.01 I and b = 0, so that the first V is 0; the range of rewards holds 0 alone, ``[2]``."""
        A, b = regression(task.environment.spaces).initial()
        return {"bootstrap_A": A, "bootstrap_b": b, "bootstrap_range": np.zeros(2)}

    @property
    def mean(self) -> float:
        """What V added to a trajectory's return, mean over those sampled so far; cannot be asked before."""
        return self._added / self.trajectories

    def fresh(self) -> "Bootstrap":
        """The same V, nothing counted yet."""
        return Bootstrap(self._task, self._state)

    def pool(self, params: F8, batches: Batches) -> Trajectories:
        """As the task's sampler, with the bonus in a copy of the rewards; remembers them for `after`."""
        paid = self._task.sample.pool(params, batches)
        assert paid.mask is not None and paid.ends is not None  # of `edge_fed.episodes`
        steps = paid.mask.sum(axis=0).astype(np.int64)
        bonus = self._bonus(paid.ends, steps)
        rewards = paid.rewards.copy()
        rewards[steps - 1, np.arange(paid.size)] += bonus
        self._widen(paid.rewards)
        self._remember(paid, rewards)
        self._count(paid.size, paid.steps)
        self._added += float(bonus.sum())
        return Trajectories(paid.states, paid.actions, rewards, paid.trace, paid.mask, paid.ends)

    def outcomes(self, params: F8, m: int, rng: Generator) -> Outcomes:
        """Of the task's sampler: a score counts what is paid."""
        return self._task.sample.outcomes(params, m, rng)

    def after(self) -> AgentState:
        """Its part of the state for the next local step: this step's batches are counted in."""
        A, b = FORGETTING * self._A, FORGETTING * self._b
        for x, y in self._seen:
            self._regression.add(x, y, A, b)
        return {"bootstrap_A": A, "bootstrap_b": b, "bootstrap_range": np.array([self._least, self._most])}

    def values(self, states: Any) -> F8:
        """V of states ``[m, *s]``, ``[m]``."""
        x = self._regression.features(states[None], np.ones((1, len(states))))
        low, high = self._range / (1.0 - self._task.environment.discount)
        clipped: F8 = np.clip(self._regression.predict(x, self._weights)[0], low, high)
        return clipped

    def _bonus(self, ends: Ends, steps: Any) -> F8:
        """gamma^T V(s_T) of episodes that were cut after T = ``steps`` ``[m]``, 0 of the others, ``[m]``."""
        bonus: F8 = self._task.environment.discount ** steps.astype(np.float64)
        bonus *= np.where(ends.cut, self.values(ends.states), 0.0)
        return bonus

    def _widen(self, paid: F8) -> None:
        """Counts r_t into the range for the next local step; after an episode's end they are 0, as it is."""
        early = self._discounts >= SMALLEST
        undiscounted = np.where(early, paid, 0.0) / np.where(early, self._discounts, 1.0)
        self._least = min(self._least, float(undiscounted.min()))
        self._most = max(self._most, float(undiscounted.max()))

    def _remember(self, batch: Trajectories, rewards: F8) -> None:
        """Features and G_h of the valid steps; those so late that nothing is left of gamma^h are none."""
        early = self._discounts >= SMALLEST
        to_go = reward_to_go(rewards) / np.where(early, self._discounts, 1.0)
        x = self._regression.features(batch.states, batch.masked(early.astype(np.float64)))
        self._seen.append((x, to_go))
