"""Kinds of published statements, as data: a number, a gap, an order, a spread.

A statement says where in the tables of the studies it is measured (`Cell`), what the paper says, and what is
accepted. What is accepted was fixed before the confirmatory runs; `scenarios.paper.verdicts` judges.
"""

import math
from typing import Literal

import msgspec

Statistic = Literal["mean", "median", "fraction_at_least", "fraction_at_most"]


class Cell(msgspec.Struct, frozen=True):
    """One value per seed in a study's table.

    Attributes:
        arm: Name of the arm.
        outcome: Name of the number.
        policy: What was measured, see `scenarios.study.results`.
        m: Trajectories of the adaptation, or of training from scratch.
        round: Training round; None: the last one of the arm's configuration.
        trajectories: Training trajectories per agent in place of a round; between two checkpoints by
            linear interpolation (science.md A18).
    """

    arm: str
    outcome: str
    policy: str = "shared"
    m: int = 0
    round: int | None = None
    trajectories: int | None = None

    @property
    def label(self) -> str:
        """For people, e.g. ``first_order learned return m=20``."""
        parts = [self.arm, self.policy if self.policy != "shared" else "", self.outcome]
        parts.append(f"m={self.m}" if self.m else "")
        parts.append(f"round {self.round}" if self.round is not None else "")
        parts.append(f"at {self.trajectories} trajectories" if self.trajectories else "")
        return " ".join(part for part in parts if part)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Parent of all statements.

    Attributes:
        figure: Where it is drawn.
        study: Whose table decides it.
        what: For people.
        source: Where the paper says it; "tolerance: ours" where science.md 3.2 leaves it open.
    """

    figure: str
    study: str
    what: str
    source: str


class Number(Target, frozen=True, kw_only=True):
    """A statistic over seeds lies in an interval.

    Attributes:
        cell: Where it is measured.
        published: The paper's value; None: it gives none.
        tolerance: Half width of what is accepted around ``published``.
        accepted: In place of a tolerance: lowest and highest.
        statistic: Over the seeds.
        threshold: Of the two fractions.
    """

    cell: Cell
    published: float | None
    tolerance: float | None = None
    accepted: tuple[float, float] | None = None
    statistic: Statistic = "mean"
    threshold: float = math.nan

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest accepted value."""
        if self.accepted is not None:
            return self.accepted
        if self.published is None or self.tolerance is None:
            raise ValueError(f"{self.what}: neither accepted, nor published with a tolerance")
        return self.published - self.tolerance, self.published + self.tolerance


class Gap(Target, frozen=True, kw_only=True):
    """The mean of one cell exceeds that of another.

    Attributes:
        above: The larger one.
        below: The smaller one.
        published: The paper's difference; None: it gives none.
        more_than: What the difference must exceed.
        less_than: What it must not reach.
    """

    above: Cell
    below: Cell
    published: float | None = None
    more_than: float = 0.0
    less_than: float = math.inf


class Order(Target, frozen=True, kw_only=True):
    """Means strictly descend along the cells.

    Attributes:
        cells: From the largest to the smallest.
        every_checkpoint: At every measured round after round 0, in place of the cells' own.
    """

    cells: tuple[Cell, ...]
    every_checkpoint: bool = False


class Spread(Target, frozen=True, kw_only=True):
    """The means of the cells differ by no more than ``limit``."""

    cells: tuple[Cell, ...]
    limit: float
