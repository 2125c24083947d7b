"""The legal order of messages, numbering and leases: a pure state machine for both sides.

`RULES` is the whole order, readable as a table; `protocol/README.md` prints it. Both sides apply the same
rules to what they send and to what they receive, so each can tell an illegal message before it acts on it.
No clock: times are passed in, monotonic and in seconds.
"""

import enum
from typing import Literal, NamedTuple

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import (
    FROM_AGENT,
    FROM_SERVER,
    Ack,
    Bye,
    Error,
    Evaluate,
    Header,
    Heartbeat,
    Init,
    Message,
    Onboard,
    Ping,
    Pong,
    Ready,
    Register,
    Reject,
    Report,
    Role,
    Shutdown,
    Superseded,
    Theta,
    Update,
    Welcome,
)

Side = Literal["server", "agent"]


class State(enum.Enum):
    """Where a session stands, seen from either side."""

    NEW = "new"  # nothing sent yet
    REGISTERING = "registering"  # REGISTER is sent, its answer is not
    WELCOMED = "welcomed"  # the agent builds environment and policy
    READY = "ready"  # train: works in rounds; onboard: has not asked yet
    WAITING = "waiting"  # onboard: ONBOARD is sent, INIT is not
    ONBOARDING = "onboarding"  # onboard: has its initialization, adapts and reports
    CLOSED = "closed"  # the agent left, or was refused, displaced or sent home


OPEN = (State.WELCOMED, State.READY, State.WAITING, State.ONBOARDING)
ANSWERABLE = (State.REGISTERING, *OPEN)


class Rule(NamedTuple):
    """One row of the order.

    Attributes:
        message: The type.
        states: Where it is legal.
        next: The state after it; None: unchanged.
        role: The only role it is legal for; None: both.
    """

    message: type[Message]
    states: tuple[State, ...]
    next: State | None
    role: Role | None = None


RULES: tuple[Rule, ...] = (
    Rule(Register, (State.NEW, *ANSWERABLE), State.REGISTERING),  # repeated: same incarnation, same session
    Rule(Welcome, (State.REGISTERING,), State.WELCOMED),
    Rule(Welcome, OPEN, None),  # the answer to a repeated REGISTER that crossed the first answer
    Rule(Reject, ANSWERABLE, State.CLOSED),  # of REGISTER, of READY, or of a key that was revoked
    Rule(Ready, (State.WELCOMED,), State.READY),
    Rule(Theta, (State.READY,), None, "train"),
    Rule(Update, (State.READY,), None, "train"),
    Rule(Ack, (State.READY,), None, "train"),
    Rule(Evaluate, (State.READY,), None, "train"),
    Rule(Report, (State.READY,), None, "train"),
    Rule(Onboard, (State.READY, State.WAITING, State.ONBOARDING), State.WAITING, "onboard"),
    Rule(Init, (State.WAITING, State.ONBOARDING), State.ONBOARDING, "onboard"),  # a lost one is sent again
    Rule(Report, (State.ONBOARDING,), None, "onboard"),
    Rule(Ack, (State.ONBOARDING,), None, "onboard"),
    Rule(Heartbeat, OPEN, None),
    Rule(Ping, OPEN, None),
    Rule(Pong, OPEN, None),
    Rule(Error, ANSWERABLE, None),
    Rule(Superseded, ANSWERABLE, State.CLOSED),
    Rule(Shutdown, ANSWERABLE, State.CLOSED),
    Rule(Bye, OPEN, State.CLOSED),
)

ORDER: dict[tuple[State, type[Message]], State] = {
    (state, rule.message): rule.next or state for rule in RULES for state in rule.states
}
ONLY: dict[tuple[State, type[Message]], Role] = {
    (state, rule.message): rule.role for rule in RULES for state in rule.states if rule.role
}
OUTSIDE: tuple[type[Message], ...] = (Register, Reject, Error, Superseded, Shutdown)
"""Types that also exist outside a session: with an empty session id and number 0."""


class Session:
    """One side's view of one session.

    The server makes one for each incarnation of an agent and gives it the session id that WELCOME issues;
    the agent keeps one for its life, which adopts the id from WELCOME. Numbers belong to the session id: a
    new id restarts both directions. Which connection a session is bound to is not known here.

    Attributes:
        side: Whose view this is.
        sid: Session id, 16 bytes; empty on an agent before WELCOME.
        run: The run's id, 16 bytes; empty on an agent before WELCOME.
        state: Where the session stands.
        role: What the agent is in this run; None before WELCOME.
        last_heard: When the last legal message came, in seconds.
    """

    def __init__(self, side: Side, sid: bytes = b"", run: bytes = b"", now: float = 0.0) -> None:
        self.side = side
        self.sid = sid
        self.run = run
        self.state = State.NEW
        self.role: Role | None = None
        self.last_heard = now
        self._grace = 0.0
        self._sent = 0
        self._received = 0

    @property
    def sent(self) -> int:
        """Number of the last message that this side sent within the session; 0: none yet."""
        return self._sent

    @property
    def received(self) -> int:
        """Number of the last message that came within the session; 0: none yet."""
        return self._received

    def may_send(self, message: type[Message]) -> bool:
        """Whether the order allows this side to send a message of this type now."""
        sends = FROM_AGENT if self.side == "agent" else FROM_SERVER
        return message in sends and self._next(message) is not None

    def send(self, message: Message, committed: int = 0) -> Header:
        """Numbers a message that is about to be sent and moves the state.

        Args:
            message: What is sent.
            committed: Newest committed round, as this side knows it.

        Raises:
            LocalProtocolError: The order forbids it; nothing changed.
        """
        kind = type(message)
        if not self.may_send(kind):
            raise LocalProtocolError(f"{self.side} may not send {name(kind)} in {self._where()}")
        unknown = kind in (Register, Reject) or self.state is State.REGISTERING  # to the agent: no id yet
        self._move(message)
        if unknown and kind in OUTSIDE:
            return Header(run=b"" if kind is Register else self.run, committed=committed)
        self._sent += 1
        return Header(session=self.sid, seq=self._sent, run=self.run, committed=committed)

    def receive(self, header: Header, message: Message, now: float) -> None:
        """Checks a received message, moves the state, and renews the lease.

        Raises:
            RemoteProtocolError: ``unknown_session``, ``stale_seq`` or ``illegal_order``; nothing changed.
        """
        kind = type(message)
        if self.state is State.CLOSED:
            raise RemoteProtocolError("unknown_session", f"{name(kind)} after the session was closed")
        adopts = self.side == "agent" and kind is Welcome and self.state is State.REGISTERING
        inside = header.session != b"" or kind not in OUTSIDE
        if inside and not adopts:
            self._check_number(header, kind)
        receives = FROM_SERVER if self.side == "agent" else FROM_AGENT
        if kind not in receives or self._next(kind) is None:
            raise RemoteProtocolError("illegal_order", f"{name(kind)} is not legal in {self._where()}")
        if adopts:
            self._adopt(header)
        if inside:
            self._received = header.seq
        self._move(message)
        self.last_heard, self._grace = now, 0.0

    def expired(self, now: float, lease_s: float) -> bool:
        """Whether the peer has been silent for longer than its lease and what `extend` added to it."""
        return now - self.last_heard > lease_s + self._grace

    def extend(self, seconds: float) -> None:
        """Excuses silence until the next message: a bulk transfer runs, or our own loop was stopped."""
        self._grace += seconds

    def _next(self, kind: type[Message]) -> State | None:
        only = ONLY.get((self.state, kind))
        return None if only and only != self.role else ORDER.get((self.state, kind))

    def _move(self, message: Message) -> None:
        if isinstance(message, Welcome) and self.state is State.REGISTERING:  # a repeated one changes nothing
            self.role = message.role
        self.state = ORDER[self.state, type(message)]

    def _adopt(self, header: Header) -> None:
        if not header.session:
            raise RemoteProtocolError("malformed", "WELCOME without a session id")
        if header.session != self.sid:
            self._sent = self._received = 0
        self.sid, self.run = header.session, header.run

    def _check_number(self, header: Header, kind: type[Message]) -> None:
        if header.session != self.sid or not self.sid:
            raise RemoteProtocolError("unknown_session", f"{name(kind)} of another session; register again")
        if header.seq <= self._received:
            raise RemoteProtocolError(
                "stale_seq", f"{name(kind)} has number {header.seq}, {self._received} was already seen"
            )

    def _where(self) -> str:
        return f"state {self.state.value!r}" + (f" of role {self.role!r}" if self.role else "")


def name(kind: type[Message]) -> str:
    """The type's name on the wire, e.g. ``THETA``."""
    return str(kind.__struct_config__.tag)
