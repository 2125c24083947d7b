"""A user's environment: the same bits in all runtimes, after deaths, and from a folder of one's own."""

import shutil
import sys
from pathlib import Path

import pytest

from edge_fed.program.exit_codes import ExitCode
from scenarios.command_line import main
from scenarios.plain import run_plain
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.edge_fed.gym import toy_envs
from tests.integration.test_equality import assert_equal_to_plain, hashes, networked, scenario_of
from tests.scenarios.test_script import action

SETTINGS = (
    "environment.family=gymnasium",
    'environment.args={ id = "corridors:Corridor", goals = 4, held_out = 1, '
    "env_args = { gain = { uniform = [0.5, 2.0] } } }",
    "algorithm.baseline=value",
    "algorithm.inner_step_size=0.1",
)
RESTART = (action("restart", "1", "at_round = 3", 'point = "trained"'),)


@pytest.fixture(autouse=True)
def corridors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs refuse the folder `tests`: the environments are copied to where a user's are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shutil.copy(toy_envs.__file__, tmp_path / "corridors.py")
    monkeypatch.delitem(sys.modules, "corridors", raising=False)


def corridor(*timeline: str, bootstrap: str = "none") -> Scenario:
    """Four agents in corridors of their own, with delays."""
    return scenario_of((timeline, (*SETTINGS, f'environment.args.bootstrap="{bootstrap}"')))


@pytest.mark.parametrize("bootstrap", ["none", "value"])
def test_inproc_equals_plain(tmp_path: Path, bootstrap: str) -> None:
    """Tasks with random delays: every round's hash is that of the plain loop, and the record replays."""
    found = assert_equal_to_plain(corridor(bootstrap=bootstrap), "inproc", tmp_path / "run")
    assert all(("bootstrap" in line["metrics"]) is (bootstrap == "value") for line in found.rounds)
    assert bootstrap == "none" or found.rounds[-1]["metrics"]["bootstrap"] > 0


@pytest.mark.processes
@pytest.mark.parametrize("bootstrap", ["none", "value"])
def test_programs_equal_plain_also_after_deaths(tmp_path: Path, bootstrap: str) -> None:
    """Over ipc, an agent killed and restarted in round 3: new instances, its state, the same bits."""
    assert_equal_to_plain(corridor(*RESTART, bootstrap=bootstrap), "ipc", tmp_path / "run")


@pytest.mark.processes
def test_a_killed_server_changes_no_bits(tmp_path: Path) -> None:
    """SIGKILL between updates, then --resume; verify computes the run again."""
    scenario = corridor(action("kill", "server", "at_round = 3", 'point = "update"'))
    found, _ = networked(scenario, "ipc", tmp_path / "run")
    assert found.failure is None
    assert hashes(found) == hashes(run_plain(scenario, Silent()))
    assert verify(tmp_path / "run").outcome == "equal"


PLANT = """
import gymnasium
import numpy as np


class Plant(gymnasium.Env):
    def __init__(self, target=0.0):
        self.observation_space = gymnasium.spaces.Box(-2, 2, (1,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self.target = target

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1)
        return np.array([self.at], np.float32), {}

    def step(self, action):
        reward = -abs(self.at - self.target)
        self.at = float(np.clip(self.at + (0.2 if action else -0.2), -2, 2))
        return np.array([self.at], np.float32), reward, False, False, {}
"""
FLEET = """
[environment]
family = "gymnasium"
horizon = 9
args = { id = "plant:Plant", goals = 3, held_out = 1, env_args.target = { uniform = [-1.0, 1.0] } }
[algorithm]
rounds = 2
local_steps = 2
inner_step_size = 0.1
[[agents]]
goals = "0-2"
[onboarding]
goals = "3"
m_adapt = [0, 10]
adapt_episodes = 8
eval_episodes = 16
scratch = []
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a user has: a folder with an environment and a scenario."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "plant.py").write_text(PLANT)
    (tmp_path / "fleet.toml").write_text(FLEET)
    return tmp_path


@pytest.mark.processes
def test_a_folder_of_one_s_own_is_enough(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check environment and scenario, run programs, onboard goal 3, verify, and run once more as a loop."""
    try:
        assert main(["check-env", "fleet.toml", "--goal", "2"]) == 0
        assert main(["check", "fleet.toml"]) == 0
        assert main(["run", "fleet.toml", "--run-dir", "run", "--json"]) == 0
        assert main(["verify", "run"]) == 0
        assert main(["run", "fleet.toml", "--runtime", "plain", "--json"]) == 0
    finally:
        sys.modules.pop("plant", None)
    assert "onboarding" in capsys.readouterr().out


@pytest.mark.processes
@pytest.mark.parametrize("runtime", ["plain", "processes"])
def test_a_wrong_value_ends_the_run_with_its_place(
    folder: Path, capfd: pytest.CaptureFixture[str], runtime: str
) -> None:
    """The reward of one agent becomes NaN: the run fails, and the text says where."""
    text = PLANT.replace("reward = -abs", "reward = float('nan') if self.target == 7 else -abs")
    (folder / "plant.py").write_text(text)
    own = '[[agents]]\ngoals = "0-1"\n[[agents]]\ngoals = "2"\nargs = { env_args.target = 7 }\n'
    (folder / "fleet.toml").write_text(FLEET.replace('[[agents]]\ngoals = "0-2"\n', own))
    try:
        code = main(["run", "fleet.toml", "--runtime", runtime, "--set", "federation.min_updates=3"])
    finally:
        sys.modules.pop("plant", None)
    captured = capfd.readouterr()
    assert code in (ExitCode.FAILED, ExitCode.QUORUM)
    everything = captured.out + captured.err + "".join(p.read_text() for p in folder.rglob("*.log"))
    assert "agent 2 (plant:Plant, target=7): episode 0 of the batch, seed" in everything
    assert "step 0: the reward is nan" in everything
