"""Rounds without training: the real server in this process, real agents that train nothing, over tcp."""

import asyncio
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.config import Agents, Algorithm, Onboarding, PolicyConfig, RunConfig
from edge_fed.program import log
from edge_fed.program.run_folder import RunFolder
from protocol.transport import ServerSocket
from server import events as e
from server.disk import Line
from server.events import Wait
from server.runtime import ServerProgram

SMALL = (32,)  # 2-32-8: d = 360
BULK = (2230, 2230)  # d = 4,997,438: 40 MB


def empty_rounds(
    agents: int, hidden: tuple[int, ...], rounds: int, *, checkpoint: bool = True
) -> list[float]:
    """Wall seconds from commit to commit of the last ``rounds`` rounds, after a tenth as many to warm up.

    Args:
        agents: Agent processes.
        hidden: Hidden sizes of the network, `SMALL` or `BULK`.
        rounds: Rounds to time.
        checkpoint: Whether rounds are written to the disk.
    """
    warm = max(2, rounds // 10)
    config = RunConfig(
        name="empty",
        algorithm=Algorithm(rounds=rounds + warm, local_steps=1),
        policy=PolicyConfig(args={"hidden": list(hidden)}),
        agents=(Agents(goals=f"0-{agents - 1}"),),
        onboarding=Onboarding(),
    )
    federation = msgspec.structs.replace(config.federation, keep_checkpoints=2)
    config = msgspec.structs.replace(config, federation=federation)
    with tempfile.TemporaryDirectory() as scratch:
        clock = asyncio.run(_serve(config, Path(scratch), agents, checkpoint))
    times = clock.times[warm - 1 :]
    return [after - before for before, after in itertools.pairwise(times)]


async def _serve(config: RunConfig, scratch: Path, agents: int, checkpoint: bool) -> "Clock":
    clock = Clock()
    kind = ServerProgram if checkpoint else WithoutDisk
    server = kind(
        config,
        RunFolder.create(config, scratch / "run"),
        "tcp://127.0.0.1:0",
        logger=log.configure("text", "error"),
        console=clock,
    )
    run = asyncio.create_task(server.run())
    while not server.endpoint and not run.done():
        await asyncio.sleep(0)
    command = [sys.executable, "-P", "-m", "scenarios.bench.empty_agent", server.endpoint]
    children = [subprocess.Popen([*command, str(goal), str(scratch)]) for goal in range(agents)]
    try:
        await run
    finally:
        for child in children:
            child.wait(10)
    return clock


class Clock:
    """A console that only notes when rounds are committed."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def round(self, line: Mapping[str, Any]) -> None:  # noqa: ARG002  only the moment matters
        """Notes the moment."""
        self.times.append(time.perf_counter())

    def wait(self, wait: Wait) -> None:
        """Says nothing."""

    def close(self) -> None:
        """Nothing is open."""


class WithoutDisk(ServerProgram):
    """The server, but a commit writes nothing: to see what checkpoints cost."""

    def _connect(self, socket: ServerSocket) -> None:
        super()._connect(socket)
        self._disk.commit = _write_nothing  # type: ignore[method-assign]


def _write_nothing(
    command: e.Commit,
    counted: tuple[int, int],  # noqa: ARG001  the arguments are those of Disk.commit
    done: Callable[[Line], None],
    failed: Callable[[BaseException], None],  # noqa: ARG001
) -> None:
    done({"round": command.round} if command.record else {})
