"""Sampling trajectories from one real plant: episode after episode.

There are no m instances, so the policy acts on one row at a time (doubled: a one-row product takes another
BLAS path), and the record that gradients need is made afterwards for the whole batch, as
`edge_fed.meta.importance.retraced` does. What is drawn for an episode, its seed and its noise, is that of
`edge_fed.episodes`: a plant that follows its seed gives the trajectories that m simulations would give.
"""

from typing import Any

import numpy as np
from numpy.random import Generator

from edge_fed.config import Algorithm
from edge_fed.episodes import EpisodeSampler
from edge_fed.meta.importance import retraced
from edge_fed.params import B1, F8, crc32
from edge_fed.plant import Episode, Key, Plant
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Batches, Outcomes, Trajectories
from edge_fed.spaces import Spaces


class PlantSampler(EpisodeSampler):
    """Rolls a policy out on one plant; counts kept episodes, too: an update says what it was made of."""

    def __init__(self, plant: Plant, policy: Policy) -> None:
        super().__init__(plant.environment, policy)
        self._plant = plant

    def fresh(self) -> "PlantSampler":
        """The same plant and policy, nothing counted yet."""
        return PlantSampler(self._plant, self.policy)

    def pool(self, params: F8, batches: Batches) -> Trajectories:
        """See `edge_fed.rollouts.BaseSampler.pool`.

        Raises:
            BadEnvironment: As `Plant.play`.
        """
        record, _ = self._sampled(params, batches)
        trace = retraced(self.policy, record, params)
        whole = Trajectories(record.states, trace.actions, record.rewards, trace, record.mask)
        return whole.part(slice(0, sum(size for size, _ in batches)))

    def outcomes(self, params: F8, m: int, rng: Generator) -> Outcomes:
        """The episodes that `pool` would sample, without what gradients need; success if any mentions it.

        Raises:
            BadEnvironment: As `Plant.play`.
        """
        record, success = self._sampled(params, [(m, rng)])
        return Outcomes(record.states[:, :m], record.rewards[:, :m], success)

    def _sampled(self, params: F8, batches: Batches) -> tuple[Trajectories, B1 | None]:
        """All episodes side by side, not traced yet, and which of them succeeded, ``[m]``."""
        places = [place for batch in batches for place in _places(*batch)]
        seeds, noise = self._draw(batches)
        names = crc32(params)
        episodes = []
        for j, (place, seed) in enumerate(zip(places, seeds, strict=True)):
            mine = noise[:, j]
            key = Key(*place, names, crc32(mine, np.array([float(seed)])))
            found = self._plant.site.kept(key)
            if found is None or not fits(found, self.environment.spaces, len(noise)):
                self._plant.site.begin(j, len(places))
                found = self._plant.play(self.policy, params, seed, mine)
                self._plant.site.keep(key, found)
            episodes.append(found)
        record = self._side_by_side(episodes)
        self._count(len(episodes), record.steps)
        told = [episode.success for episode in episodes]
        known = any(success is not None for success in told)
        return record, np.array([bool(success) for success in told]) if known else None

    def _side_by_side(self, episodes: list[Episode]) -> Trajectories:
        """Arrays as `edge_fed.episodes` fills them; a second column that only makes up the width is over."""
        shape = (self.environment.horizon + 1, max(len(episodes), 2))
        first = episodes[0]
        states: Any = np.empty((*shape, *first.states.shape[1:]), dtype=first.states.dtype)
        actions: Any = np.zeros((*shape, *first.actions.shape[1:]), dtype=first.actions.dtype)
        rewards, mask = np.zeros(shape), np.zeros(shape)
        states[:] = first.states[0]
        for j, episode in enumerate(episodes):
            taken, seen = len(episode.rewards), len(episode.states)
            states[:seen, j], states[seen:, j] = episode.states, episode.states[-1]
            actions[:taken, j], rewards[:taken, j], mask[:taken, j] = episode.actions, episode.rewards, 1.0
        rewards *= self._discounts
        nothing: Any = None  # its trace is made of all of it
        return Trajectories(states, actions, rewards, nothing, mask)


def per_local_step(settings: Algorithm) -> int:
    """Trajectories that one local step of the variant samples."""
    count = settings.inner_batch + settings.outer_batch
    if settings.variant == "fedavg_pg" or (
        settings.variant == "exact" and settings.curvature_batch == "fresh"
    ):
        count += settings.hessian_batch
    return count


def fits(episode: Episode, spaces: Spaces, steps: int) -> bool:
    """Whether an episode that was kept can be one of this environment, of at most so many steps."""
    taken, tabular = len(episode.rewards), spaces.num_states is not None
    action = () if spaces.num_actions is not None else (len(spaces.action_low),)
    return (
        0 < taken <= steps
        and episode.states.shape == (min(taken + 1, steps), *spaces.observation_shape)
        and episode.states.dtype == (np.int64 if tabular else np.float64)
        and episode.actions.shape == (taken, *action)
        and episode.actions.dtype == (np.float64 if action else np.int64)
        and all(np.isfinite(array).all() for array in episode[:3])
    )


def _places(size: int, rng: Generator) -> list[tuple[int, int, int, int]]:
    """Round, step, purpose and number of each episode of a batch, as its stream says."""
    _, round_, step, purpose = map(int, rng.bit_generator.state["state"]["counter"])
    return [(round_, step, purpose, j) for j in range(size)]
