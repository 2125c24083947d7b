"""One real sequence whose folder is copied and forged; nothing here runs a second one."""

import shutil
from pathlib import Path

import pytest

from scenarios.campaign.draw import Sequence
from scenarios.campaign.sequence import run_sequence
from tests.scenarios.test_script import action
from tests.scenarios.tiny import ONBOARDING, tiny

FAULTS = (
    action("restart", "0", "at_round = 2", 'point = "trained"')
    + action("kill", "server", "at_round = 4", 'point = "array"')
    + action("pause", "1", "at_round = 5", "for_s = 0.1")
)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a sequence with two deaths and a pause."""
    scenario = tiny(ONBOARDING + FAULTS, "algorithm.baseline=value", "algorithm.correction=control_variate")
    path = tmp_path_factory.mktemp("campaign") / "run"
    run_sequence(Sequence(0, scenario, "ipc"), path)
    return path


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may forge."""
    return Path(shutil.copytree(original, tmp_path / "run"))
