"""What the server's state machine is told, and what it asks for. Frozen records; no behaviour.

Events come from the socket, the clock, the disk, the supervisor and signals. Commands are carried out by
`server.effects`, in order.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from edge_fed.federated.record import RoundRecord
from edge_fed.params import F8
from edge_fed.program.allow_list import AllowList
from edge_fed.program.exit_codes import ExitCode
from protocol.limits import MINOR
from protocol.messages import Header, Message
from server.causes import RUN, Cause
from server.ledger import Book

Level = Literal["debug", "info", "warning", "error"]
CommitPoint = Literal[
    "before-array", "half-array", "written-array", "synced-array", "array",
    "half-sidecar", "sidecar", "committed", "half-line", "retention",
]  # fmt: skip
"""The steps of a commit, in order: the array file (half of its bytes, all, forced to the disk, renamed), the
sidecar (half, all, renamed = committed), the metrics line (half), and the removal of old checkpoints."""
KillPoint = Literal["theta", "update", CommitPoint]
Outcome = Literal["finished", "failed", "stopped"]


class Event(msgspec.Struct, frozen=True):
    """Parent of what can happen to a server."""


class Started(Event, frozen=True):
    """The socket is bound; agents may come."""


class Received(Event, frozen=True):
    """A whole, valid message arrived.

    Attributes:
        peer: Routing id of its connection.
        minor: Minor version that the peer speaks.
        key: Public key of the peer; empty on a server without keys.
    """

    peer: bytes
    header: Header
    message: Message
    tensors: Mapping[str, F8] = {}
    minor: int = MINOR
    key: str = ""


class Allowed(Event, frozen=True):
    """The allow-list was read: from now on these keys may act as these agents, and no others."""

    allowed: AllowList


class Malformed(Event, frozen=True):
    """Something arrived that is no message of this protocol."""

    peer: bytes
    code: str
    why: str


class PeerVersion(Event, frozen=True):
    """A peer speaks another major version of the protocol."""

    peer: bytes
    major: int
    minor: int


class Unreachable(Event, frozen=True):
    """A send failed because nobody is at the other end of this routing id."""

    peer: bytes


class Lagging(Event, frozen=True):
    """A send failed because the pipe to this peer is full."""

    peer: bytes


class Tick(Event, frozen=True):
    """A timer is due and the receive queue is drained.

    Attributes:
        late_s: How much later than asked for; a loop that was itself stopped must not blame others.
    """

    late_s: float = 0.0


class Committed(Event, frozen=True):
    """The checkpoint of a round is on disk."""

    round: int


class Loaded(Event, frozen=True):
    """An earlier checkpoint was read.

    Attributes:
        round: Its round.
        params: None: it is not there, or damaged.
        damage: What is wrong with it; empty: nothing.
    """

    round: int
    params: F8 | None
    damage: str = ""


class Proceed(Event, frozen=True):
    """The supervisor has done what it wanted to do before this round."""

    round: int


class DeclaredLost(Event, frozen=True):
    """The supervisor's word that an agent's process is dead."""

    agent: int


class Arm(Event, frozen=True):
    """The supervisor wants this process to kill itself at a point of a round (crash tests)."""

    point: KillPoint
    round: int


class Stop(Event, frozen=True):
    """A signal or the supervisor ends the run."""

    why: str
    code: ExitCode


class Command(msgspec.Struct, frozen=True):
    """Parent of what the runtime carries out."""


class Send(Command, frozen=True):
    """Hand a message to the socket; never waits."""

    peer: bytes
    header: Header
    message: Message
    tensors: Mapping[str, F8] = {}


class Journal(Command, frozen=True):
    """Append one line to ``events.jsonl``; it is in the file before later commands are carried out."""

    event: str
    fields: Mapping[str, Any] = {}


class Evaluation(Command, frozen=True):
    """Append one line to ``evaluations.jsonl``: an evaluation in training or an onboarder's report."""

    row: Mapping[str, Any]


class Commit(Command, frozen=True):
    """Write a round's checkpoint and metrics line, then report `Committed`.

    Attributes:
        round: 0 is the checkpoint of the initial parameters.
        params: Parameters after the round, ``[d]``, read-only.
        book: The server's bookkeeping after the round.
        record: None for round 0.
        metrics: Means over the contributors.
        seconds: From the round's opening to its last update or excuse.
        arrivals: Contributors in order of arrival: no part of the record, the result does not depend on it.
        die: Kill this process at this step (crash tests).
        control: The run's control variate after the round, ``[d]``, read-only; None: it has none.
        needed: Rounds whose checkpoints must stay: onboarders wait for them.
    """

    round: int
    params: F8
    book: Book
    record: RoundRecord | None = None
    metrics: Mapping[str, float] = {}
    seconds: float = 0.0
    arrivals: tuple[int, ...] = ()
    die: CommitPoint | None = None
    control: F8 | None = None
    needed: frozenset[int] = frozenset()

    @property
    def arrays(self) -> dict[str, F8]:
        """What the array file holds."""
        return {"params": self.params, **({} if self.control is None else {"control": self.control})}


class Load(Command, frozen=True):
    """Read the parameters of an earlier round, then report `Loaded`."""

    round: int


class Log(Command, frozen=True):
    """One line for people."""

    level: Level
    text: str
    fields: Mapping[str, Any] = {}


class Wait(Command, frozen=True):
    """The server waits: for what, for whom, and for how long at most.

    Attributes:
        what: Name of the wait, e.g. ``quorum`` or ``updates of round 7``.
        missing: Agents that are waited for.
        left_s: Seconds until the wait ends without them.
        ends: What happens then, for people.
    """

    what: str
    missing: tuple[int, ...]
    left_s: float
    ends: str


class Tell(Command, frozen=True):
    """One event for the supervisor."""

    name: str
    fields: Mapping[str, Any] = {}


class Die(Command, frozen=True):
    """Kill this process now, as SIGKILL would."""


class Exit(Command, frozen=True):
    """End the program; the last command.

    Attributes:
        cause: Who brought it about, and which time ran out.
    """

    code: ExitCode
    outcome: Outcome
    why: str
    cause: Cause = RUN
