"""All four words and a slow link at once: the same records and bits in every runtime, and verify agrees."""

import json
from pathlib import Path

import pytest

from edge_fed.profiles import LOST, available, lost
from scenarios.plain import run_plain
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.integration.test_equality import networked
from tests.scenarios.test_script import action
from tests.scenarios.tiny import tiny

RECORDED = ("eligible", "cohort", "contributors", "missing", "outcome", "params_sha256", "quarantined")
WORDS = """\
availability = 0.6
connectivity = 0.7
completeness = 0.4
responsiveness = { median_s = 0.002, spread = 0.5 }
profile = "wifi"
link = { latency_s = 0.001, jitter_s = 0.002 }
"""


def scenario_of(*timeline: str, seed: int = 32) -> Scenario:
    """Agents 0 to 3 with all four words, ten rounds, an agent state that must follow what counted."""
    sets = ("algorithm.rounds=10", "algorithm.local_steps=5", "algorithm.baseline=value", f"seed={seed}")
    return tiny(WORDS + "".join(timeline), *sets)


def records(outcome) -> list[dict]:
    """What decides each round, as every runtime must record it."""
    return [json.loads(json.dumps({name: line[name] for name in RECORDED})) for line in outcome.rounds]


def test_the_scenario_has_everything():
    """Absent agents, lost updates, a round for which nobody is available, and local steps left out."""
    scenario = scenario_of()
    found = run_plain(scenario, Silent())
    asked = [available(scenario, k, range(4)) for k in range(1, 11)]
    assert [tuple(line["cohort"]) for line in found.rounds] == asked
    assert () in asked and (0, 1, 2, 3) in asked, "another seed is needed"
    assert {"folded", "skipped"} == {line["outcome"] for line in found.rounds}
    assert [set(map(int, line["missing"])) for line in found.rounds] == [
        set(lost(scenario, k, cohort)) for k, cohort in enumerate(asked, start=1)
    ]
    assert {why for line in found.rounds for why in line["missing"].values()} == {LOST}
    counts = {part["trajectories"] for line in found.rounds for part in line["contributors"]}
    assert len(counts) > 2, "some agents did fewer local steps than others"


def test_inproc_equals_plain(tmp_path: Path) -> None:
    """Tasks over inproc: record for record, and verify replays them."""
    scenario = scenario_of()
    expected, (found, folder) = run_plain(scenario, Silent()), networked(scenario, "inproc", tmp_path / "run")
    assert found.failure is None
    assert records(found) == records(expected)
    assert verify(tmp_path / "run").outcome == "equal"
    text = (folder.logs / "inproc.log").read_text()
    assert LOST in text, "the log says why an update does not count"


@pytest.mark.processes
def test_programs_equal_plain_even_after_a_killed_server(tmp_path: Path) -> None:
    """Separate programs, the server killed between two updates: the draws are the same after the restart."""
    scenario = scenario_of(action("kill", "server", "at_round = 4", 'point = "theta"'))
    found, _ = networked(scenario, "ipc", tmp_path / "run")
    assert found.failure is None
    assert records(found) == records(run_plain(scenario, Silent()))
    assert verify(tmp_path / "run").outcome == "equal"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line.update(cohort=line["eligible"]), "cohort"),
        (
            lambda line: line["missing"].update({str(line["contributors"][0]["agent"]): LOST}),
            "as lost on their",
        ),
    ],
    ids=["asked although it was not available", "lost although it arrived"],
)
def test_verify_draws_again(change, says, tmp_path: Path) -> None:
    """A record that says other agents were asked, or that an update was lost, is different."""
    scenario = scenario_of()
    _, folder = networked(scenario, "inproc", tmp_path / "run")
    lines = list(folder.rows(folder.metrics))
    altered = next(
        line for line in lines if line["contributors"] and len(line["cohort"]) < len(line["eligible"])
    )
    change(altered)
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = verify(tmp_path / "run")
    assert (found.outcome, found.round) == ("different", altered["round"])
    assert any(says in difference for difference in found.differences)
