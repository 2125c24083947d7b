"""Who is here: sessions, roles, leases, and who may take whose place. Pure.

A training agent is known by its goal, an onboarder by its incarnation. A lost training agent keeps its
session, so that a word from it brings it back; a lost onboarder registers again.
"""

import math

import msgspec

from edge_fed.config import Federation, Overrides
from protocol.limits import MALFORMED_LIMIT
from protocol.messages import Message, Register, Role
from protocol.session import Session

MIN_LINK_RATE = 1e6  # bytes per second; a slower link needs a longer lease_s
MAX_DOUBLINGS = 10  # of the pause before a question is sent again
CHALLENGE_S = 1.5  # a living agent answers PING within this time
LAST_WORDS = 4096  # answers kept for processes that are gone; an older one registers again
MAX_GUESTS = 4096  # sessions of onboarders; beyond it, the oldest that is not READY gives way
BUILD_S = 600.0  # an onboarder that is not READY by then registers again
LEFT = 64  # earlier connections of one session that are remembered
SWEEP_S = 0.25  # pause between two looks at a lease that a transfer extends


def repeat_after_s(federation: Federation) -> float:
    """How long a question may seem unheard before it is sent again; a long lease means slow links."""
    return max(2 * federation.heartbeat_s, federation.lease_s / 3)


class Member:
    """One agent's session as the server sees it.

    Attributes:
        agent: Agent id = goal.
        incarnation: Of its process.
        session: Order and numbers of its messages.
        peer: Routing id of its newest connection.
        since: When it registered, in seconds.
        left: Those of its earlier connections, the newest last: what still comes over them is older.
        overrides: What it does not do exactly as the run says.
        key: Public key that its session belongs to; empty on a server without keys.
        ready: It has built environment and policy.
        lost: Why it counts as absent; empty while it is there.
        told_counted: ``last_counted`` as WELCOME said it.
        state_lost: Its agent state is missing; its next THETA says so.
        fingerprint: Numerics fingerprint of its machine.
        phase: What it does, as it said last.
        progress: Local steps done in the phase.
        says: Where it is within a local step, in its own words; empty: it does not say.
        asked: What it was sent to work on: kind, round.
        asked_at: When; with ``asked_peer`` and ``asked_number`` it decides whether to send again.
        heard: Number of the last message that it has received, as it said; 0: it does not say.
        welcomed_at: When WELCOME went out last.
        welcomes: How often WELCOME went out since it was READY.
        repeated: How often it was sent again.
        given: Rounds whose parameters it was sent to onboard with.
        reports: Reports of onboarding that were taken from it.
        malformed: Malformed messages in a row.
        unreachable: The last send to it failed.
    """

    def __init__(
        self, message: Register, session: Session, peer: bytes, overrides: Overrides, key: str = ""
    ) -> None:
        self.agent = message.agent
        self.incarnation = message.incarnation
        self.session = session
        self.peer = peer
        self.since = session.last_heard
        self.left: dict[bytes, None] = {}
        self.overrides = overrides
        self.key = key
        self.ready = False
        self.lost = ""
        self.told_counted = 0
        self.state_lost = False
        self.fingerprint = ""
        self.phase = ""
        self.progress = 0
        self.says = ""
        self.asked: tuple[str, int] = ("", 0)
        self.asked_at = -math.inf
        self.asked_peer = b""
        self.asked_number = 0
        self.heard = 0
        self.welcomed_at = -math.inf
        self.welcomes = 0
        self.repeated = 0
        self.given: set[int] = set()
        self.reports = 0
        self.malformed = 0
        self.unreachable = False

    @property
    def role(self) -> Role:
        """What it is in this run."""
        return self.session.role or "train"

    @property
    def present(self) -> bool:
        """Whether it can be asked for work."""
        return self.ready and not self.lost

    def ask(self, kind: str, round_: int, size: int, now: float) -> None:
        """Notes what it is asked for; the transfer of ``size`` bytes, there and back, extends its lease."""
        self.repeated = self.repeated + 1 if self.asked == (kind, round_) else 0
        self.asked, self.asked_at, self.asked_peer = (kind, round_), now, self.peer
        self.asked_number = self.session.sent + 1  # it goes out next
        self.session.extend(2 * size / MIN_LINK_RATE)

    def welcome_due(self, peer: bytes, pause_s: float, now: float) -> bool:
        """Whether a repeated REGISTER over this connection gets WELCOME again, or it may be on its way."""
        pause_s *= 2 ** min(max(0, self.welcomes - 1), MAX_DOUBLINGS)
        return self.ready or peer != self.peer or now - self.welcomed_at > pause_s

    def overdue(self, size: int, pause_s: float, now: float) -> bool:
        """Whether what it was asked for must have been lost: another connection, or time enough.

        What it has not yet received, nor anything behind it, may be on its way: on a slow link copies would
        pile up faster than the link carries them. The pause doubles with each repetition for an agent that
        does not say what it has received, or that receives the question and cannot use it.
        """
        if self.peer == self.asked_peer and 0 < self.heard < self.asked_number:
            return False
        pause_s *= 2 ** min(self.repeated, MAX_DOUBLINGS)
        return self.peer != self.asked_peer or now - self.asked_at > pause_s + size / MIN_LINK_RATE


class Challenge(msgspec.Struct):
    """Somebody wants the goal of a member that may be dead: it was asked for a sign of life."""

    peer: bytes
    message: Register
    until: float
    key: str = ""


class Members:
    """Everybody with a session, found by session id, goal, incarnation or connection."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self.training: dict[int, Member] = {}
        self.challenges: dict[int, Challenge] = {}
        self._by_sid: dict[bytes, Member] = {}
        self._by_incarnation: dict[bytes, Member] = {}
        self._by_peer: dict[bytes, Member] = {}
        self._last_words: dict[bytes, Message] = {}
        self._building: dict[bytes, Member] = {}  # onboarders not known to be READY, the oldest first
        self._guests = 0
        self._check_at = math.inf

    def everybody(self) -> list[Member]:
        """All members, in the order in which they came."""
        return list(self._by_sid.values())

    def add(self, member: Member, now: float) -> None:
        """Takes in a member whose WELCOME is about to be sent."""
        self._by_sid[member.session.sid] = member
        self._by_incarnation[member.incarnation] = member
        self._by_peer[member.peer] = member
        if member.role == "onboard":
            self._guests += 1
            self._building[member.session.sid] = member
        self._check_at = min(self._check_at, now + self.lease_s)

    def seat(self, member: Member) -> None:
        """Gives a training agent its goal."""
        self.training[member.agent] = member

    def remove(self, member: Member, last_word: Message | None = None) -> None:
        """Ends a membership; ``last_word`` answers whatever its process sends from now on."""
        if self._by_sid.pop(member.session.sid, None) is member and member.role == "onboard":
            self._guests -= 1
        self._building.pop(member.session.sid, None)
        self._by_incarnation.pop(member.incarnation, None)
        if self._by_peer.get(member.peer) is member:
            del self._by_peer[member.peer]
        if self.training.get(member.agent) is member:
            del self.training[member.agent]
        if last_word is not None:
            self._last_words[member.session.sid] = last_word
            self._last_words[member.incarnation] = last_word
            while len(self._last_words) > LAST_WORDS:  # the oldest first: a dict keeps its order
                del self._last_words[next(iter(self._last_words))]

    def by_sid(self, sid: bytes) -> Member | None:
        """The member with this session id."""
        return self._by_sid.get(sid)

    def by_incarnation(self, incarnation: bytes) -> Member | None:
        """The member of this process."""
        return self._by_incarnation.get(incarnation)

    def by_peer(self, peer: bytes) -> Member | None:
        """The member whose newest connection this is."""
        return self._by_peer.get(peer)

    def last_word(self, key: bytes) -> Message | None:
        """What a process that was sent away is told again; by session id or incarnation."""
        return self._last_words.get(key)

    def bind(self, member: Member, peer: bytes) -> None:
        """A legal message came over this connection: it is the member's newest."""
        if peer != member.peer:
            if self._by_peer.get(member.peer) is member:
                del self._by_peer[member.peer]
            self._by_peer[peer] = member
            member.left[member.peer] = None
            if len(member.left) > LEFT:
                del member.left[next(iter(member.left))]
            member.peer = peer
        member.unreachable = False
        member.malformed = 0

    def eligible(self) -> tuple[int, ...]:
        """Training agents that are READY and not lost, ascending."""
        return tuple(sorted(agent for agent, member in self.training.items() if member.present))

    def onboarders(self) -> list[Member]:
        """Connected onboarders, by goal."""
        found = [member for member in self._by_sid.values() if member.role == "onboard"]
        return sorted(found, key=lambda member: member.agent)

    @property
    def full(self) -> bool:
        """Whether no further onboarder fits."""
        return self._guests >= MAX_GUESTS

    def builds_again(self, member: Member) -> None:
        """A member registered anew, so that it is not READY any more."""
        if member.ready and member.role == "onboard":
            self._building.pop(member.session.sid, None)
            self._building[member.session.sid] = member
            member.since = member.session.last_heard
        member.ready = False

    def first_building(self) -> Member | None:
        """The onboarder that registered first and is not READY; None: there is none."""
        while self._building:
            sid, member = next(iter(self._building.items()))
            if not member.ready:
                return member
            del self._building[sid]
        return None

    def never_ready(self, now: float) -> Member | None:
        """An onboarder that has had its time to become READY."""
        first = self.first_building()
        return first if first is not None and now - first.since > BUILD_S else None

    def too_many_malformed(self, member: Member) -> bool:
        """Counts a malformed message; True if its session must end."""
        member.malformed += 1
        return member.malformed >= MALFORMED_LIMIT

    def expired(self, now: float) -> list[Member]:
        """Members whose lease has run out and who do not count as lost yet."""
        if now < self._check_at:
            return []
        present = [member for member in self._by_sid.values() if not member.lost]
        gone = [member for member in present if member.session.expired(now, self.lease_s)]
        rest = [member.session.last_heard for member in present if member not in gone]
        self._check_at = max(min(rest) + self.lease_s, now + SWEEP_S) if rest else math.inf
        return gone

    def returned(self, now: float) -> None:
        """A lost member is back: its lease counts again."""
        self._check_at = min(self._check_at, now + self.lease_s)

    def extend_all(self, seconds: float) -> None:
        """Our own loop was stopped: nobody's silence in that time counts."""
        for member in self._by_sid.values():
            member.session.extend(seconds)
        for challenge in self.challenges.values():
            challenge.until += seconds

    def due(self) -> float:
        """The next time at which a lease or a challenge may end."""
        return min(self._check_at, *(c.until for c in self.challenges.values()), math.inf)
