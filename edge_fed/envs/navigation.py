"""Navigation: reach a disc on an arc by steps in eight directions (the paper's E4, E5 and E7).

Description:
    A point moves in the square [-1, 1] x [-1, 1]. A goal is the centre of a disc on a circle of radius
    ``arc`` around the origin. The training goals stand at equally spaced angles from ``-spread`` to
    ``spread``; the held-out goals, numbered after them, at the angles ``held_out``.

Action space:
    ``Discrete(8)``: direction k has the angle 2 pi k / 8; a move has the length ``step``. The new position
    is clipped to the square; the action that was chosen is what is recorded.

Observation space:
    ``Box(-1, 1, (2,))``: the position, float64. The goal is not observed.

Starting state:
    Uniform over the square, the goal's disc included.

Rewards:
    1 when the position BEFORE the action is within ``radius`` of the goal, else 0. The first reward can
    be 1.

Episode end:
    After H+1 actions. The goal neither ends the episode nor holds the agent.

Arguments:
    radius: Of the goal's disc; default 0.2.
    step: Length of a move; default 0.15.
    arc: Radius of the circle that the goals stand on; default 0.8.
    spread: Angle of the outermost training goals, radians; default 0.5.
    goals: Number of training goals; default 6.
    held_out: Angles of the held-out goals, radians; default -0.4, 0, 0.4.
"""

from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.errors import UnknownGoal
from edge_fed.params import B1, F8, I8
from edge_fed.spaces import Spaces, States

NUM_ACTIONS = 8
# 0-d arrays: a Python scalar is converted at every call, which costs as much as the operation (m = 10)
LOW, HIGH = np.array(-1.0), np.array(1.0)

Length = Annotated[float, Meta(gt=0, le=2)]
Angle = Annotated[float, Meta(ge=-3.2, le=3.2)]


class NavigationArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the family, see the head of this file."""

    radius: Length = 0.2
    step: Length = 0.15
    arc: Annotated[float, Meta(ge=0, le=1)] = 0.8
    spread: Annotated[float, Meta(ge=0, le=3.2)] = 0.5
    goals: Annotated[int, Meta(ge=1, le=10_000)] = 6
    held_out: tuple[Angle, ...] = (-0.4, 0.0, 0.4)


class Navigation:
    """The family of all goals on one arc."""

    name = "navigation"
    adapt_baseline: Literal["none", "loo"] = "none"

    def __init__(self, horizon: int, discount: float, args: dict[str, Any]) -> None:
        self.horizon = horizon
        self.discount = discount
        self.args = dict(args)
        self._settings = read_args(NavigationArgs, args, self.name)
        train = np.linspace(-self._settings.spread, self._settings.spread, self._settings.goals)
        self.angles = np.concatenate([train, self._settings.held_out])
        self.num_train = self._settings.goals
        self.num_held_out = len(self._settings.held_out)

    def make(self, goal: int, args: dict[str, Any] | None = None) -> "NavigationEnvironment":
        """The environment of one goal; ``args`` go over the family's."""
        if args:
            return Navigation(self.horizon, self.discount, {**self.args, **args}).make(goal)
        if not 0 <= goal < self.angles.size:
            raise UnknownGoal(f"{self.name} has goals 0 to {self.angles.size - 1}, not {goal}")
        angle, settings = self.angles[goal], self._settings
        centre = settings.arc * np.array([np.cos(angle), np.sin(angle)])
        return NavigationEnvironment(centre, settings.radius, settings.step, self.horizon, self.discount)

    def model(self, goal: int, args: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """None: positions are no finite set."""
        return None


class NavigationEnvironment:
    """One goal's MDP.

    Args:
        centre: Of the goal's disc, ``[2]``.
        radius: Of the goal's disc.
        step: Length of a move.
        horizon: H; trajectories have H+1 actions.
        discount: gamma.
    """

    def __init__(self, centre: F8, radius: float, step: float, horizon: int, discount: float) -> None:
        self.horizon = horizon
        self.discount = discount
        self.centre = centre
        self.radius = radius
        self.spaces = Spaces(num_actions=NUM_ACTIONS, observation_shape=(2,))
        angles = 2 * np.pi * np.arange(NUM_ACTIONS) / NUM_ACTIONS
        self._moves = step * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def start(self, rng: Generator, m: int) -> F8:
        """Uniform over the square, ``[m, 2]``."""
        return rng.uniform(-1.0, 1.0, (m, 2))

    def step(self, states: States, actions: I8, out: States) -> None:
        """Moves and clips: ``[m, 2]``, ``[m]`` -> ``out`` ``[m, 2]``."""
        moves = self._moves.take(actions, axis=0, mode="clip")  # "clip" spares the bounds check
        np.add(states, moves, out=out)
        np.minimum(out, HIGH, out=out)
        np.maximum(out, LOW, out=out)

    def rewards(self, states: States, actions: I8) -> F8:  # noqa: ARG002  of the state alone
        """1 inside the goal's disc, ``[H+1, m]``."""
        return self._inside(states).astype(np.float64)

    def success(self, states: States) -> B1:
        """Which trajectories were inside the goal's disc at any of their H+1 states, ``[m]``."""
        visited: B1 = np.logical_or.reduce(self._inside(states), axis=0)
        return visited

    def ended(self, states: States) -> None:  # noqa: ARG002
        """None: the goal ends no episode."""
        return None

    def model(self) -> None:
        """None: positions are no finite set."""
        return None

    def _inside(self, states: States) -> B1:
        offset = states - self.centre
        inside: B1 = np.einsum("...i,...i->...", offset, offset) <= self.radius**2
        return inside
