"""Sampling trajectories from one real plant: episode after episode on one instance, at the plant's own pace.

There are no m instances, so the policy acts on one row at a time (doubled: a one-row product takes another
BLAS path), and the record that gradients need is made afterwards for the whole batch, as
`edge_fed.meta.importance.retraced` does. What is drawn for an episode, its seed and its noise, is that of
`edge_fed.episodes`: a plant that follows its seed gives the trajectories that m simulations would give.

Nothing here knows a clock or a file: when an action may be applied, how many episodes may be played, and
which are there from before a crash, the `Site` says.

``reset = "never"``: the environment is reset once, and every later episode starts where the last one ended.
J is then not of the family's start distribution but of the states in which episodes happen to end, under all
the policies that acted before; the gradient takes that distribution as given (it does not follow how theta
changes it), and the trajectories of a batch depend on each other. An environment that ends by itself cannot
go on without a reset and is refused.
"""

from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from edge_fed.config import Algorithm
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.episodes import EpisodeSampler
from edge_fed.errors import BadEnvironment
from edge_fed.meta.importance import retraced
from edge_fed.params import B1, F8, crc32
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Batches, Outcomes, Trajectories
from edge_fed.spaces import Spaces


class Key(NamedTuple):
    """Which episode it is.

    Attributes:
        round: Of the stream that its batch draws from, `edge_fed.seeding`;
        step: the local step of that stream;
        purpose: its purpose;
        episode: number within the batch.
        params_crc32: Of the parameters that act.
        draws_crc32: Of its seed and its noise.
    """

    round: int
    step: int
    purpose: int
    episode: int
    params_crc32: int
    draws_crc32: int


class Episode(NamedTuple):
    """What T steps on the plant were.

    Attributes:
        states: Before each action, and behind the last one if T < H+1, ``[min(T+1, H+1), *s]``.
        actions: As the policy chose them, ``[T]`` or ``[T, k]``: neither clipped nor overridden.
        rewards: Undiscounted, ``[T]``.
        success: Whether any step reported it; None: none mentioned it.
        overridden: Actions that the shield changed.
    """

    states: Any
    actions: Any
    rewards: F8
    success: bool | None
    overridden: int


class Site(Protocol):
    """What stands around a plant. Each method may raise to stop the work; the plant stays as it is then."""

    def begin(self, episode: int, episodes: int) -> None:
        """An episode is about to be played, number ``episode`` (from 0) of its rollout's."""
        ...

    def act(self, step: int, steps: int) -> None:
        """Returns when action ``step`` (from 0, at most ``steps``) may be applied."""
        ...

    def kept(self, key: Key) -> Episode | None:
        """The episode if it was played before; None: it must be played."""
        ...

    def keep(self, key: Key, episode: Episode) -> None:
        """An episode was played."""
        ...


class Plant:
    """One plant, and where it stands between two episodes.

    Args:
        environment: Makes its one instance.
        site: Where it stands.
        reset: ``always``: before each episode; ``never``: once, when the instance is made.
        overridden: Actions that a shield has changed so far.
    """

    def __init__(
        self,
        environment: EpisodicEnvironment,
        site: Site,
        reset: Literal["always", "never"] = "always",
        overridden: Any = lambda: 0,
    ) -> None:
        self.environment = environment
        self.site = site
        self._reset = reset
        self._overridden = overridden
        self._here: Any = None  # observation where the last episode ended; None: the instance is new

    def play(self, policy: Policy, params: F8, seed: int, noise: F8) -> Episode:
        """Plays one episode with the noise ``[H+1, n]``.

        Raises:
            BadEnvironment: The plant or its shield failed. Its instance is closed; no action follows.
        """
        stopped: Exception
        with self.environment.instances(1) as (instance,):  # what passes through here closes it
            try:
                return self._episode(instance, policy, params, seed, noise)
            except BadEnvironment as error:
                self._here = None
                raise BadEnvironment(f"{self.environment.name}: {error}") from error.__cause__
            except Exception as error:  # the site stops the work: the plant is as good as before
                stopped = error
        raise stopped

    def _episode(self, instance: Any, policy: Policy, params: F8, seed: int, noise: F8) -> Episode:
        steps, spaces, before = self.environment.horizon + 1, instance.spaces, self._overridden()
        dtype = np.float64 if spaces.num_states is None else np.int64
        states: Any = np.empty((steps + 1, 2, *spaces.observation_shape), dtype=dtype)
        if self._reset == "always" or self._here is None:
            instance.reset(seed, states[0], 0)
        else:
            states[0, 0] = self._here
        self._arrived(states[0], "after reset")
        trace, rewards, success = policy.begin(params, states[:steps]), [], None
        for h, row in enumerate(np.repeat(noise[:, None], 2, axis=1)):
            self.site.act(h, steps)
            action = instance.actions(policy.executed(policy.act(trace, h, row)))[0]
            found = instance.step(action, states[h + 1], 0)
            rewards.append(found.reward)
            self._arrived(states[h + 1], f"after step {h}")
            success = success if found.success is None else bool(success) or found.success
            if found.terminated or found.truncated:
                self._insist_on_reset(h)
                break
        taken = len(rewards)
        return Episode(
            states[: min(taken + 1, steps), 0].copy(),
            np.array(trace.actions[:taken, 0]),
            np.array(rewards),
            success,
            self._overridden() - before,
        )

    def _arrived(self, row: Any, when: str) -> None:
        row[1] = row[0]
        if not np.isfinite(row).all():
            raise BadEnvironment(f"the observation {when} holds NaN or infinity")
        self._here = row[0].copy()

    def _insist_on_reset(self, h: int) -> None:
        if self._reset == "never":
            raise BadEnvironment(
                f"it ended by itself at step {h}, and reset is 'never': return both flags False "
                "(H bounds an episode), or choose reset 'always'"
            )


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
