"""Who is there in which round, computed from the timeline alone: for the plain loop and for `check`."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from edge_fed.config import overrides_by_goal
from edge_fed.errors import Fault
from edge_fed.federated.record import Attendance
from scenarios.actions import ACTIONS
from scenarios.timeline import Action, Scenario, agents_of


class Presence(msgspec.Struct):
    """One agent's life in rounds.

    Attributes:
        there: Whether it is there when the run starts.
        changes: Round -> there or not, from the boundary before that round on.
        missing: Rounds in which it is asked but its update never comes.
        doomed: Rounds in which it dies at a point, so that it must be in the cohort.
        faults: Actions that make no sense in this order.
    """

    there: bool
    changes: dict[int, bool] = {}
    missing: set[int] = msgspec.field(default_factory=set)
    doomed: dict[int, str] = {}
    faults: list[Fault] = []


def absent_at_start(scenario: Scenario) -> tuple[int, ...]:
    """Planned agents whose first action of membership is a join: they are not there in the beginning."""
    first: dict[int, str] = {}
    for _, action in _memberships(scenario):
        for agent in agents_of(action):
            first.setdefault(agent, action.do)
    return tuple(sorted(agent for agent, do in first.items() if do == "join"))


def in_seconds(scenario: Scenario) -> list[int]:
    """Indices of membership actions whose round nobody can know in advance."""
    return [index for index, action in _memberships(scenario) if action.at_s is not None]


def presences(scenario: Scenario) -> dict[int, Presence]:
    """Every planned agent's life as the actions in rounds tell it."""
    absent = absent_at_start(scenario)
    lives = {agent: Presence(there=agent not in absent) for agent in overrides_by_goal(scenario)}
    for agent, life in lives.items():
        mine = [(i, a) for i, a in _memberships(scenario) if a.at_s is None and agent in agents_of(a)]
        _live(agent, life, mine)
    return lives


def attendance(scenario: Scenario, rounds: Iterable[int] | None = None) -> Iterator[Attendance]:
    """What the plain loop must be told: eligible agents of each round, and whose update never comes.

    Args:
        scenario: What happens.
        rounds: Which rounds, ascending; None: all of the run.
    """
    lives = presences(scenario)
    there = {agent for agent, life in lives.items() if life.there}
    changes = sorted((at, agent, now) for agent, life in lives.items() for at, now in life.changes.items())
    done = 0
    for round_ in range(1, scenario.algorithm.rounds + 1) if rounds is None else rounds:
        while done < len(changes) and changes[done][0] <= round_:
            _, agent, now = changes[done]
            (there.add if now else there.discard)(agent)
            done += 1
        missing = {agent for agent in there if round_ in lives[agent].missing}
        present = frozenset(there - missing) if missing else None
        yield Attendance(round=round_, eligible=tuple(sorted(there)), present=present)


def turning_rounds(scenario: Scenario) -> list[int]:
    """Round 1 and every round from which on others are there or are asked: between them nothing changes."""
    lives = presences(scenario).values()
    found = {1}.union(
        *(life.changes for life in lives), *(life.missing | life.doomed.keys() for life in lives)
    )
    return sorted(round_ for round_ in found if round_ <= scenario.algorithm.rounds)


def _memberships(scenario: Scenario) -> list[tuple[int, Action]]:
    """(index, action) of what changes the set of agents, in time where times can be compared."""
    found = [
        (index, action)
        for index, action in enumerate(scenario.timeline)
        if action.do in ACTIONS and ACTIONS[action.do].membership and str(action.who) != "server"
    ]
    if len({action.at_s is None for _, action in found}) > 1:
        return found  # rounds and seconds: only the order of the file is left
    return sorted(found, key=lambda pair: pair[1].at_round or pair[1].at_s or 0)


def _live(agent: int, life: Presence, actions: Sequence[tuple[int, Action]]) -> None:
    there, since = life.there, 0
    for index, action in actions:
        round_ = action.at_round or 1
        problem = _problem(action.do, there, round_, since)
        if problem:
            life.faults.append(Fault(f"timeline.{index}", f"agent {agent} cannot {action.do}: it {problem}"))
            continue
        there, since = _act(life, action, round_)


def _problem(do: str, there: bool, round_: int, since: int) -> str:
    if round_ <= since and since > 0:
        return f"is busy until round {since + 1} with the action before"
    if do == "join":
        return "is already there" if there else ""
    return "" if there else "is not there"


def _act(life: Presence, action: Action, round_: int) -> tuple[bool, int]:
    """Enters one action; returns whether the agent is there afterwards, and its last busy boundary."""
    point = action.args.get("point")
    gone = round_
    if point is not None:
        life.doomed[round_] = str(point)
        if point != "sent":
            life.missing.add(round_)
        gone = round_ + 1
    if action.do == "join":
        life.changes[round_] = True
        return True, round_
    if action.do in ("leave", "kill"):
        life.changes[gone] = False
        return False, gone
    down = int(float(action.args.get("down_rounds", 0)))
    if down:
        life.changes[gone] = False
        life.changes[gone + down] = True
    return True, gone + down
