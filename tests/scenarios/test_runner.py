"""The loop between director and cast: orders reach the cast, and whatever happens everything is closed."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_fed.program.exit_codes import ExitCode
from scenarios import runner
from scenarios.actions import SERVER, Start, Tell
from scenarios.cast import Carried, EventsTo, Happenings
from scenarios.director import Director
from scenarios.orders import Ended, Finish, Spoke, StartServer
from scenarios.runner import kind_of, perform
from tests.scenarios.test_inproc import inproc
from tests.scenarios.test_plain import Notes
from tests.scenarios.test_script import action
from tests.scenarios.tiny import tiny

Answer = Callable[[Carried, Happenings], None]


class Scripted:
    """A cast whose programs answer at once with what a test says."""

    def __init__(self, happenings: Happenings, answer: Answer) -> None:
        self.happenings = happenings
        self.answer = answer
        self.carried: list[Carried] = []
        self.ends: list[str] = []

    async def carry(self, order: Carried) -> None:
        """Keeps the order and answers it."""
        self.carried.append(order)
        self.answer(order, self.happenings)

    async def stop(self) -> None:
        """Is noted."""
        self.ends.append("stop")

    async def close(self, grace_s: float) -> None:
        """Is noted."""
        self.ends.append(f"close {grace_s:g}")


class Play:
    """One performance with a scripted cast."""

    def __init__(self, answer: Answer, tail: str = "") -> None:
        self.notes = Notes()
        self.director = Director(tiny(tail))
        self.answer = answer
        self.cast: Scripted

    def make(self, happenings: Happenings) -> Scripted:
        """Makes the cast."""
        self.cast = Scripted(happenings, self.answer)
        return self.cast

    async def perform(self) -> Finish:
        """Plays until the end."""
        return await perform(self.director, self.make, self.notes)


def nothing(_order: Carried, _happenings: Happenings) -> None:
    """Programs that never say a word."""


def joins_and_ends(order: Carried, happenings: Happenings) -> None:
    """A server that holds before round 3 and ends as soon as it may go on."""
    match order:
        case StartServer(holds=holds):
            happenings.put_nowait(Spoke(SERVER, "held", {"round": holds[0]}))
        case Start(goal=goal):
            happenings.put_nowait(Spoke(SERVER, "ready", {"agent": goal, "role": "train"}))
        case Tell(child="server", command={"command": "proceed"}):
            happenings.put_nowait(Ended(SERVER, 0))


async def test_orders_are_carried_out_until_the_server_ends() -> None:
    """The joiner is started at its boundary; agents get time to leave after the end."""
    play = Play(joins_and_ends, action("join", "3", "at_round = 3"))
    assert await play.perform() == Finish(0)
    started = [order.goal for order in play.cast.carried if isinstance(order, Start)]
    assert started == [0, 1, 2, 3]
    assert play.cast.carried[-1] == Tell(SERVER, {"command": "proceed", "round": 3})
    assert play.cast.ends == ["close 5"]


async def test_a_failure_stops_and_closes_everything() -> None:
    """The finish carries the code and the cause."""

    def refused(order: Carried, happenings: Happenings) -> None:
        if isinstance(order, Start) and order.goal == 2:
            happenings.put_nowait(Ended("agent-2", 4, "dimension"))

    play = Play(refused)
    assert await play.perform() == Finish(1, "agent-2 ended with exit code 4: dimension")
    assert play.cast.ends == ["stop", "close 2"]


async def test_a_cancelled_run_stops_and_closes_everything() -> None:
    """Also when nobody answers; the cancellation is passed on."""
    play = Play(nothing)
    task = asyncio.create_task(play.perform())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert play.cast.ends == ["stop", "close 2"]


async def test_a_silent_wait_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause without news the person is told what is waited for, again and again."""
    monkeypatch.setattr(runner, "NAME_WAITS_S", 0.001)
    enough = asyncio.Event()

    class Listener(Notes):
        def note(self, level: str, text: str) -> None:
            super().note(level, text)
            if len(self.said) == 2:
                enough.set()

    play = Play(nothing)
    play.notes = Listener()
    task = asyncio.create_task(play.perform())
    await enough.wait()
    task.cancel()
    await asyncio.wait([task])
    assert play.notes.said[0] == "info: waiting for agent-0, agent-1, agent-2, agent-3 to be ready"
    assert play.notes.said[1] == play.notes.said[0]


async def test_actions_whose_time_never_came_are_named() -> None:
    """A scenario that ends before its at_s says so."""

    def opens_and_ends(order: Carried, happenings: Happenings) -> None:
        if isinstance(order, StartServer):
            happenings.put_nowait(Spoke(SERVER, "opened", {"round": 1}))
            happenings.put_nowait(Ended(SERVER, 0))

    play = Play(opens_and_ends, action("resume", "1", "at_s = 1000"))
    await play.perform()
    assert play.notes.said == ["warning: the run ended before its time came: resume agent-1 at 1000 s"]


async def test_commands_that_come_before_a_program_listens_are_kept() -> None:
    """A program in the same process may be told something while it starts."""
    happenings: Happenings = asyncio.Queue()
    events, heard = EventsTo("agent-1", happenings), []
    events.command({"command": "slow"})
    events.listen(heard.append)
    events.command({"command": "leave"})
    assert heard == [{"command": "slow"}, {"command": "leave"}]
    events.event("ready", role="train")
    assert await happenings.get() == Spoke("agent-1", "ready", {"role": "train"})


def test_kinds_of_failure_are_the_names_of_exit_codes() -> None:
    """An exit code that no program documents is a plain failure."""
    assert kind_of(ExitCode.QUORUM) == "quorum"
    assert kind_of(77) == "failed"


async def test_one_signal_that_comes_twice_ends_the_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timeout sends its signal to the program and to its group: programs are asked to end all the same."""
    play = Play(nothing)

    async def stop() -> None:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.01)
        play.cast.ends.append("stop")

    def make(happenings: Happenings) -> Scripted:
        cast = play.make(happenings)
        monkeypatch.setattr(cast, "stop", stop)
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        return cast

    finish = await runner._with_signals(tiny(), make, play.notes)
    assert finish == Finish(ExitCode.TERMINATED, "stopped by SIGTERM")
    assert play.cast.ends == ["stop", "close 2"]


async def test_after_a_stop_of_the_runner_no_old_wait_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock jumps by a minute: what it knows is as old as that, and the programs' news come first."""
    monkeypatch.setattr(runner, "NAME_WAITS_S", -60.0)
    play = Play(nothing)
    task = asyncio.create_task(play.perform())
    for _ in range(50):
        await asyncio.sleep(0)
    play.cast.happenings.put_nowait(Ended(SERVER, 0))
    assert (await task).code == 0
    assert play.notes.said == []


def test_a_run_whose_agents_are_all_in_quarantine_is_not_to_be_resumed(tmp_path: Path) -> None:
    """The hint says what helps: a new run."""
    bounds = ("federation.max_update_norm=1e-9", "federation.quarantine_after=1")
    failure = inproc(tiny("", *bounds), tmp_path / "run").failure
    assert failure is not None
    assert failure.hint.endswith(
        "a resume keeps the quarantine: correct what was refused, and start a new run"
    )
