"""A server at a real address, honest agents at work, and somebody who sends anything else."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from edge_fed.params import params_sha256
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from protocol import codec
from protocol import messages as m
from protocol.errors import RemoteProtocolError
from protocol.session import Session
from protocol.tensors import Buffer
from protocol.transport import AgentSocket, Context
from server.admission import Admission
from server.runtime import ServerProgram
from tests.server.fleet import config
from tests.server.test_runtime import LOGGER, Agent

ROUNDS = 20
GOALS = (0, 1)
LONG_S = 100.0  # only a hang takes that long
BASE_SID = b"no such session!"
PROBE = codec.encode(m.Header(session=BASE_SID, seq=1), m.Heartbeat(phase=""))


class Steady(Agent):
    """An honest agent; it holds its answer of the last round until the attack is over."""

    over: asyncio.Event

    async def run(self) -> None:
        """Joins and answers until SHUTDOWN."""
        self.send(m.Register(agent=self.goal, incarnation=bytes([self.goal + 1]) * 16))
        while self.session.state.value != "closed":
            envelope = codec.decode(await self.socket.receive())
            self.session.receive(envelope.header, envelope.message, 0.0)
            self.inbox.append(envelope.message)
            if isinstance(envelope.message, m.Theta) and envelope.message.round == ROUNDS:
                await self.over.wait()
            self.answer(envelope.message)
        self.socket.close()


class Siege:
    """What an attack sees: the address, the server program, and the machine inside it."""

    def __init__(self, server: ServerProgram, admission: Admission) -> None:
        self.server = server
        self.admission = admission
        self.context = Context()
        self.over = asyncio.Event()

    @property
    def members(self) -> int:
        """How many sessions the server keeps."""
        return len(self.server._machine.members.everybody())

    def connect(self) -> "Stranger":
        """Another connection."""
        return Stranger(AgentSocket.connect(self.context, self.server.endpoint))


class Stranger:
    """One connection that sends what it likes."""

    def __init__(self, socket: AgentSocket) -> None:
        self.socket = socket
        self.session = Session("agent")
        self.sid = b""

    async def send(self, frames: Sequence[Buffer]) -> None:
        """Sends any frames, as soon as the pipe takes them."""
        await self.socket.writable()
        self.socket.send(frames)

    async def say(self, message: m.Message) -> None:
        """Sends a legal message."""
        await self.send(codec.encode(self.session.send(message), message))

    async def hear(self) -> m.Message:
        """The next answer."""
        envelope = codec.decode(await self.socket.receive())
        if isinstance(envelope.message, m.Welcome):
            self.sid = envelope.header.session
        with contextlib.suppress(RemoteProtocolError):  # the tests send what its own session never saw
            self.session.receive(envelope.header, envelope.message, 0.0)
        return envelope.message

    async def leave(self) -> None:
        """Ends its newest session, so that the server does not wait for its report, and the connection."""
        if self.sid:
            await self.send(codec.encode(m.Header(session=self.sid, seq=2**40), m.Bye()))
        self.socket.close()

    async def probe(self) -> m.Message:
        """The next answer, after a question that is always answered: with unknown_session, if not before."""
        await self.send(PROBE)
        return await self.hear()

    async def join(self, admission: Admission, goal: int = 5) -> None:
        """Becomes a READY onboarder."""
        await self.say(m.Register(agent=goal, incarnation=bytes([200 + goal]) * 16))
        assert isinstance(await self.hear(), m.Welcome)
        fit = {"schema_sha256": admission.schema_sha256, "initial_sha256": admission.initial_sha256}
        await self.say(m.Ready(dimension=admission.dimension, fingerprint="test", **fit))


@contextlib.asynccontextmanager
async def siege(path: Path, address: str = "tcp://127.0.0.1:0") -> AsyncIterator[Siege]:
    """Runs 20 rounds with two honest agents around the attack in the body; at the end the run must be whole.

    Raises:
        AssertionError: The run did not finish, or not with the bits of a run without an attack.
    """
    settings = config(
        agents="0-1", rounds=ROUNDS, lease_s=300.0, join_deadline_s=300.0, round_deadline_s=300.0
    )
    folder = RunFolder.create(settings, path)
    server = ServerProgram(settings, folder, address, logger=LOGGER)
    async with asyncio.timeout(LONG_S):
        running = asyncio.create_task(server.run())
        while not server.endpoint and not running.done():
            await asyncio.sleep(0)
        admission = Admission(settings, folder.run_id)
        found = Siege(server, admission)
        agents = []
        for goal in GOALS:
            agent = Steady(found.context, server.endpoint, goal, admission)
            agent.over = found.over
            await agent.socket.writable()
            agents.append(agent)
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        try:
            yield found
            found.over.set()
            assert await running == ExitCode.OK
            await asyncio.gather(*tasks)
        finally:
            for task in (running, *tasks):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            found.context.close()
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert [line["params_sha256"] for line in lines] == quiet(admission)
    assert all(len(line["contributors"]) == len(GOALS) for line in lines)


def quiet(admission: Admission) -> list[str]:
    """The hashes of the run that nobody disturbs: every update is 0.5 more than the agent's goal."""
    params, hashes = admission.initial.copy(), []
    for _ in range(ROUNDS):
        params = params + 1.0
        hashes.append(params_sha256(params))
    return hashes
