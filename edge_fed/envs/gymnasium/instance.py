"""One Gymnasium environment behind the numbers that policies and samplers know.

Whatever it returns is checked before it is used: a wrong value is refused by name, never averaged.
Imported only where a Gymnasium environment is used.
"""

import contextlib
import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from edge_fed.envs.gymnasium.spaces import refusals, spaces_of
from edge_fed.errors import BadEnvironment
from edge_fed.params import F8
from edge_fed.spaces import Units
from edge_fed.user_code import USER_FAULTS


class Scales(NamedTuple):
    """Fixed normalisation (methods.md 7); running statistics would change the objective.

    Attributes:
        reward_scale: A reward counts as ``reward_scale * (r + reward_shift)``.
        reward_shift: In the environment's own units.
        obs_scale: Observations are multiplied by it: one number, or one per entry; None: as they are.
    """

    reward_scale: float
    reward_shift: float
    obs_scale: F8 | None


class Step(NamedTuple):
    """What one step returned."""

    reward: float  # scaled
    terminated: bool
    truncated: bool
    success: bool | None  # None: info has no "is_success"


class Instance:
    """One environment.

    Attributes:
        env: The Gymnasium environment.
        spaces: As policies see them.
        units: In which its own observations and actions are.

    Raises:
        ValueError: No policy can work on its spaces; the message says why and what to do.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], scales: Scales) -> None:
        if wrong := refusals(env):
            raise ValueError("; ".join(wrong))
        self.env = env
        self.spaces = spaces_of(env)
        self._scales = scales
        self.units = _units(env, scales)
        self._seen: Any = env.observation_space
        self._done: Any = env.action_space
        self._tabular = isinstance(self._seen, Discrete)

    def close(self) -> None:
        """Closes the environment; what that raises is of no use to anybody."""
        with contextlib.suppress(*USER_FAULTS):
            self.env.close()

    def reset(self, seed: int, out: Any, j: int) -> None:
        """Starts the episode of ``seed`` and writes its first observation into ``out[j]``.

        Raises:
            BadEnvironment: It raised, or returned something else than an observation and a dict.
        """
        try:
            found = self.env.reset(seed=seed)
        except USER_FAULTS as error:
            raise BadEnvironment(f"reset raised {type(error).__name__}: {error}") from error
        if not isinstance(found, tuple) or len(found) != 2:
            raise BadEnvironment("reset must return (observation, info)")
        self._observe(found[0], out, j)

    def actions(self, chosen: Any) -> list[Any]:
        """Every row of ``chosen`` ``[m(, k)]`` as the environment wants it; boxes are clipped here.

        The score stays that of the sample before the clipping.
        """
        if isinstance(self._done, Discrete):
            return (chosen + int(self._done.start)).tolist()  # type: ignore[no-any-return]
        box: Box = self._done
        clipped = np.clip(chosen, self.spaces.action_low, self.spaces.action_high)
        return list(clipped.astype(box.dtype).reshape(-1, *box.shape))

    def step(self, action: Any, out: Any, j: int) -> Step:
        """Takes one action and writes the observation after it into ``out[j]``.

        Raises:
            BadEnvironment: It raised, or what it returned is of a wrong type, shape or not finite.
        """
        try:
            found = self.env.step(action)
        except USER_FAULTS as error:
            raise BadEnvironment(f"step raised {type(error).__name__}: {error}") from error
        if not isinstance(found, tuple) or len(found) != 5:
            raise BadEnvironment("step must return (observation, reward, terminated, truncated, info)")
        observation, reward, terminated, truncated, info = found
        if not isinstance(info, dict):
            raise BadEnvironment(f"step returned info of {type(info).__name__}; it must be a dict")
        self._observe(observation, out, j)
        scales = self._scales
        number = reward if type(reward) is float else _number(reward)
        if not math.isfinite(number):
            raise BadEnvironment(f"the reward is {number}; mend step, or end the episode before it diverges")
        value = scales.reward_scale * (number + scales.reward_shift)
        success = _flag("info['is_success']", info["is_success"]) if "is_success" in info else None
        return Step(value, _flag("terminated", terminated), _flag("truncated", truncated), success)

    def _observe(self, observation: Any, out: Any, j: int) -> None:
        if self._tabular:
            out[j] = self._state(observation)
            return
        array = np.asarray(observation)
        if array.shape != self._seen.shape or array.dtype.kind not in "fiub":
            raise BadEnvironment(
                f"the observation has {array.dtype} {array.shape}, but observation_space says "
                f"{self._seen.dtype} {self._seen.shape}: return what the space says"
            )
        scale = self._scales.obs_scale
        out[j] = (
            array if scale is None else array * scale
        )  # whether it is finite is asked of all rows at once

    def _state(self, observation: Any) -> int:
        if not isinstance(observation, int | np.integer):
            kind = type(observation).__name__
            raise BadEnvironment(f"the observation is a {kind}, but observation_space says {self._seen}")
        state = int(observation) - int(self._seen.start)
        if not 0 <= state < self._seen.n:
            raise BadEnvironment(f"the observation {observation} is not within {self._seen}")
        return state


def _units(env: gymnasium.Env[Any, Any], scales: Scales) -> Units:
    scale = 1.0 if scales.obs_scale is None else scales.obs_scale.tolist()
    seen, done = (
        int(space.start) if isinstance(space, Discrete) else 0
        for space in (env.observation_space, env.action_space)
    )
    return Units(tuple(scale) if isinstance(scale, list) else scale, seen, done)


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.number) and value in (0, 1):  # robotics: 1.0 is success
        return bool(value)
    shape = f" of shape {value.shape}" if isinstance(value, np.ndarray) else f" ({value!r:.40})"
    raise BadEnvironment(f"{name} is a {type(value).__name__}{shape}; return one truth value: bool({name})")


def _number(reward: Any) -> float:
    if isinstance(reward, bool | int | float | np.number | np.bool_):
        with contextlib.suppress(OverflowError):  # an int of 400 digits
            return float(reward)
        return math.inf
    shape = f" of shape {reward.shape}" if isinstance(reward, np.ndarray) else ""
    raise BadEnvironment(f"the reward is a {type(reward).__name__}{shape}; return one number: float(reward)")
