"""Reads a scenario and checks it completely before anything starts.

`check` finds what is wrong in any runtime; `runtime_faults` what one runtime cannot do. A scenario is
named by its file, or by its name in the library.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from edge_fed.config import overrides_by_goal, parse_goals
from edge_fed.errors import Fault, UnknownName, nearest
from edge_fed.federated.cohort import cohort_size, round_cohort
from edge_fed.federated.record import Attendance
from edge_fed.federated.robust import RULES
from edge_fed.federated.task import blueprint
from edge_fed.program.config_file import load, read
from edge_fed.validation import check_run
from scenarios.actions import ACTIONS, SERVER, ActionKind, Argument, Runtime
from scenarios.attendance import absent_at_start, attendance, in_seconds, presences, turning_rounds
from scenarios.expectations import expectation_faults
from scenarios.proxy.armed import OpaqueStream
from scenarios.proxy.armed import check as check_opaque
from scenarios.proxy.rules import rule_of
from scenarios.timeline import Action, Scenario, agents_of

HINTED_ROUNDS = 1000  # searched for rounds in which an agent is asked


def library() -> dict[str, Path]:
    """The scenarios that come with edge_fed: name -> file."""
    folder = Path(str(resources.files("scenarios.library")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_scenario(name: str, sets: Sequence[str] = ()) -> Scenario:
    """Loads a scenario by the name of its file or of its library entry.

    Raises:
        ConfigError: Lists every fault.
    """
    known = library()
    path = known[name] if name in known and not Path(name).is_file() else Path(name)
    return resolve(load(read(path, known), Scenario, check, sets, str(path), path.stem))


def resolve(scenario: Scenario) -> Scenario:
    """Writes out what follows from the timeline: the default quorum is who is there at the start."""
    if scenario.federation.quorum is not None:
        return scenario
    quorum = len(overrides_by_goal(scenario)) - len(absent_at_start(scenario))
    federation = msgspec.structs.replace(scenario.federation, quorum=quorum)
    return msgspec.structs.replace(scenario, federation=federation)


def check(scenario: Scenario) -> list[Fault]:
    """Everything wrong with a scenario, whatever runs it."""
    absent = absent_at_start(scenario) if _goals_readable(scenario) else ()
    faults = check_run(scenario, absent)
    faults += expectation_faults(scenario)
    for index, action in enumerate(scenario.timeline):
        faults += _action_faults(scenario, action, f"timeline.{index}")
    if not faults:
        faults += _roster_faults(scenario)
    return faults


def runtime_faults(scenario: Scenario, runtime: Runtime) -> list[Fault]:
    """What this runtime cannot do for a scenario that is otherwise right."""
    faults = []
    for index, action in enumerate(scenario.timeline):
        kind = ACTIONS[action.do]
        able = kind.server if action.who == SERVER else kind.agent
        if runtime in able or (runtime == "plain" and _no_bits(kind, action)):
            continue
        hint = "needs --runtime " + " or ".join(sorted(able))
        faults.append(Fault(f"timeline.{index}", f"{runtime} cannot {action.do} {action.who}", hint))
    if runtime == "plain":
        clocked = {i for i, a in enumerate(scenario.timeline) if a.do == "onboard" and a.at_s is not None}
        for index in sorted(clocked.union(in_seconds(scenario))):
            hint = "use at_round, or --runtime inproc or processes"
            faults.append(Fault(f"timeline.{index}.at_s", "the plain loop has no clock", hint))
    elif scenario.privacy.noisy:
        faults += _not_sent(scenario)
    return faults


def _not_sent(scenario: Scenario) -> Iterator[Fault]:
    """Expectations about what training agents measure: with private noise, that stays with them."""
    for index, expect in enumerate(scenario.expect):
        if expect.metric in ("meta_objective", "expected_return", "success", "success_adapted"):
            hint = "expect something of onboarders, or use --runtime plain"
            message = f"{expect.metric} is not sent by agents that add private noise"
            yield Fault(f"expect.{index}.metric", message, hint)


def hidden_messages(scenario: Scenario) -> Iterator[Fault]:
    """Faults of whole messages, for a run that encrypts them."""
    for index, action in enumerate(scenario.timeline):
        if action.do == "fault":
            try:
                check_opaque(rule_of(action.args), "CURVE")
            except OpaqueStream as error:
                yield Fault(f"timeline.{index}.args.kind", str(error))


def ignored_by_plain(scenario: Scenario) -> list[str]:
    """Actions that the plain loop leaves out because they change no bits, for people."""
    left_out = [a for a in scenario.timeline if "plain" not in ACTIONS[a.do].agent or a.who == SERVER]
    return [f"{action.do} {action.who}" for action in left_out]


def _no_bits(kind: ActionKind, action: Action) -> bool:
    return action.who == SERVER or (kind.membership is None and not kind.needed)


def _goals_readable(scenario: Scenario) -> bool:
    try:
        overrides_by_goal(scenario)
    except ValueError:
        return False
    return True


def _action_faults(scenario: Scenario, action: Action, path: str) -> Iterator[Fault]:
    kind = ACTIONS.get(action.do)
    if kind is None:
        yield Fault(f"{path}.do", f"unknown action {action.do!r}", nearest(action.do, ACTIONS))
        return
    yield from _time_faults(scenario, action, path)
    yield from _who_faults(scenario, action, kind, f"{path}.who")
    allowed = kind.server_args if action.who == SERVER else kind.args
    for name, value in action.args.items():
        if name not in allowed:
            hint = nearest(name, allowed) if allowed else "it takes none"
            yield Fault(f"{path}.args.{name}", f"unknown argument of {action.do}", hint)
        elif problem := _wrong(value, allowed[name]):
            yield Fault(f"{path}.args.{name}", f"is {value!r}, expected {problem}", allowed[name].meaning)
        elif name in ("point", "down_rounds") and action.at_round is None:
            yield Fault(f"{path}.args.{name}", "needs at_round: it counts in rounds")
    if "point" in action.args and "signal" in action.args:
        yield Fault(f"{path}.args.signal", "does not go with point: there it kills itself", "leave one out")
    for name, argument in allowed.items():
        if argument.required and name not in action.args:
            yield Fault(f"{path}.args.{name}", "is missing", argument.meaning)
    for name, message, hint in kind.together(action.args):
        yield Fault(f"{path}.args.{name}", message, hint)


def _time_faults(scenario: Scenario, action: Action, path: str) -> Iterator[Fault]:
    if (action.at_round is None) == (action.at_s is None):
        found = "both at_round and at_s" if action.at_round is not None else "neither at_round nor at_s"
        yield Fault(path, f"{action.do} has {found}", "give exactly one of them")
    rounds = scenario.algorithm.rounds
    if action.at_round is not None and action.at_round > rounds:
        yield Fault(f"{path}.at_round", f"is {action.at_round}, but the run has {rounds} rounds")


def _who_faults(scenario: Scenario, action: Action, kind: ActionKind, path: str) -> Iterator[Fault]:
    if action.who == SERVER:
        if not kind.server:
            able = ", ".join(name for name, other in ACTIONS.items() if other.server)
            yield Fault(path, f"the server cannot {action.do}", f"it can: {able}")
        elif action.do == "pause" and "for_s" not in action.args and not _resumed(scenario):
            yield Fault(path, "a paused server opens no round and never goes on", "give args = { for_s = 2 }")
        return
    try:
        goals = parse_goals(str(action.who))
    except ValueError as error:
        yield Fault(path, str(error), 'or "server"')
        return
    if action.do == "onboard":
        yield from _unknown_goals(scenario, goals, path)
        return
    if not _goals_readable(scenario):
        return
    planned = overrides_by_goal(scenario)
    strangers = [goal for goal in goals if goal not in planned]
    if strangers:
        known = ", ".join(map(str, planned)) or "nobody"
        yield Fault(path, f"agent {strangers[0]} is in no [[agents]] table", f"planned: {known}")


def _resumed(scenario: Scenario) -> bool:
    return any(a.do == "resume" and a.who == SERVER and a.at_s is not None for a in scenario.timeline)


def _unknown_goals(scenario: Scenario, goals: Sequence[int], path: str) -> Iterator[Fault]:
    try:
        shape = blueprint(scenario)
    except (KeyError, UnknownName, ValueError, TypeError):  # reported by check_run
        return
    if goals and max(goals) >= shape.goals:
        yield Fault(path, f"{shape.family} has no goal {max(goals)}", f"valid: 0 to {shape.goals - 1}")


def _wrong(value: float | str, argument: Argument) -> str:
    """What was expected instead, or nothing."""
    if argument.words:
        return "" if value in argument.words else "one of " + ", ".join(argument.words)
    bounds = f"a {'whole number' if argument.whole else 'number'} from {argument.low:g} to {argument.high:g}"
    if isinstance(value, str) or not argument.low <= value <= argument.high:
        return bounds
    return bounds if argument.whole and value != int(value) else ""


def _roster_faults(scenario: Scenario) -> list[Fault]:
    """Actions in an order that cannot be, and rounds that nobody could hold."""
    faults = [fault for life in presences(scenario).values() for fault in life.faults]
    if len(absent_at_start(scenario)) == len(overrides_by_goal(scenario)):
        joins = next(i for i, a in enumerate(scenario.timeline) if a.do == "join")
        faults.append(Fault(f"timeline.{joins}", "every agent joins later, nobody is there to open round 1"))
    if faults or in_seconds(scenario):
        return faults
    rounds = turning_rounds(scenario) if scenario.timeline else []
    for here in attendance(scenario, rounds):
        if problem := _unplayable(scenario, here):
            return [Fault(_latest(scenario, here.round), f"in round {here.round} {problem}")]
    return _not_in_cohort(scenario)


def _unplayable(scenario: Scenario, here: Attendance) -> str:
    if not here.eligible:
        return "no agent is left"
    settings, wanted = scenario.algorithm, scenario.federation.min_updates or 0
    asked = cohort_size(len(here.eligible), settings.participation)
    few = "only 1 agent is asked" if asked == 1 else f"only {asked} agents are asked"
    if asked < wanted:
        return f"{few}, fewer than min_updates = {wanted}"
    needs = RULES[settings.rule].needs(settings.byzantine)
    of = f"{settings.rule!r} with byzantine = {settings.byzantine}"
    return f"{few}, fewer than the {needs} updates that rule {of} needs" if asked < needs else ""


def _latest(scenario: Scenario, round_: int) -> str:
    """The path of the last action before a round that changed who is there."""
    past = [
        (action.at_round, index)
        for index, action in enumerate(scenario.timeline)
        if ACTIONS[action.do].membership and action.at_round and action.at_round <= round_
    ]
    return f"timeline.{max(past)[1]}" if past else "timeline"


def _not_in_cohort(scenario: Scenario) -> list[Fault]:
    """An agent that is to die at a point of a round must be asked in that round."""
    faults = []
    for index, action in enumerate(scenario.timeline):
        if "point" not in action.args or action.at_round is None:
            continue
        asked = _asked(scenario, [action.at_round])[action.at_round]
        for agent in agents_of(action):
            if agent not in asked:
                early = _asked(scenario, range(1, min(scenario.algorithm.rounds, HINTED_ROUNDS) + 1))
                others = [str(k) for k, members in early.items() if agent in members][:5]
                message = f"agent {agent} is not in the cohort of round {action.at_round}"
                hint = "it is in those of " + ", ".join(others) if others else "with this seed it is in none"
                faults.append(Fault(f"timeline.{index}.at_round", message, hint))
    return faults


def _asked(scenario: Scenario, rounds: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The cohorts of some rounds, ascending."""
    return {
        here.round: round_cohort(scenario, here.round, here.eligible) for here in attendance(scenario, rounds)
    }
