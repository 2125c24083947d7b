"""Tasks over inproc://: the same bits as the plain loop, with agents that come, die and return."""

from pathlib import Path

import pytest

from edge_fed.program import log
from scenarios.cast import make_folder
from scenarios.inproc import Tasks
from scenarios.outcome import Outcome, as_json
from scenarios.plain import run_plain
from scenarios.runner import run_networked
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.test_script import action
from tests.scenarios.tiny import ONBOARDING, tiny


def inproc(scenario: Scenario, path: Path) -> Outcome:
    """One run in this process."""
    folder = make_folder(scenario, path, overwrite=False)
    with (folder.logs / "inproc.log").open("a", buffering=1) as file:
        logger = log.configure("text", "info", file)
        return run_networked(
            scenario,
            "inproc",
            folder,
            lambda happenings: Tasks(scenario, folder, happenings, logger),
            Silent(),
        )


TIMELINES = {
    "all are there": "",
    "a late joiner": action("join", when="at_round = 4"),
    "a kill and a leave": action("kill", when="at_round = 3") + action("leave", "1", "at_round = 5"),
    "a restart": action("restart", when="at_round = 3"),
    "a restart after two rounds": action("restart", when="at_round = 2", args="down_rounds = 2"),
    "a goodbye and a restart": action("restart", when="at_round = 3", args='signal = "TERM"'),
    "deaths at points": action("restart", "0", "at_round = 2", 'point = "trained"')
    + action("restart", "1", "at_round = 4", 'point = "sent"')
    + action("kill", "2", "at_round = 5", 'point = "assigned"'),
    "a slow device and link": action("slow", "0", "at_round = 2", "compute_delay_s = 0.002")
    + action("link", "1", "at_round = 2", "latency_s = 0.002, jitter_s = 0.004, loss = 0.1"),
}


@pytest.mark.parametrize("name", TIMELINES)
def test_the_bits_are_those_of_the_plain_loop(name: str, tmp_path: Path) -> None:
    """Same hash after every round, same contributors, and the record replays."""
    scenario = tiny(TIMELINES[name], "algorithm.baseline=value")
    expected, found = run_plain(scenario, Silent()), inproc(scenario, tmp_path / "run")
    assert found.failure is None
    assert [line["params_sha256"] for line in found.rounds] == [
        line["params_sha256"] for line in expected.rounds
    ]
    assert found.trajectories == expected.trajectories
    assert verify(tmp_path / "run").outcome == "equal"


def test_measurements_are_those_of_the_plain_loop(tmp_path: Path) -> None:
    """Evaluations and onboarding rows are equal to the last bit, announced and in the middle of the run."""
    timeline = action("onboard", "0", "at_round = 3") + action("restart", "1", "at_round = 5")
    scenario = tiny(ONBOARDING + timeline, "algorithm.participation=0.5")
    expected, found = as_json(run_plain(scenario, Silent())), as_json(inproc(scenario, tmp_path / "run"))
    assert found["metrics"] == expected["metrics"]
    assert [row["goal"] for row in found["metrics"]["onboarding"]] == [0] * 5 + [8] * 5
    assert found["bytes_sent"] > 0
    assert found["bytes_received"] > 0


def test_too_few_agents_end_the_run_by_name(tmp_path: Path) -> None:
    """The only agent leaves before round 1 is through: the code of the quorum, not a hang."""
    scenario = tiny(
        action("kill", "0-3", "at_s = 0"), "federation.join_deadline_s=0.3", "algorithm.rounds=100000"
    )
    found = inproc(scenario, tmp_path / "run")
    assert found.failure is not None
    assert (found.failure.code, found.failure.type) == (3, "quorum")
    assert "agents" in found.failure.message
