"""Pendulum with a hidden angle: turn a pole by its axle to where the controller is not told.

Description:
    Gymnasium's Pendulum-v1 whose mass and length vary from agent to agent, and whose pole should stand at an
    angle of its own instead of upright. The torque u in [-torque, torque] N m acts for 0.05 s:

        speed += (3 g / (2 l) sin(angle) + 3 / (m l^2) u) 0.05,   clipped to 8 rad/s
        angle += speed 0.05

Action space:
    ``Box(-torque, torque, (1,))``: u; clipped here, so that policies may sample beyond it.

Observation space:
    ``Box(-1, 1, (3,))``: cosine and sine of the angle (0: upright), and speed / 8.

Starting state:
    Angle uniform over the circle, speed over [-1, 1] rad/s.

Rewards:
    Of the state BEFORE the action: reward_shift - reward_scale (d^2 + 0.1 speed^2 + 0.001 u^2), where d is
    the angle from the set one, in [-pi, pi).

Episode end:
    After H+1 actions.

Arguments (ranges are [lowest, highest]):
    set_angle: rad; default [-3.14, 3.14], the whole circle: around its bottom alone one policy serves all.
    mass, length: kg and m; default [0.7, 1.3] each.
    gravity: m/s^2; default [10, 10].
    torque: N m; default 10: it holds the pole at any angle.
    reward_scale, reward_shift: default 0.02 and 0, which make returns of order 1.
    goals, held_out, seed: as `edge_fed.envs.drawn`; default 16, 8, 0.
"""

import numpy as np
from numpy.random import Generator

from edge_fed.envs.drawn import DrawnArgs, DrawnFamily, Positive, PositiveRange, Range, Real
from edge_fed.params import F8
from edge_fed.spaces import Spaces, States

SECONDS = 0.05  # of a step
FASTEST = 8.0  # rad/s
START_SPEED = 1.0
SPEED_COST, TORQUE_COST = 0.1, 0.001


class PendulumArgs(DrawnArgs, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of the family, see the head of this file."""

    set_angle: Range = (-3.14, 3.14)
    mass: PositiveRange = (0.7, 1.3)
    length: PositiveRange = (0.7, 1.3)
    gravity: PositiveRange = (10.0, 10.0)
    torque: Positive = 10.0
    reward_scale: Positive = 0.02
    reward_shift: Real = 0.0


class Pendulum(DrawnFamily[PendulumArgs]):
    """The family of all pendulums and angles."""

    name = "pendulum"
    kind = PendulumArgs
    ranges = ("set_angle", "mass", "length", "gravity")

    def build(self, drawn: dict[str, float]) -> "PendulumEnvironment":
        """One pendulum."""
        return PendulumEnvironment(
            **drawn,
            torque=self.settings.torque,
            reward_scale=self.settings.reward_scale,
            reward_shift=self.settings.reward_shift,
            horizon=self.horizon,
            discount=self.discount,
        )


class PendulumEnvironment:
    """One goal's MDP.

    Args:
        set_angle: rad.
        mass: kg.
        length: m.
        gravity: m/s^2.
        torque: Largest, N m.
        reward_scale: Of the costs.
        reward_shift: Added to each reward.
        horizon: H; trajectories have H+1 actions.
        discount: gamma.
    """

    def __init__(
        self,
        *,
        set_angle: float,
        mass: float,
        length: float,
        gravity: float,
        torque: float,
        reward_scale: float,
        reward_shift: float,
        horizon: int,
        discount: float,
    ) -> None:
        self.horizon = horizon
        self.discount = discount
        self.set_angle = set_angle
        self.torque = torque
        self.reward_scale = reward_scale
        self.reward_shift = reward_shift
        self.spaces = Spaces(None, (3,), action_low=(-torque,), action_high=(torque,))
        self._fall = 3 * gravity / (2 * length) * SECONDS
        self._push = 3 / (mass * length**2) * SECONDS

    def start(self, rng: Generator, m: int) -> F8:
        """Anywhere, slowly, ``[m, 3]``."""
        angle = rng.uniform(-np.pi, np.pi, m)
        speed = rng.uniform(-START_SPEED, START_SPEED, m)
        return np.stack([np.cos(angle), np.sin(angle), speed / FASTEST], axis=1)

    def step(self, states: States, actions: F8, out: States) -> None:
        """0.05 s: ``[m, 3]``, ``[m, 1]`` -> ``out`` ``[m, 3]``."""
        cosine, sine, speed = states.T
        faster = np.minimum(np.maximum(actions[:, 0], -self.torque), self.torque)
        faster *= self._push
        faster += self._fall * sine
        faster += speed * FASTEST
        np.minimum(faster, FASTEST, out=faster)
        np.maximum(faster, -FASTEST, out=faster)
        angle = np.arctan2(sine, cosine)
        angle += faster * SECONDS
        np.cos(angle, out=out[:, 0])
        np.sin(angle, out=out[:, 1])
        np.divide(faster, FASTEST, out=out[:, 2])

    def rewards(self, states: States, actions: F8) -> F8:
        """``[H+1, m]`` for actions ``[H+1, m, 1]``; see the head of this file."""
        off = np.arctan2(states[..., 1], states[..., 0]) - self.set_angle
        off = (off + np.pi) % (2 * np.pi) - np.pi
        torque = np.clip(actions[..., 0], -self.torque, self.torque)
        costs = off**2 + SPEED_COST * (states[..., 2] * FASTEST) ** 2 + TORQUE_COST * torque**2
        rewards: F8 = self.reward_shift - self.reward_scale * costs
        return rewards

    def success(self, states: States) -> None:  # noqa: ARG002
        """None: there is no such notion."""
        return None

    def ended(self, states: States) -> None:  # noqa: ARG002
        """None: no episode ends before its time."""
        return None

    def model(self) -> None:
        """None: angles are no finite set."""
        return None
