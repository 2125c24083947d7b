"""Both sides of a session under any sequence of messages: lost, late, doubled, out of order, forged.

Three bytes are one step: what is done, to whom, and with which message or old letter.
"""

from typing import Any

import msgspec

from protocol import messages as m
from protocol.codec import TYPES
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.session import OUTSIDE, Session, Side, State
from tests.protocol.samples import SAMPLES

RUN = b"r" * 16
KINDS = list(TYPES.values())
ONBOARD = msgspec.structs.replace(SAMPLES[m.Welcome], role="onboard")
CODES = {"unknown_session", "stale_seq", "illegal_order", "malformed"}
STEPS = 400  # of one input, at most


class World:
    """An agent, a server that may be restarted, and all letters that were ever sent between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.servers = 0
        self.agent = Session("agent")
        self.server = self.restart()
        self.letters: list[tuple[Side, m.Header, m.Message]] = []

    def restart(self) -> Session:
        """A new server process: another session id."""
        self.servers += 1
        self.server = Session("server", self.servers.to_bytes(16, "big"), RUN, self.now)
        return self.server

    def step(self, op: int, who: int, what: int) -> None:
        """Does one thing."""
        self.now += (op >> 4) / 4
        side: Side = "agent" if who & 1 else "server"
        message = ONBOARD if who & 2 and what % len(KINDS) == KINDS.index(m.Welcome) else sample(what)
        match op & 7:
            case 0 | 1 | 2:  # sent and delivered
                if header := self.send(side, message):
                    self.deliver(other(side), header, message)
            case 3:  # sent and lost, or only late
                self.send(side, message)
            case 4 | 5:  # an old letter, once more
                if self.letters:
                    sender, header, message = self.letters[what % len(self.letters)]
                    self.deliver(other(sender), header, message)
            case 6:  # a forged one
                sid = (self.server.sid, self.agent.sid, b"", b"x" * 16)[who >> 2 & 3]
                self.deliver(side, m.Header(session=sid, seq=who >> 4, run=RUN), message)
            case 7:
                if what % 16 == 0:
                    self.restart()
                self.session(side).extend(what / 64)

    def session(self, side: Side) -> Session:
        """The view of one side."""
        return self.agent if side == "agent" else self.server

    def send(self, side: Side, message: m.Message) -> m.Header | None:
        """Sends if the order allows it; a refusal changes nothing."""
        session, kind = self.session(side), type(message)
        before, legal = dict(vars(session)), session.may_send(type(message))
        try:
            header = session.send(message)
        except LocalProtocolError:
            assert not legal and vars(session) == before
            return None
        assert legal and before["state"] is not State.CLOSED
        inside = bool(header.session)
        assert inside or kind in OUTSIDE
        assert header.seq == (before["_sent"] + 1 if inside else 0)
        self.letters.append((side, header, message))
        return header

    def deliver(self, side: Side, header: m.Header, message: m.Message) -> None:
        """Delivers; a refusal has a code and changes nothing, an acceptance keeps the invariants."""
        session, kind = self.session(side), type(message)
        before = dict(vars(session))
        try:
            session.receive(header, message, self.now)
        except RemoteProtocolError as error:
            assert error.code in CODES and vars(session) == before
            return
        from_peer = m.FROM_SERVER if side == "agent" else m.FROM_AGENT
        assert kind in from_peer and before["state"] is not State.CLOSED
        adopted = session.sid != before["sid"]
        assert not adopted or (side == "agent" and kind is m.Welcome)
        if header.session or kind not in OUTSIDE:
            assert header.session == session.sid
            assert adopted or kind is m.Welcome or header.seq > before["_received"]
            assert session._received == header.seq
        assert session.last_heard == self.now and not session.expired(self.now, 0.0)


def target(data: bytes) -> None:
    """No sequence of messages breaks an invariant of either side."""
    world = World()
    for at in range(0, min(len(data), 3 * STEPS) - 2, 3):
        world.step(*data[at : at + 3])
        for session in (world.agent, world.server):
            check(session)


def check(session: Session) -> None:
    """What holds for one side whatever happened."""
    assert session.state in State
    assert session._sent >= 0 and session._received >= 0
    welcomed = session.state in (State.WELCOMED, State.READY, State.WAITING, State.ONBOARDING)
    assert not welcomed or (session.role in ("train", "onboard") and session.sid)
    if session.state in (State.WAITING, State.ONBOARDING):
        assert session.role == "onboard"
    if session.state is State.CLOSED:
        assert not any(session.may_send(kind) for kind in KINDS)


def sample(what: int) -> m.Message:
    """A valid message of some type."""
    return SAMPLES[KINDS[what % len(KINDS)]]


def other(side: Side) -> Any:
    """The other side."""
    return "server" if side == "agent" else "agent"
