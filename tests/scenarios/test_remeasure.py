"""Measuring recorded evaluations and onboarding rows again."""

import json
from pathlib import Path

import pytest

from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.plain import run_plain
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.test_script import action
from tests.scenarios.tiny import ONBOARDING, tiny


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A plain run with evaluations on the way, announced and unannounced onboarders."""
    timeline = action("onboard", "0", "at_round = 3")
    scenario = tiny(ONBOARDING + timeline, "federation.evaluate_every=2")
    made = make_folder(scenario, tmp_path / "run", overwrite=False)
    run_plain(scenario, Silent(), made)
    return made


def alter(folder: RunFolder, kind: str, round_: int, change: dict[str, object]) -> None:
    """Changes the first row of a recorded measurement."""
    lines = [json.loads(line) for line in folder.evaluations.read_text().splitlines()]
    line = next(line for line in lines if (line["kind"], line["round"]) == (kind, round_))
    line["rows"][0].update(change)
    folder.evaluations.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_honest_measurements_are_equal(folder: RunFolder) -> None:
    """[complaints 41] Every recorded row is measured again to the last bit."""
    kinds = [(row["kind"], row["round"]) for row in folder.rows(folder.evaluations)]
    assert kinds.count(("onboarding", 2)) == kinds.count(("onboarding", 6)) == 1
    assert [round_ for kind, round_ in kinds if kind == "evaluation"] == [0, 2, 4, 6]
    assert verify(folder.path).outcome == "equal"


@pytest.mark.parametrize(
    ("kind", "round_", "change", "words"),
    [
        ("evaluation", 0, {"meta_objective": 9.9}, "evaluation of agent 0: meta_objective 9.9"),
        ("evaluation", 4, {"success": 1.5}, "evaluation of agent 0: success 1.5"),
        ("onboarding", 2, {"return": -1.0}, "onboarding of goal 0: return -1.0"),
        ("onboarding", 6, {"trajectories": 3}, "onboarding of goal 8: trajectories 3"),
    ],
)
def test_an_altered_figure_is_found(
    folder: RunFolder, kind: str, round_: int, change: dict[str, object], words: str
) -> None:
    """A better number in the file is named with its round, agent and name."""
    alter(folder, kind, round_, change)
    found = verify(folder.path)
    assert (found.outcome, found.round) == ("different", round_)
    assert words in found.differences[0]


def test_measurements_of_a_round_that_was_never_played_are_found(folder: RunFolder) -> None:
    """Rows that belong to no round do not pass unseen."""
    with folder.evaluations.open("a") as file:
        file.write(json.dumps({"kind": "onboarding", "round": 99, "agent": 8, "rows": []}) + "\n")
    found = verify(folder.path)
    assert (found.outcome, found.round) == ("different", 99)
