"""The arrays of a policy by name, and the runner in docs/ that needs nothing else."""

import ast
import io
import json
import math
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edge_fed.export import arrays, layout
from edge_fed.policies.gaussian import make_gaussian
from edge_fed.policies.mlp import make_mlp
from edge_fed.policies.softmax import make_softmax
from edge_fed.spaces import Spaces, Units

RUNNER = Path(__file__).parents[2] / "docs" / "run_policy.py"
BOX = Spaces(None, (3,), action_low=(-2.0, 0.0), action_high=(2.0, 1.0))
DISCRETE = Spaces(4, (2, 3))
FINITE = Spaces(3, (), num_states=5)
AS_THEY_ARE = Units()


def played(policy, spaces, params, observations, folder, units=AS_THEY_ARE):
    """What the runner prints for observations, as a program in a folder without edge_fed."""
    np.savez(folder / "policy.npz", **arrays(layout(policy, spaces, units), params))
    lines = "".join(json.dumps(np.asarray(o).tolist()) + "\n" for o in observations)
    done = fed(lines, folder)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def fed(text, folder):
    """The runner, done with such an input."""
    return subprocess.run(
        [sys.executable, "-I", str(RUNNER), "policy.npz"],
        cwd=folder, input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def drawn(policy, rng):
    """Parameters far from any start, ``[d]``."""
    return rng.normal(size=policy.dimension)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("policy", "spaces"),
    [
        (make_mlp(DISCRETE, {"hidden": [5]}), DISCRETE),
        (make_mlp(DISCRETE, {"hidden": [5, 4, 6]}), DISCRETE),
        (make_mlp(DISCRETE, {"hidden": [4] * 10}), DISCRETE),
        (make_softmax(FINITE, {}), FINITE),
    ],
    ids=["one hidden layer", "three", "ten: layer10 comes after layer9", "softmax of states"],
)
def test_the_runner_gives_the_policys_probabilities(policy, spaces, tmp_path):
    """As a program of its own, for every action, and it acts with one of them."""
    rng = np.random.default_rng(3)
    params = drawn(policy, rng)
    observations = np.arange(5) if spaces.num_states else rng.normal(size=(5, *spaces.observation_shape))
    done, found = played(policy, spaces, params, observations, tmp_path)
    assert done.returncode == 0 and len(found) == 5, done.stderr
    for action in range(spaces.num_actions):
        log_pi = policy.log_prob(params, observations, np.full(5, action))
        got = [line["distribution"][action] for line in found]
        np.testing.assert_allclose(got, np.exp(log_pi), rtol=0, atol=1e-12)
    assert all(line["action"] in range(spaces.num_actions) for line in found)


@pytest.mark.processes
@pytest.mark.parametrize("log_std", [-1.0, "learned"])
@pytest.mark.parametrize("squash", [False, True])
def test_the_runner_gives_the_policys_density(log_std, squash, tmp_path):
    """Mean and sd in unit space give log_prob; actions stay in the box."""
    policy = make_gaussian(BOX, {"hidden": [5, 4, 6], "log_std": log_std, "squash": squash})
    rng = np.random.default_rng(4)
    params, observations = drawn(policy, rng), rng.normal(size=(6, 3))
    done, found = played(policy, BOX, params, observations, tmp_path)
    assert done.returncode == 0 and len(found) == 6, done.stderr
    low, high = np.array(BOX.action_low), np.array(BOX.action_high)
    half = (high - low) / 2
    for observation, line in zip(observations, found, strict=True):
        mean, sd = np.array(line["distribution"])
        unit = mean + sd * np.array([0.3, -1.2])
        stored = unit if squash else (low + high) / 2 + half * unit
        log_density = -0.5 * (0.3**2 + 1.2**2) - np.log(sd).sum() - math.log(2 * math.pi)
        log_density -= 0.0 if squash else np.log(half).sum()
        assert policy.log_prob(params, observation, stored) == pytest.approx(log_density, abs=1e-12)
        assert (low <= line["action"]).all() and (line["action"] <= high).all()


@pytest.mark.processes
@pytest.mark.parametrize(("squash", "reached"), [(False, 1.0), (True, math.tanh(3.0))])
def test_the_runner_squashes_or_clips_as_the_policy_says(squash, reached, tmp_path):
    """With next to no spread, an action far outside of the unit box is at its end, or at tanh of it."""
    policy = make_gaussian(BOX, {"hidden": [1], "log_std": -20, "squash": squash})
    params = np.zeros(policy.dimension)
    params[-2:] = 3.0, -3.0  # the last row of the last layer: means in unit space
    done, found = played(policy, BOX, params, [np.zeros(3)], tmp_path)
    assert done.returncode == 0, done.stderr
    low, high = np.array(BOX.action_low), np.array(BOX.action_high)
    expected = (low + high) / 2 + (high - low) / 2 * np.array([reached, -reached])
    assert found[0]["action"] == pytest.approx(expected.tolist(), abs=1e-8)


@pytest.mark.processes
def test_a_policy_that_needs_its_module_is_refused(tmp_path):
    """The runner names it instead of guessing."""

    class Own:
        description = "torch my 2-2"

    done, found = played(Own(), DISCRETE, np.zeros(2), [[0.0]], tmp_path)
    assert done.returncode == 1 and found == []
    assert "needs its own module, or saving anew: torch my 2-2" in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("scale", [0.25, (0.5, 4.0)])
def test_the_runner_takes_the_environments_own_observations(scale, tmp_path):
    """As the environment returns them, not as the policy saw them; actions have the environment's numbers."""
    spaces = Spaces(3, (2,))
    policy, rng = make_mlp(spaces, {"hidden": [5]}), np.random.default_rng(5)
    params, raw = drawn(policy, rng), 3.0 * rng.normal(size=(6, 2))
    units = Units(obs_scale=scale, action_start=-7)
    done, found = played(policy, spaces, params, raw, tmp_path, units)
    assert done.returncode == 0 and len(found) == 6, done.stderr
    for action in range(3):
        log_pi = policy.log_prob(params, raw * scale, np.full(6, action))
        got = [line["distribution"][action] for line in found]
        np.testing.assert_allclose(got, np.exp(log_pi), rtol=0, atol=1e-12)
    assert all(line["action"] in (-7, -6, -5) for line in found)


@pytest.mark.processes
def test_the_runner_takes_and_gives_numbers_as_the_environment_counts(tmp_path):
    """States from -2 on, actions from 1 on; with next to no doubt about either."""
    policy = make_softmax(FINITE, {})
    best = np.array([2, 0, 1, 1, 2])
    params = (100.0 * (best[:, None] == np.arange(3))).ravel()
    units = Units(observation_start=-2, action_start=1)
    done, found = played(policy, FINITE, params, range(-2, 3), tmp_path, units)
    assert done.returncode == 0, done.stderr
    assert [line["action"] for line in found] == (best + 1).tolist()


def refusal(policy, spaces, units, text, folder, monkeypatch):
    """The line with which the runner ends at such an input, here: a program for each would take long."""
    np.savez(folder / "policy.npz", **arrays(layout(policy, spaces, units), np.zeros(policy.dimension)))
    monkeypatch.setattr(sys, "argv", ["run_policy.py", str(folder / "policy.npz")])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(RUNNER))
    return caught.value.code


@pytest.mark.parametrize(
    "line", [b"-3", b"3", b"1.5", b"NaN", b"1e999", b"[0]", b"null", b"", b"up", b'{"a": 1}', b"\xff"]
)
def test_a_state_that_is_none_ends_the_runner_by_line(line, tmp_path, monkeypatch, capsys):
    """Neither a row from the other end of the table nor a traceback; what came before was answered."""
    text, units = b"0\n" + line + b"\n1\n", Units(observation_start=-2)
    said = refusal(make_softmax(FINITE, {}), FINITE, units, text, tmp_path, monkeypatch)
    assert said.startswith("line 2 is no observation for softmax") and "\n" not in said
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    ["[1, 2]", "[1, 2, 3, 4]", "3", "[1, 2, NaN]", "[1, 2, -Infinity]", "[1, 2, 1e999]", "[1, 2, null]",
     "[1, [2, 3], 4]", '["a", "b", "c"]', "{}", "[1, 2", "", "[" * 100_000, f"[1, 2, {10**400}]"],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_a_line_that_is_no_observation_ends_the_runner_by_its_number(line, tmp_path, monkeypatch, capsys):
    """One line, of one scale for all entries, too: nothing is spread over entries that are not there."""
    text, units = f"[0, 0, 0]\n{line}\n".encode(), Units(obs_scale=2.0)
    said = refusal(make_gaussian(BOX, {}), BOX, units, text, tmp_path, monkeypatch)
    assert said.startswith("line 2 is no observation for gaussian") and "\n" not in said
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.processes
def test_a_layout_that_knows_no_units_is_refused(tmp_path):
    """Kept by an earlier edge_fed: its observations may have been scaled, which nobody wrote down."""
    policy = make_mlp(DISCRETE, {"hidden": [5]})
    old = {k: v for k, v in layout(policy, DISCRETE).items() if k not in Units.__struct_fields__}
    np.savez(tmp_path / "policy.npz", **arrays(old, np.zeros(policy.dimension)))
    done = fed("[0, 0, 0, 0, 0, 0]\n", tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and "saving anew: mlp" in done.stderr


def test_the_runner_is_about_twenty_lines():
    """Of code: without its docstring, comments and blank lines; as many statements as it looks, too."""
    text = RUNNER.read_text()
    docstring, *code = ast.parse(text).body
    below = text.splitlines()[docstring.end_lineno :]
    lines = [line for line in below if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 20 and ";" not in "".join(lines)
    imported = {name.name for node in code if isinstance(node, ast.Import) for name in node.names}
    assert imported == {"json", "sys", "numpy"}


def test_weights_are_given_without_a_copy():
    """A large policy stands in memory once, whatever it is written as."""
    policy = make_gaussian(BOX, {"log_std": "learned"})
    params = np.zeros(policy.dimension)
    found = arrays(layout(policy, BOX), params)
    assert [*found] == ["description", "layer1", "layer2", "obs_scale", "low", "high", "sd", "squash"]
    assert np.shares_memory(found["layer1"], params) and np.shares_memory(found["layer2"], params)


def test_parameters_of_another_policy_have_no_arrays():
    """Too few numbers for the layout: the description alone, which a reader can name."""
    policy = make_softmax(FINITE, {})
    found = arrays(layout(policy, FINITE), np.zeros(policy.dimension - 1))
    assert [*found] == ["description"]


def test_arrays_take_up_all_parameters():
    """Names and shapes account for every number of the vector."""
    policies = [
        (make_mlp(DISCRETE, {"hidden": [5, 4]}), DISCRETE),
        (make_softmax(FINITE, {}), FINITE),
        (make_gaussian(BOX, {}), BOX),
        (make_gaussian(BOX, {"log_std": "learned"}), BOX),
    ]
    for policy, spaces in policies:
        found = layout(policy, spaces)
        assert sum(math.prod(shape) for _, shape in found["arrays"]) == policy.dimension
        assert json.loads(json.dumps(found)) == found
