"""What the commands do, with a disk and a loop made of lists; the real ones are in `test_runtime`."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge_fed.program.exit_codes import ExitCode
from server import events as e
from server.effects import SYNC_S, Effects
from tests.server.test_alarm import FakeLoop

EXIT = e.Exit(ExitCode.OK, "finished", "done")


class FakeDisk:
    """Writes a line at once, and counts what is forced to the disk."""

    def __init__(self) -> None:
        self.syncs = 0

    def commit(self, command: e.Commit, counted: tuple[int, int], done: Any, failed: Any) -> None:
        """Like a small commit."""
        done({"round": command.round, "bytes_sent": counted[0]} if command.round else {})

    def sync(self, failed: Any) -> None:
        """Counts."""
        self.syncs += 1


class Bench:
    """Effects, and everything that hears of them."""

    def __init__(self, *, supervised: bool = True, kind: type[Effects] = Effects) -> None:
        self.loop: Any = FakeLoop()
        self.over: asyncio.Future[e.Exit] = asyncio.get_running_loop().create_future()
        self.disk: Any = FakeDisk()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.shown: list[Any] = []
        self.happened: list[e.Event] = []
        parts: Any = {
            "carriage": SimpleNamespace(counted_since=lambda: (3, 4)),
            "disk": self.disk,
            "logger": None,
            "console": SimpleNamespace(round=self.shown.append, wait=lambda _: None),
            "supervisor": self if supervised else None,
        }
        self.effects = kind(
            self.loop, self.over, **parts, die=lambda: None, happened=self.happened.append, failed=print
        )

    def event(self, name: str, /, **fields: Any) -> None:
        """As a supervisor."""
        self.told.append((name, fields))

    def commit(self, *rounds: int) -> None:
        """These rounds are over."""
        for round_ in rounds:
            self.effects.carry_out(e.Commit(round_, np.zeros(1), None))  # type: ignore[arg-type]


async def test_every_command_has_its_line() -> None:
    """A command that nobody carries out would end the server the first time that it is asked for."""
    assert set(Bench().effects.table) == set(e.Command.__subclasses__())


async def test_a_subclass_that_replaces_a_method_is_obeyed() -> None:
    """A benchmark once replaced the commit, was ignored without a word, and measured the disk after all."""
    seen = []

    class Other(Effects):
        def _commit(self, command: e.Commit) -> None:
            seen.append(command.round)

    bench = Bench(kind=Other)
    bench.commit(7)
    assert (seen, bench.happened) == ([7], [])


async def test_a_committed_round_is_told_to_everybody_who_listens() -> None:
    """To person and supervisor with its bytes; round 0, which nobody trained, only to the machine."""
    bench = Bench()
    bench.commit(0, 1)
    line = {"round": 1, "bytes_sent": 3}
    assert bench.happened == [e.Committed(0), e.Committed(1)]
    assert (bench.shown, bench.told) == ([line], [("round", line)])


async def test_a_wait_is_told_with_its_missing() -> None:
    """So that a runner's news name them as the server's log does."""
    bench = Bench()
    bench.effects.carry_out(e.Wait("updates of round 3", (1, 2), 9.0, "it goes on"))
    assert bench.told == [("wait", {"what": "updates of round 3", "missing": [1, 2]})]


async def test_without_a_supervisor_nothing_is_told() -> None:
    """The person sees the round all the same."""
    bench = Bench(supervised=False)
    bench.commit(1)
    bench.effects.carry_out(e.Tell("ready", {"agent": 1}))
    assert (len(bench.shown), bench.told) == (1, [])


@pytest.mark.parametrize("closed", [False, True])
async def test_commits_are_forced_to_the_disk_together(closed: bool) -> None:
    """One timer for all rounds of a second; none once the program ends."""
    bench = Bench()
    bench.commit(1, 2)
    assert [call.when for call in bench.loop.calls] == [SYNC_S]
    if closed:
        bench.effects.close()
    bench.loop.now = SYNC_S
    bench.loop.turn()
    assert bench.disk.syncs == (0 if closed else 1)
    if not closed:
        bench.commit(3)
        assert [call.when for call in bench.loop.calls] == [2 * SYNC_S]


async def test_after_the_end_no_round_is_told() -> None:
    """A commit that was being written when the run ended counts in the summary, not on the screen."""
    bench = Bench()
    bench.effects.carry_out(EXIT)
    bench.effects.carry_out(e.Exit(ExitCode.FAILED, "failed", "again"))
    bench.commit(1)
    assert bench.over.result() is EXIT
    assert (bench.happened, bench.shown, bench.told, bench.loop.calls) == ([], [], [], [])
