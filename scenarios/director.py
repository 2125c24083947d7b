"""Decides what a runner does when: happenings in, orders out. No processes, no loop, no clock.

The inproc and the processes runtime use the same director. At a boundary named in the timeline the server
holds; the director carries out the steps of that boundary, each child's steps in order, waits until the
server sees exactly the agents that should be there, and lets it proceed. Nothing here depends on timing,
so that the rounds' records depend on the scenario alone. What a step does is in `scenarios.children`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from edge_fed.config import overrides_by_goal, parse_goals
from edge_fed.program.exit_codes import ExitCode
from scenarios.actions import ACTIONS, SERVER, Resume, Start, Step, Tell
from scenarios.attendance import absent_at_start
from scenarios.children import TRAINS, Children
from scenarios.orders import Ended, Finish, Happening, Note, Order, Spoke, StartServer
from scenarios.timeline import Action, Scenario, agents_of

MAX_ONBOARDERS = 8  # announced onboarders that run at the same time: each is a process of about 60 MiB
PASSED = frozenset({"listening", "held", "opened", "round", "evaluation", "serving"})  # a wait has ended
MOST = 12  # agents that are named in one line
ORDERLY = frozenset({ExitCode.OK, ExitCode.STOPPED, ExitCode.INTERRUPTED, ExitCode.TERMINATED})


class Director:
    """One run of a scenario.

    Args:
        scenario: Checked and resolved.

    Attributes:
        held: The boundary that the server waits at, for messages.
        children: Who runs and who is there.
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
        self.children = Children()
        self._done: int | None = None  # the server's exit code, once its last word has come
        self._queues: dict[str, deque[Step]] = {}  # each child's steps that are not carried out yet
        self._passed = 0  # newest boundary that the server was let through
        self._opened_at: float | None = None  # of round 1
        self._open = 0  # the round that is open, as far as is known
        self._served = ""  # what the server waits for, in its own words
        self._finished = False
        self._warned = False

    @property
    def waiting(self) -> str:
        """What the run waits for at the moment, for people."""
        missing = ", ".join(self.children.missing)
        if SERVER not in self.children.alive:
            return "the server is down, as scripted"
        if self.held is not None:
            steps = sorted({child for child, queue in self._queues.items() if queue})
            return f"held before round {self.held}, waiting for {missing or ', '.join(steps) or 'the server'}"
        if self._opened_at is None:
            return f"waiting for {missing} to be ready" if missing else "round 1 is about to open"
        if self._onboarding:
            return f"waiting for the reports of {', '.join(sorted(self._onboarding))}"
        if self._served:
            return f"waiting for {self._served}"
        return f"waiting for round {self._open}" if self._open else "the last round is done"

    def begin(self) -> list[Order]:
        """The first orders. Agents may be started before the server stands."""
        self.children.alive.add(SERVER)
        orders: list[Order] = [StartServer(tuple(self._holds))]
        for goal in self._initial:
            self.children.start(Start(f"{TRAINS}{goal}", goal), orders)
        if self._rounds == 0:
            self._onboard(orders)
        return orders

    def next_due(self) -> float | None:
        """When `Tick` has something to do, in the clock of ``now``; None: never."""
        times = [time for time, _ in self.children.timers]
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
                self.children.armed.add(child)
            case Spoke(child=child, event="warning", fields=fields) if not self._warned:
                self._warned = True  # the others are set up alike, and their own logs have it
                orders.append(Note("warning", f"{child}, the first to say so: {fields['text']}"))
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
        role = str(fields.get("role", "train"))
        if event in PASSED:
            self._served = ""
        match event:
            case "listening":  # a resumed server must not wait for agents that ended while it was down
                orders += [
                    Tell(SERVER, {"command": "lost", "agent": goal}) for goal in sorted(self.children.gone)
                ]
            case "finished":
                self._done = int(fields["exit_code"])
            case "serving":  # killed after the run was complete and recorded: nobody else is to come
                orders.append(Tell(SERVER, {"command": "stop"}))
                self._finish(Finish(ExitCode.OK), orders)
            case "ready":
                self.children.ready.add(self.children.behind(str(fields["agent"]), role))
            case "lost" | "registers_again" if role == "train":
                self.children.ready.discard(f"{TRAINS}{fields['agent']}")
            case "wait":
                self._served = wait_text(str(fields["what"]), list(fields["missing"]))
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

    def _server_ended(self, code: int, why: str, now: float, orders: list[Order]) -> None:
        down_s = self.children.server_ended()
        if self._done is not None and code < 0:  # killed on its way out: there is nothing to go on with
            code = self._done
        if down_s is not None and code < 0:  # one that ended in order never came to the point
            self.held = None
            left = tuple(k for k in self._holds if k > self._passed)
            self.children.timers.append((now + down_s, StartServer(left, resume=True)))
            orders.append(Note("info", f"the server is dead as scripted; --resume in {down_s:g} s"))
        else:
            disturbed = self.children.alive.intersection(self.children.disturbed)
            unheard = sorted(disturbed)  # its last word may not have arrived
            orders += [Tell(child, {"command": "stop"}) for child in unheard]
            problem = f"the server ended with {_ending(code, why)}" if code else ""
            self._finish(Finish(code if code >= 0 else ExitCode.FAILED, problem), orders)

    def _agent_ended(self, child: str, code: int, why: str, orders: list[Order]) -> None:
        scripted = self.children.ended(child) and code < 0
        training = child.startswith(TRAINS)
        cut_off = code == ExitCode.SERVER_GONE and child in self.children.disturbed
        if training and (scripted or code < 0 or cut_off) and SERVER in self.children.alive:
            orders.append(Tell(SERVER, {"command": "lost", "agent": int(child.split("-")[1])}))
        if code == ExitCode.REFUSED and "(quarantined)" in why:  # as the agent names the reason of a REJECT
            self.children.quarantined.add(child)
        if not scripted and code not in ORDERLY:
            if training and (code < 0 or cut_off or child in self.children.quarantined):
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
        self.children.ring(now, orders)
        while self._clocked and self._opened_at is not None and now >= self._opened_at + self._clocked[0][0]:
            _, step = self._clocked.pop(0)
            self._queues.setdefault(step.child, deque()).append(step)

    def _advance(self, now: float, orders: list[Order]) -> None:
        """Carries out every step that can be carried out, then lets the server go if all is in place."""
        for child, queue in self._queues.items():
            while queue and not self._finished and self.children.do(queue[0], now, orders):
                queue.popleft()
            if child in self.children.paused:
                self._wake(queue, orders)
        if self.held is not None and not any(self._queues.values()) and self.children.in_place:
            self._passed = self.held
            orders.append(Tell(SERVER, {"command": "proceed", "round": self.held}))
            self.held = None

    def _wake(self, queue: deque[Step], orders: list[Order]) -> None:
        """A stopped program goes on at its time, whatever is waited for: without that it might never come."""
        for step in [step for step in queue if isinstance(step, Resume) and not step.after_s]:
            queue.remove(step)
            self.children.signal(step, orders)

    def _onboard(self, orders: list[Order]) -> None:
        """Starts announced onboarders, a few at a time."""
        while self._announced and len(self._onboarding) < MAX_ONBOARDERS and not self._finished:
            goal = self._announced.popleft()
            self._onboarding.add(f"onboard-{goal}")
            self.children.start(Start(f"onboard-{goal}", goal, onboard=True), orders)


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


def wait_text(what: str, missing: Sequence[int]) -> str:
    """What a server waits for and of whom, e.g. ``updates of round 3 of agents 4, 5``."""
    names = ", ".join(map(str, missing[:MOST])) + (
        f" and {len(missing) - MOST} more" if missing[MOST:] else ""
    )
    return f"{what} of agents {names}" if missing else what


def _ending(code: int, why: str) -> str:
    return (f"exit code {code}" if code >= 0 else f"signal {-code}") + (f": {why}" if why else "")
