"""Every decision of the server: events in, commands out, the time passed in. No socket, no loop, no clock.

This file says what each event and each message sets off. Where the run goes is in `server.course`, a round
in `server.training`, an evaluation in `server.measuring`, onboarding in `server.hosting`, who is let in in
`server.reception`, who is here in `server.members`.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, final

from edge_fed.errors import printable
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from protocol.errors import RemoteProtocolError
from protocol.limits import MAJOR, MINOR
from server import events as e
from server.admission import Admission
from server.causes import STOPS, cause_of
from server.course import Course
from server.ledger import Ledger, Resume
from server.members import Member
from server.room import Room

LATE_S = 0.5  # a timer later than this means that this process was stopped or busy
MOST_SIGNS = 80  # of what an agent says of itself
MOST_SAYING = 8  # agents in one line


@final
class Machine:
    """The server's decisions. The runtime passes every event to `handle` and wakes it at `due`.

    Args:
        admission: The run.
        ledger: What is committed.
        new_id: Makes fresh 16-byte session ids.
        holds: Rounds before which the supervisor is asked.
        serve: Stay for onboarders after the run.
        resume: What an earlier server process left; None: a new run.
    """

    def __init__(
        self,
        admission: Admission,
        ledger: Ledger,
        new_id: Callable[[], bytes],
        *,
        holds: frozenset[int] = frozenset(),
        serve: bool = False,
        resume: Resume | None = None,
    ) -> None:
        self.room = Room(admission, ledger, new_id)
        self.course = Course(self.room, holds, serve, resume)
        self.members = self.room.members
        self.out = self.room.out
        self.malformed = 0
        self.stale = 0  # messages with a number that was seen before: copies, and what came by an older way
        self.lagging = 0  # messages that were dropped because their agent did not read

    def handle(self, event: e.Event, now: float) -> list[e.Command]:
        """Takes one event; returns what to do, in order. After an `Exit` it returns nothing more."""
        if self.course.ended:
            return []
        _EVENTS[type(event)](self, event, now)
        wait = self.room.watch.say(now)
        if wait is not None:
            self.out.put(wait)
            self._say_where(wait.missing)
        return self.out.take()

    def due(self) -> float:
        """The next time at which a `Tick` may do something; infinity: never."""
        if self.course.ended:
            return math.inf
        return min(self.room.watch.due(), self.members.due(), self.course.hosting.onboarding.due())

    def tensor_bytes(self, header: m.Header) -> int:
        """Bytes of tensors that are worth a copy: an update's, of somebody with a session.

        What is larger is refused for its shape, what a stranger sends for its session: neither is read.
        """
        return 0 if self.members.by_sid(header.session) is None else self.room.ledger.params.nbytes

    # --- events ------------------------------------------------------------------------------------

    def _started(self, _event: e.Started, now: float) -> None:
        self.course.start(now)

    def _tick(self, event: e.Tick, now: float) -> None:
        if event.late_s > LATE_S:
            self.members.extend_all(event.late_s)
        for member in self.members.expired(now):
            self._lose(member, "lease", now)
        while (late := self.members.never_ready(now)) is not None:
            self._depart(late, "never ready", now)
        self.room.reception.expire(now)
        if now >= self.room.watch.until:
            self.course.time_up(now)
        if now >= self.course.hosting.onboarding.due():
            self.course.hosting.serve(now)

    def _received(self, event: e.Received, now: float) -> None:
        header, message = event.header, event.message
        if isinstance(message, m.Register):
            gone = self.room.reception.crowded_out(event.peer, message)
            if gone is not None:
                self._depart(gone, "crowded out", now)
            self.room.reception.register(event.peer, message, now, event.minor, event.key)
            return
        member = self.members.by_sid(header.session)
        if member is None:
            self._unknown(event.peer, header)
            return
        if member.key != event.key:
            self._foreign(member, event)
            return
        try:
            member.session.receive(header, message, now)
        except RemoteProtocolError as error:
            self._illegal(member, event.peer, error)
            return
        self.members.bind(member, event.peer)
        if member.lost:
            self._back(member, now)
        _MESSAGES[type(message)](self, member, event, now)

    def _allowed(self, event: e.Allowed, now: float) -> None:
        reception = self.room.reception
        reception.allowed = event.allowed
        for member in self.members.everybody():
            word = reception.revoked(member)
            if word is not None:
                self.out.send(member, word)
                self.members.remove(member, word)
                self._depart(member, "key revoked", now)

    def _malformed(self, event: e.Malformed, now: float) -> None:
        self.malformed += 1
        member = self.members.by_peer(event.peer)
        if member is None:
            if self.malformed & (self.malformed - 1) == 0:  # strangers cannot fill the log
                self.out.log("warning", f"malformed message number {self.malformed}: {event.why}")
            return
        code: Any = event.code
        text = f"agent {member.agent} sent a malformed message: {event.why}"
        self.out.note("malformed", text, "warning", agent=member.agent, code=event.code)
        self.out.send(member, m.Error(code=code, message=event.why[:4000]))
        if self.members.too_many_malformed(member):
            self._depart(member, "refused: too many malformed messages", now)

    def _peer_version(self, event: e.PeerVersion, _now: float) -> None:
        theirs = f"{event.major}.{event.minor}"
        text = f"a peer with protocol {theirs} was refused; this server speaks {MAJOR}.{MINOR}"
        self.out.note("rejected", text, "warning", reason="version", received=theirs)

    def _unreachable(self, event: e.Unreachable, now: float) -> None:
        """A fact, but no excuse: the agent may reconnect before its lease ends."""
        member = self.members.by_peer(event.peer)
        if member is None or member.unreachable:
            return
        member.unreachable = True
        self.out.note("unreachable", f"agent {member.agent} has no connection", "warning", agent=member.agent)
        if self.members.training.get(member.agent) is member:
            self.room.reception.silent(member.agent, now)

    def _lagging(self, event: e.Lagging, _now: float) -> None:
        member = self.members.by_peer(event.peer)
        self.lagging += 1
        if member is not None:
            member.asked_peer = b""  # what was not sent is sent again at its next heartbeat
            text = f"agent {member.agent} does not read: a message to it was dropped"
            self.out.note("lagging", text, "warning", agent=member.agent)

    def _committed(self, event: e.Committed, now: float) -> None:
        self.course.committed(event.round, now)

    def _loaded(self, event: e.Loaded, now: float) -> None:
        self.course.hosting.loaded(event, now)
        self.course.settle(now)

    def _proceed(self, event: e.Proceed, now: float) -> None:
        self.course.proceed(event.round, now)

    def _declared_lost(self, event: e.DeclaredLost, now: float) -> None:
        holder = self.members.training.get(event.agent)
        onboarders = [member for member in self.members.onboarders() if member.agent == event.agent]
        for member in [holder] if holder else onboarders:
            self._depart(member, "lost", now)
        if holder is None:
            self.course.never_back(event.agent, now)

    def _arm(self, event: e.Arm, _now: float) -> None:
        self.room.armed.add((event.point, event.round))

    def _stop(self, event: e.Stop, _now: float) -> None:
        cause = STOPS[event.code]
        if event.code == ExitCode.FAILED:
            self.course.end(event.code, "failed", event.why, cause)
        elif self.course.serves:
            why = f"{self.course.complete}; served until {event.why}"
            self.course.end(event.code, "finished", why, cause)
        else:
            self.course.end(event.code, "stopped", event.why, cause)

    # --- messages ----------------------------------------------------------------------------------

    def _ready(self, member: Member, event: e.Received, now: float) -> None:
        message = event.message
        assert isinstance(message, m.Ready)
        if not self.room.reception.ready(member, message):
            return
        self.course.more_patience(now)
        if member.role == "train":
            self.course.training.ask(member, now)
            self.course.measuring.ask(member, now)
            self.course.arrived(now)

    def _update(self, member: Member, event: e.Received, now: float) -> None:
        message = event.message
        assert isinstance(message, m.Update)
        self.course.training.update(member, message, event.tensors["delta"], now)

    def _heartbeat(self, member: Member, event: e.Received, now: float) -> None:
        message, course = event.message, self.course
        assert isinstance(message, m.Heartbeat)
        member.phase, member.progress, member.heard = message.phase, message.progress, message.heard
        member.says = message.message[:MOST_SIGNS]
        trains = member.role == "train"
        if trains:
            course.training.receipt(member)
        text = self.room.watch.line(now) if trains else course.progress(now)
        place = "" if trains else course.hosting.place(member)
        open_ = course.training.round
        number = open_.number if open_ else self.out.committed
        text = f"{text}; {place}" if place else text
        heard = member.session.received
        answer = m.Heartbeat(phase=course.phase, progress=number, round=number, heard=heard, message=text)
        self.out.send(member, answer)
        if member.ready and trains:
            course.training.remind(member, message, now)
            course.measuring.remind(member, message, now)
        elif member.ready:
            course.hosting.remind(member, now)

    def _onboard(self, member: Member, event: e.Received, now: float) -> None:
        message = event.message
        assert isinstance(message, m.Onboard)
        self.course.hosting.ask(member, message, now)
        self.course.settle(now)

    def _report(self, member: Member, event: e.Received, now: float) -> None:
        message = event.message
        assert isinstance(message, m.Report)
        if member.role == "train":
            self.out.send(member, m.Ack(of=message.kind, round=message.round, outcome="held"))
            self.course.measuring.report(member, message, now)
        elif self.course.hosting.report(member, message):
            self.course.more_patience(now)
            self.course.settle(now)

    def _pong(self, member: Member, _event: e.Received, _now: float) -> None:
        self.room.reception.alive(member)

    def _error(self, member: Member, event: e.Received, now: float) -> None:
        """The agent could not do what it was asked for."""
        message = event.message
        assert isinstance(message, m.Error)
        text = f"agent {member.agent} reports: {message.code}: {message.message}"
        self.out.note("agent_error", text, "warning", agent=member.agent, code=message.code)
        if message.code == "internal" and member.role == "train":
            self.course.excuse(member.agent, f"error: {message.message[:300]}", now)

    def _bye(self, member: Member, event: e.Received, now: float) -> None:
        message = event.message
        assert isinstance(message, m.Bye)
        self._depart(member, "bye", now, message.reason)

    def _say_where(self, missing: Iterable[int]) -> None:
        """Where those are that take long and say so: devices, episode by episode."""
        members = [self.members.training.get(agent) for agent in missing]
        said = [
            f"agent {member.agent}: {printable(member.says)}" for member in members if member and member.says
        ]
        if said:
            self.out.log("info", "; ".join(said[:MOST_SAYING]))

    # --- who comes and goes ------------------------------------------------------------------------

    def _unknown(self, peer: bytes, header: m.Header) -> None:
        last_word = self.members.last_word(header.session)
        text = "this server process does not know the session; register again"
        self.out.outside(peer, last_word or m.Error(code="unknown_session", message=text))

    def _foreign(self, member: Member, event: e.Received) -> None:
        """Somebody else's session id, e.g. a replayed message: the session itself is not touched."""
        text = f"the key {event.key} used the session of agent {member.agent}, which has another key"
        self.out.note("rejected", text, "warning", agent=member.agent, reason="key")
        self.out.outside(event.peer, m.Error(code="unknown_session", message="the session has another key"))

    def _illegal(self, member: Member, peer: bytes, error: RemoteProtocolError) -> None:
        if error.code == "stale_seq":  # an older message that came by another way: nothing to answer
            self.stale += 1
            self.out.log("debug", f"agent {member.agent}: {error}")
            return
        text = f"agent {member.agent} broke the order of messages: {error}"
        self.out.note("illegal", text, "warning", agent=member.agent, code=error.code)
        code: Any = error.code
        self.out.outside(peer, m.Error(code=code, message=str(error)))

    def _back(self, member: Member, now: float) -> None:
        self.out.note("back", f"agent {member.agent} is back after: {member.lost}", agent=member.agent)
        member.lost = ""
        self.members.returned(now)
        if member.ready:
            self.out.tell("ready", agent=member.agent, role=member.role)
            self.course.arrived(now)

    def _lose(self, member: Member, why: str, now: float) -> None:
        """An agent is silent for longer than its lease; a training agent may come back in its session."""
        if member.role == "onboard":
            self._depart(member, why, now)
            return
        member.lost = why
        self._gone(member, why, now)

    def _depart(self, member: Member, why: str, now: float, reason: str = "") -> None:
        """An agent's session ends."""
        self.members.remove(member)
        self.course.hosting.onboarding.drop(member)
        self._gone(member, why, now, reason)
        if member.role == "train":
            self.course.never_back(member.agent, now)
        self.course.settle(now)

    def _gone(self, member: Member, why: str, now: float, reason: str = "") -> None:
        text = f"agent {member.agent} is gone: {why}" + (f" ({reason})" if reason else "")
        orderly = why == "bye" and member.ready  # before READY, it has refused or failed
        level: e.Level = "info" if orderly else "warning"
        fields = {"agent": member.agent, "role": member.role, "why": why, "reason": reason}
        self.out.note("lost", text, level, **fields, **cause_of(why)._asdict())
        self.out.tell("lost", agent=member.agent, role=member.role, why=why)
        if member.role == "train":
            self.course.excuse(member.agent, why, now)
            self.course.arrived(now)


_EVENTS: dict[type[e.Event], Callable[[Machine, Any, float], None]] = {
    e.Started: Machine._started,
    e.Tick: Machine._tick,
    e.Received: Machine._received,
    e.Allowed: Machine._allowed,
    e.Malformed: Machine._malformed,
    e.PeerVersion: Machine._peer_version,
    e.Unreachable: Machine._unreachable,
    e.Lagging: Machine._lagging,
    e.Committed: Machine._committed,
    e.Loaded: Machine._loaded,
    e.Proceed: Machine._proceed,
    e.DeclaredLost: Machine._declared_lost,
    e.Arm: Machine._arm,
    e.Stop: Machine._stop,
}
_MESSAGES: dict[type[m.Message], Callable[[Machine, Member, e.Received, float], None]] = {
    m.Ready: Machine._ready,
    m.Update: Machine._update,
    m.Heartbeat: Machine._heartbeat,
    m.Onboard: Machine._onboard,
    m.Report: Machine._report,
    m.Pong: Machine._pong,
    m.Error: Machine._error,
    m.Bye: Machine._bye,
}
