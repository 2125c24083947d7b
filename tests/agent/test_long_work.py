"""An agent that works hard, works long, or cannot get its work away."""

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent import events as e
from edge_fed.config import RunConfig
from edge_fed.federated.task import initial_params
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from protocol.transport import Context
from tests.agent.fake_server import FakeServer, Scripted, program
from tests.agent.scripted import INITIAL, LIMITS, Agent, ServerSide, of, trained
from tests.agent.test_main import start

INTERVALS = 10


async def test_heartbeats_come_while_python_is_busy(tmp_path: Path) -> None:
    """[complaints 5, 6] [wire 27] A step in pure Python that lasts ten intervals, and never waits.

    It ends only when the server has heard ten heartbeats; no session ends, and the update comes.
    """
    enough = threading.Event()

    def busy(_work: e.Train, progress: Any) -> None:
        progress(0)
        while not enough.is_set():
            for _ in range(10_000):
                pass

    with Context() as context:
        server = FakeServer(context)
        agent, supervisor, _ = program(context, tmp_path, performer=Scripted(busy))
        running = asyncio.create_task(agent.run())
        try:
            async with asyncio.timeout(60):
                await server.hear(m.Register)
                limits = {**LIMITS, "heartbeat_s": 0.05, "lease_s": 30.0}
                config = msgspec.to_builtins(RunConfig())
                server.say(m.Welcome(role="train", config=config, limits=limits, initial_sha256=INITIAL))
                await server.hear(m.Ready)
                server.theta(1)
                beats = 0
                while beats < INTERVALS:
                    beat = await server.hear(m.Heartbeat)
                    server.say(m.Heartbeat(phase="running"))
                    beats += beat.phase == "training"
                enough.set()
                assert (await server.hear(m.Update)).round == 1
                server.shutdown()
                assert await running is ExitCode.OK
        finally:
            enough.set()
            server.socket.close()
    assert supervisor.names.count("registered") == 1


async def test_a_heartbeat_says_where_a_device_is(tmp_path: Path) -> None:
    """What the worker says within a step reaches the server while the step goes on."""
    enough = threading.Event()

    def paced(_work: e.Train, progress: Any) -> None:
        progress(0)
        progress.say("step 12 of 30, episode 3 of 20")
        while not enough.is_set():
            progress.pause(0.01)

    with Context() as context:
        server = FakeServer(context)
        agent, _, _ = program(context, tmp_path, performer=Scripted(paced))
        running = asyncio.create_task(agent.run())
        try:
            async with asyncio.timeout(60):
                await server.hear(m.Register)
                limits = {**LIMITS, "heartbeat_s": 0.05, "lease_s": 30.0}
                config = msgspec.to_builtins(RunConfig())
                server.say(m.Welcome(role="train", config=config, limits=limits, initial_sha256=INITIAL))
                await server.hear(m.Ready)
                server.theta(1)
                while (await server.hear(m.Heartbeat)).message != "step 12 of 30, episode 3 of 20":
                    server.say(m.Heartbeat(phase="running"))
                enough.set()
                assert (await server.hear(m.Update)).round == 1
                server.shutdown()
                assert await running is ExitCode.OK
        finally:
            enough.set()
            server.socket.close()


def test_fifty_rounds_build_once() -> None:
    """[complaints 28] Environment, policy and sampler are made at the first WELCOME, and kept."""
    agent, server = Agent(), ServerSide()
    server.hear(agent.tell(e.Tick()))
    welcomed = agent.tell(server.welcome())
    commands = agent.tell(agent.built(of(welcomed, e.Build)[0]))
    server.hear(commands)
    for round_ in range(1, 51):
        asked = agent.tell(server.theta(round_))
        answered = agent.tell(trained(of(asked, e.Train)[0]))
        server.hear(answered)
        commands += asked + answered
    assert len(of(commands, e.Train)) == 50 and of(commands, e.Build) == []


@pytest.mark.processes
async def test_a_dead_server_keeps_nobody(tmp_path: Path) -> None:
    """[complaints 24] [wire 37] SIGTERM to an agent whose update cannot leave: the signal's code, no hang."""
    with Context() as context:
        server = FakeServer(context, "tcp://127.0.0.1:*")
        process = await start(server, "--state-dir", str(tmp_path), "--supervised")
        await server.welcome()
        server.theta(1, initial_params(RunConfig()))
        server.socket.close()
        assert process.stdout
        while b'"trained"' not in (line := await process.stdout.readline()):
            assert line, "it ended by itself"
        process.send_signal(signal.SIGTERM)
        output, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == ExitCode.TERMINATED, (output, errors)
    assert b"SIGTERM" in errors.splitlines()[-1]
