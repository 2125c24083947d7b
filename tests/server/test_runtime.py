"""The server program over inproc sockets: that the shell carries out what the machine decides."""

import asyncio
import contextlib
import errno
import json
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from edge_fed.config import RunConfig
from edge_fed.params import F8, crc32
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.run_folder import RunFolder
from protocol import codec
from protocol import messages as m
from protocol.errors import Closed
from protocol.limits import MINOR, PREAMBLE_BYTES
from protocol.session import Session
from protocol.transport import AgentSocket, Context
from server.admission import Admission
from server.doorkeeper import Doorkeeper
from server.keygen import keygen
from server.recording import Recorder
from server.runtime import ServerProgram
from tests.server.fleet import config, measured_row


def drop(*_: Any) -> Any:
    """Writes nothing."""
    raise structlog.DropEvent


LOGGER: Any = structlog.wrap_logger(
    structlog.PrintLogger(), processors=[drop], wrapper_class=structlog.make_filtering_bound_logger(0)
)


class Killed(BaseException):
    """Stands for SIGKILL."""


class Bug(Exception):
    """An error that should not exist."""


class Told:
    """A supervisor that remembers events and can give commands."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.command: Any = None

    def event(self, name: str, /, **fields: Any) -> None:
        """Remembers; must be JSON."""
        self.events.append((name, json.loads(json.dumps(fields))))

    def listen(self, deliver: Any) -> None:
        """Keeps the way in."""
        self.command = deliver

    def names(self) -> list[str]:
        """Names of the events."""
        return [name for name, _ in self.events]


class Agent:
    """A real socket and session around a constant update."""

    def __init__(self, context: Context, address: str, goal: int, admission: Admission) -> None:
        self.goal = goal
        self.session = Session("agent")
        self.socket = AgentSocket.connect(context, address)
        self.admission = admission
        self.inbox: list[m.Message] = []

    def send(self, message: m.Message, **tensors: F8) -> None:
        """Sends one message."""
        self.socket.send(codec.encode(self.session.send(message), message, tensors))

    async def run(self) -> None:
        """Joins and answers until SHUTDOWN."""
        self.send(m.Register(agent=self.goal, incarnation=bytes([self.goal + 1]) * 16))
        with contextlib.suppress(Closed):
            while self.session.state.value != "closed":
                envelope = codec.decode(await self.socket.receive())
                self.session.receive(envelope.header, envelope.message, 0.0)
                self.inbox.append(envelope.message)
                self.answer(envelope.message)
        self.socket.close()

    def answer(self, message: m.Message) -> None:
        """The agent's side of a run."""
        if isinstance(message, m.Welcome):
            fit = self.admission
            self.send(
                m.Ready(
                    dimension=fit.dimension,
                    schema_sha256=fit.schema_sha256,
                    initial_sha256=fit.initial_sha256,
                    fingerprint="test",
                )
            )
            if message.role == "onboard":
                self.send(m.Onboard(at="round", round=1))
        elif isinstance(message, m.Theta):
            delta = np.full(self.admission.dimension, 0.5 + self.goal)
            update = m.Update(
                round=message.round,
                theta_crc32=message.crc32,
                crc32=crc32(delta),
                trajectories=10,
                trajectories_spent=10 * message.round,
            )
            self.send(update, delta=delta)
        elif isinstance(message, m.Evaluate):
            row = {"agent": self.goal, "kind": "dp", "expected_return": 0.5, "meta_objective": 0.75}
            row |= {
                "success": None,
                "success_adapted": None,
                "m_adapt": None,
                "trajectories": 3,
                "env_steps": 30,
            }
            self.send(m.Report(kind="evaluation", round=message.round, rows=(row,), trajectories=3))
        elif isinstance(message, m.Init):
            self.send(
                m.Report(
                    kind="onboarding", round=message.round, rows=(measured_row(self.goal),), trajectories=0
                )
            )
        elif isinstance(message, m.Ack) and (message.of, message.round) == ("onboarding", 1):
            self.send(m.Onboard(at="final"))


@contextlib.asynccontextmanager
async def fleet(
    path: Path, settings: RunConfig, goals: tuple[int, ...], **options: Any
) -> AsyncIterator[tuple[ServerProgram, list[Agent], "asyncio.Task[ExitCode]"]]:
    """A server and agents over inproc."""
    resume = options.get("resume", False)
    folder = RunFolder.open(path) if resume else RunFolder.create(settings, path)
    with Context() as context:
        server = ServerProgram(settings, folder, "inproc://run", logger=LOGGER, context=context, **options)
        running = asyncio.create_task(server.run())
        while not server.endpoint and not running.done():
            await asyncio.sleep(0)
        admission = Admission(settings, folder.run_id)
        agents = [Agent(context, "inproc://run", goal, admission) for goal in goals]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        try:
            yield server, agents, running
        finally:
            for agent in agents:
                agent.socket.close()
            for task in (*tasks, running):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Killed, Bug):
                    await task


def lines(path: Path) -> list[dict[str, Any]]:
    """All lines of a journal."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_run_from_register_to_the_last_report(tmp_path: Path, durability: str) -> None:
    """Two agents train, one onboards from round 1 and from the last; folder and supervisor have it all."""
    told = Told()
    settings = config(agents="0-1", rounds=3, onboard="5", durability=durability)
    async with fleet(tmp_path / "run", settings, (1, 0, 5), supervisor=told) as (server, agents, running):
        assert await running == ExitCode.OK
    metrics = lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["round"] for line in metrics] == [1, 2, 3]
    assert all(line["bytes_sent"] > 1600 for line in metrics)
    with np.load(tmp_path / "run/checkpoints/round-000003.npz") as file:
        assert file["params"].tolist() == [3.0] * 100
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["outcome"] == "finished"
    assert summary["trajectories"] == {"0": 30, "1": 30}
    assert summary["evaluation_trajectories"] == 12
    assert summary["evaluation"]["meta_objective"] == 0.75
    assert summary["best"] == {"round": 3, "meta_objective": 0.75}, "of equal ones the later"
    assert summary["onboarding"] == [measured_row(5)]
    assert summary["bytes_received"] == sum(agent.socket.bytes_sent for agent in agents)
    assert summary["bytes_sent"] == sum(agent.socket.bytes_received for agent in agents)
    assert told.names()[0] == "listening"
    assert told.names().count("round") == 3
    assert {"ready", "opened", "evaluation", "report"} <= set(told.names())
    assert told.names()[-1] == "finished"
    assert server.summary["params_sha256"] == metrics[-1]["params_sha256"]


@pytest.mark.parametrize("point", ["theta", "update", "array"])
async def test_a_killed_server_resumes_to_the_same_bits(tmp_path: Path, point: str) -> None:
    """[wire 21] Killed at three points of round 2 and resumed: every hash equals the uninterrupted run's."""
    settings = config(agents="0-2", rounds=3)
    async with fleet(tmp_path / "whole", settings, (0, 1, 2)) as (_, _, running):
        await running

    def die() -> None:
        raise Killed

    told = Told()
    async with fleet(tmp_path / "run", settings, (2, 1, 0), supervisor=told, die=die) as (_, _, running):
        told.command({"command": "die", "point": point, "round": 2})
        with pytest.raises(Killed):
            await running
    assert len(lines(tmp_path / "run/metrics.jsonl")) == 1
    async with fleet(tmp_path / "run", settings, (0, 1, 2), resume=True) as (_, _, running):
        assert await running == ExitCode.OK
    whole, again = (lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "run"))
    assert [line["params_sha256"] for line in again] == [line["params_sha256"] for line in whole]


async def test_a_stop_ends_in_order(tmp_path: Path) -> None:
    """[complaints 27] Agents hear of it, the summary says so, and the code is that of the signal."""
    settings = config(agents="0-1", rounds=3)
    async with fleet(tmp_path / "run", settings, (0,)) as (server, agents, running):
        while not agents[0].inbox:
            await asyncio.sleep(0)
        server.stop("stopped by SIGTERM", ExitCode.TERMINATED)
        assert await running == ExitCode.TERMINATED
        assert server.summary["outcome"] == "stopped"
        while agents[0].session.state.value != "closed":
            await asyncio.sleep(0)
        assert isinstance(agents[0].inbox[-1], m.Shutdown)


async def test_a_round_whose_commit_had_begun_counts_although_the_end_came_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while a round is being written: the summary and the records name the same newest round."""
    begun, go_on = threading.Event(), threading.Event()
    commit = Recorder.commit

    def slow(self: Recorder, command: Any, *counted: int) -> dict[str, Any]:
        if command.round == 1:
            begun.set()
            go_on.wait(10)
        return commit(self, command, *counted)

    monkeypatch.setattr(Recorder, "commit", slow)
    settings = config(agents="0-1", rounds=3, durability="power")
    async with fleet(tmp_path / "run", settings, (0, 1)) as (server, _, running):
        while not begun.is_set():
            await asyncio.sleep(0)
        server.stop("stopped by SIGTERM", ExitCode.TERMINATED)
        go_on.set()
        assert await running == ExitCode.TERMINATED
    newest = lines(tmp_path / "run/metrics.jsonl")[-1]
    assert newest["round"] == server.summary["rounds"] == 1
    assert newest["params_sha256"] == server.summary["params_sha256"]


async def test_a_vanished_supervisor_ends_the_server(tmp_path: Path) -> None:
    """[complaints 57] End of file on stdin: stopped; summary and journal say why, by whom, and no timer."""
    told = Told()
    async with fleet(tmp_path / "run", config(), (), supervisor=told) as (server, _, running):
        told.command({"command": "nonsense"})
        told.command({"command": "orphaned"})
        assert await running == ExitCode.STOPPED
        ended = ("its supervisor is gone", "supervisor", "")
        keys = ("why", "initiator", "timer")
        assert tuple(server.summary[key] for key in keys) == ended
    exit_ = lines(tmp_path / "run/events.jsonl")[-1]
    assert (exit_["event"], *(exit_[key] for key in keys)) == ("exit", *ended)


@pytest.mark.parametrize("callback", ["supervisor", "timer", "quiet", "sync", "loaded"])
async def test_a_callback_that_fails_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callback: str
) -> None:
    """Whatever raises, in whichever callback: run() raises it, and nobody waits for a server that is deaf."""

    def broken(*_: object, **__: object) -> None:
        raise Bug

    told = Told()
    settings = config(agents="0", rounds=3, onboard="5", heartbeat_s=0.05)
    goals = () if callback == "timer" else (0,)
    async with fleet(tmp_path / "run", settings, goals, supervisor=told, serve=True) as (server, _, running):
        if callback == "supervisor":
            monkeypatch.setattr("server.runtime.order", broken)
            told.command({"command": "proceed", "round": 1})
        elif callback == "timer":
            monkeypatch.setattr(server._alarm, "_due", broken)
        elif callback == "quiet":
            monkeypatch.setattr(server._alarm, "_handle", broken)
            told.command({"command": "proceed", "round": 1})
        elif callback == "sync":
            monkeypatch.setattr(server._disk, "sync", broken)
        else:
            server._disk.load(0, broken)
        with pytest.raises(Bug):
            await asyncio.wait_for(running, 10)


async def test_a_held_boundary_waits_for_proceed(tmp_path: Path) -> None:
    """The supervisor hears ``held`` and lets the round open."""
    told = Told()
    settings = config(agents="0", rounds=2)
    options = {"supervisor": told, "holds": frozenset({2})}
    async with fleet(tmp_path / "run", settings, (0,), **options) as (_, _, running):
        while "held" not in told.names():
            await asyncio.sleep(0)
        assert told.names().count("round") == 1
        told.command({"command": "proceed", "round": 2})
        assert await running == ExitCode.OK


async def test_garbage_and_other_versions_are_answered_and_harmless(tmp_path: Path) -> None:
    """A peer of another major gets REJECT(version); rubbish gets nothing; the run goes on."""
    settings = config(agents="0", rounds=1)
    async with fleet(tmp_path / "run", settings, ()) as (server, _, running):
        context = server._context
        assert context is not None
        stranger = AgentSocket.connect(context, "inproc://run")
        frames = codec.encode(m.Header(), m.Register(agent=0, incarnation=bytes(16)))
        preamble = bytearray(frames[0])
        preamble[4] = 9
        assert len(preamble) == PREAMBLE_BYTES
        stranger.send([b"rubbish"])
        stranger.send([b"", b""])
        stranger.send([bytes(preamble), *frames[1:]])
        reject = codec.decode(await stranger.receive()).message
        assert isinstance(reject, m.Reject)
        assert (reject.reason, reject.received) == ("version", f"protocol 9.{MINOR}")
        stranger.close()
        agent = Agent(context, "inproc://run", 0, Admission(settings, b"r" * 16))
        await agent.run()
        assert await running == ExitCode.OK
        assert server.summary["malformed"] == 2


async def test_an_address_that_others_can_reach_needs_a_typed_word(tmp_path: Path) -> None:
    """Nothing but loopback and ipc without --insecure."""
    folder = RunFolder.create(config(), tmp_path / "run")
    server = ServerProgram(config(), folder, "tcp://0.0.0.0:0", logger=LOGGER)
    with pytest.raises(ProgramError, match=r"0\.0\.0\.0") as caught:
        await server.run()
    assert caught.value.code == ExitCode.ADDRESS
    assert "--insecure" in caught.value.hint


def test_what_to_type_after_an_early_end_repeats_what_the_agents_need(tmp_path: Path) -> None:
    """Keys and address, so that the same agents find the same server; nothing that is the default."""
    keygen(tmp_path / "keys", frozenset({0}))
    keeper = Doorkeeper(tmp_path / "keys", LOGGER)
    folder = RunFolder.create(config(), tmp_path / "run")
    resume = f"python -m server --resume {tmp_path / 'run'}"
    plain = ServerProgram(config(), folder, "tcp://127.0.0.1:5555", logger=LOGGER)
    keyed = ServerProgram(config(), folder, "tcp://0.0.0.0:7000", logger=LOGGER, doorkeeper=keeper)
    assert plain.go_on() == f"go on with: {resume}"
    assert keyed.go_on() == f"go on with: {resume} --keys {tmp_path / 'keys'} --bind tcp://0.0.0.0:7000"


async def test_a_busy_address_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    """[complaints 26] The other server goes on."""
    settings = config(agents="0", rounds=1)
    async with fleet(tmp_path / "run", settings, ()) as (first, _, running):
        folder = RunFolder.create(settings, tmp_path / "other")
        second = ServerProgram(settings, folder, "inproc://run", logger=LOGGER, context=first._context)
        with pytest.raises(ProgramError) as caught:
            await second.run()
        assert caught.value.code == ExitCode.ADDRESS
        assert not running.done()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("durability", ["process", "power"])
async def test_a_full_disk_ends_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, error: int
) -> None:
    """[complaints 20, 63] The run fails, says why, agents are told; with room it goes on to the same bits."""
    settings = config(agents="0", rounds=3, durability=durability)
    async with fleet(tmp_path / "whole", settings, (0,)) as (_, _, running):
        await running
    async with fleet(tmp_path / "run", settings, (0,)) as (server, agents, running):
        while not agents[0].inbox:
            await asyncio.sleep(0)

        def full(*_: object, **__: object) -> None:
            raise OSError(error, os.strerror(error))

        for name in ("_write_arrays", "summary"):
            monkeypatch.setattr(f"server.recording.Recorder.{name}", full)
        assert await running == ExitCode.FAILED
        assert server.summary["outcome"] == "failed"
        assert os.strerror(error) in server.summary["why"]
        while agents[0].session.state.value != "closed":
            await asyncio.sleep(0)
        assert isinstance(agents[0].inbox[-1], m.Shutdown)
    monkeypatch.undo()
    async with fleet(tmp_path / "run", settings, (0,), resume=True) as (_, _, running):
        assert await running == ExitCode.OK
    whole, again = (lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "run"))
    assert [line["params_sha256"] for line in again] == [line["params_sha256"] for line in whole]


@pytest.mark.parametrize("file", ["events.jsonl", "metrics.jsonl", "evaluations.jsonl"])
async def test_a_folder_that_cannot_be_written_is_named_at_the_start(tmp_path: Path, file: str) -> None:
    """[complaints 63] Exit code 1 and the system's word for it, no trace; nobody waits for this server."""
    settings = config(agents="0", rounds=3)
    async with fleet(tmp_path / "run", settings, (0,)) as (_, _, running):
        await running
    (tmp_path / "run" / file).unlink()
    (tmp_path / "run" / file).mkdir()
    folder = RunFolder.open(tmp_path / "run")
    with Context() as context:
        server = ServerProgram(settings, folder, "inproc://run", logger=LOGGER, context=context, resume=True)
        with pytest.raises(ProgramError) as caught:
            await server.run()
    assert caught.value.code == ExitCode.FAILED
    assert "directory" in caught.value.message


async def test_after_a_run_without_anybody_left_the_hint_is_no_resume(tmp_path: Path) -> None:
    """Everybody is in quarantine, which a resume keeps."""
    settings = config(agents="0-1", rounds=3, max_update_norm=1.0, quarantine_after=1)
    async with fleet(tmp_path / "run", settings, (1, 0)) as (server, _agents, running):
        assert await running == ExitCode.QUORUM
    assert "quarantine" in server.summary["why"]
    assert server._next() == "a resume keeps the quarantine: correct what was refused, and start a new run"


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluations.jsonl", "events.jsonl"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_journal_that_is_taken_away_ends_the_run_by_name(tmp_path: Path, name: str, how: str) -> None:
    """What is written to it from then on would be lost unseen; a resume restores the rounds."""
    settings = config(agents="0-1", rounds=4, evaluate_every=1)
    path = tmp_path / "run" / name

    class Thief(Told):
        """Takes the journal away after round 2."""

        def event(self, name: str, /, **fields: Any) -> None:
            """Once."""
            super().event(name, **fields)
            if name == "round" and fields["round"] == 2:
                path.rename(path.with_suffix(".old"))
                if how == "replaced":
                    path.write_bytes(path.with_suffix(".old").read_bytes())

    told = Thief()
    async with fleet(tmp_path / "run", settings, (1, 0), supervisor=told) as (server, _agents, running):
        assert await running == ExitCode.FAILED
    assert server.summary["why"].startswith(f"the run folder cannot be written: {name}: ")
    if name != "metrics.jsonl":
        return
    path.unlink(missing_ok=True)
    resumed = fleet(tmp_path / "run", settings, (1, 0), supervisor=Told(), resume=True)
    async with resumed as (_server, _agents, running):
        assert await running == ExitCode.OK
    assert [line["round"] for line in lines(path)] == [1, 2, 3, 4]
