"""A supervised run over every runtime: the same bits as the plain loop, also after a kill, and replayed."""

import json
from pathlib import Path

import pytest

from edge_fed.program.config_file import load
from scenarios.plain import run_plain
from scenarios.script import check, resolve
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.edge_fed.supervised.cases import ONBOARDERS, TEXT
from tests.integration.test_equality import JITTER, assert_equal_to_plain, hashes, networked
from tests.scenarios.test_script import action


def supervised(*sets: str, timeline: str = "") -> Scenario:
    """The small run with random delays."""
    return resolve(load(TEXT + timeline, Scenario, check, (JITTER, *sets)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tasks_equal_plain(dtype: str, tmp_path: Path) -> None:
    """Every variant's arithmetic is a process's own; here both widths, with half of the users asked."""
    sets = (f"model.args.dtype={dtype}", "algorithm.participation=0.5")
    assert_equal_to_plain(supervised(*sets), "inproc", tmp_path / "run")


@pytest.mark.processes
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_programs_equal_plain(transport: str, tmp_path: Path) -> None:
    """Separate programs, one of them killed and restarted: `python -m agent --goal k` is user k."""
    timeline = action("restart", "1", "at_round = 3", 'point = "trained"')
    scenario = supervised("algorithm.correction=control_variate", timeline=timeline)
    found = assert_equal_to_plain(scenario, transport, tmp_path / "run")
    assert max(found.trajectories.values()) == 6 * 2 * 18, "samples, counted"


@pytest.mark.processes
def test_a_killed_server_changes_no_bits(tmp_path: Path) -> None:
    """SIGKILL between updates, then --resume."""
    scenario = supervised(timeline=action("kill", "server", "at_round = 3", 'point = "update"'))
    found, _ = networked(scenario, "ipc", tmp_path / "run")
    assert found.failure is None
    assert hashes(found) == hashes(run_plain(scenario, Silent()))
    assert verify(tmp_path / "run").outcome == "equal"


def test_onboarders_measure_what_the_plain_loop_measures(tmp_path: Path) -> None:
    """Users that never trained: the same rows, with accuracy as success, and evaluations of all users."""
    scenario = resolve(load(TEXT + ONBOARDERS, Scenario, check, (JITTER,)))
    expected, (found, folder) = run_plain(scenario, Silent()), networked(scenario, "inproc", tmp_path / "run")
    assert found.failure is None
    ordered = [sorted(rows, key=json.dumps) for rows in (expected.onboarding, found.onboarding)]
    assert ordered[0] == ordered[1]
    assert {row["protocol"] for row in found.onboarding} == {"split"}
    assert found.evaluated["success_adapted"] == expected.evaluated["success_adapted"]
    assert folder.path.is_dir()
