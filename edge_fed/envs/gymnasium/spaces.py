"""Which Gymnasium spaces a policy can work on, and what they look like to it.

Imported only where a Gymnasium environment is used.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv

from edge_fed.spaces import Spaces

FLATTEN = "wrap it in gymnasium.wrappers.FlattenObservation in a factory of yours, id = 'module:factory'"
RESCALE = "use gymnasium.wrappers.RescaleAction"
MOST = 1_000_000
"""States or actions of a finite set: policies keep a number for each."""
ACTION_HINTS = {
    "MultiDiscrete": "number the combinations yourself: a gymnasium.ActionWrapper with Discrete(product)",
    "MultiBinary": "number the combinations yourself: a gymnasium.ActionWrapper with Discrete(2 ** n)",
    "Dict": "a gymnasium.ActionWrapper that offers one Box or Discrete and builds the dict from it",
    "Tuple": "a gymnasium.ActionWrapper that offers one Box or Discrete and builds the tuple from it",
}


def refusals(env: Any) -> list[str]:
    """Why no policy can work in ``env``, one line per reason with what to do; empty: one can."""
    if isinstance(env, VectorEnv):
        return [
            f"{type(env).__name__} is a VectorEnv: hand over one environment, "
            "edge_fed makes as many as it needs and steps them itself"
        ]
    if not isinstance(env, gymnasium.Env):
        return [
            f"{type(env).__module__}.{type(env).__name__} is no gymnasium.Env: derive from it "
            "(an old gym.Env needs gymnasium.make('GymV21Environment-v0', env=...) of shimmy)"
        ]
    missing = [name for name in ("observation_space", "action_space") if not hasattr(env, name)]
    if missing:
        return [f"it has no {name}: set self.{name} in __init__" for name in missing]
    found = [_observation(env.observation_space), _action(env.action_space)]
    return [line for line in found if line]


def spaces_of(env: Any) -> Spaces:
    """The spaces of an environment without `refusals`; boxes of actions are flattened."""
    seen, done = env.observation_space, env.action_space
    states = int(seen.n) if isinstance(seen, Discrete) else None
    shape: tuple[int, ...] = () if states is not None else seen.shape or (1,)
    if isinstance(done, Discrete):
        return Spaces(num_actions=int(done.n), observation_shape=shape, num_states=states)
    low, high = (tuple(map(float, corner.ravel())) for corner in (done.low, done.high))
    return Spaces(
        num_actions=None, observation_shape=shape, num_states=states, action_low=low, action_high=high
    )


def _observation(space: Any) -> str:
    if isinstance(space, Discrete):
        return _too_many("observations", space)
    if isinstance(space, Box):
        return (
            "" if np.prod(space.shape) else f"observations are a Box of shape {space.shape}: nothing to see"
        )
    return f"observations are {_name(space)}; Box and Discrete can be used: {FLATTEN}"


def _action(space: Any) -> str:
    if isinstance(space, Discrete):
        return _too_many("actions", space)
    if not isinstance(space, Box):
        hint = ACTION_HINTS.get(_name(space), "wrap it so that it offers Box or Discrete")
        return f"actions are {_name(space)}; Box and Discrete can be used: {hint}"
    if space.dtype.kind != "f":
        return f"actions are a Box of {space.dtype}; use Discrete, or a Box of float32"
    if not np.prod(space.shape):
        return f"actions are a Box of shape {space.shape}: give it one number or more"
    low, high = (corner.astype(np.float64) for corner in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        return f"actions are a Box without finite bounds low < high: {RESCALE}"
    with np.errstate(over="ignore"):
        distance = high - low  # a policy needs it, too
    return "" if np.isfinite(distance).all() else f"actions are a Box whose high - low overflows: {RESCALE}"


def _too_many(what: str, space: Discrete) -> str:
    if space.n <= MOST:
        return ""
    hint = "offer a Box, or fewer and coarser ones"
    return f"{what} are Discrete({space.n}), more than {MOST:,}: {hint}"


def _name(space: Any) -> str:
    return type(space).__name__
