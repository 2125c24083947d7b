"""The README is true: every command block runs as it stands (the two make blocks are run by .ci/run)."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README.read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
COMMANDS = [
    line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if not line.startswith("make")
]
KEYS = [line for line in COMMANDS if re.match(r"python -m (server keygen|(server|agent) --keys)\b", line)]
LIVING = [line for line in COMMANDS if line.startswith("python -m agent live")]
OWN = [line for line in COMMANDS if line.startswith("edge-fed")]
TERMINALS = [
    line for line in COMMANDS if re.match(r"python -m (server|agent)\b", line) and line not in KEYS + LIVING
]
FILES = {
    match[1]: text
    for kind, text in BLOCKS
    if kind in ("python", "toml") and (match := re.match(r"# (\S+)\n", text))
}
"""Blocks that begin with the name of their file."""
SCENARIOS = [line for line in COMMANDS if line.startswith("python -m scenarios")]

pytestmark = pytest.mark.processes


def argv(line: str) -> list[str]:
    """The command, with this Python."""
    program, *arguments = shlex.split(line)
    if program == "edge-fed":
        return [str(Path(sys.executable).with_name("edge-fed")), *arguments]
    assert program == "python"
    return [sys.executable, *arguments]


def played(lines: list[str], folder: Path) -> list[str]:
    """Runs all lines at once, until each has ended with 0; returns what each printed."""
    programs = [
        subprocess.Popen(argv(line), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in lines
    ]
    try:
        said = [program.communicate(timeout=240) for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert [program.returncode for program in programs] == [0] * len(lines), said
    return [out for out, _ in said]


def test_every_command_is_of_a_kind_that_is_run_here():
    """No block escapes: terminals and scenarios are all that the README types besides make.

    [complaints 60]
    """
    assert len(TERMINALS) == 3
    assert len(KEYS) == 3
    assert (len(LIVING), len(OWN)) == (1, 3)
    assert sorted(TERMINALS + KEYS + LIVING + OWN + SCENARIOS) == sorted(COMMANDS)
    assert [text for kind, text in BLOCKS if kind == "sh" and "make" in text] == [
        "make demo\n",
        "make test\n",
    ]


def test_the_terminals(tmp_path):
    """The server and nine agents as typed; the agents come first, the saved policy loads.

    [complaints 17, 25, 60]
    """
    server, agent, onboarder = TERMINALS
    lines = [agent.replace("--goal 0", f"--goal {goal}") for goal in range(6)]
    lines += [onboarder, agent.replace("--goal 0", "--goal 6"), agent.replace("--goal 0", "--goal 8"), server]
    said = played(lines, tmp_path)
    assert "goal 7" in said[6]
    with np.load(tmp_path / "policy-7.npz") as saved:
        assert saved["params"].shape == saved["initial"].shape == (360,)
    (folder,) = (tmp_path / "runs").iterdir()
    with np.load(folder / "checkpoints" / "round-000150.npz") as checkpoint:
        assert np.isfinite(checkpoint["params"]).all()
    (life,) = LIVING
    (said,) = played([life], tmp_path)
    assert "alarm" in said


@pytest.mark.timeout(300)
@pytest.mark.parametrize("network", ["mlp", "torch"])
def test_your_own_fleet(network, tmp_path):
    """A user's environment, network and one TOML, as typed: checked, trained, and newcomers onboarded.

    Without torch the table of the policy is left out, as the README offers.
    """
    if network == "torch":
        pytest.importorskip("torch", reason="torch is not installed: make test EXTRAS=torch")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    if network == "mlp":
        (tmp_path / "net.py").unlink()
        text = FILES["tanks.toml"]
        begin, end = text.index("[policy]"), text.index("[algorithm]")
        (tmp_path / "tanks.toml").write_text(text[:begin] + text[end:])
    check_env, check, run = OWN
    (said,) = played([check_env], tmp_path)
    assert "fit for a run" in said
    (said,) = played([check], tmp_path)
    assert "right" in said
    (said,) = played([f"{run} --json"], tmp_path)
    found = json.loads(said)
    assert (found["success"], found["rounds"]) == (True, 10)
    rows = found["metrics"]["onboarding"]
    assert {row["goal"] for row in rows} == {6, 7}
    assert {row["init"] for row in rows} == {"learned", "careful", "random"}


def test_the_files_are_as_short_as_promised():
    """A 30-line environment and a 10-line module, blank lines and the names of files aside."""
    lines = {name: [line for line in text.splitlines()[1:] if line.strip()] for name, text in FILES.items()}
    assert set(lines) == {"tank.py", "net.py", "tanks.toml"}
    assert len(lines["tank.py"]) <= 30
    assert len(lines["net.py"]) <= 10


def test_the_keys(tmp_path):
    """Keys are made, the agents' files are copied, and server and agents meet; as typed, in a shorter run."""
    keygen, server, agent = KEYS
    subprocess.run(argv(keygen), cwd=tmp_path, capture_output=True, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    short = " --set algorithm.rounds=2 --set agents.0.goals=0-1 --set onboarding.goals=[]"
    few = " --set onboarding.eval_episodes=8 --set onboarding.adapt_episodes=8"
    lines = [server.replace("5555", port) + short + few]
    for goal in (0, 1):
        shutil.copy2(tmp_path / "keys" / "agents" / f"agent-{goal}.key", tmp_path)
        typed = agent.replace("agent-0", f"agent-{goal}").replace("--goal 0", f"--goal {goal}")
        lines.append(typed.replace("HOST:5555", f"127.0.0.1:{port}"))
    played(lines, tmp_path)


@pytest.mark.timeout(400)  # a dozen commands, one after the other
def test_the_scenario_commands(tmp_path):
    """[complaints 25, 60] In order, in one folder, each ends with 0; --json prints one object."""
    for line in SCENARIOS:
        done = subprocess.run(argv(line), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)
        if "--json" in line:
            assert json.loads(done.stdout)["success"]


@pytest.mark.parametrize("runtime", ["inproc", "processes"])
def test_the_commented_scenario(runtime, tmp_path):
    """The example is right, runs, meets what it expects, and gives the plain loop's bits."""
    (example,) = (text for kind, text in BLOCKS if kind == "toml" and text not in FILES.values())
    (tmp_path / "my-fleet.toml").write_text(example)
    found = []
    for name in ("plain", runtime):
        line = f"python -m scenarios run my-fleet.toml --json --runtime {name}"
        done = subprocess.run(argv(line), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0]["params_sha256"] == found[1]["params_sha256"]
    assert found[0]["metrics"] == found[1]["metrics"]
