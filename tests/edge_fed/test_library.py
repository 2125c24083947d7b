"""edge_fed in a notebook: the public names, and what users write themselves."""

import subprocess
import sys

import numpy as np
import pytest

import edge_fed
from edge_fed.config import Agents, EnvironmentConfig, Federation, Onboarding, PolicyConfig, RunConfig
from edge_fed.errors import ConfigError
from edge_fed.params import params_sha256
from scenarios.plain import run_plain
from scenarios.timeline import Scenario
from scenarios.watching import Silent
from tests.edge_fed.test_user_code import folder

__all__ = ["folder"]

SMALL = RunConfig(
    environment=EnvironmentConfig(family="gridworld", horizon=5, args={"size": 3}),
    policy=PolicyConfig(name="softmax"),
    algorithm=edge_fed.Algorithm(rounds=3, local_steps=2, inner_batch=4, outer_batch=4),
    agents=(Agents(goals="0-3"),),
    onboarding=Onboarding(m_adapt=(0, 10), scratch=(), eval_episodes=32),
    federation=Federation(evaluate_every=10),
)
TOML = """
[environment]
family = "gridworld"
horizon = 5
args = { size = 3 }
[policy]
name = "softmax"
[algorithm]
variant = "exact"
rounds = 2
curvature = "CURVATURE"
[[agents]]
goals = "0-1"
[onboarding]
goals = []
"""


def test_every_public_name_is_there():
    """What `__all__` promises can be had, and what it does not name is an error."""
    assert [name for name in edge_fed.__all__ if getattr(edge_fed, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        edge_fed.trian  # noqa: B018


def test_the_package_alone_loads_nothing():
    """A program that needs one module of it pays for no other."""
    code = "import edge_fed, sys; print([m for m in sys.modules if m.startswith(('edge_fed.', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_in_a_notebook_has_the_bits_of_every_other():
    """`train` is the plain runtime with everybody there."""
    *_, last = edge_fed.train(SMALL)
    scenario = Scenario(**{name: getattr(SMALL, name) for name in RunConfig.__struct_fields__})
    assert params_sha256(last.params) == run_plain(scenario, Silent()).params_sha256


def test_a_newcomer_adapts_in_a_notebook():
    """The three lines of the docstring: a learner, its adaptation, what it is worth."""
    *_, last = edge_fed.train(SMALL)
    newcomer = edge_fed.make_learner(SMALL, goal=8)
    own = newcomer.adapt(last.params, 20, np.random.default_rng(0), careful=True)
    assert own.shape == last.params.shape
    assert newcomer.spent == 20
    assert np.isfinite(newcomer.evaluate(own, SMALL.seed, SMALL.onboarding)["expected_return"])


def test_an_estimator_of_the_users_own_is_a_name_in_the_settings(folder):
    """A curvature estimator in a file beside the configuration; twice the half of it is the original."""
    (folder / "mine_d.py").write_text(
        "from edge_fed.meta.curvature import causal\n\n\n"
        "def halved(policy, batch, advantages, v):\n"
        "    return 0.5 * causal(policy, batch, advantages, 2.0 * v)\n"
    )
    found = []
    for name in ("causal", "mine_d:halved"):
        (folder / "fleet.toml").write_text(TOML.replace("CURVATURE", name))
        *_, last = edge_fed.train(edge_fed.load_config("fleet.toml"))
        found.append(last.params)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_a_family_policy_and_baseline_of_the_users_own(folder):
    """Each is named ``module:name`` where the settings name one."""
    (folder / "mine_e.py").write_text(
        "from edge_fed.envs.gridworld import Gridworld\n"
        "from edge_fed.policies.softmax import Softmax\n"
        "from edge_fed.meta.baselines import LeaveOneOut\n\n\n"
        "class Family(Gridworld):\n    pass\n\n\n"
        "def policy(spaces, args):\n    return Softmax(spaces)\n\n\n"
        "class Baseline(LeaveOneOut):\n    pass\n"
    )
    text = TOML.replace('"gridworld"', '"mine_e:Family"').replace('"softmax"', '"mine_e:policy"')
    text = text.replace("CURVATURE", "naive").replace(
        "rounds = 2", 'rounds = 2\nbaseline = "mine_e:Baseline"'
    )
    (folder / "fleet.toml").write_text(text)
    *_, mine = edge_fed.train(edge_fed.load_config("fleet.toml"))
    (folder / "fleet.toml").write_text(
        TOML.replace("CURVATURE", "naive").replace("rounds = 2", 'rounds = 2\nbaseline = "loo"')
    )
    *_, theirs = edge_fed.train(edge_fed.load_config("fleet.toml"))
    assert params_sha256(mine.params) == params_sha256(theirs.params)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("os:system", r"algorithm.curvature: there is no os\.py in the folder"),
        ("absent_f:x", r"algorithm.curvature: there is no absent_f\.py"),
        ("mine_f:absent", r"algorithm.curvature: mine_f\.py has no 'absent'"),
        (
            "mine_f:NUMBER",
            r"algorithm.curvature: 'NUMBER' is no function or class that mine_f\.py itself defines",
        ),
        ("casual", r"did you mean 'causal'"),
    ],
)
def test_what_cannot_be_loaded_is_a_fault_with_its_place(folder, name, message):
    """`check` says it before anything starts; nothing installed is reached."""
    (folder / "mine_f.py").write_text("NUMBER = 3\n")
    (folder / "fleet.toml").write_text(TOML.replace("CURVATURE", name))
    with pytest.raises(ConfigError, match=message):
        edge_fed.load_config("fleet.toml")


def test_words_of_a_peer_load_nothing(folder):
    """An agent's override is not imported by the server that checks it."""
    (folder / "trap_g.py").write_text("raise RuntimeError('imported')\n")
    text = TOML.replace("CURVATURE", "naive").replace(
        'goals = "0-1"', 'goals = "0-1"\ncurvature = "trap_g:x"'
    )
    (folder / "fleet.toml").write_text(text)
    edge_fed.load_config("fleet.toml")
    assert "trap_g" not in sys.modules
