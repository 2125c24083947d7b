"""What families share whose goals are drawn: each goal's parameters lie somewhere in ranges.

They depend on (family seed, goal) alone, neither on the run's seed nor on how many goals there are. A goal
draws one uniform per range, in a fixed order, also where lowest and highest are equal: to fix one parameter
moves no other.
"""

from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from edge_fed.arguments import read_args
from edge_fed.envs.base import Environment
from edge_fed.errors import UnknownGoal
from edge_fed.seeding import Purpose, stream

Real = Annotated[float, Meta(ge=-1e6, le=1e6)]
Positive = Annotated[float, Meta(gt=0, le=1e6)]
Range = tuple[Real, Real]
"""Lowest and highest value. No union with one number: msgspec 0.23 corrupts memory on one that has bounds."""
PositiveRange = tuple[Positive, Positive]


class DrawnArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of every such family.

    Attributes:
        goals: Number of training goals.
        held_out: Number of held-out goals, numbered after them.
        seed: The family's.
    """

    goals: Annotated[int, Meta(ge=1, le=10_000)] = 16
    held_out: Annotated[int, Meta(ge=0, le=10_000)] = 8
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


Args = TypeVar("Args", bound=DrawnArgs)


class DrawnFamily(Generic[Args]):
    """Parent of these families; a child says what its ranges are, and builds an environment of the draws.

    Raises:
        ValueError: An argument is wrong; the message names it.
    """

    name: str
    kind: type[Args]
    ranges: ClassVar[tuple[str, ...]]
    """Fields of `kind` that are drawn, in the order of the draws; new ones go to the end."""
    adapt_baseline: Literal["none", "loo"] = "loo"

    def __init__(self, horizon: int, discount: float, args: dict[str, Any]) -> None:
        self.horizon = horizon
        self.discount = discount
        self.args = dict(args)
        self.settings = read_args(self.kind, args, self.name)
        self.num_train = self.settings.goals
        self.num_held_out = self.settings.held_out
        for name in self.ranges:
            low, high = self._bounds(name)
            if low > high:
                raise ValueError(f"{self.name} argument {name!r} must be [lowest, highest]: {low} > {high}")

    def make(self, goal: int, args: dict[str, Any] | None = None) -> Environment:
        """The environment of one goal; ``args`` go over the family's."""
        if args:
            return type(self)(self.horizon, self.discount, {**self.args, **args}).make(goal)
        count = self.num_train + self.num_held_out
        if not 0 <= goal < count:
            raise UnknownGoal(f"{self.name} has goals 0 to {count - 1}, not {goal}")
        return self.build(self.drawn(goal))

    def model(self, goal: int, args: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """None: observations are no finite set."""
        return None

    def build(self, drawn: dict[str, float]) -> Environment:
        """The environment with these parameters, one for each of `ranges`."""
        raise NotImplementedError

    def drawn(self, goal: int) -> dict[str, float]:
        """The parameters of one goal by name."""
        uniforms = stream(self.settings.seed, goal, 0, 0, Purpose.GOAL).random(len(self.ranges))
        bounds = [self._bounds(name) for name in self.ranges]
        values = [low + (high - low) * u for (low, high), u in zip(bounds, uniforms.tolist(), strict=True)]
        return dict(zip(self.ranges, values, strict=True))

    def _bounds(self, name: str) -> tuple[float, float]:
        bounds: tuple[float, float] = getattr(self.settings, name)
        return bounds
