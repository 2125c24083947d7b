"""A policy of torch, from a file in a user's folder: the same bits everywhere, and what differs is named."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_fed.config import Overrides
from edge_fed.federated.task import make_learner
from edge_fed.program.config_file import load
from edge_fed.program.exit_codes import ExitCode
from edge_fed.reinforcement import Reinforcement
from scenarios.plain import run_plain
from scenarios.script import check, resolve
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.integration.test_equality import arrived_out_of_order, hashes, networked
from tests.integration.test_restarts import Programs, programs
from tests.scenarios.test_script import action

pytest.importorskip("torch", reason="policy 'torch' needs PyTorch: pip install 'edge-fed[torch]'")

NET = """
from torch import nn


class SmallNet(nn.Module):
    def __init__(self, observation_shape, num_actions, hidden):
        super().__init__()
        self.inward = nn.Linear(observation_shape[0], hidden)
        self.outward = nn.Linear(hidden, num_actions)

    def forward(self, x):
        return self.outward(nn.functional.silu(self.inward(x)))
"""
SCENARIO = """
name = "torch"
[environment]
horizon = 8
[policy]
name = "torch"
args = { module = "small_net:SmallNet", kwargs = { hidden = 6 } }
[algorithm]
variant = "exact"
curvature = "causal"
guard = 0.5
baseline = "value"
rounds = 4
local_steps = 2
[[agents]]
goals = "0-2"
[agents.link]
latency_s = 0.001
jitter_s = 0.01
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with a network in it, where programs are started."""
    (tmp_path / "small_net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # and off the path again
    yield tmp_path
    sys.modules.pop("small_net", None)  # the next test has a file of this name elsewhere


def scenario_of(tail: str = "") -> Scenario:
    """The scenario with more text at its end."""
    return resolve(load(SCENARIO + tail, Scenario, check, ()))


def test_tasks_of_one_process_equal_plain(folder: Path) -> None:
    """Three agents in threads of one process, each with its own module: the plain loop's bits; it replays."""
    scenario = scenario_of()
    expected, again = run_plain(scenario, Silent()), run_plain(scenario, Silent())
    found, _ = networked(scenario, "inproc", folder / "run")
    assert found.failure is None
    assert hashes(found) == hashes(expected) == hashes(again)
    assert len(set(hashes(found))) == 4, "a run that stands still shows nothing"
    assert arrived_out_of_order(found)
    assert verify(folder / "run").outcome == "equal"


@pytest.mark.processes
def test_programs_equal_plain_after_an_agent_was_killed(folder: Path) -> None:
    """Separate programs, one agent killed and restarted; a checkpoint is a vector that the policy takes."""
    scenario = scenario_of(action("restart", "1", "at_round = 3", 'point = "trained"'))
    expected = run_plain(scenario, Silent())
    found, run = networked(scenario, "ipc", folder / "run")
    assert found.failure is None
    assert hashes(found) == hashes(expected)
    assert verify(folder / "run").outcome == "equal"
    task = make_learner(scenario, 0, Overrides())
    assert isinstance(task, Reinforcement)
    with np.load(run.checkpoint(4)[0]) as file:
        params = file["params"]
    assert params.shape == (task.dimension,)
    assert np.isfinite(task.policy.log_prob(params, np.zeros((1, 2)), np.zeros(1, dtype=np.int64))).all()


@pytest.mark.processes
def test_another_network_on_the_agents_side_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's last line names the first parameter that differs, or what its own file lacks."""
    larger = NET.replace("super().__init__()", "super().__init__(); hidden += 1")
    parts = "[the run has inward.weight float32[6,2], this program inward.weight float32[7,2]]"
    with programs(scenario_of(), folder / "run", agents=(0,)) as fleet:
        fleet.start_server()
        refused(fleet, folder / "other", larger, monkeypatch, parts)
        refused(fleet, folder / "empty", "", monkeypatch, "small_net.py has no 'SmallNet'")


def refused(fleet: Programs, folder: Path, net: str, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """An agent that is started in a folder with this network ends with this in its last line."""
    folder.mkdir()
    (folder / "small_net.py").write_text(net)
    monkeypatch.chdir(folder)
    fleet.start_agents()
    fleet.end_agents(None, ExitCode.REFUSED, why)
