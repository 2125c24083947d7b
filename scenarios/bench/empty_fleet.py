"""A server and agents that train nothing, as processes whose samples are kept."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import msgspec

from edge_fed.config import Agents, Algorithm, Federation, Onboarding, PolicyConfig, RunConfig
from edge_fed.program.run_folder import RunFolder
from scenarios.bench import gauge

START_S = 60.0
WORK_S = 180.0  # on a machine that does much else
TAIL_BYTES = 1000  # holds the newest samples
END_S = 90.0  # longer than an agent's patience without a server


class Fleet:
    """Programs of one run; they all are gone when the block ends.

    Args:
        scratch: An empty folder.
        agents: How many.
        hidden: Hidden sizes of the network.
        rounds: Of the run.
        every: Rounds between two samples of each program.
        delay_s: How long an agent's work takes.
    """

    def __init__(
        self, scratch: Path, agents: int, hidden: tuple[int, ...], rounds: int, every: int, delay_s: float
    ) -> None:
        self._scratch = scratch
        self._every = str(every)
        self._delay_s = str(delay_s)
        self._agents = agents
        self._address = "tcp://127.0.0.1:0"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        config = RunConfig(
            name="soak",
            algorithm=Algorithm(rounds=rounds, local_steps=1),
            policy=PolicyConfig(args={"hidden": list(hidden)}),
            federation=Federation(keep_checkpoints=2),
            agents=(Agents(goals=f"0-{agents - 1}"),),
            onboarding=Onboarding(),
        )
        self._folder = RunFolder.create(config, scratch / "run")

    def __enter__(self) -> "Fleet":
        self.start_server()
        for goal in range(self._agents):
            self.start_agent(goal)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        for child in self._running.values():
            child.kill()
            child.wait()

    def start_server(self, *, resume: bool = False) -> None:
        """Starts the server, after a kill at the address it had."""
        told = self._told("server")
        before = told.stat().st_size if told.exists() else 0
        more = ["resume"] if resume else []
        self._start("server", "empty_server", str(self._folder.path), self._address, self._every, *more)
        deadline = time.monotonic() + START_S
        while not (said := told.read_bytes()[before:]).count(b"\n"):
            if time.monotonic() > deadline or self._running["server"].poll() is not None:
                raise RuntimeError(f"the server does not start: {self._log('server').read_text()}")
            time.sleep(0.01)
        self._address = msgspec.json.decode(said.splitlines()[0])["address"]

    def start_agent(self, goal: int) -> None:
        """Starts an agent."""
        self._start(
            f"agent-{goal}",
            "empty_agent",
            self._address,
            str(goal),
            str(self._scratch),
            self._every,
            self._delay_s,
        )

    def kill(self, name: str, *, orderly: bool = False) -> None:
        """Ends a program, as a power cut would or in order, and waits for its end."""
        child = self._running.pop(name)
        child.send_signal(signal.SIGTERM if orderly else signal.SIGKILL)
        child.wait(END_S)

    def wait_for(self, name: str) -> None:
        """Waits until a program's newest process works for rounds, as its first sample says.

        Raises:
            RuntimeError: It does not.
        """
        child, deadline = self._running[name], time.monotonic() + WORK_S
        while not any(sample.process == child.pid for sample in self._tail(name)):
            if time.monotonic() > deadline or child.poll() is not None:
                raise RuntimeError(f"{name} does not work: {self._log(name).read_text()[-2000:]}")
            time.sleep(0.05)

    def finish(self, *, stop: bool) -> None:
        """Waits for the end of the run, or ends it; then all programs end by themselves.

        Raises:
            RuntimeError: The server failed.
        """
        server = self._running["server"]
        if stop:
            server.send_signal(signal.SIGTERM)
        code = server.wait()
        if code:
            raise RuntimeError(f"the server ended with exit code {code}: {self._log('server').read_text()}")
        for child in self._running.values():
            child.wait(END_S)

    def _tail(self, name: str) -> list[gauge.Sample]:
        with self._told(name).open("rb") as told:
            told.seek(max(0, self._told(name).stat().st_size - TAIL_BYTES))
            return gauge.samples_in(told.read())

    def samples(self) -> dict[str, list[gauge.Sample]]:
        """What every program has told, by name; several processes one after the other."""
        names = ("server", *(f"agent-{goal}" for goal in range(self._agents)))
        return {name: gauge.samples_in(self._told(name).read_bytes()) for name in names}

    def _start(self, name: str, module: str, *arguments: str) -> None:
        command = [sys.executable, "-P", "-m", f"scenarios.bench.{module}", *arguments]
        with self._told(name).open("ab") as told, self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=told, stderr=log)

    def _log(self, name: str) -> Path:
        return self._scratch / f"{name}.log"

    def _told(self, name: str) -> Path:
        return self._scratch / f"{name}.jsonl"
