"""One goal of a family of arrays as a Gymnasium environment: one class for all of them.

``step(a_t)`` returns r(s_t, a_t), of the state BEFORE the action, computed before the transition, so that
H+1 steps pay what a trajectory of H+1 actions pays (methods.md 7). What our environments say of whole
trajectories is asked with the present state standing in for the future: no reward depends on a later state
(`edge_fed.envs.checker`).
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.base import Environment
from edge_fed.spaces import Spaces

FAR = 1e300  # where a family does not say how far its observations reach; infinity draws a warning


class ArrayEnv(gymnasium.Env[Any, Any]):
    """A goal's MDP, one episode at a time.

    A box of actions is offered as [-1, 1], as Gymnasium recommends, and mapped to the family's corners.
    ``info["is_success"]`` is told by the last step of an episode, where the family has such a notion.

    Args:
        family: Name in the table of families.
        goal: Which of its tasks.
        horizon: H; an episode has H+1 steps, or fewer where it ends early.
        discount: gamma, which rewards do NOT carry; Gymnasium's are undiscounted.
        args: Of the family.

    Raises:
        UnknownName, UnknownGoal, ValueError: As `edge_fed.envs.make_family` and ``make`` of the family.
        TypeError: The family consists of Gymnasium environments already.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own form

    def __init__(
        self,
        family: str,
        goal: int = 0,
        horizon: int = 20,
        discount: float = 0.9,
        args: dict[str, Any] | None = None,
    ) -> None:
        config = EnvironmentConfig(family=family, horizon=horizon, discount=discount, args=args or {})
        environment = make_family(config).make(goal)
        if not isinstance(environment, Environment):
            raise TypeError(f"family {family!r} consists of Gymnasium environments: use gymnasium.make")
        self._mdp = environment
        self.observation_space = _observation_space(environment.spaces)
        self.action_space = _action_space(environment.spaces)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Draws a start state from ``np_random``; there are no options."""
        super().reset(seed=seed, options=options)
        mdp, steps = self._mdp, self._mdp.horizon + 1
        start = mdp.start(self.np_random, 1)
        self._states: Any = np.repeat(start[None], steps, axis=0)  # [H+1, 1, *s]
        kind = np.int64 if mdp.spaces.num_actions is not None else np.float64
        self._actions = np.zeros((steps, 1, *self.action_space.shape), dtype=kind)  # type: ignore[misc]
        self._t = 0
        return self._observation(start[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pays for the present state, then moves.

        Raises:
            IndexError: The episode is over.
        """
        mdp, t = self._mdp, self._t
        if t > mdp.horizon:
            raise IndexError(f"an episode has {mdp.horizon + 1} steps, and they are taken: call reset")
        self._actions[t:] = self._own(action)
        reward = float(mdp.rewards(self._states, self._actions)[t, 0])
        after = np.empty_like(self._states[t])
        mdp.step(self._states[t], self._actions[t], after)
        last = t == mdp.horizon
        self._states[t + 1 :] = after
        ended = mdp.ended(self._states)
        terminated = not last and ended is not None and bool(ended[t + 1, 0])
        self._t += 1
        return self._observation(after[0]), reward, terminated, last, self._info(over=last or terminated)

    def _own(self, action: Any) -> Any:
        """The action in the family's units."""
        spaces = self._mdp.spaces
        if spaces.num_actions is not None:
            return action
        low, high = np.array(spaces.action_low), np.array(spaces.action_high)
        return (low + high) / 2 + (high - low) / 2 * action

    def _info(self, *, over: bool) -> dict[str, Any]:
        success = self._mdp.success(self._states)
        return {} if success is None else {"is_success": over and bool(success[0])}

    def _observation(self, state: Any) -> Any:
        return np.int64(state) if self._mdp.spaces.num_states is not None else state.copy()


def _observation_space(spaces: Spaces) -> gymnasium.Space[Any]:
    if spaces.num_states is not None:
        return Discrete(spaces.num_states)
    return Box(-FAR, FAR, spaces.observation_shape, np.float64)


def _action_space(spaces: Spaces) -> gymnasium.Space[Any]:
    if spaces.num_actions is not None:
        return Discrete(spaces.num_actions)
    return Box(-1.0, 1.0, (len(spaces.action_low),), np.float64)
