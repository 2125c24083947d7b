"""The interface of environments. Arrays are time-major: ``[H+1, m, ...]`` over steps and trajectories.

Conventions that decide the numbers (science.md A1, A2): a trajectory has H+1 actions and H+1 rewards;
the reward belongs to the state BEFORE the action, the first state included; goals do not end it.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from numpy.random import Generator

from edge_fed.params import B1, F8
from edge_fed.spaces import Spaces, States


class TabularModel(msgspec.Struct, frozen=True):
    """A finite MDP as arrays; all that `edge_fed.dp` needs."""

    transition: F8  # [S, A, S]
    reward: F8  # [S, A], of the state before the action
    start: F8  # [S]
    discount: float
    horizon: int


class Mdp(Protocol):
    """One goal's MDP, as far as all but its sampler need to know it."""

    horizon: int
    discount: float

    @property
    def spaces(self) -> Spaces:
        """Observations in, actions out."""
        ...

    def model(self) -> TabularModel | None:
        """The arrays of a finite MDP, else None."""
        ...


@runtime_checkable
class Environment(Mdp, Protocol):
    """An MDP vectorised over trajectories. Stateless: it owns no generator.

    Actions are int64 of a finite set or float64 of a box, as its ``spaces`` say. (What steps one episode at a
    time and remembers where it is: `edge_fed.envs.gymnasium`.)
    """

    def start(self, rng: Generator, m: int) -> States:
        """Draws m start states, ``[m, *observation_shape]``."""
        ...

    def step(self, states: States, actions: Any, out: States) -> None:
        """Writes the successors of ``states`` ``[m, *s]`` under ``actions`` ``[m(, k)]`` into ``out``.

        Neither ``states`` nor ``actions`` is changed; ``out`` must not overlap them.
        """
        ...

    def rewards(self, states: States, actions: Any) -> F8:
        """Undiscounted rewards ``[H+1, m]`` of whole trajectories ``[H+1, m, *s]``."""
        ...

    def success(self, states: States) -> B1 | None:
        """Which trajectories ``[H+1, m, *s]`` reached the goal at any step, ``[m]``; None: no such notion."""
        ...

    def ended(self, states: States) -> B1 | None:
        """Which states ``[H+1, m, *s]`` are terminal, ``[H+1, m]``; None: no episode ends before its time.

        A terminal state is left by no action. What happens in it counts nowhere: no reward, no score.
        """
        ...


class Family(Protocol):
    """A set of tasks with shared structure. Goals 0..num_train-1 are for training, held-out ones follow."""

    name: str
    num_train: int
    num_held_out: int
    adapt_baseline: Literal["none", "loo"]
    """What a run adapts with that does not say: the paper's families `none`, those of dense rewards `loo`."""

    def make(self, goal: int, args: dict[str, Any] | None = None) -> Mdp:
        """Builds one goal's environment; ``args`` override the family's for this one agent.

        Raises:
            UnknownGoal: The message names the valid range.
        """
        ...

    def model(self, goal: int, args: dict[str, Any] | None = None) -> TabularModel | None:
        """The goal's arrays if the family is finite, else None."""
        ...


MakeFamily = Callable[[int, float, dict[str, Any]], Family]
"""(horizon, discount, args) -> family; raises ValueError or TypeError on wrong args."""
