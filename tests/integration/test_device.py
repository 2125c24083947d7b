"""A device beside simulated agents, as real programs: killed in the middle of a round, away for a day."""

import datetime
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.daily_budget import day_file
from agent.policy_file import read
from edge_fed.federated.beside import Beside
from edge_fed.federated.record import RoundRecord
from edge_fed.params import params_sha256
from edge_fed.program.config_file import load
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.plain import run_plain
from scenarios.script import check, resolve
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.integration.test_restarts import Programs, hashes
from tests.scenarios.doctored import edit_lines

pytest.importorskip("gymnasium", reason="a device needs gymnasium: pip install 'edge-fed[gym]'")
pytestmark = pytest.mark.processes

PLANT = """
import os

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

ARRIVED, GO, PLAYED, STOPS_AT = "arrived", "go", "played", 7


class Simulated(gymnasium.Env):
    observation_space, action_space = Box(-9, 9, (1,)), Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.at, {}

    def step(self, action):
        reward = -float(abs(self.at[0]))
        self.at = np.clip(self.at + 0.3 * (action - 1), -9, 9).astype(np.float32)
        return self.at, reward, False, False, {}


class Real(Simulated):
    def reset(self, *, seed=None, options=None):
        with open(PLAYED, "a") as file:
            file.write(".")
        if os.path.getsize(PLAYED) == STOPS_AT and os.path.exists(ARRIVED):
            open(ARRIVED, "w").close()  # the test reads it
            open(GO).read()  # nobody writes it: here the agent is killed
        return super().reset(seed=seed)

    def close(self):
        open("safe", "w").close()
"""
DEVICE = 'environment = "plant:Real"\nshield = "shields:let_pass"\n'
SHIELD = "def let_pass(observation, action):\n    return action\n"
SCENARIO = """
name = "device"
[environment]
family = "gymnasium"
horizon = 4
args = { id = "plant:Simulated", goals = 3, held_out = 0, success = false }
[policy]
name = "mlp"
args = { hidden = [4] }
[algorithm]
variant = "exact"
baseline = "value"
rounds = 3
local_steps = 2
inner_batch = 3
hessian_batch = 2
outer_batch = 4
[federation]
heartbeat_s = 0.2
lease_s = 60
[onboarding]
adapt_episodes = 8
eval_episodes = 4
[[agents]]
goals = "0-2"
"""
PER_ROUND = 2 * (3 + 2 + 4)


class Fleet(Programs):
    """A device, goal 2, and simulated agents."""

    def start_device(self, *more: str) -> None:
        """Starts it in the current folder, where its plant is."""
        arguments = ["--goal", "2", "--server", self._address, "--device", "device.toml", *more]
        self._start("agent-2", "agent", [*arguments, "--state-dir", str(self._folder.agents)])

    def device_says(self, event: str) -> dict[str, Any]:
        """Waits for an event of the device, which is supervised."""
        stream = self._running["agent-2"].stdout
        assert stream is not None
        for line in stream:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        raise AssertionError(f"the device ended before {event}: {self.log('agent-2')}")


def next_day(state_folder: Path) -> int:
    """The day that was counted on is yesterday now, as if the clock had moved on; returns its count."""
    path = day_file(state_folder, 2)
    counted = json.loads(path.read_text())
    day = datetime.date.fromisoformat(counted["day"]) - datetime.timedelta(days=1)
    path.write_text(json.dumps({**counted, "day": day.isoformat()}))
    return int(counted["used"])


def scenario_of(text: str) -> Scenario:
    """Checked; its file names a plant of the current folder."""
    return resolve(load(text, Scenario, check, ()))


@pytest.fixture
def scenario() -> Scenario:
    """Of three agents."""
    return scenario_of(SCENARIO)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a device's owner, where programs are started."""
    (tmp_path / "plant.py").write_text(PLANT)
    (tmp_path / "shields.py").write_text(SHIELD)
    (tmp_path / "device.toml").write_text(DEVICE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("plant", None)


@pytest.fixture
def fleet(scenario: Scenario, folder: Path) -> Iterator[Fleet]:
    """Programs that are gone afterwards."""
    found = Fleet(make_folder(scenario, folder / "run", overwrite=False), agents=(0, 1))
    yield found
    found.kill()


def rows(path: Path) -> list[dict[str, Any]]:
    """The rounds' lines."""
    run = RunFolder.open(path)
    return list(run.rows(run.metrics))


def ended(fleet: Fleet) -> None:
    """All of them end by themselves."""
    fleet.end_agents(None, ExitCode.OK, "the run is complete")
    fleet.end("agent-2", None, ExitCode.OK, "the run is complete")
    fleet.end("server", None, ExitCode.OK, "the run is complete")


def test_a_killed_device_finishes_its_round_with_the_episodes_it_has(
    fleet: Fleet, folder: Path, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No episode is played twice but the one that was cut off, and the bits are those of nobody's kill.

    The plant follows its seeds, so that the plain loop plays the same episodes in the simulation.
    """
    for name in ("arrived", "go"):
        os.mkfifo(name)
    fleet.start_server()
    fleet.start_agents()
    fleet.start_device()
    Path("arrived").read_text()  # comes when the seventh episode has begun
    Path("arrived").unlink()
    fleet.end("agent-2", signal.SIGKILL, -signal.SIGKILL, "")
    fleet.start_device()
    ended(fleet)
    assert "6 episodes are there from before" in fleet.log("agent-2")
    assert Path("played").stat().st_size == 3 * PER_ROUND + 1
    assert hashes(folder / "run") == [line["params_sha256"] for line in run_plain(scenario, Silent()).rounds]
    for line in rows(folder / "run"):
        assert not line["missing"] and line["overrides"]["2"]["device"]["shielded"]
    found = verify(folder / "run")
    assert (found.outcome, found.reason) == ("not replayable", "agent 2 is a device")

    compared: list[tuple[int, bool]] = []

    def faults(_self: Beside, record: RoundRecord, params: Any, _control: Any) -> list[str]:
        compared.append((record.round, params is not None))
        return ["it differs"] if record.round == 3 else []

    with monkeypatch.context() as patched:
        patched.setattr(Beside, "faults", faults)
        assert verify(folder / "run").differences == ("it differs",)
    assert compared == [(1, True), (2, True), (3, True)], "the others' updates, from each round's parameters"

    def another_cohort(lines: list[dict[str, Any]]) -> None:
        lines[1]["cohort"] = [0, 1]

    edit_lines(folder / "run" / "metrics.jsonl", another_cohort)
    assert verify(folder / "run").outcome == "different", "what needs no plant is compared all the same"


def test_a_device_whose_day_is_spent_leaves_by_name_and_nobody_waits(fleet: Fleet, folder: Path) -> None:
    """It takes part in one round, says BYE with the time of its return, and the run ends without it."""
    (folder / "device.toml").write_text(DEVICE + f"daily_trajectories = {PER_ROUND + 5}\n")
    fleet.start_server()
    fleet.start_agents()
    fleet.start_device()
    fleet.end_agents(None, ExitCode.OK, "the run is complete")
    fleet.end("server", None, ExitCode.OK, "the run is complete")
    assert not Path("safe").exists(), "it waits for the next day, its plant at hand"
    fleet.end("agent-2", signal.SIGTERM, ExitCode.TERMINATED, "SIGTERM")
    assert Path("safe").exists(), "the plant was closed"
    assert Path("played").stat().st_size == PER_ROUND
    assert [sorted(line["missing"]) for line in rows(folder / "run")] == [[], ["2"], []]
    assert [line["eligible"] for line in rows(folder / "run")] == [[0, 1, 2], [0, 1, 2], [0, 1]]
    events = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    (lost,) = [event for event in events if event["event"] == "lost" and event["agent"] == 2]
    assert lost["why"] == "bye" and "5 left, round 2 needs 18; back at 2" in lost["reason"]


def test_a_killed_device_finishes_its_round_the_next_day(folder: Path) -> None:
    """What is left of its day is not enough for the rest of its round; the next day it plays that rest alone.

    The round after it does not fit into that day: it leaves by name, and is back for that of the third day.
    """
    for name in ("arrived", "go"):
        os.mkfifo(name)
    (folder / "device.toml").write_text(DEVICE + f"daily_trajectories = {PER_ROUND}\n")
    alone = scenario_of(SCENARIO.replace('goals = "0-2"', 'goals = "2"'))
    fleet = Fleet(make_folder(alone, folder / "run", overwrite=False), agents=())
    try:
        fleet.start_server()
        fleet.start_device()
        Path("arrived").read_text()  # comes when the seventh episode has begun
        Path("arrived").unlink()
        fleet.end("agent-2", signal.SIGKILL, -signal.SIGKILL, "")
        assert next_day(folder / "run" / "agents") == 7
        fleet.start_device("--supervised")
        assert "has 6 left, round 2 needs 18" in fleet.device_says("away")["why"]
        assert Path("played").stat().st_size == PER_ROUND + 1
        fleet.end("agent-2", signal.SIGTERM, ExitCode.TERMINATED, "SIGTERM")
        assert next_day(folder / "run" / "agents") == PER_ROUND - 6
        fleet.start_device()
        fleet.end("agent-2", None, ExitCode.OK, "the run is complete")
        fleet.end("server", None, ExitCode.OK, "the run is complete")
    finally:
        fleet.kill()
    assert "6 episodes are there from before" in fleet.log("agent-2")
    assert Path("played").stat().st_size == 2 * PER_ROUND + 1, "each once, but the one that was cut off"
    found = [
        (line["outcome"], [part["trajectories"] for part in line["contributors"]])
        for line in rows(folder / "run")
    ]
    assert found == [("folded", [PER_ROUND]), ("skipped", []), ("folded", [PER_ROUND])]


def test_a_device_that_trained_has_its_own_policy_and_lives_with_it(fleet: Fleet, folder: Path) -> None:
    """--save: the final parameters, adapted on the plant; --device: its life, on the same plant."""
    fleet.start_server()
    fleet.start_agents()
    fleet.start_device("--save", "policy-2.npz")
    ended(fleet)
    found = read(folder / "policy-2.npz")
    assert params_sha256(found.initial) == hashes(folder / "run")[-1] and found.about["m_adapt"] == 8
    assert Path("played").stat().st_size == 3 * PER_ROUND + 8
    arguments = ["policy-2.npz", "--device", "device.toml", "--state", "life", "--episodes", "10"]
    line = [sys.executable, "-P", "-m", "agent", "live", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "acts on the plant plant:Real; no daily budget; shield shields:let_pass" in done.stdout
    assert Path("played").stat().st_size == 3 * PER_ROUND + 8 + 10
