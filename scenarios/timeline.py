"""The scenario as a record: a run's settings, plus what happens in it and what is expected of it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edge_fed.config import RunConfig, Settings, parse_goals


class Action(Settings, frozen=True, kw_only=True):
    """One ``[[timeline]]`` entry: what happens to whom, and when.

    Attributes:
        do: Name in `scenarios.actions.ACTIONS`.
        who: ``server``, or goals of agents as ``"3"``, ``"0-5"`` or ``"1,4"``.
        at_round: At the boundary before this round opens.
        at_s: So many seconds after round 1 opened; one of the two is needed.
        args: Of the action.
    """

    do: str
    who: str | int
    at_round: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    at_s: Annotated[float, Meta(ge=0, le=1e7)] | None = None
    args: dict[str, float | str] = msgspec.field(default_factory=dict)


class Expect(Settings, frozen=True, kw_only=True):
    """One ``[[expect]]`` entry; the names of metrics are listed in `scenarios.expectations`."""

    metric: str
    comparison: Literal["<", "<=", "==", ">=", ">"]
    value: float


class Scenario(RunConfig, frozen=True, kw_only=True):
    """Everything that `python -m scenarios run` needs to know."""

    timeline: tuple[Action, ...] = ()
    expect: tuple[Expect, ...] = ()


def agents_of(action: Action) -> tuple[int, ...]:
    """The goals that an action is about; none if it is about the server or names nobody."""
    if action.who == "server":
        return ()
    try:
        return parse_goals(str(action.who))
    except ValueError:
        return ()
