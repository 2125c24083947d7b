"""Programs started by hand, stopped and started again: the run ends as one that nobody disturbed."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_fed.params import params_sha256
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.plain import run_plain
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.tiny import tiny

pytestmark = pytest.mark.processes
END_S = 60


class Programs:
    """A server and its agents in one run folder.

    Args:
        folder: Of the run.
        agents: Their goals.
        holds: Rounds before which the server asks; then it is supervised.
    """

    def __init__(self, folder: RunFolder, agents: tuple[int, ...], holds: tuple[int, ...] = ()) -> None:
        self._folder = folder
        self._agents = agents
        self._holds = holds
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start_server(self, *, largest_file: int = resource.RLIM_INFINITY) -> None:
        """Starts it, or goes on with what it left."""
        arguments = ["--resume", str(self._folder.path), "--bind", self._address]
        if self._holds:
            arguments += ["--supervised", "--hold", ",".join(map(str, self._holds))]
        self._start("server", "server", arguments)
        limits = (largest_file, resource.RLIM_INFINITY)
        resource.prlimit(self._running["server"].pid, resource.RLIMIT_FSIZE, limits)

    def start_agents(self) -> None:
        """Starts all of them."""
        for goal in self._agents:
            arguments = ["--goal", str(goal), "--server", self._address]
            self._start(f"agent-{goal}", "agent", [*arguments, "--state-dir", str(self._folder.agents)])

    def end(self, name: str, number: signal.Signals | None, code: int, why: str) -> None:
        """Signals a program (None: it ends by itself); it leaves this code, and this in its last line."""
        program = self._running.pop(name)
        if number is not None:
            program.send_signal(number)
        if program.stdout is not None and program.stdin is not None:
            program.stdout.read()
            program.stdin.close()  # not before: the server would think that its supervisor is dead
            program.stdout.close()
        assert program.wait(END_S) == code
        if code >= 0:
            assert why in self.log(name).splitlines()[-1]

    def end_agents(self, number: signal.Signals | None, code: int, why: str) -> None:
        """The same for all of them."""
        for goal in self._agents:
            self.end(f"agent-{goal}", number, code, why)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signals a program that lives on."""
        self._running[name].send_signal(number)

    def held(self, times: int = 1, event: str = "held") -> None:
        """Waits until the server holds, or until something else has happened so often."""
        stream = self._running["server"].stdout
        assert stream is not None
        for line in stream:
            times -= json.loads(line)["event"] == event
            if not times:
                return
        raise AssertionError(f"the server ended before {event}: {self.log('server')}")

    def proceed(self, round_: int) -> None:
        """Lets the server open a round."""
        stream = self._running["server"].stdin
        assert stream is not None
        stream.write(json.dumps({"command": "proceed", "round": round_}) + "\n")
        stream.flush()

    def log(self, name: str) -> str:
        """All that a program and those before it have said."""
        return (self._folder.logs / f"{name}.log").read_text()

    def kill(self) -> None:
        """Leaves nothing behind."""
        for program in self._running.values():
            with program:
                program.kill()

    @property
    def _address(self) -> str:
        return f"ipc://{self._folder.path}/s"

    def _start(self, name: str, module: str, arguments: list[str]) -> None:
        pipe = subprocess.PIPE if "--supervised" in arguments else subprocess.DEVNULL
        with (self._folder.logs / f"{name}.log").open("a") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=pipe,
                stdout=pipe,
                stderr=log,
                text=True,
            )


@contextmanager
def programs(scenario: Scenario, path: Path, **options: Any) -> Iterator[Programs]:
    """Programs that are gone when the block ends."""
    found = Programs(make_folder(scenario, path, overwrite=False), **options)
    try:
        yield found
    finally:
        found.kill()


def hashes(path: Path) -> list[str]:
    """The params hash of every recorded round; the disk may have torn the last line."""
    folder = RunFolder.open(path)
    return [line["params_sha256"] for line in folder.rows(folder.metrics)]


def test_server_agents_and_both_restart_three_times(tmp_path: Path) -> None:
    """[complaints 21] Nine restarts: every exit has its reason in the last line, the bits are the same."""
    scenario = tiny("", "agents.0.goals=0-1", "algorithm.rounds=10", "algorithm.baseline=value")
    path = tmp_path / "run"
    with programs(scenario, path, agents=(0, 1), holds=tuple(range(2, 11))) as run:
        run.start_server()
        run.start_agents()
        for round_ in range(2, 11):
            run.held()
            match round_ % 3:
                case 2:
                    run.end("server", signal.SIGKILL, -signal.SIGKILL, "")
                    run.start_server()
                    run.held()
                case 0:
                    run.end_agents(signal.SIGTERM, ExitCode.TERMINATED, "SIGTERM")
                    run.start_agents()
                    run.held(2, "ready")
                case 1:
                    run.end("server", signal.SIGTERM, ExitCode.TERMINATED, "stopped by SIGTERM")
                    run.end_agents(None, ExitCode.STOPPED, "the server ended")
                    run.start_server()
                    run.start_agents()
                    run.held()
            run.proceed(round_)
        run.held(1, "finished")
        run.end_agents(None, ExitCode.OK, "the run is complete")
        run.end("server", None, ExitCode.OK, "the run is complete")
        assert run.log("server").count("is served at") == 7, "six restarts of the server"
    assert hashes(path) == [line["params_sha256"] for line in run_plain(scenario, Silent()).rounds]
    assert verify(path).outcome == "equal"


def test_an_interrupted_round_is_not_the_end(tmp_path: Path) -> None:
    """[complaints 19] SIGINT in an open round: the checkpoint before it loads, and --resume ends at K."""
    scenario = tiny("", "agents.0.goals=0", "algorithm.rounds=4", "federation.keep_checkpoints=1")
    path = tmp_path / "run"
    with programs(scenario, path, agents=(0,), holds=(3,)) as run:
        run.start_server()
        run.start_agents()
        run.held()
        run.signal("agent-0", signal.SIGSTOP)
        run.proceed(3)
        run.held(1, "opened")
        run.end("server", signal.SIGINT, ExitCode.INTERRUPTED, "stopped by SIGINT")
        with np.load(path / "checkpoints/round-000002.npz") as file:
            assert params_sha256(file["params"]) == hashes(path)[-1]
        run.signal("agent-0", signal.SIGCONT)
        run.end_agents(None, ExitCode.STOPPED, "stopped by SIGINT")
        run.start_server()
        run.start_agents()
        run.held()
        run.proceed(3)
        run.end("server", None, ExitCode.OK, "the run is complete")
        run.end_agents(None, ExitCode.OK, "the run is complete")
    assert hashes(path) == [line["params_sha256"] for line in run_plain(scenario, Silent()).rounds]
    assert [file.name for file in path.glob("checkpoints/*.npz")] == ["round-000004.npz"]


def test_a_disk_that_fills_up_ends_all_programs_in_order(tmp_path: Path) -> None:
    """[complaints 20, 63] The kernel refuses a write: exit code 1, the agents are told, --resume goes on."""
    scenario = tiny("", "agents.0.goals=0", "algorithm.rounds=30")
    path = tmp_path / "run"
    with programs(scenario, path, agents=(0,)) as run:
        run.start_server(largest_file=8000)
        run.start_agents()
        run.end("server", None, ExitCode.FAILED, "the run folder cannot be written: File too large")
        run.end_agents(None, ExitCode.STOPPED, "File too large")
        assert 0 < len(hashes(path)) < 30
        run.start_server()
        run.start_agents()
        run.end("server", None, ExitCode.OK, "the run is complete")
        run.end_agents(None, ExitCode.OK, "the run is complete")
    assert hashes(path) == [line["params_sha256"] for line in run_plain(scenario, Silent()).rounds]
