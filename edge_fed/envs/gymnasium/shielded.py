"""A shield between a policy and a plant: it may put another action in place of the policy's.

The score stays that of the action which the policy chose. So the gradient is that of the policy in the
shielded environment, of which the shield is a part as friction is, not that of a policy that acts as the
shield does.

Imported only where a Gymnasium environment is used.
"""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from edge_fed.user_code import USER_FAULTS

Shield = Callable[[Any, Any], Any]
"""(observation, action) -> action that is applied, all as the environment has them."""


class ShieldFault(Exception):
    """The shield failed: no action was applied."""


class Shielded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment behind its shield.

    Args:
        env: The environment.
        shield: Sees a copy of the last observation and of the action.
        name: Of the shield, for messages.

    Attributes:
        overridden: How many actions it has changed.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], shield: Shield, name: str) -> None:
        super().__init__(env)
        self.overridden = 0
        self._shield = shield
        self._name = name
        self._seen: Any = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets, and remembers what the shield will see."""
        observation, info = self.env.reset(**options)
        self._seen = copy.copy(observation)
        return observation, info

    def step(self, action: Any) -> Any:
        """Applies what the shield makes of the action.

        Raises:
            ShieldFault: It raised, or its action is not in the action space.
        """
        try:
            chosen = self._shield(copy.copy(self._seen), copy.copy(action))
        except USER_FAULTS as error:
            raise ShieldFault(f"the shield {self._name} raised {type(error).__name__}: {error}") from error
        applied = self._within(chosen)
        self.overridden += not np.array_equal(applied, action)
        found = self.env.step(applied)
        if isinstance(found, tuple) and found:  # anything else is refused by who called
            self._seen = copy.copy(found[0])
        return found

    def _within(self, chosen: Any) -> Any:
        """The action as the space has it."""
        space, applied = self.action_space, chosen
        if isinstance(space, Box):
            try:
                applied = np.asarray(chosen, dtype=space.dtype)
            except (TypeError, ValueError):
                applied = None
        if applied is None or not space.contains(applied):
            raise ShieldFault(f"the shield {self._name} returned {chosen!r}, which is not in {space}")
        return applied
