"""CartPole with a hidden target: hold the pole up at a place that the controller is not told.

Description:
    Gymnasium's CartPole-v1 (Barto, Sutton and Anderson 1983), whose length, masses, force and gravity vary
    from agent to agent. They alone would leave nothing to personalise: one policy masters all of them. So
    each agent also has a place x* where its cart should be.

Action space:
    ``Discrete(2)``: push the cart to the left or to the right with ``force``, for 0.02 s.

Observation space:
    ``Box(-inf, inf, (4,))``: position, velocity, angle and angular velocity, each divided by its ``scale``.

Starting state:
    All four uniform over [-0.05, 0.05], in m, m/s, rad and rad/s.

Rewards:
    Of the state BEFORE the action: 1 - min(1, abs(x - x*)).

Episode end:
    When the cart is more than 2.4 m away, or the pole more than 12 degrees down; at the latest after H+1
    actions.

Arguments (ranges are [lowest, highest]):
    target: x*, m; default [-1, 1].
    length: Half the pole's, m; default [0.3, 1.0].
    pole_mass: kg; default [0.05, 0.3].
    cart_mass: kg; default [1, 1].
    force: N; default [7, 13].
    gravity: m/s^2; default [9, 11].
    scale: Of position, velocity, angle, angular velocity; default 1, 1, 0.2, 1.
    goals, held_out, seed: as `edge_fed.envs.drawn`; default 16, 8, 0.
"""

import numpy as np
from numpy.random import Generator

from edge_fed.envs.drawn import DrawnArgs, DrawnFamily, Positive, PositiveRange, Range
from edge_fed.params import B1, F8, I8
from edge_fed.spaces import Spaces, States

NUM_ACTIONS = 2
SECONDS = 0.02  # of a step
START = 0.05
TRACK = 2.4  # m
FALLEN = 12 * 2 * np.pi / 360


class CartPoleArgs(DrawnArgs, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of the family, see the head of this file."""

    target: Range = (-1.0, 1.0)
    length: PositiveRange = (0.3, 1.0)
    pole_mass: PositiveRange = (0.05, 0.3)
    cart_mass: PositiveRange = (1.0, 1.0)
    force: PositiveRange = (7.0, 13.0)
    gravity: PositiveRange = (9.0, 11.0)
    scale: tuple[Positive, Positive, Positive, Positive] = (1.0, 1.0, 0.2, 1.0)


class CartPole(DrawnFamily[CartPoleArgs]):
    """The family of all carts and places."""

    name = "cartpole"
    kind = CartPoleArgs
    ranges = ("target", "length", "pole_mass", "cart_mass", "force", "gravity")

    def build(self, drawn: dict[str, float]) -> "CartPoleEnvironment":
        """One cart."""
        return CartPoleEnvironment(
            **drawn, scale=self.settings.scale, horizon=self.horizon, discount=self.discount
        )


class CartPoleEnvironment:
    """One goal's MDP.

    Args:
        target: x*, m.
        length: Half the pole's, m.
        pole_mass: kg.
        cart_mass: kg.
        force: N.
        gravity: m/s^2.
        scale: By which position, velocity, angle and angular velocity are divided.
        horizon: H; trajectories have H+1 actions.
        discount: gamma.
    """

    def __init__(
        self,
        *,
        target: float,
        length: float,
        pole_mass: float,
        cart_mass: float,
        force: float,
        gravity: float,
        scale: tuple[float, float, float, float],
        horizon: int,
        discount: float,
    ) -> None:
        self.horizon = horizon
        self.discount = discount
        self.target = target
        self.spaces = Spaces(num_actions=NUM_ACTIONS, observation_shape=(4,))
        self._scale = np.array(scale)
        total = cart_mass + pole_mass
        # In units of what they are multiplied with. 0-d arrays: a scalar is converted at every call.
        self._pushes = np.array([-force, force]) / total
        self._lever = np.array(pole_mass * length / total)
        self._share = np.array(pole_mass / total * length)
        self._inertia = np.array(length * 4.0 / 3.0)
        self._gravity = np.array(gravity)

    def start(self, rng: Generator, m: int) -> F8:
        """Nearly at rest, ``[m, 4]``."""
        states = rng.uniform(-START, START, (m, 4))
        states /= self._scale
        return states

    def step(self, states: States, actions: I8, out: States) -> None:
        """0.02 s by Euler's method: ``[m, 4]``, ``[m]`` -> ``out`` ``[m, 4]``; who has fallen stays."""
        rates = np.empty((4, len(states)))
        raw = states * self._scale
        _, rates[0], angle, rates[2] = raw.T
        sine, cosine = np.sin(angle), np.cos(angle)
        push = rates[2] * rates[2]
        push *= self._lever
        push *= sine
        push += self._pushes.take(actions, mode="clip")  # "clip" spares the bounds check
        angular = rates[3]
        np.multiply(cosine, push, out=angular)
        sine *= self._gravity
        np.subtract(sine, angular, out=angular)
        inertia = cosine * cosine
        inertia *= self._share
        np.subtract(self._inertia, inertia, out=inertia)
        angular /= inertia
        cosine *= angular
        cosine *= self._lever
        np.subtract(push, cosine, out=rates[1])
        rates *= SECONDS
        raw += rates.T
        np.divide(raw, self._scale, out=out)
        fallen = self.ended(states)
        if fallen.any():
            np.copyto(out, states, where=fallen[:, None])

    def rewards(self, states: States, actions: I8) -> F8:  # noqa: ARG002  of the state alone
        """1 at the target, 0 from 1 m on, ``[H+1, m]``."""
        rewards: F8 = states[..., 0] * self._scale[0]
        rewards -= self.target
        np.abs(rewards, out=rewards)
        np.minimum(rewards, 1.0, out=rewards)
        return np.subtract(1.0, rewards, out=rewards)

    def success(self, states: States) -> None:  # noqa: ARG002
        """None: there is no such notion."""
        return None

    def ended(self, states: States) -> B1:
        """Off the track, or the pole down, ``[...]`` for states ``[..., 4]``."""
        ended: B1 = np.abs(states[..., 0]) > TRACK / self._scale[0]
        ended |= np.abs(states[..., 2]) > FALLEN / self._scale[2]
        return ended

    def model(self) -> None:
        """None: positions are no finite set."""
        return None
