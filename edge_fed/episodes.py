"""Sampling trajectories from environments that play one episode at a time (`edge_fed.envs.gymnasium`).

m instances go through their episodes in lockstep, so that the policy still acts on all rows at once. An
episode is a function of its seed and its noise, both drawn beforehand from its batch's stream: which
instance plays it, how many stand ready and who plays beside it changes no bit. A batch never shrinks: an
episode that is over is not stepped, and its last observation stays in its column to the end, masked.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from edge_fed.envs.gymnasium.episodic import EpisodicEnvironment
from edge_fed.errors import BadEnvironment
from edge_fed.params import B1, F8
from edge_fed.policies.base import Policy
from edge_fed.returns import discounts
from edge_fed.rollouts import BaseSampler, Batches, Ends, Outcomes, Trajectories
from edge_fed.spaces import States

if TYPE_CHECKING:  # its module imports gymnasium
    from edge_fed.envs.gymnasium.instance import Instance

SCORED_AT_ONCE = 64  # episodes of `outcomes`; fixed, because batch shapes decide bits
SEEDS = 2**31  # below it every environment takes a seed, also those that hand it to C


class EpisodeSampler(BaseSampler):
    """Rolls a policy out in as many instances of an environment as a batch has trajectories.

    Attributes:
        environment: Where.
    """

    def __init__(self, environment: EpisodicEnvironment, policy: Policy) -> None:
        super().__init__(policy)
        self.environment = environment
        self._discounts = discounts(environment.horizon, environment.discount)

    def fresh(self) -> "EpisodeSampler":
        """The same environment, its instances included, and policy, nothing counted yet."""
        return EpisodeSampler(self.environment, self.policy)

    def pool(self, params: F8, batches: Batches) -> Trajectories:
        """See `BaseSampler.pool`.

        Raises:
            BadEnvironment: An instance returned what cannot be used; names agent, episode and step.
        """
        seeds, noise = self._draw(batches)
        with self.environment.instances(len(seeds)) as instances:
            run = _Lockstep(self.environment, instances, seeds)
            trace = self.policy.begin(params, run.states)
            for h, row in enumerate(noise):
                run.step(h, self.policy.executed(self.policy.act(trace, h, row)))
        run.rewards *= self._discounts
        whole = Trajectories(run.states, trace.actions, run.rewards, trace, run.mask, Ends(run.last, run.cut))
        whole = whole.part(slice(0, len(seeds)))
        self._count(whole.size, whole.steps)
        return whole

    def outcomes(self, params: F8, m: int, rng: Generator) -> Outcomes:
        """Samples m trajectories for a score, `SCORED_AT_ONCE` at a time.

        Up to so many they are those of `pool`, bit for bit.

        Raises:
            BadEnvironment: As `pool`.
        """
        seeds, noise = self._draw([(m, rng)])
        parts = []
        for first in range(0, m, SCORED_AT_ONCE):
            some = slice(first, min(first + SCORED_AT_ONCE, m))
            parts.append(self._scored(params, seeds[some], _two_or_more(noise[:, some])))
        states, rewards, success = (np.concatenate(arrays, axis=-1) for arrays in _swapped(parts))
        known = success if self.environment.reports_success() else None
        return Outcomes(np.moveaxis(states, -1, 1), rewards, known)

    def _scored(self, params: F8, seeds: list[int], noise: F8) -> tuple[States, F8, B1]:
        """States ``[H+1, *s, m]``, rewards ``[H+1, m]`` and success ``[m]``."""
        with self.environment.instances(len(seeds)) as instances:
            run = _Lockstep(self.environment, instances, seeds)
            here = np.empty_like(run.states[:1])
            trace = self.policy.begin(params, here)
            for h, row in enumerate(noise):
                here[0] = run.states[h]
                run.step(h, self.policy.executed(self.policy.act(trace, 0, row)))
        m = len(seeds)
        self._count(m, int(run.mask[:, :m].sum()))
        rewards = run.rewards[:, :m] * self._discounts
        return np.moveaxis(run.states[:, :m], 1, -1), rewards, run.success[:m]

    def _draw(self, batches: Batches) -> tuple[list[int], F8]:
        """The seed of each episode, and the policy's noise ``[H+1, max(m, 2), n]``."""
        seeds: list[int] = []
        drawn = []
        for size, rng in batches:
            seeds += rng.integers(SEEDS, size=size).tolist()
            drawn.append(self.policy.noise(rng, self.environment.horizon + 1, size))
        if not seeds:
            raise ValueError("a rollout needs one trajectory or more")
        return seeds, _two_or_more(drawn[0] if len(drawn) == 1 else np.concatenate(drawn, axis=1))


def _two_or_more(noise: F8) -> F8:
    """A one-row product takes another BLAS path with other rounding (methods.md 6)."""
    return noise if noise.shape[1] > 1 else np.repeat(noise, 2, axis=1)


def _swapped(parts: list[tuple[States, F8, B1]]) -> Iterator[tuple[Any, ...]]:
    return zip(*parts, strict=True)


class _Lockstep:
    """m episodes side by side; a column that only makes up for a missing second one is over at once.

    Attributes:
        states: ``[H+1, max(m, 2), *s]``; row h is there once step h - 1 is taken.
        rewards: Undiscounted, ``[H+1, max(m, 2)]``; 0 after an episode's end.
        mask: 1 where an action was taken, ``[H+1, max(m, 2)]``.
        success: Which episodes reported it at any step, ``[max(m, 2)]``.
        last: What follows action H, or stands at an earlier end, ``[max(m, 2), *s]``; never scored.
        cut: Which episodes did not end by ``terminated``, ``[max(m, 2)]``.
    """

    def __init__(
        self, environment: EpisodicEnvironment, instances: list["Instance"], seeds: list[int]
    ) -> None:
        self._name, self._seeds, self._instances = environment.name, seeds, instances
        spaces, steps, width = instances[0].spaces, environment.horizon + 1, max(len(seeds), 2)
        dtype = np.float64 if spaces.num_states is None else np.int64
        self.states: Any = np.empty((steps, width, *spaces.observation_shape), dtype=dtype)
        self.rewards, self.mask = np.zeros((steps, width)), np.zeros((steps, width))
        self.success = np.zeros(width, dtype=np.bool_)
        self.last = np.empty_like(self.states[0])
        self.cut = np.ones(width, dtype=np.bool_)
        self._alive = list(range(len(seeds)))
        for j, (instance, seed) in enumerate(zip(instances, seeds, strict=True)):
            try:
                instance.reset(seed, self.states[0], j)
            except BadEnvironment as error:
                raise self._placed(j, "", error) from error.__cause__
        self.states[0, len(seeds) :] = self.states[0, 0]
        self._insist_on_finite(self.states[0], "after reset")

    def step(self, h: int, actions: Any) -> None:
        """Takes action h of every episode that is not over."""
        after = self.states[h + 1] if h + 1 < len(self.states) else self.last
        after[...] = self.states[h]
        if not self._alive:
            return
        chosen = self._instances[0].actions(actions)
        rewards, goes_on = self.rewards[h], []
        self.mask[h, self._alive] = 1.0
        for j in self._alive:
            try:
                found = self._instances[j].step(chosen[j], after, j)
            except BadEnvironment as error:
                raise self._placed(j, f", step {h}", error) from error.__cause__
            rewards[j] = found.reward
            if found.success:
                self.success[j] = True
            if found.terminated:
                self.cut[j] = False
            if not (found.terminated or found.truncated):
                goes_on.append(j)
        self._insist_on_finite(after, f"after step {h}")
        self._alive = goes_on

    def _insist_on_finite(self, row: Any, when: str) -> None:
        if np.isfinite(row).all():
            return
        j = int(np.argmin(np.isfinite(row).reshape(len(row), -1).all(axis=1)))
        hint = "mend it, or end the episode before it diverges"
        raise self._placed(j, "", BadEnvironment(f"the observation {when} holds NaN or infinity; {hint}"))

    def _placed(self, j: int, where: str, error: BadEnvironment) -> BadEnvironment:
        return BadEnvironment(
            f"{self._name}: episode {j} of the batch, seed {self._seeds[j]}{where}: {error}"
        )
