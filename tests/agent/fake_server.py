"""A scripted server over a real socket: what the agent's runtime is tested against."""

from typing import Any

import msgspec
import structlog

from agent import events as e
from agent.runtime import AgentProgram
from edge_fed.config import RunConfig
from edge_fed.params import F8, crc32
from protocol import messages as m
from protocol.codec import decode, encode
from protocol.session import Session
from protocol.transport import Context, ServerSocket
from tests.agent.scripted import INITIAL, LIMITS, RUN, SCHEMA, params


class FakeServer:
    """Receives and sends one message at a time, for one agent."""

    def __init__(self, context: Context, address: str = "inproc://agent-test") -> None:
        self.socket = ServerSocket.bind(context, address)
        self.session = Session("server", b"s" * 16, RUN)
        self.committed = 0
        self.peer = b""

    async def hear(self, kind: type[Any] = m.Message) -> Any:
        """The next message of this type; heartbeats that nobody asks for are answered on the way."""
        while True:
            self.peer, frames = await self.socket.receive()
            got = decode(frames)
            self.session.receive(got.header, got.message, 0.0)
            if isinstance(got.message, kind):
                return got.message
            if isinstance(got.message, m.Heartbeat):
                self.say(m.Heartbeat(phase="running", heard=self.session.received))

    def say(self, message: m.Message, **tensors: F8) -> None:
        """Sends one message."""
        self.socket.send(self.peer, encode(self.session.send(message, self.committed), message, tensors))

    async def welcome(self, role: m.Role = "train", config: RunConfig | None = None) -> m.Ready:
        """Plays the server's part until the agent is READY."""
        await self.hear(m.Register)
        config = config or RunConfig()
        self.say(
            m.Welcome(role=role, config=msgspec.to_builtins(config), limits=LIMITS, initial_sha256=INITIAL)
        )
        ready: m.Ready = await self.hear(m.Ready)
        return ready

    def theta(self, round_: int, vector: F8 | None = None) -> None:
        """Asks for a round's update."""
        vector = params() if vector is None else vector
        self.committed = round_ - 1
        self.say(m.Theta(round=round_, crc32=crc32(vector), deadline_s=60.0), params=vector)

    def shutdown(self) -> None:
        """The run is complete."""
        self.say(m.Shutdown(outcome="finished", reason="all rounds are done"))


class Scripted:
    """A performer that computes nothing; ``during`` is called with progress inside training."""

    def __init__(self, during: Any = None) -> None:
        self.during = during or (lambda _work, progress: progress(0))

    def perform(self, work: e.Work, progress: Any) -> e.Event:
        """Answers work at once."""
        if isinstance(work, e.Build):
            return e.Built(work.number, 3, SCHEMA, INITIAL, "fingerprint")
        if isinstance(work, e.Train):
            self.during(work, progress)
            delta = params(0.5)
            return e.Trained(work.number, delta, crc32(delta), 10, 10, {})
        rows = (
            {"goal": 3, "init": "learned", "m_adapt": 0, "return": 1.0, "success": None, "trajectories": 0},
        )
        return e.Measured(work.number, rows, 5)


class Recorder:
    """A supervisor that remembers, and a way to command."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.command: Any = None

    def event(self, name: str, /, **fields: Any) -> None:
        """Keeps the event."""
        self.events.append((name, fields))

    def listen(self, deliver: Any) -> None:
        """Keeps the way to command."""
        self.command = deliver

    @property
    def names(self) -> list[str]:
        """The events' names in order."""
        return [name for name, _fields in self.events]


class Lines:
    """Where structlog writes in tests."""

    def __init__(self) -> None:
        self.text = ""
        self.logger: Any = structlog.wrap_logger(
            structlog.PrintLogger(self),  # type: ignore[arg-type]
            wrapper_class=structlog.make_filtering_bound_logger(10),
            processors=[structlog.processors.KeyValueRenderer()],
        )

    def write(self, text: str) -> None:
        """Keeps a line."""
        self.text += text

    def flush(self) -> None:
        """Nothing is held back."""


def program(context: Context, tmp_path: Any, **options: Any) -> tuple[AgentProgram, Recorder, Lines]:
    """An agent program for goal 3 with a scripted performer, its supervisor, and its log."""
    recorder, lines = Recorder(), Lines()
    performer = options.pop("performer", Scripted())
    made = AgentProgram(
        3,
        options.pop("address", "inproc://agent-test"),
        context=context,
        supervisor=recorder,
        logger=lines.logger,
        state_folder=tmp_path,
        performer=lambda: performer,
        **options,
    )
    return made, recorder, lines
