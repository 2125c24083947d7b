"""A user's environment that calls ``os.chdir``: what is started, and found, stays where the user is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_gymnasium import FLEET, PLANT

MOVES = PLANT.replace("        self.target", "        os.chdir(AWAY)\n        self.target")
STUDY = 'name = "moving"\nscenario = "./fleet.toml"\nseeds = "0-2"\n[[arms]]\nname = "one"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with an environment that moves whoever makes it, a scenario and a study."""
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    (home / "plant.py").write_text(f"import os\n\nAWAY = {str(away)!r}\n{MOVES}")
    (home / "fleet.toml").write_text(FLEET)
    (home / "moving.toml").write_text(STUDY)
    return home


def untouched(home: Path) -> bool:
    """Whether nothing was written to where the environment moves."""
    return not any((home.parent / "away").iterdir())


def scenarios(home: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code and both streams of a program that is started there."""
    command = [sys.executable, "-P", "-m", "scenarios", *arguments]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("runtime", ["processes", "inproc", "plain"])
def test_a_run_of_an_environment_that_moves(runtime: str, home: Path) -> None:
    """Its agents load it, and the run folder is where the user said."""
    code, out, err = scenarios(home, "run", "fleet.toml", "--runtime", runtime, "--run-dir", "run", "--json")
    assert code == 0, err
    assert json.loads(out)["rounds"] == 2
    assert (home / "run" / "metrics.jsonl").is_file() and untouched(home)


@pytest.mark.processes
def test_a_study_of_an_environment_that_moves(home: Path) -> None:
    """Each of its spawned processes plays several cells, and the table is where the user said."""
    code, _, err = scenarios(home, "study", "moving.toml", "--jobs", "2", "--results", "results")
    assert code == 0, err
    assert [path.name for path in (home / "results").glob("*.csv")] == ["moving.csv"] and untouched(home)
