"""One episode under random actions: to see what an environment does before a policy acts in it."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from edge_fed.envs.checker import random_actions
from edge_fed.errors import BadEnvironment
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream

if TYPE_CHECKING:  # its module imports gymnasium
    from edge_fed.envs.gymnasium.instance import Instance, Step


class Episode(NamedTuple):
    """What T steps were like.

    Attributes:
        states: ``[T+1, *s]``.
        rewards: Undiscounted, ``[T]``.
        terminated: Whether it ended by itself.
        truncated: Whether the environment cut it.
        success: Whether it reported success at any step; None: no step mentioned it.
    """

    states: Any
    rewards: F8
    terminated: bool
    truncated: bool
    success: bool | None


class Play:
    """An episode that is being played; seed and horizon determine its actions.

    Attributes:
        over: Whether no step is left.

    Raises:
        BadEnvironment: What `Instance` refuses, with seed and step; also later in `step`.
    """

    def __init__(self, instance: "Instance", seed: int, horizon: int) -> None:
        self._instance, self._seed, spaces = instance, seed, instance.spaces
        rng = stream(seed, 0, 0, 0, Purpose.DIAGNOSE)
        self._actions = instance.actions(random_actions(spaces, rng, (horizon + 1,)))
        dtype = np.float64 if spaces.num_states is None else np.int64
        self._states: Any = np.zeros((horizon + 2, *spaces.observation_shape), dtype=dtype)
        self._steps: list[Step] = []
        self.over = False
        try:
            instance.reset(seed, self._states, 0)
        except BadEnvironment as error:
            raise self._placed("", error) from error.__cause__
        self._insist_on_finite(0)

    def step(self) -> None:
        """Takes the next action."""
        h = len(self._steps)
        try:
            found = self._instance.step(self._actions[h], self._states, h + 1)
        except BadEnvironment as error:
            raise self._placed(f", step {h}", error) from error.__cause__
        self._steps.append(found)
        self._insist_on_finite(h + 1)
        self.over = found.terminated or found.truncated or len(self._steps) == len(self._actions)

    def episode(self) -> Episode:
        """The rest of it, and all that it was."""
        while not self.over:
            self.step()
        told = [step.success for step in self._steps if step.success is not None]
        return Episode(
            self._states[: len(self._steps) + 1],
            np.array([step.reward for step in self._steps]),
            self._steps[-1].terminated,
            self._steps[-1].truncated,
            any(told) if told else None,
        )

    def _insist_on_finite(self, row: int) -> None:
        if not np.isfinite(self._states[row]).all():
            when = f" after step {row - 1}" if row else " of reset"
            raise self._placed("", BadEnvironment(f"the observation{when} holds NaN or infinity"))

    def _placed(self, where: str, error: BadEnvironment) -> BadEnvironment:
        return BadEnvironment(f"seed {self._seed}{where}: {error}")
