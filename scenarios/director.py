"""Decides what a runner does when: happenings in, orders out. No processes, no loop, no clock.

The inproc and the processes runtime use the same director. At a boundary named in the timeline the server
holds; the director carries out the steps of that boundary, each child's steps in order, waits until the
server sees exactly the agents that should be there, and lets it proceed. Nothing here depends on timing,
so that the rounds' records depend on the scenario alone.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from edge_fed.config import overrides_by_goal, parse_goals
from edge_fed.program.exit_codes import ExitCode
from scenarios.actions import (
    ACTIONS,
    SERVER,
    Disturb,
    Doom,
    Kill,
    Mend,
    Pause,
    Resume,
    Start,
    Step,
    Tell,
    Terminate,
    UntilArmed,
    UntilLost,
    UntilReady,
)
from scenarios.attendance import absent_at_start
from scenarios.orders import Ended, Finish, Happening, Note, Order, Spoke, StartServer
from scenarios.proxy.rules import Rule
from scenarios.timeline import Action, Scenario, agents_of

MAX_ONBOARDERS = 8  # announced onboarders that run at the same time: each is a process of about 60 MiB
ORDERLY = frozenset({ExitCode.OK, ExitCode.STOPPED, ExitCode.INTERRUPTED, ExitCode.TERMINATED})


class Director:
    """One run of a scenario.

    Args:
        scenario: Checked and resolved.

    Attributes:
        held: The boundary that the server waits at, for messages.
        expected: Agents that should be there.
        ready: Agents and onboarders that the server counts as there.
    """

    def __init__(self, scenario: Scenario) -> None:
        absent = absent_at_start(scenario)
        self._initial = [goal for goal in overrides_by_goal(scenario) if goal not in absent]
        self._rounds = scenario.algorithm.rounds
        self._boundaries, self._clocked = planned_steps(scenario.timeline)
        self._holds = sorted(k for k in self._boundaries if k <= self._rounds)
        self._announced = deque(parse_goals(scenario.onboarding.goals))
        self._onboarding: set[str] = set()  # announced onboarders that are running
        self.held: int | None = None
        self.expected: set[str] = set()
        self.ready: set[str] = set()
        self._alive: set[str] = set()
        self._paused: set[str] = set()
        self._disturbed: dict[str, list[Rule]] = {}  # faults in force on each way; empty: there were some
        self._ended: set[int] = set()  # training agents whose process is gone
        self._quarantined: set[str] = set()  # whom the server does not want any more, however often they come
        self._doomed: dict[str, float] = {}  # whose death is scripted -> seconds until it is started again
        self._done: int | None = None  # the server's exit code, once its last word has come
        self._armed: set[str] = set()  # agents that know where they are to die
        self._waited: dict[str, float] = {}  # who should be gone -> since when that is waited for
        self._queues: dict[str, deque[Step]] = {}  # each child's steps that are not carried out yet
        self._passed = 0  # newest boundary that the server was let through
        self._opened_at: float | None = None  # of round 1
        self._open = 0  # the round that is open, as far as is known
        self._timers: list[tuple[float, StartServer | Resume | Mend]] = []
        self._finished = False

    @property
    def waiting(self) -> str:
        """What the run waits for at the moment, for people."""
        missing = ", ".join(sorted(self.expected - self.ready - self._away))
        if SERVER not in self._alive:
            return "the server is down, as scripted"
        if self.held is not None:
            steps = sorted({child for child, queue in self._queues.items() if queue})
            return f"held before round {self.held}, waiting for {missing or ', '.join(steps) or 'the server'}"
        if self._opened_at is None:
            return f"waiting for {missing} to be ready" if missing else "round 1 is about to open"
        if self._onboarding:
            return f"waiting for the reports of {', '.join(sorted(self._onboarding))}"
        return f"waiting for round {self._open}" if self._open else "the last round is done"

    def begin(self) -> list[Order]:
        """The first orders. Agents may be started before the server stands."""
        self._alive.add(SERVER)
        orders: list[Order] = [StartServer(tuple(self._holds))]
        for goal in self._initial:
            self._start(Start(f"agent-{goal}", goal), orders)
        if self._rounds == 0:
            self._onboard(orders)
        return orders

    def next_due(self) -> float | None:
        """When `Tick` has something to do, in the clock of ``now``; None: never."""
        times = [time for time, _ in self._timers]
        if self._opened_at is not None and self._clocked:
            times.append(self._opened_at + self._clocked[0][0])
        return min(times, default=None)

    def unreached(self) -> list[str]:
        """Steps in seconds whose time had not come when the run ended, for people."""
        return [f"{type(step).__name__.lower()} {step.child} at {at:g} s" for at, step in self._clocked]

    def handle(self, happening: Happening, now: float) -> list[Order]:
        """Tells the director what happened, and when in monotonic seconds; returns what to do, in order."""
        orders: list[Order] = []
        if self._finished:
            return orders
        match happening:
            case Spoke(child="server", event=event, fields=fields):
                self._server_spoke(event, fields, now, orders)
            case Spoke(child=child, event="armed"):
                self._armed.add(child)
            case Ended(child="server", code=code, why=why):
                self._server_ended(code, why, now, orders)
            case Ended(child=child, code=code, why=why):
                self._agent_ended(child, code, why, orders)
            case _:
                pass
        self._time(now, orders)
        self._advance(now, orders)
        return orders

    def _server_spoke(self, event: str, fields: Mapping[str, Any], now: float, orders: list[Order]) -> None:
        match event:
            case "listening":  # a resumed server must not wait for agents that ended while it was down
                orders += [Tell(SERVER, {"command": "lost", "agent": goal}) for goal in sorted(self._ended)]
            case "finished":
                self._done = int(fields["exit_code"])
            case "serving":  # killed after the run was complete and recorded: nobody else is to come
                orders.append(Tell(SERVER, {"command": "stop"}))
                self._finish(Finish(ExitCode.OK), orders)
            case "ready":
                self.ready.add(self._child_of(fields))
            case "lost" | "registers_again" if fields.get("role", "train") == "train":
                self.ready.discard(f"agent-{fields['agent']}")
            case "held":
                self.held = int(fields["round"])
                for step in self._boundaries.pop(self.held, []):
                    self._queues.setdefault(step.child, deque()).append(step)
            case "opened":
                self._open = int(fields["round"])
                if self._opened_at is None:
                    self._opened_at = now
            case "round" | "evaluation" if int(fields["round"]) >= self._rounds:
                self._open = 0
                self._onboard(orders)

    def _child_of(self, fields: Mapping[str, Any]) -> str:
        """The child behind a server's ``ready``; onboarders of one goal come in the order they started."""
        goal = str(fields["agent"])
        if fields.get("role", "train") == "train":
            return f"agent-{goal}"
        mine = [c for c in sorted(self._alive - self.ready) if c.split("-")[:2] == ["onboard", goal]]
        return mine[0] if mine else f"onboard-{goal}"

    def _server_ended(self, code: int, why: str, now: float, orders: list[Order]) -> None:
        self._alive.discard(SERVER)
        self.ready.clear()
        down_s = self._doomed.pop(SERVER, None)
        if self._done is not None and code < 0:  # killed on its way out: there is nothing to go on with
            code = self._done
        if down_s is not None and code < 0:  # one that ended in order never came to the point
            self.held = None
            left = tuple(k for k in self._holds if k > self._passed)
            self._timers.append((now + down_s, StartServer(left, resume=True)))
            orders.append(Note("info", f"the server is dead as scripted; --resume in {down_s:g} s"))
        else:
            unheard = sorted(self._alive.intersection(self._disturbed))  # its last word may not have arrived
            orders += [Tell(child, {"command": "stop"}) for child in unheard]
            problem = f"the server ended with {_ending(code, why)}" if code else ""
            self._finish(Finish(code if code >= 0 else ExitCode.FAILED, problem), orders)

    def _agent_ended(self, child: str, code: int, why: str, orders: list[Order]) -> None:
        scripted = self._doomed.pop(child, None) is not None and code < 0
        for group in (self._alive, self._paused, self.expected):
            group.discard(child)
        training = child.startswith("agent-")
        if not training:
            self.ready.discard(child)
        if training:
            self._ended.add(int(child.split("-")[1]))
        cut_off = code == ExitCode.SERVER_GONE and child in self._disturbed
        if training and (scripted or code < 0 or cut_off) and SERVER in self._alive:
            orders.append(Tell(SERVER, {"command": "lost", "agent": int(child.split("-")[1])}))
        if code == ExitCode.REFUSED and "(quarantined)" in why:  # as the agent names the reason of a REJECT
            self._quarantined.add(child)
        if not scripted and code not in ORDERLY:
            if training and (code < 0 or cut_off or child in self._quarantined):
                orders.append(Note("warning", f"{child} ended with {_ending(code, why)}; the run goes on"))
            else:
                self._finish(Finish(ExitCode.FAILED, f"{child} ended with {_ending(code, why)}"), orders)
        if child in self._onboarding:
            self._onboarding.discard(child)
            self._onboard(orders)

    def _finish(self, finish: Finish, orders: list[Order]) -> None:
        self._finished = True
        orders.append(finish)

    def _time(self, now: float, orders: list[Order]) -> None:
        for timer in [timer for timer in self._timers if now >= timer[0]]:
            self._timers.remove(timer)
            if isinstance(timer[1], StartServer):
                self._alive.add(SERVER)
                orders.append(timer[1])
            elif isinstance(timer[1], Mend):
                self._mend(timer[1], orders)
            else:
                self._signal(timer[1], orders)
        while self._clocked and self._opened_at is not None and now >= self._opened_at + self._clocked[0][0]:
            _, step = self._clocked.pop(0)
            self._queues.setdefault(step.child, deque()).append(step)

    def _advance(self, now: float, orders: list[Order]) -> None:
        """Carries out every step that can be carried out, then lets the server go if all is in place."""
        for child, queue in self._queues.items():
            while queue and not self._finished and self._do(queue[0], now, orders):
                queue.popleft()
            if child in self._paused:
                self._wake(queue, orders)
        if self.held is not None and not any(self._queues.values()) and self._in_place():
            self._passed = self.held
            orders.append(Tell(SERVER, {"command": "proceed", "round": self.held}))
            self.held = None

    def _wake(self, queue: deque[Step], orders: list[Order]) -> None:
        """A stopped program goes on at its time, whatever is waited for: without that it might never come."""
        for step in [step for step in queue if isinstance(step, Resume) and not step.after_s]:
            queue.remove(step)
            self._signal(step, orders)

    def _in_place(self) -> bool:
        there = {child for child in self.ready if child.startswith("agent-")}
        return SERVER in self._alive and there - self._away == self.expected - self._away

    @property
    def _away(self) -> set[str]:
        """Whom nobody waits for at a boundary: paused, or nothing passes on its way to the server."""
        cut_off = {child for child, rules in self._disturbed.items() if any(rule.silences for rule in rules)}
        return self._paused | cut_off

    def _do(self, step: Step, now: float, orders: list[Order]) -> bool:
        """Carries out one step; False: it must wait."""
        match step:
            case UntilLost(child=child):
                if child not in self.ready and child not in self._alive:
                    self._waited.pop(child, None)
                    return True
                since = self._waited.setdefault(child, now)
                if child in self._alive and now >= since + step.patience_s:
                    del self._waited[child]
                    self._doomed[child] = 0.0
                    orders.append(Note("warning", f"{child} did not come to the point where it was to die"))
                    orders.append(Kill(child))
                return False
            case UntilArmed(child=child):
                return child in self._armed or child not in self._alive or child in self._paused
            case UntilReady(child=child):
                there = child in self.ready or child in self._quarantined
                return there or (child == SERVER and SERVER in self._alive)
            case Doom(child=child, down_s=down_s):
                self._doomed[child] = down_s
            case Start():
                self._start(step, orders)
            case Disturb(child=child, rule=rule):
                self._disturbed.setdefault(child, []).append(rule)
                orders += [step, Note("info", f"fault for {child}: {rule}")]
            case Mend(after_s=after_s) if after_s > 0:
                self._timers.append((now + after_s, Mend(step.child, step.rule)))
            case Mend():
                self._mend(step, orders)
            case Resume(after_s=after_s) if after_s > 0:
                self._timers.append((now + after_s, Resume(step.child)))
            case Kill() | Terminate() | Tell() | Pause() | Resume():
                self._signal(step, orders)
        return True

    def _signal(self, step: Kill | Terminate | Tell | Pause | Resume, orders: list[Order]) -> None:
        """Orders something from a child that is running."""
        if step.child not in self._alive:
            orders.append(Note("warning", f"{step.child} is not running: no {type(step).__name__.lower()}"))
            return
        match step:
            case Pause():
                self._paused.add(step.child)
            case Resume():
                self._paused.discard(step.child)
            case Kill(child="server"):
                self._alive.discard(SERVER)  # nothing is sent to it any more
            case Tell(command={"command": "leave"}):
                self.expected.discard(step.child)
            case Tell(command={"command": "die"}):
                self._armed.discard(step.child)
        orders.append(step)

    def _mend(self, step: Mend, orders: list[Order]) -> None:
        """Ends one fault, or all, unless it has ended already."""
        rules = self._disturbed.get(step.child, [])
        if step.rule in rules:
            rules.remove(step.rule)
        elif step.rule is None and rules:
            rules.clear()
        else:
            return
        orders += [step, Note("info", f"{step.child} is healed: {step.rule or 'no fault is left'}")]

    def _start(self, step: Start, orders: list[Order]) -> None:
        if step.child in self._alive:  # actions in seconds may have been quicker than those in rounds
            orders.append(Note("warning", f"{step.child} is running already: no start"))
            return
        self._alive.add(step.child)
        if not step.onboard:
            self.expected.add(step.child)
            self._ended.discard(step.goal)
        orders.append(step)

    def _onboard(self, orders: list[Order]) -> None:
        """Starts announced onboarders, a few at a time."""
        while self._announced and len(self._onboarding) < MAX_ONBOARDERS and not self._finished:
            goal = self._announced.popleft()
            self._onboarding.add(f"onboard-{goal}")
            self._start(Start(f"onboard-{goal}", goal, onboard=True), orders)


def planned_steps(timeline: tuple[Action, ...]) -> tuple[dict[int, list[Step]], list[tuple[float, Step]]]:
    """The timeline as steps: by boundary, and by seconds in ascending order."""
    boundaries: dict[int, list[Step]] = {}
    clocked: list[tuple[float, Step]] = []
    for index, action in enumerate(timeline):
        kind = ACTIONS[action.do]
        name = f"onboard-{{}}-{index}" if kind.newcomer else "agent-{}"
        targets = [(SERVER, -1)] if action.who == SERVER else [(name.format(g), g) for g in agents_of(action)]
        for child, goal in targets:
            for later, step in kind.steps(child, goal, action.at_round, action.args):
                if action.at_round is None:
                    clocked.append((action.at_s or 0.0, step))
                else:
                    boundaries.setdefault(action.at_round + later, []).append(step)
    return boundaries, sorted(clocked, key=lambda pair: pair[0])


def _ending(code: int, why: str) -> str:
    return (f"exit code {code}" if code >= 0 else f"signal {-code}") + (f": {why}" if why else "")
