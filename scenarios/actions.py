"""What a timeline can do: one visible table. A new action is one function of steps and one line in it.

`at_round = r` acts at the boundary before round r opens; the server holds there until the steps are done.
The steps of an action are plain data; `scenarios.director` orders them, a runtime carries them out.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from edge_fed.profiles import LINK_BOUNDS, PRESETS
from scenarios.proxy.rules import KINDS, MESSAGES, SIDES, Rule, argument_faults, rule_of
from server.events import KillPoint

Runtime = Literal["plain", "inproc", "processes"]
RUNTIMES: tuple[Runtime, ...] = ("plain", "inproc", "processes")
NETWORKED: frozenset[str] = frozenset({"inproc", "processes"})
EVERYWHERE: frozenset[str] = frozenset(RUNTIMES)
SERVER = "server"

AGENT_POINTS = ("assigned", "trained", "sent")
SERVER_POINTS: tuple[str, ...] = get_args(KillPoint)
POINT_PATIENCE_S = 5.0  # other actions may keep an agent from the point at which it is to die
Args = Mapping[str, float | str]


class Step(msgspec.Struct, frozen=True):
    """Parent of what a director can ask for. ``child`` is ``server``, ``agent-3`` or ``onboard-7``."""

    child: str


class Start(Step, frozen=True):
    """Start a program for ``goal``; ``at`` says which parameters an onboarder asks for."""

    goal: int
    onboard: bool = False
    at: Literal["final", "now"] | int = "final"


class Doom(Step, frozen=True):
    """From now on the child's death is part of the script; a server is started again after ``down_s``."""

    down_s: float = 0.0


class Kill(Step, frozen=True):
    """SIGKILL, or its counterpart among tasks."""


class Terminate(Step, frozen=True):
    """SIGTERM, or its counterpart among tasks: the program says goodbye and ends."""


class Tell(Step, frozen=True):
    """Send a supervisor's command."""

    command: dict[str, Any]


class Pause(Step, frozen=True):
    """SIGSTOP."""


class Resume(Step, frozen=True):
    """SIGCONT, ``after_s`` seconds from now."""

    after_s: float = 0.0


class Disturb(Step, frozen=True):
    """From now on this fault acts on the way between the child and the server."""

    rule: Rule


class Mend(Step, frozen=True):
    """This fault of the child's way ends, or all of them; ``after_s`` seconds from now."""

    rule: Rule | None = None
    after_s: float = 0.0


class UntilLost(Step, frozen=True):
    """Wait until the server counts this agent as gone; one that lives on after ``patience_s`` is killed."""

    patience_s: float = math.inf


class UntilArmed(Step, frozen=True):
    """Wait until the agent says that it knows where it is to kill itself."""


class UntilReady(Step, frozen=True):
    """Wait until the server counts this agent as ready; of the server: until it stands."""


class Argument(msgspec.Struct, frozen=True):
    """One entry of an action's ``args``: a number within bounds, or one of a few words."""

    meaning: str
    low: float = 0.0
    high: float = 1e6
    whole: bool = False
    words: tuple[str, ...] = ()
    required: bool = False


Planned = list[tuple[int, Step]]
"""(rounds after the action's own boundary, step), in order."""


class ActionKind(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        meaning: One sentence for ``--help`` and the README.
        steps: (child, goal, round or None, args) -> steps.
        args: Allowed arguments when it acts on an agent.
        server_args: Allowed arguments when it acts on the server.
        agent: Runtimes that can do it to an agent.
        server: Runtimes that can do it to the server.
        membership: What it does to the set of agents that train; None: nothing. The plain loop leaves
            such actions, and all on the server, out: they change no bits there.
        newcomer: It acts on a new onboarder of the goal, not on the agent that trains.
        needed: The plain loop refuses it instead of leaving it out: the scenario is about it.
        together: (name, what is wrong, hint) of arguments that do not go together.
    """

    meaning: str
    steps: Callable[[str, int, int | None, Args], Planned]
    args: dict[str, Argument] = {}
    server_args: dict[str, Argument] = {}
    agent: frozenset[str] = frozenset()
    server: frozenset[str] = frozenset()
    membership: Literal["join", "leave", "kill", "restart"] | None = None
    newcomer: bool = False
    needed: bool = False
    together: Callable[[Args], Iterator[tuple[str, str, str]]] = lambda _args: iter(())


def _join(child: str, goal: int, _round: int | None, _args: Args) -> Planned:
    return [(0, Start(child, goal))]


def _leave(child: str, _goal: int, _round: int | None, _args: Args) -> Planned:
    return [(0, Tell(child, {"command": "leave"})), (0, UntilLost(child))]


def _kill(child: str, _goal: int, round_: int | None, args: Args) -> Planned:
    doom = Doom(child, float(args.get("down_s", 0.0)))
    until: Step = UntilReady(child) if child == SERVER else UntilLost(child)
    if "point" in args:
        die = Tell(child, {"command": "die", "point": args["point"], "round": round_})
        if child == SERVER:  # what it is told next is that the round may open
            return [(0, doom), (0, die), (1, until)]
        return [(0, doom), (0, die), (0, UntilArmed(child)), (1, UntilLost(child, POINT_PATIENCE_S))]
    if args.get("signal") == "TERM":
        return [(0, Terminate(child)), (0, until)]
    return [(0, doom), (0, Kill(child)), (0, until)]


def _restart(child: str, goal: int, round_: int | None, args: Args) -> Planned:
    killed = _kill(child, goal, round_, args)
    if child == SERVER:
        return killed  # the director starts a doomed server again
    back = killed[-1][0] + int(float(args.get("down_rounds", 0)))
    return [*killed, (back, Start(child, goal))]


def _pause(child: str, _goal: int, _round: int | None, args: Args) -> Planned:
    paused: Planned = [(0, Pause(child))]
    if "for_s" in args:
        paused.append((0, Resume(child, float(args["for_s"]))))
    return paused


def _resume(child: str, _goal: int, _round: int | None, _args: Args) -> Planned:
    return [(0, Resume(child))]


def _slow(child: str, _goal: int, _round: int | None, args: Args) -> Planned:
    return [(0, Tell(child, {"command": "slow", **args}))]


def _link(child: str, _goal: int, _round: int | None, args: Args) -> Planned:
    preset = PRESETS[str(args["profile"])] if "profile" in args else {}
    values = {**preset, **{name: value for name, value in args.items() if name != "profile"}}
    return [(0, Tell(child, {"command": "link", **values}))]


def _fault(child: str, _goal: int, _round: int | None, args: Args) -> Planned:
    rule = rule_of(args)
    planned: Planned = [(0, Disturb(child, rule))]
    if "for_s" in args:
        planned.append((0, Mend(child, rule, float(args["for_s"]))))
    return planned


def _heal(child: str, _goal: int, _round: int | None, _args: Args) -> Planned:
    return [(0, Mend(child))]


def _onboard(child: str, goal: int, round_: int | None, _args: Args) -> Planned:
    start = Start(child, goal, onboard=True, at="now" if round_ is None else round_ - 1)
    return [(0, start), (0, UntilReady(child))]


_DOWN_S = Argument("seconds until it is started again with --resume", high=3600.0)
_SERVER_ARGS = {
    "point": Argument("the server kills itself there in round r", words=SERVER_POINTS),
    "down_s": _DOWN_S,
}
_POINT = Argument("the agent kills itself there in round r", words=AGENT_POINTS)
_SIGNAL = Argument("KILL (the default), or TERM: it says goodbye and ends in order", words=("KILL", "TERM"))
_FOR_S = {"for_s": Argument("seconds until it goes on", high=3600.0)}
_LINK = {
    "latency_s": "seconds one way",
    "jitter_s": "largest random addition to the latency, seconds",
    "bandwidth_bps": "bits per second",
    "loss": "fraction lost and sent again",
}
_SIGNALS = frozenset({"processes"})
_FAULT = {
    "kind": Argument("what goes wrong: " + ", ".join(KINDS), words=tuple(KINDS), required=True),
    "direction": Argument("up: agent to server; default both", words=SIDES),
    "only": Argument("type of the messages it acts on", words=MESSAGES),
    "chance": Argument("that it acts on such a message", high=1.0),
    "count": Argument("messages it acts on at most", low=1, whole=True),
    "seconds": Argument("of a delay; or how long a message waits to be overtaken", high=3600.0),
    "fraction": Argument("of a message that passes before the cut", high=1.0),
    "bytes_per_s": Argument("each way", low=1.0, high=1e12),
    "for_s": Argument("seconds until it ends by itself", high=3600.0),
}

ACTIONS: dict[str, ActionKind] = {
    "join": ActionKind(
        meaning="the agent starts and is first eligible in round r; until then it is absent",
        steps=_join,
        agent=EVERYWHERE,
        membership="join",
    ),
    "leave": ActionKind(
        meaning="the agent says goodbye; it counts in round r-1, not in r",
        steps=_leave,
        agent=EVERYWHERE,
        membership="leave",
    ),
    "kill": ActionKind(
        meaning="SIGKILL: an agent counts in round r-1, not in r; a server is started again after down_s",
        steps=_kill,
        args={"point": _POINT, "signal": _SIGNAL},
        server_args=_SERVER_ARGS,
        agent=EVERYWHERE,
        server=_SIGNALS,
        membership="kill",
    ),
    "restart": ActionKind(
        meaning="kill, then ready again before round r opens, or down_rounds later",
        steps=_restart,
        args={
            "point": _POINT,
            "signal": _SIGNAL,
            "down_rounds": Argument("rounds that it misses", whole=True),
        },
        server_args=_SERVER_ARGS,
        agent=EVERYWHERE,
        server=_SIGNALS,
        membership="restart",
    ),
    "pause": ActionKind(
        meaning="SIGSTOP, for for_s seconds or until resume",
        steps=_pause,
        args=_FOR_S,
        server_args=_FOR_S,
        agent=_SIGNALS,
        server=_SIGNALS,
    ),
    "resume": ActionKind(
        meaning="SIGCONT after a pause",
        steps=_resume,
        agent=_SIGNALS,
        server=_SIGNALS,
    ),
    "slow": ActionKind(
        meaning="a slower device: time added to each local step",
        steps=_slow,
        args={"compute_delay_s": Argument("seconds per local step", high=1e4, required=True)},
        agent=NETWORKED,
    ),
    "link": ActionKind(
        meaning="another network link between this agent and the server",
        steps=_link,
        args={
            "profile": Argument("a link by name; the other arguments change it", words=tuple(PRESETS)),
            **{name: Argument(_LINK[name], low=low, high=high) for name, (low, high) in LINK_BOUNDS.items()},
        },
        agent=NETWORKED,
    ),
    "fault": ActionKind(
        meaning="a fault on the agent's way to the server, until heal or for for_s",
        steps=_fault,
        args=_FAULT,
        agent=_SIGNALS,
        needed=True,
        together=argument_faults,
    ),
    "heal": ActionKind(
        meaning="all faults on the agent's way to the server end",
        steps=_heal,
        agent=_SIGNALS,
        needed=True,
    ),
    "onboard": ActionKind(
        meaning="an agent that does not train measures the parameters of round r-1 (at_s: the newest)",
        steps=_onboard,
        newcomer=True,
        agent=EVERYWHERE,
    ),
}
"""Every action by name."""
