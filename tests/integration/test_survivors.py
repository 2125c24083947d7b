"""Real programs of which some die or are not needed: the others end in order, and nothing stays behind."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.verify import verify
from tests.integration.test_restarts import Programs
from tests.scenarios.tiny import tiny

pytestmark = pytest.mark.processes
AGENTS = (0, 1, 2)


class Fleet(Programs):
    """A server that holds before one round, and three agents; it has come to the hold."""

    def __init__(self, path: Path, hold: int, *settings: str) -> None:
        folder = make_folder(tiny("", "agents.0.goals=0-2", *settings), path, overwrite=False)
        super().__init__(folder, AGENTS, (hold,))
        self.start_server()
        self.start_agents()
        self.held()

    @property
    def address(self) -> str:
        """Where the server listens."""
        return self._address

    def start_surplus(self, goal: int) -> None:
        """One more process of a goal."""
        self._start("surplus", "agent", ["--goal", str(goal), "--server", self._address])

    def tracebacks(self) -> list[str]:
        """The logs that have one."""
        return [file.name for file in self._folder.logs.iterdir() if "Traceback" in file.read_text()]


def test_a_killed_agent_costs_its_updates_and_no_more(tmp_path: Path) -> None:
    """[complaints 1, 2, 25] [wire 29] SIGKILL in round 3: its lease ends the wait, the run ends at K.

    Nobody tells the server; the round's deadline is a minute, the lease three seconds.
    """
    run = Fleet(tmp_path / "run", 3, "algorithm.rounds=4", "federation.lease_s=3")
    try:
        run.signal("agent-2", signal.SIGSTOP)  # so that it cannot answer before it dies
        run.proceed(3)
        run.held(1, "opened")
        run.end("agent-2", signal.SIGKILL, -signal.SIGKILL, "")
        run.end("server", None, ExitCode.OK, "the run is complete")
        run.end("agent-0", None, ExitCode.OK, "the run is complete")
        run.end("agent-1", None, ExitCode.OK, "the run is complete")
        assert run.tracebacks() == []
    finally:
        run.kill()
    folder = RunFolder.open(tmp_path / "run")
    rounds = list(folder.rows(folder.metrics))
    assert [line["missing"] for line in rounds] == [{}, {}, {"2": "lease"}, {}]
    assert [len(line["contributors"]) for line in rounds] == [3, 3, 2, 2]
    assert verify(tmp_path / "run").outcome == "equal"


def test_agents_that_are_not_needed_end_like_the_others(tmp_path: Path) -> None:
    """[complaints 10, 11, 25, 32] One of three is asked per round: each ends with 0 and without a trace.

    A second process of a goal that is taken is refused by name and disturbs nobody. What the rounds were
    made with stands in the run folder: the rule in the summary, each weight in its round's line.
    """
    settings = ("algorithm.rounds=3", "algorithm.participation=0.3", "algorithm.aggregation=weighted")
    run = Fleet(tmp_path / "run", 2, *settings)
    try:
        run.start_surplus(0)
        run.end("surplus", None, ExitCode.SUPERSEDED, "goal_in_use")
        run.proceed(2)
        run.end("server", None, ExitCode.OK, "the run is complete")
        run.end_agents(None, ExitCode.OK, "the run is complete")
        assert run.tracebacks() == []
    finally:
        run.kill()
    folder = RunFolder.open(tmp_path / "run")
    assert json.loads(folder.summary.read_bytes())["aggregation"] == "weighted"
    rounds = list(folder.rows(folder.metrics))
    assert [[part["weight"] for part in line["contributors"]] for line in rounds] == [[16.0]] * 3
    assert verify(tmp_path / "run").outcome == "equal"


def test_a_stopped_server_is_found_again(tmp_path: Path) -> None:
    """[wire 28] SIGSTOP until an agent's patience of a lease is over, then SIGCONT: nobody has to restart."""
    few = ("onboarding.m_adapt=[0]", "onboarding.scratch=[]", "onboarding.eval_episodes=16")
    run = Fleet(tmp_path / "run", 2, "algorithm.rounds=3", "federation.lease_s=1", *few)
    try:
        command = [sys.executable, "-P", "-m", "agent", "--goal", "0", "--onboard", "--server", run.address]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as onboarder:
            assert onboarder.stderr is not None
            wait_for("ready", onboarder.stderr)
            run.signal("server", signal.SIGSTOP)
            wait_for("registering again", onboarder.stderr)
            run.signal("server", signal.SIGCONT)
            run.proceed(2)
            run.end("server", None, ExitCode.OK, "the run is complete")
            assert onboarder.wait(60) == ExitCode.OK
        run.end_agents(None, ExitCode.OK, "the run is complete")
        assert run.tracebacks() == []
    finally:
        run.kill()


def wait_for(words: str, stream: IO[str]) -> None:
    """Reads lines until one has these words."""
    for line in stream:
        if words in line:
            return
    raise AssertionError(f"it ended before it said {words!r}")
