"""HalfCheetah that runs in a direction, or at a speed, of its own (extra ``mujoco``).

The two families of Finn, Abbeel and Levine (2017) on Gymnasium's HalfCheetah-v5. The agent is not told its
direction or speed, and what a step costs is as in Gymnasium. Copy this file beside your scenario::

    args = { id = "halfcheetah:make", goals = 2, held_out = 0, env_args.direction = [1, -1] }
    args = { id = "halfcheetah:make", goals = 16, held_out = 8, env_args.velocity = { uniform = [0, 2] } }
"""

from typing import Any

import gymnasium


class HalfCheetah(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays for the velocity that this agent should have, less Gymnasium's cost of control.

    Args:
        direction: 1 forwards, -1 backwards: pays direction * velocity.
        velocity: In m/s: pays minus the distance from it. Exactly one of both is given.

    Raises:
        ValueError: Both are given, or none.
    """

    def __init__(self, direction: float | None = None, velocity: float | None = None) -> None:
        if (direction is None) == (velocity is None):
            raise ValueError("give either direction or velocity")
        super().__init__(gymnasium.make("HalfCheetah-v5", disable_env_checker=True))
        self.direction = direction
        self.velocity = velocity

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Gymnasium's step with this agent's reward."""
        observation, _, terminated, truncated, info = self.env.step(action)
        moved = info["x_velocity"]
        pay = -abs(moved - self.velocity) if self.velocity is not None else self.direction * moved
        return observation, float(pay + info["reward_ctrl"]), terminated, truncated, info


def make(**kwargs: Any) -> HalfCheetah:
    """What ``id`` names."""
    return HalfCheetah(**kwargs)
