"""``agent live --device`` as a real program: killed, out of its day, back the next one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent import events as e
from agent.learner import Learner
from agent.policy_file import read
from edge_fed.config import Onboarding, Overrides
from edge_fed.federated.task import initial_params
from edge_fed.program.exit_codes import ExitCode
from scenarios.cast import run_config
from tests.integration.test_device import DEVICE, PLANT, SCENARIO, SHIELD, next_day, scenario_of

pytest.importorskip("gymnasium", reason="a device needs gymnasium: pip install 'edge-fed[gym]'")
pytestmark = pytest.mark.processes

EPISODES, DAILY = 20, 9


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a device's owner: its plant, its shield, its policy, which was adapted in simulation."""
    for name, text in (("plant.py", PLANT), ("shields.py", SHIELD), ("device.toml", DEVICE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    onboarding = Onboarding(m_adapt=(8,), eval_episodes=4, scratch=(), random=False)
    config = msgspec.structs.replace(run_config(scenario_of(SCENARIO)), onboarding=onboarding)
    learner = Learner(2, Overrides(), tmp_path, save=tmp_path / "policy.npz")
    learner.perform(e.Build(1, msgspec.to_builtins(config), b"R" * 16), lambda _: None)
    learner.perform(e.Onboard(2, 3, initial_params(config)), lambda _: None)
    yield tmp_path
    sys.modules.pop("plant", None)


@contextmanager
def life(*more: str) -> Iterator["subprocess.Popen[str]"]:
    """A program that is gone afterwards."""
    arguments = ["policy.npz", "--device", "device.toml", "--state", "life", "--json", *more]
    line = [sys.executable, "-P", "-m", "agent", "live", "--episodes", str(EPISODES), *arguments]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def beside() -> str:
    """What an agent says that is to train with the plant of a life."""
    arguments = ["--goal", "2", "--device", "device.toml", "--state-dir", "life"]
    line = [sys.executable, "-P", "-m", "agent", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.USAGE
    return done.stderr


def news(program: "subprocess.Popen[str]", what: str) -> dict[str, Any]:
    """Waits for news of this kind."""
    assert program.stdout is not None and program.stderr is not None
    for line in program.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["what"] == what:
            return found
    raise AssertionError(f"the life ended before {what}: {program.stderr.read()}")


def test_a_life_goes_on_through_kill_9_and_spent_days(folder: Path) -> None:
    """Three days, twenty episodes: the plant itself counts one more, which the kill had cut off."""
    for name in ("arrived", "go"):
        os.mkfifo(name)
    (folder / "device.toml").write_text(DEVICE + f"daily_trajectories = {DAILY}\n")
    with life() as program:
        Path("arrived").read_text()  # comes when the seventh episode has begun
        Path("arrived").unlink()
        program.kill()
    played = []
    for episode, kept in ((0, 8), (10, 7)):
        with life() as program:
            waits = news(program, "waits")
            assert waits["episode"] == episode and f"of {DAILY} trajectories has 0 left" in waits["why"]
            assert not Path("safe").exists(), "it waits, its plant at hand"
            assert f"goal 2 is in use by another program (process {program.pid})" in beside()
            program.send_signal(signal.SIGTERM)
            assert program.wait(60) == ExitCode.TERMINATED
        assert Path("safe").exists(), "the plant was closed"
        Path("safe").unlink()
        played.append(Path("played").stat().st_size)
        assert len(list(Path("life/live-2-episodes").rglob("*.npz"))) == kept
        assert next_day(folder / "life") == DAILY
    with life() as program:
        assert news(program, "end")["episode"] == EPISODES
        assert program.wait(60) == ExitCode.OK
    assert [*played, Path("played").stat().st_size] == [DAILY, 2 * DAILY, EPISODES + 1]
    assert read(folder / "life" / "live-2.npz").about["life"]["state"]["episode"] == EPISODES
    assert Path("safe").exists()


def test_a_signal_ends_it_before_the_next_action(folder: Path) -> None:
    """At a pace of an hour nobody waits for the end of an episode, let alone of a batch."""
    (folder / "device.toml").write_text(DEVICE + "pace_s = 3600\n")
    with life() as program:
        assert news(program, "begins")["until"] == EPISODES
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == ExitCode.INTERRUPTED
        assert program.stderr is not None and program.stderr.read() == ""
    assert Path("safe").exists()


HUNG = """

class Hung(Real):
    def step(self, action):
        open("hangs", "w").close()  # the test reads it
        threading.Event().wait()
"""


def test_a_step_that_hangs_is_ended_by_one_signal(folder: Path) -> None:
    """Without `close`, for the plant is in the middle of something; it says so."""
    os.mkfifo("hangs")
    (folder / "plant.py").write_text("import threading\n" + PLANT + HUNG)
    (folder / "device.toml").write_text(DEVICE.replace("Real", "Hung"))
    with life() as program:
        Path("hangs").read_text()
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == ExitCode.TERMINATED
        assert program.stderr is not None and "did not return within 2 s" in program.stderr.read()
    assert not Path("safe").exists()


@pytest.mark.parametrize("raised", ["asyncio.CancelledError", "GeneratorExit"])
def test_what_a_step_raises_is_named_whatever_it_is(raised: str, folder: Path) -> None:
    """No traceback, and the plant is closed."""
    faulty = f"\n\nclass Faulty(Real):\n    def step(self, action):\n        raise {raised}('lost')\n"
    (folder / "plant.py").write_text("import asyncio\n" + PLANT + faulty)
    (folder / "device.toml").write_text(DEVICE.replace("Real", "Faulty"))
    with life() as program:
        assert program.wait(60) == ExitCode.FAILED
        assert program.stderr is not None
        said = program.stderr.read()
    assert f"step raised {raised.rpartition('.')[2]}: lost" in said and "Traceback" not in said
    assert Path("safe").exists()
