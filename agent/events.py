"""What an agent's state machine is told, and what it asks for. Frozen records; no behaviour.

Events come from the socket, the worker thread, the clock, the supervisor and signals. Commands are
carried out by `agent.runtime`, in order.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from edge_fed.config import Overrides
from edge_fed.params import F8
from edge_fed.program.exit_codes import ExitCode
from protocol.messages import Header, Message, Role
from protocol.transport import Refusal

Level = Literal["debug", "info", "warning", "error"]
KillPoint = Literal["assigned", "trained", "sent"]


class Event(msgspec.Struct, frozen=True):
    """Parent of what can happen to an agent."""


class Received(Event, frozen=True):
    """A whole, valid message arrived."""

    header: Header
    message: Message
    tensors: Mapping[str, F8] = {}


class Reachable(Event, frozen=True):
    """The socket found a server: somebody takes messages now."""


class NotSent(Event, frozen=True):
    """A message could not be handed to the socket: nobody at the other end, or a full pipe."""

    message: Message


class Refused(Event, frozen=True):
    """Keys of agent and server do not belong together; trying again does not mend it."""

    kind: Refusal


class PeerVersion(Event, frozen=True):
    """The server speaks another major version of the protocol."""

    major: int
    minor: int


class Malformed(Event, frozen=True):
    """Something arrived that is no message of this protocol."""

    code: str
    why: str


class Built(Event, frozen=True):
    """Environment and policy stand; see `protocol.messages.Ready` for the fields.

    Attributes:
        tags: Rounds whose agent state is at hand, besides the initial state.
        seed: Of the run.
        overrides: What this agent does not do exactly as the run says.
        description: Of the layout of its parameters.
        private: Its updates hold noise: the server is told no error's text, which might quote its data.
    """

    number: int
    dimension: int
    schema_sha256: str
    initial_sha256: str
    fingerprint: str
    stateful: bool = False
    tags: frozenset[int] = frozenset()
    seed: int = 0
    overrides: Overrides = Overrides()
    description: str = ""
    private: bool = False


class Trained(Event, frozen=True):
    """An update is ready; the agent state after it is stored under its round.

    Attributes:
        number: Of the work that it ends.
        delta: Parameters after minus parameters received, ``[d]``.
        crc32: Of ``delta``.
        trajectories: Sampled for it.
        spent: Sampled for training since the process started, discarded work included.
    """

    number: int
    delta: F8
    crc32: int
    trajectories: int
    spent: int
    metrics: dict[str, float]


class Measured(Event, frozen=True):
    """Evaluation or onboarding is done.

    Attributes:
        number: Of the work.
        rows: What was measured.
        trajectories: Sampled for it.
        unsaved: Why the adapted policy could not be kept; empty: it was, or nobody wanted it.
        private: The rows stay with the agent; what it reports has none.
        warning: What the person at this agent should know of it; empty: nothing.
    """

    number: int
    rows: tuple[dict[str, Any], ...]
    trajectories: int
    unsaved: str = ""
    private: bool = False
    warning: str = ""


class Failed(Event, frozen=True):
    """Work ended with an error.

    Attributes:
        number: Of the work.
        why: Cause for people, with exception type and place.
        code: What the program exits with.
        refused: The mathematics refused this one step (not finite, ...): the agent may go on.
        trace: Full trace for the agent's own log; empty where ``why`` says it all.
        hint: What to do next.
    """

    number: int
    why: str
    code: ExitCode = ExitCode.FAILED
    refused: bool = False
    trace: str = ""
    hint: str = ""


class Spent(Event, frozen=True):
    """A device may begin no more trajectories today: the agent leaves, and comes back by itself.

    Attributes:
        number: Of the work that it ends.
        why: For people, with the time of its return.
        for_s: Seconds until then.
    """

    number: int
    why: str
    for_s: float


class Tick(Event, frozen=True):
    """Time passed.

    Attributes:
        progress: Local steps done in the current work.
        says: What it does within a step, for people.
        late_s: How much later than asked for; a loop that was itself stopped must not blame others.
    """

    progress: int = 0
    late_s: float = 0.0
    says: str = ""


class Stop(Event, frozen=True):
    """A signal or the supervisor ends this agent; it says BYE."""

    why: str
    code: ExitCode


class Arm(Event, frozen=True):
    """The supervisor wants this process to kill itself at a point of a round (crash tests)."""

    point: KillPoint
    round: int


class Command(msgspec.Struct, frozen=True):
    """Parent of what the runtime carries out."""


class Send(Command, frozen=True):
    """Hand a message to the socket."""

    header: Header
    message: Message
    tensors: Mapping[str, F8] = {}


class Work(Command, frozen=True):
    """Parent of work for the one worker thread; newer work stops older work between local steps.

    Attributes:
        number: Counts up; results of another number than the newest are dropped.
    """

    number: int


class Build(Work, frozen=True):
    """Build environment and policy from WELCOME, for what this agent is to do in the run."""

    config: Mapping[str, Any]
    run: bytes
    role: Role = "train"


class Train(Work, frozen=True):
    """Compute the update of one round.

    Attributes:
        last_counted: Round whose agent state to start from; 0: the initial state.
        state_reset: Start from the initial state instead.
        control: c of the round, ``[d]``; None: the run has no correction.
        control_reset: Start from a control variate of zero, whatever the state says.
        theta_crc32: Of the question that it answers.
    """

    round: int
    params: F8
    last_counted: int = 0
    state_reset: bool = False
    control: F8 | None = None
    control_reset: bool = False
    theta_crc32: int = 0


class Evaluate(Work, frozen=True):
    """Measure parameters on this agent's goal."""

    round: int
    params: F8


class Onboard(Work, frozen=True):
    """Adapt parameters to this agent's goal and measure every budget."""

    round: int
    params: F8


class StopWork(Command, frozen=True):
    """Stop the current work between local steps and drop its result."""


class Log(Command, frozen=True):
    """One line for people."""

    level: Level
    text: str
    fields: Mapping[str, Any] = {}


class Tell(Command, frozen=True):
    """One event for the supervisor."""

    name: str
    fields: Mapping[str, Any] = {}


class Show(Command, frozen=True):
    """Print onboarding rows on stdout."""

    round: int
    rows: tuple[dict[str, Any], ...]


class Die(Command, frozen=True):
    """Kill this process now, as SIGKILL would."""


class Exit(Command, frozen=True):
    """End the program; the last command."""

    code: ExitCode
    why: str
    hint: str = ""
