"""The agent program over real sockets, with a scripted server and scripted work."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent import events as e
from agent.runtime import AgentProgram
from edge_fed.config import Overrides, Responsiveness
from edge_fed.params import crc32
from edge_fed.profiles import PRESETS, response_s
from edge_fed.program.exit_codes import ExitCode, ProgramError
from protocol import messages as m
from protocol.codec import PREAMBLE, encode
from protocol.limits import MAGIC, MINOR
from protocol.link import LinkProfile
from protocol.transport import Context
from tests.agent.fake_server import FakeServer, Lines, Scripted, program
from tests.agent.scripted import INITIAL, LIMITS, params


@pytest.fixture
def context() -> Iterator[Context]:
    """The context that server and agent share."""
    with Context() as made:
        yield made


def test_every_command_is_carried_out_by_the_programs_own_methods(context: Context, tmp_path: Path) -> None:
    """A subclass that replaces one is obeyed, not ignored without a word."""
    said = []

    class Other(AgentProgram):
        def _log(self, command: e.Log) -> None:
            said.append(command.text)

    made = Other(3, "inproc://nobody", logger=Lines().logger, state_folder=tmp_path, context=context)
    made.table[e.Log](e.Log("info", "a line", {}))
    assert said == ["a line"]
    commands = {kind for kind in e.Command.__subclasses__() if kind is not e.Work}
    assert set(made.table) == commands | set(e.Work.__subclasses__())


async def finish(server: FakeServer, running: "asyncio.Task[ExitCode]") -> ExitCode:
    """Awaits the agent's end and closes the server's socket."""
    try:
        return await asyncio.wait_for(running, 10)
    finally:
        server.socket.close()


async def test_a_round_an_evaluation_and_the_end(context: Context, tmp_path: Path) -> None:
    """Registration, update, report and SHUTDOWN over a real socket, told to the supervisor in order."""
    server = FakeServer(context)
    agent, supervisor, lines = program(context, tmp_path)
    running = asyncio.create_task(agent.run())
    ready = await server.welcome()
    assert ready.dimension == 3
    server.theta(1)
    update = await server.hear(m.Update)
    assert (update.round, update.trajectories) == (1, 10)
    server.say(m.Ack(round=1, outcome="held"))
    server.theta(2)
    assert (await server.hear(m.Update)).round == 2
    server.shutdown()
    assert await finish(server, running) is ExitCode.OK
    assert supervisor.names == [
        "registered", "ready", "assigned", "trained", "sent", "assigned", "trained", "sent", "exit",
    ]  # fmt: skip
    assert supervisor.events[-1][1]["code"] == 0 and "all rounds are done" in lines.text
    assert not agent.busy


async def test_an_onboarder_shows_its_rows_and_leaves(context: Context, tmp_path: Path) -> None:
    """INIT leads to rows on the screen, for the supervisor and for the server; then BYE and exit 0."""
    server = FakeServer(context)
    shown: list[Any] = []
    agent, supervisor, _ = program(
        context, tmp_path, role="onboard", at=7, show=lambda round_, rows: shown.append((round_, rows))
    )
    running = asyncio.create_task(agent.run())
    await server.welcome("onboard")
    request = await server.hear(m.Onboard)
    assert (request.at, request.round) == ("round", 7)
    server.say(m.Init(round=7, crc32=crc32(params()), final=False), params=params())
    report = await server.hear(m.Report)
    assert shown == [(7, report.rows)] and report.round == 7
    server.say(m.Ack(of="onboarding", round=7, outcome="held"))
    await server.hear(m.Bye)
    assert await finish(server, running) is ExitCode.OK
    assert supervisor.names[-2:] == ["rows", "exit"]


async def test_it_waits_for_a_server_that_comes_later(context: Context, tmp_path: Path) -> None:
    """[complaints 17] An agent that starts first registers in the moment its server binds."""
    path = f"ipc://{tmp_path}/later"
    agent, _, _ = program(context, tmp_path, address=path)
    running = asyncio.create_task(agent.run())
    await asyncio.sleep(0)  # its first REGISTER finds nobody
    server = FakeServer(context, path)
    await server.welcome()
    server.shutdown()
    assert await finish(server, running) is ExitCode.OK


async def test_an_address_that_is_none_is_refused(context: Context, tmp_path: Path) -> None:
    """The program ends with the code for addresses before it waits for anything."""
    agent, _, _ = program(context, tmp_path, address="nowhere")
    with pytest.raises(ProgramError) as refused:
        await agent.run()
    assert refused.value.code is ExitCode.ADDRESS and "nowhere" in refused.value.message


@pytest.mark.parametrize("how", ["stop", "cancel", "die"])
async def test_ends_in_the_middle_of_a_step(how: str, context: Context, tmp_path: Path) -> None:
    """Stopped: BYE and the code. Killed either way: no BYE. In each case no update, and no thread stays."""
    started, stopped = threading.Event(), threading.Event()

    def endless(work: e.Train, progress: Any) -> None:
        started.set()
        try:
            while True:
                progress(0)
        finally:
            stopped.set()

    died: list[bool] = []
    server = FakeServer(context)
    agent, supervisor, _ = program(
        context, tmp_path, performer=Scripted(endless), die=lambda: died.append(True)
    )
    running = asyncio.create_task(agent.run())
    await server.welcome()
    if how == "die":
        supervisor.command({"command": "die", "point": "assigned", "round": 2})
    server.theta(1)
    await asyncio.to_thread(started.wait)
    if how == "stop":
        agent.stop("got SIGTERM", ExitCode.TERMINATED)
        bye = await server.hear(m.Bye)
        assert bye.reason == "got SIGTERM"
        assert await finish(server, running) is ExitCode.TERMINATED
    elif how == "cancel":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finish(server, running)
    else:
        server.theta(2)
        assert await finish(server, running) is ExitCode.FAILED
        assert died == [True] and agent.exit is None
    assert stopped.is_set()


async def test_the_supervisors_orders(context: Context, tmp_path: Path) -> None:
    """Slow and link take effect, a wrong order is named and harmless, leave ends with BYE and 0."""
    server = FakeServer(context)
    agent, supervisor, lines = program(context, tmp_path)
    running = asyncio.create_task(agent.run())
    await server.welcome()
    supervisor.command({"command": "slow", "compute_delay_s": "fast"})
    supervisor.command({"command": "dance"})
    supervisor.command({"command": "slow", "compute_delay_s": 0.001})
    supervisor.command({"command": "link", "latency_s": 0.002})
    server.theta(1)
    assert (await server.hear(m.Update)).round == 1
    assert "'fast'" in lines.text or "expected `float`" in lines.text.lower()
    assert "unknown command 'dance'" in lines.text
    supervisor.command({"command": "leave"})
    await server.hear(m.Bye)
    assert await finish(server, running) is ExitCode.OK


async def test_a_dead_supervisor_ends_the_agent(context: Context, tmp_path: Path) -> None:
    """End of file on stdin: BYE, and the code for being stopped."""
    server = FakeServer(context)
    agent, supervisor, _ = program(context, tmp_path)
    running = asyncio.create_task(agent.run())
    await server.welcome()
    supervisor.command({"command": "orphaned"})
    await server.hear(m.Bye)
    assert await finish(server, running) is ExitCode.STOPPED


async def test_a_slow_link_keeps_the_order(context: Context, tmp_path: Path) -> None:
    """Over an emulated link with jitter, nothing is lost and nothing overtakes."""
    link = {"latency_s": 0.001, "jitter_s": 0.01, "bandwidth_bps": 1e7, "loss": 0.0}
    server = FakeServer(context)
    agent, _, _ = program(context, tmp_path, overrides=Overrides(link=link))
    running = asyncio.create_task(agent.run())
    await server.welcome()
    for round_ in range(1, 6):
        server.theta(round_)
        assert (await server.hear(m.Update)).round == round_
    server.shutdown()
    assert await finish(server, running) is ExitCode.OK


async def test_a_server_of_another_major_is_refused(context: Context, tmp_path: Path) -> None:
    """Whatever a server of another major answers, the agent ends with 4 and names both versions.

    [complaints 58]
    """
    server = FakeServer(context)
    agent, _, lines = program(context, tmp_path)
    running = asyncio.create_task(agent.run())
    await server.hear(m.Register)
    reject = m.Reject(reason="version", message="")
    frames = encode(server.session.send(reject), reject)
    server.socket.send(server.peer, [PREAMBLE.pack(MAGIC, 9, 1, 0), *frames[1:]])
    assert await finish(server, running) is ExitCode.REFUSED
    assert "9.1" in lines.text and f"1.{MINOR}" in lines.text


async def test_an_error_in_a_step_is_told_and_traced(context: Context, tmp_path: Path) -> None:
    """[complaints 53] The server hears type, text and place; the trace is in the agent's log; exit 1."""

    def broken(work: e.Train, progress: Any) -> None:
        raise KeyError("the flux capacitor")

    server = FakeServer(context)
    agent, _, lines = program(context, tmp_path, performer=Scripted(broken))
    running = asyncio.create_task(agent.run())
    await server.welcome()
    server.theta(1)
    error = await server.hear(m.Error)
    assert "round 1: KeyError: 'the flux capacitor' (at test_runtime.py:" in error.message
    await server.hear(m.Bye)
    assert await finish(server, running) is ExitCode.FAILED
    assert "Traceback" in lines.text


@pytest.mark.parametrize("callback", ["start", "built", "supervisor", "timer", "lane", "reconnect"])
async def test_a_callback_that_fails_ends_the_agent(
    callback: str, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever raises, in whichever callback: run() raises it, and no agent stays that does nothing."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    link = {"latency_s": 0.01} if callback == "lane" else None
    server = FakeServer(context)
    agent, supervisor, _ = program(context, tmp_path, overrides=Overrides(link=link))
    if callback == "start":
        monkeypatch.setattr("agent.runtime._profile", broken)
    running = asyncio.create_task(agent.run())
    if callback != "start":
        await server.hear(m.Register)
        if callback == "built":
            monkeypatch.setattr("agent.runtime._profile", broken)
        welcome = m.Welcome(role="train", config={}, limits=LIMITS, initial_sha256=INITIAL)
        server.say(welcome)
    if callback in ("supervisor", "timer", "lane", "reconnect"):
        await server.hear(m.Ready)
    if callback == "supervisor":
        monkeypatch.setattr("agent.runtime.obey", broken)
        supervisor.command({"command": "leave"})
    elif callback == "timer":
        monkeypatch.setattr(AgentProgram, "_ring", broken)
        server.theta(1)
    elif callback == "lane":
        monkeypatch.setattr("agent.carriage.Carriage._leave", broken)
        server.theta(1)
    elif callback == "reconnect":
        agent._carriage._waiting = task = asyncio.create_task(agent._carriage._find())
        monkeypatch.setattr(agent._carriage, "_deliver", broken)
        task.add_done_callback(agent._carriage._ended)
    with pytest.raises(ZeroDivisionError):
        await finish(server, running)
    assert not agent.busy


async def test_a_bug_in_carrying_out_ends_with_its_trace(context: Context, tmp_path: Path) -> None:
    """An exception inside the loop is raised by run(), never swallowed into a silent wait."""

    def broken(_round: int, _rows: object) -> None:
        raise ZeroDivisionError("a bug")

    server = FakeServer(context)
    agent, _, _ = program(context, tmp_path, role="onboard", show=broken)
    running = asyncio.create_task(agent.run())
    await server.welcome("onboard")
    await server.hear(m.Onboard)
    server.say(m.Init(round=1, crc32=crc32(params()), final=True), params=params())
    with pytest.raises(ZeroDivisionError):
        await finish(server, running)


async def test_what_the_run_says_of_a_device_takes_effect(context: Context, tmp_path: Path) -> None:
    """Link, delay and responsiveness come with the configuration; the draws are those of the run's seed."""
    slow = Responsiveness(median_s=0.001, spread=0.5)
    said = Overrides(profile="ethernet", compute_delay_s=0.002, responsiveness=slow)

    class Profiled(Scripted):
        """Has been told what device it is."""

        def perform(self, work: e.Work, progress: Any) -> e.Event:
            """As the script, with the overrides of the run's table."""
            event = super().perform(work, progress)
            if isinstance(event, e.Built):
                return msgspec.structs.replace(event, seed=7, overrides=said)
            return event

    server = FakeServer(context)
    agent, _, _ = program(context, tmp_path, performer=Profiled())
    running = asyncio.create_task(agent.run())
    await server.welcome()
    server.theta(1)
    assert (await server.hear(m.Update)).round == 1
    assert agent._worker.delay_s == 0.002
    assert agent._worker.response_s(5) == response_s(slow, 7, 3, 5)
    assert agent._carriage._link.profile == LinkProfile(**PRESETS["ethernet"])
    server.shutdown()
    assert await finish(server, running) is ExitCode.OK
