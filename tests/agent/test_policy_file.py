"""The file of an adapted policy: read as written, refused by name."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.policy_file import SCHEMA, PolicyFile, describe, packed, read
from edge_fed.config import EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.federated.task import make_task
from edge_fed.program.exit_codes import ExitCode, ProgramError


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Parameters to the bit, and what the file says."""
    theta = np.random.default_rng(0).normal(size=7)
    (tmp_path / "p.npz").write_bytes(packed(PolicyFile(theta, 2 * theta, {"schema": SCHEMA, "goal": 3})))
    found = read(tmp_path / "p.npz")
    assert np.array_equal(found.params, theta) and np.array_equal(found.initial, 2 * theta)
    assert found.about == {"schema": SCHEMA, "goal": 3}


RUNNER = Path(__file__).parents[2] / "docs" / "run_policy.py"
TABLE: dict[str, Any] = {
    "description": "softmax 2x3",
    "observation_shape": [],
    "num_states": 2,
    "output": "softmax",
    "arrays": [["table", [2, 3]]],
    "obs_scale": 1.0,
    "observation_start": 0,
    "action_start": 0,
}
ABOUT = {"schema": SCHEMA, "layout": TABLE}


@pytest.mark.processes
def test_what_is_written_runs_with_numpy_alone(tmp_path: Path) -> None:
    """The file itself, as the runner in docs/ reads it; and it is read back, arrays or not."""
    theta = np.log([1.0, 1.0, 2.0, 5.0, 3.0, 2.0])
    (tmp_path / "p.npz").write_bytes(packed(PolicyFile(theta, 0 * theta, ABOUT)))
    command = [sys.executable, "-I", str(RUNNER), "p.npz"]
    done = subprocess.run(
        command, cwd=tmp_path, input="0\n1\n", capture_output=True, text=True, timeout=60, check=True
    )
    found = [json.loads(line)["distribution"] for line in done.stdout.splitlines()]
    np.testing.assert_allclose(found, [[0.25, 0.25, 0.5], [0.5, 0.3, 0.2]], rtol=0, atol=1e-12)
    assert np.array_equal(read(tmp_path / "p.npz").params, theta)


def test_a_file_of_an_earlier_edge_fed_is_read_and_written_anew_with_arrays(tmp_path: Path) -> None:
    """It holds no arrays by name; what is read of it has them again where it is kept, as a life does."""
    theta = np.arange(6.0)
    np.savez(tmp_path / "p.npz", params=theta, initial=-theta, about=np.array(json.dumps(ABOUT)))
    found = read(tmp_path / "p.npz")
    assert np.array_equal(found.params, theta) and np.array_equal(found.initial, -theta)
    with np.load(io.BytesIO(packed(found))) as held:
        assert np.array_equal(held["table"], theta.reshape(2, 3))


@pytest.mark.processes
def test_the_runner_says_of_an_older_file_that_it_is_to_be_saved_anew(tmp_path: Path) -> None:
    """No traceback."""
    np.savez(tmp_path / "p.npz", params=np.zeros(6), initial=np.zeros(6), about=np.array(json.dumps(ABOUT)))
    command = [sys.executable, "-I", str(RUNNER), "p.npz"]
    done = subprocess.run(command, cwd=tmp_path, input="0\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "saving anew" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize(
    ("id_", "policy", "args", "observations"),
    [
        ("tests.edge_fed.gym.toy_envs:Corridor", "softmax", {}, [5, 8, 6]),
        (
            "CartPole-v1",
            "mlp",
            {"obs_scale": [0.5, 2.0, 4.0, 0.1]},
            [[3.0, 0.02, 0.1, -7.0], [-1.0, 1, 0, 2]],
        ),
    ],
)
def test_the_runner_acts_in_the_environment_as_the_policy_did(
    id_: str, policy: str, args: dict[str, Any], observations: Any, tmp_path: Path
) -> None:
    """What an agent keeps of its gymnasium environment, scaled or counted from elsewhere than 0."""
    pytest.importorskip("gymnasium", reason="needs gymnasium: pip install 'edge-fed[gym]'")
    family = EnvironmentConfig(family="gymnasium", args={"id": id_, **args})
    config = RunConfig(environment=family, policy=PolicyConfig(name=policy))
    task = make_task(config, 0, Overrides())
    theta = np.random.default_rng(7).normal(size=task.dimension)
    about = json.loads(json.dumps(describe(config, task, 0, Overrides())))
    (tmp_path / "p.npz").write_bytes(packed(PolicyFile(theta, theta, about)))
    (tmp_path / "p.npz").write_bytes(packed(read(tmp_path / "p.npz")))  # as a life does
    command = [sys.executable, "-I", str(RUNNER), "p.npz"]
    text = "".join(f"{json.dumps(line)}\n" for line in observations)
    done = subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert isinstance(task.environment, EpisodicEnvironment)
    with task.environment.instances(1) as (instance,):
        kind: Any = np.int64 if task.environment.spaces.num_states else np.float64
        seen: Any = np.zeros((len(observations), *task.environment.spaces.observation_shape), kind)
        for j, observation in enumerate(observations):
            there = observation if seen.ndim == 1 else np.float32(observation)
            instance._observe(there, seen, j)
        assert {line["action"] for line in found} <= {*instance.actions(np.arange(2))}
    for action in range(2):
        log_pi = task.policy.log_prob(theta, seen, np.full(len(observations), action))
        np.testing.assert_allclose(
            [line["distribution"][action] for line in found], np.exp(log_pi), atol=1e-6
        )


def damaged(layout: Any) -> bytes:
    """A file with something else where the layout should stand."""
    buffer, about = io.BytesIO(), json.dumps({**ABOUT, "layout": layout})
    np.savez(buffer, params=np.zeros(6), initial=np.zeros(6), about=np.array(about))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is no policy"),
        (b"PK\x03\x04 and so on", "is no policy"),
        (packed(PolicyFile(np.zeros(2), np.zeros(2), {"schema": 1})), "has schema 1"),
        (packed(PolicyFile(np.zeros(2), np.full(2, np.nan), {"schema": SCHEMA})), "initial of"),
        (damaged(5), "the layout in"),
        (damaged({"description": "softmax", "arrays": [["table"]]}), "the layout in"),
        (damaged({**TABLE, "output": "gaussian"}), "the layout in"),
        (packed(PolicyFile(np.zeros((2, 1)), np.zeros(2), {"schema": SCHEMA})), "params of"),
    ],
)
def test_what_is_no_policy_is_refused(content: bytes, named: str, tmp_path: Path) -> None:
    """The file is named, and how to get a right one."""
    (tmp_path / "p.npz").write_bytes(content)
    with pytest.raises(ProgramError, match=named) as caught:
        read(tmp_path / "p.npz")
    assert caught.value.code is ExitCode.USAGE and "--save" in caught.value.hint


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    """[wire 33] An array of pickled objects is refused, not opened."""
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "p.npz", params=objects, initial=np.zeros(1), about=np.array("{}"))
    with pytest.raises(ProgramError, match="is no policy"):
        read(tmp_path / "p.npz")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the system's words."""
    with pytest.raises(ProgramError, match=r"gone\.npz cannot be read: No such file"):
        read(tmp_path / "gone.npz")
