"""The programs of a networked run: who carries a director's orders out, and where they report."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from edge_fed.config import RunConfig
from edge_fed.program.files import write_atomic
from edge_fed.program.run_folder import RunFolder
from scenarios.actions import Disturb, Kill, Mend, Pause, Resume, Start, Tell, Terminate
from scenarios.orders import Happening, Spoke, StartServer
from scenarios.timeline import Scenario

Happenings = asyncio.Queue[Happening]
Carried = StartServer | Start | Kill | Terminate | Pause | Resume | Disturb | Mend | Tell


class Cast(Protocol):
    """Starts, signals and reaps programs; tells everything into one queue."""

    async def carry(self, order: Carried) -> None:
        """Carries one order out; never waits for a program's answer."""
        ...

    async def stop(self) -> None:
        """Asks every program to end in order."""
        ...

    async def close(self, grace_s: float) -> None:
        """Ends every program: those that are still there after ``grace_s`` are killed; all are reaped."""
        ...


def run_config(scenario: Scenario) -> RunConfig:
    """The settings that the server needs to know: a scenario without its timeline and expectations."""
    return RunConfig(**{name: getattr(scenario, name) for name in RunConfig.__struct_fields__})


def make_folder(scenario: Scenario, path: Path | None, *, overwrite: bool) -> RunFolder:
    """Makes the run folder before anything starts, with the resolved scenario in it.

    Raises:
        ProgramError: It cannot be made.
    """
    folder = RunFolder.create(run_config(scenario), path, overwrite=overwrite)
    write_atomic(
        folder.path / "scenario.json", msgspec.json.format(msgspec.json.encode(scenario)), sync=False
    )
    return folder


def patience_s(scenario: Scenario) -> float:
    """How long agents wait for a server that the script may keep down, or away from them, for a while."""
    downs = [
        float(action.args.get(name, 0.0)) for action in scenario.timeline for name in ("down_s", "for_s")
    ]
    return 60.0 + max(downs, default=0.0)


class EventsTo:
    """A `edge_fed.program.supervision.Supervisor` in the same process."""

    def __init__(self, child: str, happenings: Happenings) -> None:
        self._child = child
        self._happenings = happenings
        self._loop = asyncio.get_running_loop()
        self._deliver: Any = None
        self._early: list[Mapping[str, Any]] = []

    def event(self, name: str, /, **fields: Any) -> None:
        """Puts the event into the queue, from whatever thread."""
        self._loop.call_soon_threadsafe(self._happenings.put_nowait, Spoke(self._child, name, fields))

    def listen(self, deliver: Any) -> None:
        """Commands go to ``deliver`` from now on."""
        self._deliver = deliver
        for command in self._early:
            deliver(command)
        self._early.clear()

    def command(self, command: Mapping[str, Any]) -> None:
        """Sends a command to the program, or keeps it until the program listens."""
        if self._deliver is None:
            self._early.append(command)
        else:
            self._deliver(command)
