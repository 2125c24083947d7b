"""One frozen record per message type: a message that exists is a valid message.

`FROM_AGENT` and `FROM_SERVER` say who may send what; the legal order is the table in `protocol.session`.
`protocol/README.md` is the specification; a test keeps it equal to these records.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

UInt = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Crc32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Hash = Annotated[str, Meta(min_length=64, max_length=64, pattern="^[0-9a-f]+$")]
Id = Annotated[bytes, Meta(min_length=16, max_length=16)]
Text = Annotated[str, Meta(max_length=4096)]
Rows = Annotated[tuple[dict[str, Any], ...], Meta(max_length=4096)]
Role = Literal["train", "onboard"]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Parent of wire records."""


class Header(Record, frozen=True, kw_only=True):
    """Stands before every message.

    Attributes:
        session: Issued in WELCOME; empty in REGISTER and REJECT.
        seq: Counts from 1 per session and direction; 0 outside a session.
        run: The run's id, persisted with its checkpoints; empty in REGISTER.
        committed: Newest committed round as the sender knows it.
    """

    session: Annotated[bytes, Meta(max_length=16)] = b""
    seq: UInt = 0
    run: Annotated[bytes, Meta(max_length=16)] = b""
    committed: UInt = 0


class Message(Record, frozen=True, kw_only=True, tag_field="t"):
    """Parent of all messages; ``t`` names the type on the wire."""


class Register(Message, frozen=True, kw_only=True, tag="REGISTER"):
    """Agent asks for a session. Idempotent: the same incarnation gets the same session.

    Attributes:
        agent: Agent id = goal.
        incarnation: Random per process.
        role: ``onboard`` on request, ``auto``: train if the goal trains in this run, else onboard.
        overrides: Fields of ``edge_fed.config.Overrides`` that this agent sets for itself.
        versions: Names and versions of its program and libraries, for the record.
        known_run: The run it was in before, if any.
        take_over: Displace a living agent of the same goal.
    """

    agent: UInt
    incarnation: Id
    role: Literal["auto", "onboard"] = "auto"
    overrides: dict[str, Any] = {}
    versions: dict[str, str] = {}
    known_run: Id | None = None
    take_over: bool = False


class Welcome(Message, frozen=True, kw_only=True, tag="WELCOME"):
    """Server grants a session.

    Attributes:
        role: What the agent is in this run.
        config: The run configuration (``edge_fed.config.RunConfig`` as plain values).
        limits: ``protocol.limits.Limits`` as plain values.
        features: Names of `FEATURES` that this run uses.
        last_counted: Newest round that counted an update of this agent; 0: none.
        initial_sha256: Hash of the run's initial parameters.
    """

    role: Role
    config: dict[str, Any]
    limits: dict[str, float]
    features: tuple[str, ...] = ()
    last_counted: UInt = 0
    initial_sha256: Hash


class Reject(Message, frozen=True, kw_only=True, tag="REJECT"):
    """Server refuses a registration, or ends a training session whose updates it does not want any more.

    The agent exits with the code of the reason.

    Attributes:
        reason: Machine-readable cause.
        message: What was wrong and what to do next.
        expected: What the server has.
        received: What the agent sent.
    """

    reason: Literal[
        "version",
        "unknown_goal",
        "goal_in_use",
        "quarantined",
        "key",
        "wrong_run",
        "overrides",
        "dimension",
        "schema",
        "environment",
        "finished",
        "shutting_down",
    ]
    message: Text
    expected: Text = ""
    received: Text = ""


class Ready(Message, frozen=True, kw_only=True, tag="READY"):
    """Agent has built environment and policy and can be asked for work.

    Attributes:
        dimension: Number of parameters d.
        schema_sha256: ``edge_fed.params.schema_sha256``.
        initial_sha256: Hash of the initial parameters it computes from the seed.
        fingerprint: Numerics fingerprint of its machine.
        state_tag: Round of the agent state it holds; 0: the initial state.
        stateful: Whether its updates depend on agent state at all.
    """

    dimension: UInt
    schema_sha256: Hash
    initial_sha256: Hash
    fingerprint: Text
    state_tag: UInt = 0
    stateful: bool = False


class Theta(Message, frozen=True, kw_only=True, tag="THETA"):
    """Server asks for round ``round``'s update from the tensor ``params`` (float64, [d]).

    With the feature ``control``, and only then, the tensor ``control`` (float64, [d]) is behind it.

    Attributes:
        round: 1..K.
        crc32: Of all tensor bytes in their order; echoed in UPDATE.
        deadline_s: Seconds until the agent is excused.
        last_counted: Newest round that counted an update of this agent.
        state_reset: The agent must start from the initial agent state.
        control_reset: The agent must start from a control variate of zero; the rest of its state stands.
    """

    round: UInt
    crc32: Crc32
    deadline_s: float
    last_counted: UInt = 0
    state_reset: bool = False
    control_reset: bool = False


class Update(Message, frozen=True, kw_only=True, tag="UPDATE"):
    """Agent's result: tensor ``delta`` (float64, [d]) = params after minus params received.

    Attributes:
        round: The update's key together with the agent.
        theta_crc32: The ``crc32`` of the THETA it was computed from.
        crc32: Of ``delta``.
        trajectories: Sampled for this update.
        trajectories_spent: Sampled since the process started, discarded work included.
        metrics: Means over the local steps (norms, curvature ratio, guard rate, ...).
    """

    round: UInt
    theta_crc32: Crc32
    crc32: Crc32
    trajectories: UInt
    trajectories_spent: UInt
    metrics: dict[str, float] = {}


class Ack(Message, frozen=True, kw_only=True, tag="ACK"):
    """Server's receipt. An update counts only once ``committed`` reaches its round.

    Attributes:
        of: What was received: an update, or a report of this kind.
        round: Of the update or report.
        outcome: held, duplicate (already held, same crc), late (excused before), refused.
        reason: Why it was refused.
    """

    of: Literal["update", "evaluation", "onboarding"] = "update"
    round: UInt
    outcome: Literal["held", "duplicate", "late", "refused"]
    reason: Text = ""


class Heartbeat(Message, frozen=True, kw_only=True, tag="HEARTBEAT"):
    """Both ways. Agent: what it does. Server: answers, so that the agent knows that it lives.

    Attributes:
        phase: Agent: building, idle, training, onboarding, evaluating. Server: joining, running, evaluating,
            onboarding, serving, held, finished.
        progress: Agent: local steps done in the phase. Server: its round.
        round: The newest THETA that the sender holds.
        heard: Number of the last message of this session that the sender received; what was sent before it
            on the same connection has arrived, or is lost. 0: it does not say (a peer of a minor below 2).
        message: A line for people: what is waited for and the time left; of an agent: where it is within a
            local step.
    """

    phase: Text
    progress: UInt = 0
    round: UInt = 0
    heard: UInt = 0
    message: Text = ""


class Evaluate(Message, frozen=True, kw_only=True, tag="EVALUATE"):
    """Server asks a training agent to evaluate the tensor ``params``; answered by REPORT."""

    round: UInt
    crc32: Crc32


class Onboard(Message, frozen=True, kw_only=True, tag="ONBOARD"):
    """Onboarder asks for an initialization; answered by INIT, perhaps much later.

    Attributes:
        at: The final one, the newest committed one, or that of a round.
        round: With ``at = "round"``.
    """

    at: Literal["final", "now", "round"] = "final"
    round: UInt = 0


class Init(Message, frozen=True, kw_only=True, tag="INIT"):
    """Server hands the tensor ``params`` of ``round`` to an onboarder."""

    round: UInt
    crc32: Crc32
    final: bool


class Report(Message, frozen=True, kw_only=True, tag="REPORT"):
    """Agent's measurements. Idempotent: a later report of the same kind and round replaces the earlier.

    Attributes:
        kind: ``evaluation`` answers EVALUATE (one row), ``onboarding`` answers INIT (one row per budget).
        round: Of the parameters measured.
        rows: Plain values, see semantics in the README of the protocol.
        trajectories: Sampled for the measurement, never part of training budgets.
    """

    kind: Literal["evaluation", "onboarding"]
    round: UInt
    rows: Rows
    trajectories: UInt


class Ping(Message, frozen=True, kw_only=True, tag="PING"):
    """Server asks whether this agent still lives, because another one wants its goal."""


class Pong(Message, frozen=True, kw_only=True, tag="PONG"):
    """Agent lives."""


class Superseded(Message, frozen=True, kw_only=True, tag="SUPERSEDED"):
    """Another process took this agent's goal over; exit and do not come back."""

    message: Text


class Error(Message, frozen=True, kw_only=True, tag="ERROR"):
    """Something the sender could not accept; the connection stays.

    Attributes:
        code: unknown_session: register again. conflict: another update of the same round was held.
            malformed, unknown_type, illegal_order, stale_seq, internal: for the log.
        message: For people.
    """

    code: Literal[
        "unknown_session", "malformed", "unknown_type", "illegal_order", "stale_seq", "conflict", "internal"
    ]
    message: Text = ""


class Shutdown(Message, frozen=True, kw_only=True, tag="SHUTDOWN"):
    """Server ends; ``reason`` is the agent's last log line.

    Attributes:
        outcome: ``finished``: the run is complete. ``failed``: it ended early.
            ``stopped``: a person or supervisor stopped it.
    """

    outcome: Literal["finished", "failed", "stopped"]
    reason: Text


class Bye(Message, frozen=True, kw_only=True, tag="BYE"):
    """Agent leaves in order; answered by nothing."""

    reason: Text = ""


AnyMessage = (
    Register
    | Welcome
    | Reject
    | Ready
    | Theta
    | Update
    | Ack
    | Heartbeat
    | Evaluate
    | Onboard
    | Init
    | Report
    | Ping
    | Pong
    | Superseded
    | Error
    | Shutdown
    | Bye
)

FROM_AGENT: tuple[type[Message], ...] = (
    Register,
    Ready,
    Update,
    Heartbeat,
    Onboard,
    Report,
    Pong,
    Error,
    Bye,
)
FROM_SERVER: tuple[type[Message], ...] = (
    Welcome,
    Reject,
    Theta,
    Ack,
    Heartbeat,
    Evaluate,
    Init,
    Ping,
    Superseded,
    Error,
    Shutdown,
)
TENSORS: dict[type[Message], tuple[str, ...]] = {
    Theta: ("params",),
    Update: ("delta",),
    Evaluate: ("params",),
    Init: ("params",),
}
"""The tensors each message must carry, all one-dimensional float64; every other message carries none."""

OPTIONAL_TENSORS: dict[type[Message], tuple[str, ...]] = {Theta: ("control",)}
"""Those that may follow behind the others; a feature says when they do."""

FEATURES: dict[str, int] = {"control": 1}
"""What WELCOME may name -> the first minor version that knows it."""
