"""The MuJoCo example, where MuJoCo is installed: check-env finds it fit, and a short run trains."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="the extra mujoco is not installed")

from scenarios.command_line import main
from scenarios.plain import run_plain
from scenarios.script import load_scenario
from scenarios.watching import Silent

EXAMPLES = Path(__file__).parents[2] / "scenarios" / "examples"
SHORT = (
    "environment.horizon=9",
    "algorithm.rounds=2",
    "agents.0.goals=0-1",
    'onboarding.goals="16"',
    "onboarding.adapt_episodes=4",
    "onboarding.eval_episodes=4",
    "onboarding.m_adapt=[0, 4]",
    "algorithm.inner_batch=4",
    "algorithm.outer_batch=4",
)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Both files copied into a folder, as the example says; MuJoCo's log lands there, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "halfcheetah.py").write_text((EXAMPLES / "halfcheetah.py").read_text())
    text = (EXAMPLES / "halfcheetah.toml").read_text()
    assert '"scenarios.examples.halfcheetah:make"' in text
    (tmp_path / "mine.toml").write_text(text.replace("scenarios.examples.halfcheetah", "halfcheetah"))
    yield "mine.toml"
    sys.modules.pop("halfcheetah", None)


@pytest.mark.parametrize(
    "args", [(), ("--set", "environment.args.env_args={ direction = { choice = [1, -1] } }")]
)
def test_the_example_is_fit(file, args, capfd):
    """Both of its families pass all checks, also that episodes depend on their seed alone."""
    assert main(["check-env", file, "--goal", "3", "--horizon", "20", "--json", *args]) == 0
    result = json.loads(capfd.readouterr().out)
    assert set(result["env_args"]) == ({"direction"} if args else {"velocity"})
    assert result["observed"]["mean_length"] == 21


def test_a_short_run_trains_and_onboards(file):
    """The plain loop: parameters move, and nothing is refused."""
    outcome = run_plain(load_scenario(file, SHORT), Silent())
    assert outcome.failure is None
    assert len({line["params_sha256"] for line in outcome.rounds}) == 2
    assert [line["kind"] for line in outcome.evaluations].count("onboarding") == 1
