"""What a living device does in its environment: plays, tries a step, adapts the initialization anew.

Its draws are keyed by (seed, goal, episode, draw): a life that was interrupted goes on with the same bits.
"""

import numpy as np

from agent import life_events as e
from edge_fed.meta.base import Task
from edge_fed.meta.careful import careful_step, split
from edge_fed.params import F8
from edge_fed.returns import episode_return
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, stream


class LifeWorker:
    """One device; the caller holds its parameters and counts its episodes.

    Args:
        task: Environment and policy.
        changed: The same after the simulated change.
        initial: The shared initialization, ``[d]``.
        alpha: Step size of learning and of adaptation.
        seed: Of all draws.

    Attributes:
        candidate: What the last step or re-onboarding made, ``[d]``.
    """

    def __init__(self, task: Task, changed: Task, initial: F8, alpha: float, seed: int) -> None:
        self.candidate = initial
        self._tasks = (task, changed)
        self._initial = initial
        self._alpha = alpha
        self._seed = seed
        self._task = task
        self._key = (0, 0)  # episode at which the work began, draws since
        self._batch: Trajectories

    def perform(self, work: e.Work, params: F8, episode: int, *, changed: bool) -> e.Event:
        """Does one piece of work with ``params`` ``[d]`` after so many episodes.

        Raises:
            EdgeFedError: The environment or the policy failed.
        """
        self._task = self._tasks[changed]
        self._key = (episode, 0)
        match work:
            case e.Act():
                self._batch = self._play(params, work.episodes)
                return e.Acted(episode_return(self._batch.rewards))
            case e.Learn():
                return self._learn(params, work.episodes)
            case e.Onboard():
                return self._onboard(params, work)

    def _learn(self, params: F8, k: int) -> e.Learned:
        """A step from the batch that was played at ``params`` just before."""
        trials: list[float] = []

        def trial(candidate: F8, k: int) -> F8:
            returns = self._returns(candidate, k)
            trials.append(float(returns.mean()))
            return returns

        found = careful_step(self._task, params, self._batch, trial, k, self._alpha)
        self.candidate = found.params
        before = float(episode_return(self._batch.rewards).mean())
        return e.Learned(found.factor, before, tuple(trials), k * len(trials))

    def _onboard(self, params: F8, work: e.Onboard) -> e.Onboarded:
        """As `edge_fed.meta.careful.adapt_carefully`, with trials as a device can make them: one by one."""
        adapted, factors = self._initial, []
        n, k = split(work.episodes)
        for _ in range(work.steps):
            batch = self._play(adapted, n)
            found = careful_step(self._task, adapted, batch, self._returns, k, self._alpha)
            adapted = found.params
            factors.append(found.factor)
        anew, kept = self._returns(adapted, work.comparison), self._returns(params, work.comparison)
        self.candidate = adapted
        episodes = work.steps * work.episodes + 2 * work.comparison
        return e.Onboarded(float(np.mean(factors)), anew, kept, episodes)

    def _returns(self, params: F8, episodes: int) -> F8:
        return episode_return(self._play(params, episodes).rewards)

    def _play(self, params: F8, episodes: int) -> Trajectories:
        episode, draw = self._key
        self._key = (episode, draw + 1)
        rng = stream(self._seed, self._task.agent, episode, draw, Purpose.LIFE)
        return self._task.sample(params, [(episodes, rng)])[0]
