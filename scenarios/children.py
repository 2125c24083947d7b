"""Who runs, who should be there and who is, and what one step changes of it. No processes, no loop, no clock.

A child is the server or the program of an agent or onboarder. What is ordered is taken for done: whoever was
started counts as running until its end is reported.
"""

from scenarios.actions import (
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
from scenarios.orders import Note, Order, StartServer
from scenarios.proxy.rules import Rule

TRAINS = "agent-"


class Children:
    """The programs of one run, as far as happenings and orders tell.

    Attributes:
        alive: Those that run.
        expected: Agents that should be there.
        ready: Agents and onboarders that the server counts as there.
        armed: Agents that know where they are to die.
        paused: Those that are stopped.
        disturbed: Faults in force on each way; empty: there were some.
        gone: Goals of training agents whose process has ended.
        quarantined: Whom the server does not want any more, however often they come.
        timers: What is to be done at a time.
    """

    def __init__(self) -> None:
        self.alive: set[str] = set()
        self.expected: set[str] = set()
        self.ready: set[str] = set()
        self.armed: set[str] = set()
        self.paused: set[str] = set()
        self.disturbed: dict[str, list[Rule]] = {}
        self.gone: set[int] = set()
        self.quarantined: set[str] = set()
        self.timers: list[tuple[float, StartServer | Resume | Mend]] = []
        self._doomed: dict[str, float] = {}  # whose death is scripted -> seconds until it is started again
        self._waited: dict[str, float] = {}  # who should be gone -> since when that is waited for

    @property
    def in_place(self) -> bool:
        """Whether the server runs and counts exactly the agents that should be there."""
        there = {child for child in self.ready if child.startswith(TRAINS)}
        return SERVER in self.alive and there - self._away == self.expected - self._away

    @property
    def missing(self) -> list[str]:
        """Agents that are waited for."""
        return sorted(self.expected - self.ready - self._away)

    @property
    def _away(self) -> set[str]:
        """Whom nobody waits for at a boundary: paused, or nothing passes on its way to the server."""
        cut_off = {child for child, rules in self.disturbed.items() if any(rule.silences for rule in rules)}
        return self.paused | cut_off

    def behind(self, goal: str, role: str) -> str:
        """The child that the server calls by its goal; of onboarders, the first that is not ready yet."""
        if role == "train":
            return f"{TRAINS}{goal}"
        mine = [c for c in sorted(self.alive - self.ready) if c.split("-")[:2] == ["onboard", goal]]
        return mine[0] if mine else f"onboard-{goal}"

    def server_ended(self) -> float | None:
        """The server's process is gone: seconds until it is started again; None: nothing was scripted."""
        self.alive.discard(SERVER)
        self.ready.clear()
        return self._doomed.pop(SERVER, None)

    def ended(self, child: str) -> bool:
        """Another process is gone: whether it was doomed."""
        for group in (self.alive, self.paused, self.expected):
            group.discard(child)
        if child.startswith(TRAINS):
            self.gone.add(int(child.split("-")[1]))
        else:
            self.ready.discard(child)
        return self._doomed.pop(child, None) is not None

    def start(self, step: Start, orders: list[Order]) -> None:
        """Starts an agent or onboarder."""
        if step.child in self.alive:  # actions in seconds may have been quicker than those in rounds
            orders.append(Note("warning", f"{step.child} is running already: no start"))
            return
        self.alive.add(step.child)
        if not step.onboard:
            self.expected.add(step.child)
            self.gone.discard(step.goal)
        orders.append(step)

    def do(self, step: Step, now: float, orders: list[Order]) -> bool:
        """Carries out one step; False: it must wait."""
        match step:
            case UntilLost():
                return self._is_lost(step, now, orders)
            case UntilArmed(child=child):
                return child in self.armed or child not in self.alive or child in self.paused
            case UntilReady(child=child):
                there = child in self.ready or child in self.quarantined
                return there or (child == SERVER and SERVER in self.alive)
            case Doom(child=child, down_s=down_s):
                self._doomed[child] = down_s
            case Start():
                self.start(step, orders)
            case Disturb(child=child, rule=rule):
                self.disturbed.setdefault(child, []).append(rule)
                orders += [step, Note("info", f"fault for {child}: {rule}")]
            case Mend(after_s=after_s) if after_s > 0:
                self.timers.append((now + after_s, Mend(step.child, step.rule)))
            case Mend():
                self._mend(step, orders)
            case Resume(after_s=after_s) if after_s > 0:
                self.timers.append((now + after_s, Resume(step.child)))
            case Kill() | Terminate() | Tell() | Pause() | Resume():
                self.signal(step, orders)
        return True

    def signal(self, step: Kill | Terminate | Tell | Pause | Resume, orders: list[Order]) -> None:
        """Orders something from a child that is running."""
        if step.child not in self.alive:
            orders.append(Note("warning", f"{step.child} is not running: no {type(step).__name__.lower()}"))
            return
        match step:
            case Pause():
                self.paused.add(step.child)
            case Resume():
                self.paused.discard(step.child)
            case Kill(child="server"):
                self.alive.discard(SERVER)  # nothing is sent to it any more
            case Tell(command={"command": "leave"}):
                self.expected.discard(step.child)
            case Tell(command={"command": "die"}):
                self.armed.discard(step.child)
        orders.append(step)

    def ring(self, now: float, orders: list[Order]) -> None:
        """Does what is due."""
        for timer in [timer for timer in self.timers if now >= timer[0]]:
            self.timers.remove(timer)
            if isinstance(timer[1], StartServer):
                self.alive.add(SERVER)
                orders.append(timer[1])
            elif isinstance(timer[1], Mend):
                self._mend(timer[1], orders)
            else:
                self.signal(timer[1], orders)

    def _is_lost(self, step: UntilLost, now: float, orders: list[Order]) -> bool:
        child = step.child
        if child not in self.ready and child not in self.alive:
            self._waited.pop(child, None)
            return True
        since = self._waited.setdefault(child, now)
        if child in self.alive and now >= since + step.patience_s:
            del self._waited[child]
            self._doomed[child] = 0.0
            orders.append(Note("warning", f"{child} did not come to the point where it was to die"))
            orders.append(Kill(child))
        return False

    def _mend(self, step: Mend, orders: list[Order]) -> None:
        """Ends one fault, or all, unless it has ended already."""
        rules = self.disturbed.get(step.child, [])
        if step.rule in rules:
            rules.remove(step.rule)
        elif step.rule is None and rules:
            rules.clear()
        else:
            return
        orders += [step, Note("info", f"{step.child} is healed: {step.rule or 'no fault is left'}")]
