"""One real plant: episodes on one instance, at the plant's own pace, with or without resets.

Nothing here knows a clock or a file: when an action may be applied, how many episodes may be played, and
which are there from before a crash, the `Site` says.

``reset = "never"``: the environment is reset once, and every later episode starts where the last one ended.
J is then not of the family's start distribution but of the states in which episodes happen to end, under all
the policies that acted before; the gradient takes that distribution as given (it does not follow how theta
changes it), and the trajectories of a batch depend on each other. An environment that ends by itself cannot
go on without a reset and is refused.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.errors import BadEnvironment
from edge_fed.params import F8
from edge_fed.policies.base import Policy


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
        overridden: Callable[[], int] = lambda: 0,
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
        stopped: BaseException
        with self.environment.instances(1) as (instance,):  # what passes through here closes it
            try:
                return self._episode(instance, policy, params, seed, noise)
            except BadEnvironment as error:
                self._here = None
                raise BadEnvironment(f"{self.environment.name}: {error}") from error.__cause__
            except BaseException as error:  # the site stops the work: the plant is as good as before
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
