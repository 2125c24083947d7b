"""Every decision of an agent: events in, commands out, the time passed in. No socket, no loop, no clock.

    connecting -> registering -> building -> idle <-> training | evaluating | onboarding    -> ended

The session may be lost and found again at any time: work goes on meanwhile, and what it gives is kept
until its fate is known. This file knows sessions, time and the ways to end; `agent.duties` knows the work.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, final

import msgspec

from agent import events as e
from agent.contact import LATE_S, Contact, Jitter, Wait
from agent.duties import Duties, Script, trained
from agent.plan import Plan
from agent.refusals import explained, rejected
from agent.waits import line, start_hint, whom
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.limits import MAJOR, MINOR, Limits
from protocol.session import Session, State

OUTCOMES = {"finished": ExitCode.OK, "failed": ExitCode.STOPPED, "stopped": ExitCode.STOPPED}
REJECTIONS = {"goal_in_use": ExitCode.SUPERSEDED, "key": ExitCode.AUTHENTICATION}
SAVE = "start the server with --resume FOLDER --serve, and this agent with --onboard"
ROUND_LINE_S = 1.0  # rounds of milliseconds would fill the screen of a person who watches one agent


@final
class Machine:
    """The agent's decisions. The runtime passes every event to `handle` and a tick at `due`.

    Attributes:
        limits: Of the wire, as WELCOME said.
        ended: An `Exit` was given.
    """

    def __init__(self, plan: Plan, now: float, jitter: Jitter) -> None:
        self.limits = Limits()
        self.ended = False
        self._plan = plan
        self._contact = Contact(now, plan.give_up_after_s, jitter)
        self._duties = Duties(plan.request())
        self._session = Session("agent", now=now)
        self._welcomed = b""  # session id of the last WELCOME
        self._last_counted = 0
        self._committed = 0
        self._progress = 0
        self._says = ""
        self._server_says = ""
        self._refusal = ""
        self._unsaid = ""  # code of the refusal, while it has no line of its own
        self._unsaved = ""
        self._saved = not plan.saves
        self._after: tuple[ExitCode, str] | None = None  # how it ends when its own policy is saved
        self._idle_since = now
        self._say_round_at = now
        self._out = Script()

    @property
    def phase(self) -> str:
        """Where the agent stands."""
        if self.ended:
            return "ended"
        if not self._contact.joined:
            return "registering" if self._contact.reached else "connecting"
        return self._duties.phase

    def due(self) -> float:
        """The next time at which a tick may do something."""
        return self._contact.due()

    def handle(self, event: e.Event, now: float) -> list[e.Command]:
        """Takes one event; returns what to do, in order. After an `Exit` it returns nothing more."""
        if self.ended:
            return []
        self._out = Script()
        busy = self._duties.work is not None
        EVENTS[type(event)](self, event, now)
        if busy and self._duties.work is None:
            self._idle_since = now
        if not self.ended:
            self._post(now)
            self._name_wait(now)
        return self._out.commands

    # --- the clock ---------------------------------------------------------------------------------

    def _tick(self, event: e.Tick, now: float) -> None:
        self._say_refusal()
        self._progress, self._says = event.progress, event.says
        contact = self._contact
        if event.late_s > LATE_S:
            contact.asleep(event.late_s)
            self._idle_since += event.late_s
            self._server_says = ""  # it is as old as that; the next answer says what is waited for now
        silent = f"{contact.silent_s(now):.0f} s"
        if contact.given_up(now):
            why = f"gave up after {silent} of waiting for {whom(self._contact)} at {self._plan.address}"
            self._exit(ExitCode.SERVER_GONE, why, self._hint())
            return
        if contact.lease_over(now):
            self._out.log("warning", f"the server has been silent for {silent}; registering again")
            contact.lost(now, silent=True)
        self._name_wait(now)  # before another try, which is not known yet to reach anybody
        if contact.register_due(now):
            self._register(now)
        elif contact.beat_due(now):
            self._beat(now)

    def _register(self, now: float) -> None:
        self._contact.registering(now)
        self._send(self._plan.register(self._session.run), now)

    def _beat(self, now: float) -> None:
        phase, held, heard = self._duties.phase, self._duties.held, self._session.received
        says = self._says if self._duties.work else ""
        beat = m.Heartbeat(phase=phase, progress=self._progress, round=held, heard=heard, message=says)
        self._send(beat, now)

    def _post(self, now: float) -> None:
        """Sends whatever the session allows and the server lacks."""
        if not self._contact.joined:
            return
        if self._session.state is State.WELCOMED and (ready := self._duties.ready(self._last_counted)):
            self._send(ready, now)
            self._out.tell("ready", role=self._duties.role)
        for parcel in self._duties.outbox.take(self._session.may_send):
            self._send(parcel.message, now, parcel.tensors)
            parcel.number = self._session.sent
            if isinstance(parcel.message, m.Update):
                self._out.tell("sent", round=parcel.round)

    def _name_wait(self, now: float) -> None:
        what, since = self._wait(now)
        if self._contact.naming(what, since, now):
            says, address = self._server_says, self._plan.address
            level, text = line(self._contact, what, since, now, address, says)
            start = what == "server" and not self._contact.reached
            self._out.log(level, text, **({"hint": self._hint()} if start else {}))

    def _wait(self, now: float) -> tuple[Wait, float]:
        silent_s = self._contact.silent_s(now)
        if self._after is not None:
            return "", now
        if now < self._contact.away_until:
            return "day", now
        if not self._contact.joined:
            return "server", now - silent_s
        if silent_s > 1.5 * self._contact.heartbeat_s:
            return "answer", now - silent_s
        return ("", now) if self._duties.work else ("work", self._idle_since)

    def _hint(self) -> str:
        onboards = self._plan.role == "onboard" or self._duties.role == "onboard"
        return start_hint(self._plan, self._duties.run, onboards=onboards)

    # --- the socket --------------------------------------------------------------------------------

    def _received(self, event: e.Received, now: float) -> None:
        message = event.message
        try:
            self._session.receive(event.header, message, now)
        except RemoteProtocolError as error:
            self._out.log("debug", f"dropped: {error}", code=error.code)
            return
        self._contact.heard(now)
        if event.header.session:
            self._committed = event.header.committed
            self._duties.committed(event.header.committed, self._out)
        MESSAGES[type(message)](self, message, event, now)

    def _reachable(self, _event: e.Reachable, now: float) -> None:
        self._contact.reachable(now)
        if self._contact.register_due(now):
            self._register(now)

    def _not_sent(self, _event: e.NotSent, now: float) -> None:
        if self._contact.joined:
            self._out.log("info", "the connection to the server is gone")
        self._contact.unreachable(now)

    def _refused(self, event: e.Refused, _now: float) -> None:
        self._exit(ExitCode.AUTHENTICATION, *explained(event.kind, self._plan))

    def _peer_version(self, event: e.PeerVersion, _now: float) -> None:
        why = f"the server speaks protocol {event.major}.{event.minor}, this agent {MAJOR}.{MINOR}"
        self._exit(ExitCode.REFUSED, why, "install the same major version of edge-fed on both sides")

    def _malformed(self, event: e.Malformed, now: float) -> None:
        self._out.log("warning", f"dropped something that is no message: {event.why}", code=event.code)
        if self._contact.joined and self._session.may_send(m.Error):
            error = {"t": "ERROR", "code": event.code, "message": event.why[:4096]}
            self._send(msgspec.convert(error, m.Error), now)

    def _welcome(self, message: m.Welcome, event: e.Received, now: float) -> None:
        if self._session.state is not State.WELCOMED:
            return  # the answer to a repeated REGISTER: this session is at work already
        try:
            self.limits = msgspec.convert(message.limits, Limits, strict=False)
        except msgspec.ValidationError as error:
            self._exit(ExitCode.REFUSED, f"the server's limits cannot be kept: {error}")
            return
        same = self._contact.doubts and self._session.sid == self._welcomed
        self._welcomed = self._session.sid
        self._contact.joined_at(now, self.limits.heartbeat_s, self.limits.lease_s, same=same)
        self._last_counted = message.last_counted
        self._idle_since = now
        self._out.tell("registered", role=message.role, run=event.header.run.hex())
        self._duties.welcome(message, event.header.run, self._out, same=same)
        if message.role == "onboard" and self._plan.role == "auto" and self._plan.agent in trained(message):
            text = f"goal {self._plan.agent} trains in this run, but its training is over: onboarding instead"
            self._out.log("warning", text)
        if message.role == "train" and self._plan.at != "final":
            text = f"goal {self._plan.agent} trains in this run: --at is for onboarders and has no effect"
            self._out.log("warning", text, hint="add --onboard")

    def _reject(self, message: m.Reject, _event: e.Received, _now: float) -> None:
        code = REJECTIONS.get(message.reason, ExitCode.REFUSED)
        built = self._duties.built
        self._exit(code, rejected(message, built.description if built else ""))

    def _error(self, message: m.Error, _event: e.Received, now: float) -> None:
        if message.code == "conflict":
            self._duties.conflict(message, self._out)
        elif message.code != "unknown_session":
            self._say_refusal()
            self._refusal, self._unsaid = message.message, message.code
            if message.code != "internal":  # after that one, SHUTDOWN for the same reason may be on its way
                self._say_refusal()
        elif self._contact.joined:
            self._out.log("info", "the server does not know this session; registering again")
            self._contact.lost(now)
            self._register(now)

    def _heartbeat(self, message: m.Heartbeat, _event: e.Received, _now: float) -> None:
        self._server_says = message.message
        self._duties.outbox.answered(message.heard)

    def _theta(self, message: m.Theta, event: e.Received, _now: float) -> None:
        self._duties.theta(event, message, self._out)

    def _evaluate(self, message: m.Evaluate, event: e.Received, _now: float) -> None:
        self._duties.evaluate(event, message, self._out)

    def _init(self, message: m.Init, event: e.Received, _now: float) -> None:
        self._duties.init(event, message, self._out)

    def _ack(self, message: m.Ack, _event: e.Received, _now: float) -> None:
        self._duties.ack(message, self._out)
        if self._duties.reported:
            self._leave(ExitCode.OK, "onboarded and reported")

    def _ping(self, _message: m.Ping, _event: e.Received, now: float) -> None:
        self._send(m.Pong(), now)

    def _superseded(self, message: m.Superseded, _event: e.Received, _now: float) -> None:
        why = f"another process has taken this agent's goal over: {message.message}"
        self._exit(ExitCode.SUPERSEDED, why, "this process will not come back; stop the other one first")

    def _shutdown(self, message: m.Shutdown, _event: e.Received, _now: float) -> None:
        code, hint = OUTCOMES[message.outcome], ""
        why = f"the server ended ({message.outcome}): {message.reason}"
        if message.reason and message.reason == self._refusal:  # the end of this session alone
            code, why = ExitCode.REFUSED, f"refused by the server: {message.reason}"
            self._unsaid = ""  # the exit's line says it
        elif self._duties.role == "onboard" and not self._duties.measured_rows:
            code, why = ExitCode.STOPPED, f"{why}; this agent had not measured its rows yet"
        elif code is ExitCode.OK and not self._saved and self._duties.role == "train":
            if isinstance(self._duties.work, e.Evaluate):
                self._after = code, why
                self._contact.away(math.inf)
                self._out.log("info", f"{why}; adapting the final parameters to this device, to save them")
                return
            code, why, hint = ExitCode.FAILED, f"{why}, but the final parameters were not sent to save", SAVE
        self._exit(code, why, hint)

    # --- the worker and the supervisor -------------------------------------------------------------

    def _built(self, event: e.Built, _now: float) -> None:
        self._duties.built_up(event, self._out)

    def _trained(self, event: e.Trained, now: float) -> None:
        level: e.Level = "info" if now >= self._say_round_at else "debug"
        self._say_round_at = now + ROUND_LINE_S if level == "info" else self._say_round_at
        self._duties.trained(event, level, self._out)

    def _measured(self, event: e.Measured, _now: float) -> None:
        self._unsaved = event.unsaved
        if event.unsaved:
            self._out.log("error", event.unsaved)
        self._saved = True
        self._duties.measured(event, self._out)
        if self._after is not None:
            self._exit(*self._after)

    def _failed(self, event: e.Failed, now: float) -> None:
        error = self._duties.failed(event, self._out)
        if error is None:
            return
        refuses = event.code is ExitCode.REFUSED
        if self._session.may_send(m.Error) and self._contact.joined and not refuses:
            self._send(error, now)
        if refuses:  # this agent refuses the run: no error of anybody
            self._leave(event.code, event.why, event.hint, f"it refuses the run: {event.why}")
        elif not event.refused or self._after is not None:
            self._leave(event.code, event.why, event.hint, error.message)

    def _spent(self, event: e.Spent, now: float) -> None:
        if not self._duties.ended(event.number):
            return
        self._out.log("warning", event.why)
        self._out.tell("away", why=event.why, for_s=event.for_s)
        self._bye(event.why)
        self._session = Session("agent", run=self._session.run, now=now)
        self._contact.away(now + event.for_s)

    def _stop(self, event: e.Stop, _now: float) -> None:
        self._leave(event.code, event.why)

    def _arm(self, event: e.Arm, _now: float) -> None:
        self._duties.arm(event)
        self._out.tell("armed", point=event.point, round=event.round)

    # --- helpers -----------------------------------------------------------------------------------

    def _send(self, message: m.Message, now: float, tensors: Mapping[str, Any] | None = None) -> None:
        try:
            header = self._session.send(message, self._committed)
        except LocalProtocolError as error:
            self._out.log("error", f"not sent: {error}")
            return
        if self._contact.joined:
            self._contact.sent(now)
        self._out.do(e.Send(header, message, tensors or {}))

    def _say_refusal(self) -> None:
        if self._unsaid:
            text = f"the server could not accept a message: {self._refusal}"
            self._out.log("warning", text, code=self._unsaid)
            self._unsaid = ""

    def _leave(self, code: ExitCode, why: str, hint: str = "", told: str = "") -> None:
        """Ends in order: BYE excuses this agent at once, and says ``told`` or else why."""
        self._bye(told or why)
        self._exit(code, why, hint)

    def _bye(self, why: str) -> None:
        if self._contact.joined and self._session.may_send(m.Bye):
            bye = m.Bye(reason=why[:4096])
            self._out.do(e.Send(self._session.send(bye, self._committed), bye))

    def _exit(self, code: ExitCode, why: str, hint: str = "") -> None:
        self._say_refusal()
        self.ended = True
        if code is ExitCode.OK and self._unsaved:
            code, why, hint = ExitCode.FAILED, f"{why}, but {self._unsaved}", "choose another --save"
        self._out.do(e.StopWork())
        self._out.do(e.Exit(code, why, hint))


EVENTS: dict[type[e.Event], Callable[[Machine, Any, float], None]] = {
    e.Tick: Machine._tick,
    e.Received: Machine._received,
    e.Reachable: Machine._reachable,
    e.NotSent: Machine._not_sent,
    e.Refused: Machine._refused,
    e.PeerVersion: Machine._peer_version,
    e.Malformed: Machine._malformed,
    e.Built: Machine._built,
    e.Trained: Machine._trained,
    e.Measured: Machine._measured,
    e.Failed: Machine._failed,
    e.Spent: Machine._spent,
    e.Stop: Machine._stop,
    e.Arm: Machine._arm,
}

MESSAGES: dict[type[m.Message], Callable[[Machine, Any, e.Received, float], None]] = {
    m.Welcome: Machine._welcome,
    m.Reject: Machine._reject,
    m.Theta: Machine._theta,
    m.Ack: Machine._ack,
    m.Heartbeat: Machine._heartbeat,
    m.Evaluate: Machine._evaluate,
    m.Init: Machine._init,
    m.Ping: Machine._ping,
    m.Superseded: Machine._superseded,
    m.Error: Machine._error,
    m.Shutdown: Machine._shutdown,
}
