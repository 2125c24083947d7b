"""Tabular gridworld: reach one cell of a square grid (the paper's E1 and E3).

Description:
    A square of ``size`` x ``size`` cells, numbered row by row from the top left. A goal is a cell. The
    training goals are the four corners, then the middles of the four edges; the held-out goals are
    interior cells: the four next to the corners, then the centre.

Action space:
    ``Discrete(4)``: 0 up, 1 down, 2 left, 3 right. A move off the grid leaves the cell unchanged.

Observation space:
    ``Discrete(size * size)``: the cell, int64.

Starting state:
    Uniform over all cells but the goal.

Rewards:
    1 when the state BEFORE the action is the goal, else 0. Every trajectory hence starts with reward 0.

Episode end:
    After H+1 actions. The goal neither ends the episode nor holds the agent.

Arguments:
    size: Cells per side, 2 to 1000; default 5. The arrays of `model` take 32 size^4 bytes.
    goals: How many of the training goals exist; default all (8, or 4 where edges have no own middle).
    held_out: How many of the held-out goals exist; default all (5 for the default size).
"""

import functools
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.envs.base import TabularModel
from edge_fed.errors import UnknownGoal
from edge_fed.params import B1, F8, I8
from edge_fed.spaces import Spaces, States

NUM_ACTIONS = 4
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right as (row, column)


class GridworldArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the family, see the head of this file."""

    size: Annotated[int, Meta(ge=2, le=1000)] = 5
    goals: Annotated[int, Meta(ge=1, le=8)] | None = None
    held_out: Annotated[int, Meta(ge=0, le=5)] | None = None


class Gridworld:
    """The family of all goals of one grid."""

    name = "gridworld"
    adapt_baseline: Literal["none", "loo"] = "none"

    def __init__(self, horizon: int, discount: float, args: dict[str, Any]) -> None:
        self.horizon = horizon
        self.discount = discount
        self.args = dict(args)
        settings = read_args(GridworldArgs, args, self.name)
        self.size = settings.size
        train = _first("goals", training_cells(self.size), settings.goals)
        held_out = _first("held_out", held_out_cells(self.size), settings.held_out)
        self.cells = train + held_out
        self.num_train = len(train)
        self.num_held_out = len(held_out)

    def make(self, goal: int, args: dict[str, Any] | None = None) -> "GridworldEnvironment":
        """The environment of one goal; ``args`` go over the family's."""
        if args:
            return Gridworld(self.horizon, self.discount, {**self.args, **args}).make(goal)
        if not 0 <= goal < len(self.cells):
            raise UnknownGoal(f"{self.name} has goals 0 to {len(self.cells) - 1}, not {goal}")
        return GridworldEnvironment(self.size, self.cells[goal], self.horizon, self.discount)

    def model(self, goal: int, args: dict[str, Any] | None = None) -> TabularModel:
        """The arrays of one goal's MDP."""
        return self.make(goal, args).model()


class GridworldEnvironment:
    """One goal's MDP.

    Args:
        size: Cells per side.
        goal_cell: Number of the goal's cell.
        horizon: H; trajectories have H+1 actions.
        discount: gamma.
    """

    def __init__(self, size: int, goal_cell: int, horizon: int, discount: float) -> None:
        self.horizon = horizon
        self.discount = discount
        self.goal_cell = goal_cell
        self.spaces = Spaces(num_actions=NUM_ACTIONS, observation_shape=(), num_states=size * size)
        self._size = size

    # Made when they are first used: a server only asks whether an environment can be made, as often as
    # agents register, and 1000 x 1000 cells take 80 MB and half a second.
    @functools.cached_property
    def _successor(self) -> I8:
        return successors(self._size).ravel()

    @functools.cached_property
    def _starts(self) -> I8:
        return np.delete(np.arange(self._size**2), self.goal_cell)

    @functools.cached_property
    def _reward(self) -> F8:
        reward = np.zeros(self._size**2)
        reward[self.goal_cell] = 1.0
        return reward

    def start(self, rng: Generator, m: int) -> I8:
        """Uniform over the cells that are not the goal, ``[m]``."""
        return self._starts.take(rng.integers(0, self._starts.size, m))

    def step(self, states: States, actions: I8, out: States) -> None:
        """Looks the successor cells up: ``[m]``, ``[m]`` -> ``out`` ``[m]``."""
        pairs = states * NUM_ACTIONS
        pairs += actions
        # mode="clip" spares the bounds check and its copy of `out`; pairs are in range by construction
        self._successor.take(pairs, out=out, mode="clip")  # type: ignore[call-overload]  # cells are int64

    def rewards(self, states: States, actions: I8) -> F8:  # noqa: ARG002  of the state alone
        """1 in the goal cell, ``[H+1, m]``."""
        return self._reward.take(states)  # type: ignore[arg-type]  # cells are int64

    def success(self, states: States) -> B1:
        """Which trajectories visited the goal cell, ``[m]``."""
        visited: B1 = (states == self.goal_cell).any(axis=0)
        return visited

    def ended(self, states: States) -> None:  # noqa: ARG002
        """None: the goal ends no episode."""
        return None

    def model(self) -> TabularModel:
        """The MDP's arrays, ``[S, A, S]``, ``[S, A]``, ``[S]``."""
        cells = self._reward.size
        transition = np.zeros((cells * NUM_ACTIONS, cells))
        transition[np.arange(cells * NUM_ACTIONS), self._successor] = 1.0
        start = np.zeros(cells)
        start[self._starts] = 1.0 / self._starts.size
        return TabularModel(
            transition=transition.reshape(cells, NUM_ACTIONS, cells),
            reward=np.repeat(self._reward[:, None], NUM_ACTIONS, axis=1),
            start=start,
            discount=self.discount,
            horizon=self.horizon,
        )


def successors(size: int) -> I8:
    """The cell after each move from each cell, ``[S, A]``."""
    rows, columns = np.divmod(np.arange(size * size), size)
    table = [
        np.clip(rows + down, 0, size - 1) * size + np.clip(columns + right, 0, size - 1)
        for down, right in MOVES
    ]
    return np.stack(table, axis=1)


def training_cells(size: int) -> list[int]:
    """Corners, then the middles of the edges; each cell once."""
    last, middle = size - 1, size // 2
    corners = [(0, 0), (0, last), (last, 0), (last, last)]
    edges = [(0, middle), (middle, 0), (middle, last), (last, middle)] if size > 2 else []
    return [row * size + column for row, column in corners + edges]


def held_out_cells(size: int) -> list[int]:
    """The interior cells next to the corners, then the centre; each cell once."""
    low, high, middle = 1, size - 2, size // 2
    found = [(low, low), (low, high), (high, low), (high, high), (middle, middle)] if size > 2 else []
    return list(dict.fromkeys(row * size + column for row, column in found))


def _first(name: str, cells: list[int], count: int | None) -> list[int]:
    if count is not None and count > len(cells):
        raise ValueError(f"gridworld argument {name!r}: this size has only {len(cells)}, found {count}")
    return cells[:count]
