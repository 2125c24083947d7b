"""A real server and real agents in one process, some of them behind a fault proxy, over ipc or tcp."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent.runtime import AgentProgram
from edge_fed.config import overrides_by_goal
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.plain import run_plain
from scenarios.proxy.fleet import Proxies
from scenarios.proxy.rules import Rule
from scenarios.timeline import Scenario
from scenarios.watching import Silent
from server.runtime import ServerProgram
from tests.server.test_runtime import LOGGER

WAIT_S = 30.0  # only a hang takes so long


class Told:
    """A supervisor that remembers events, wakes who waits for them, and gives commands."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.command: Any = None
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def event(self, name: str, /, **fields: Any) -> None:
        """Remembers."""
        self.events.append((name, json.loads(json.dumps(fields))))
        self._loop.call_soon_threadsafe(self._news.set)

    def listen(self, deliver: Any) -> None:
        """Keeps the way in."""
        self.command = deliver

    def count(self, name: str, **fields: Any) -> int:
        """How many events of this name have these fields."""
        return sum(
            name == one and all(found.get(key) == value for key, value in fields.items())
            for one, found in self.events
        )

    async def until(self, name: str, times: int = 1, **fields: Any) -> None:
        """Waits for an event."""
        async with asyncio.timeout(WAIT_S):
            while self.count(name, **fields) < times:
                self._news.clear()
                await self._news.wait()


class Run:
    """One run under way.

    Attributes:
        told: What the server said.
        agents: Supervisors of the agents, by goal.
    """

    def __init__(self, scenario: Scenario, folder: RunFolder, proxies: Proxies) -> None:
        self.scenario = scenario
        self.folder = folder
        self.proxies = proxies
        self.told = Told()
        self.agents: dict[int, Told] = {}
        self.programs: dict[int, AgentProgram] = {}
        self.server: asyncio.Task[ExitCode]

    async def at(self, round_: int, *rules: Rule, agent: int = 1) -> None:
        """Holds before a round, arms faults (none: heals), and lets the server go on."""
        await self.told.until("held", round=round_)
        for rule in rules:
            self.proxies.arm(agent, rule)
        if not rules:
            self.proxies.heal(agent, None)
        self.told.command({"command": "proceed", "round": round_})

    async def end(self) -> list[dict[str, Any]]:
        """Waits for the server; returns the rounds."""
        assert await asyncio.wait_for(self.server, WAIT_S) is ExitCode.OK
        return list(self.folder.rows(self.folder.metrics))

    def plain_hashes(self) -> list[str]:
        """The params hash of every round without any fault."""
        return [line["params_sha256"] for line in run_plain(self.scenario, Silent()).rounds]

    def summary(self) -> dict[str, Any]:
        """What the server counted; after its end."""
        found: dict[str, Any] = json.loads(self.folder.summary.read_bytes())
        return found

    def noted(self, event: str) -> list[dict[str, Any]]:
        """Lines of the run's journal."""
        return [row for row in self.folder.rows(self.folder.events) if row["event"] == event]


@contextlib.asynccontextmanager
async def running(
    path: Path,
    scenario: Scenario,
    holds: tuple[int, ...],
    behind: tuple[int, ...] = (1,),
    scheme: str = "ipc",
) -> AsyncIterator[Run]:
    """Starts the programs; however it ends, all have ended afterwards."""
    folder = make_folder(scenario, path / "run", overwrite=False)
    run = Run(scenario, folder, Proxies(behind, path, scenario.seed))
    bind = f"ipc://{path}/server" if scheme == "ipc" else "tcp://127.0.0.1:0"
    server = ServerProgram(
        folder.config, folder, bind, logger=LOGGER, supervisor=run.told, holds=frozenset(holds)
    )
    run.server = asyncio.create_task(server.run())
    tasks = []
    try:
        await run.told.until("listening")
        for goal in overrides_by_goal(scenario):
            told = run.agents[goal] = Told()
            address = await run.proxies.address(goal, server.endpoint)
            program = run.programs[goal] = AgentProgram(
                goal, address, logger=LOGGER, state_folder=folder.agents, supervisor=told
            )
            tasks.append(asyncio.create_task(program.run()))
        yield run
    finally:
        for program, task in zip(run.programs.values(), tasks, strict=True):
            if not task.done():
                program.stop("the test is over", ExitCode.STOPPED)
        run.server.cancel()
        await asyncio.gather(*tasks, run.server, return_exceptions=True)
        await run.proxies.close()
