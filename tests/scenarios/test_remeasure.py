"""Measuring recorded evaluations and onboarding rows again."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.plain import run_plain
from scenarios.remeasure import same
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.doctored import edit_lines
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


def lines_of(folder: RunFolder, change: Callable[[list[Any]], Any]) -> tuple[str, int | None, str]:
    """What `verify` says of the run with other lines in its journal of evaluations."""
    edit_lines(folder.evaluations, change)
    found = verify(folder.path)
    return found.outcome, found.round, " ".join(found.differences)


@pytest.mark.parametrize(
    "change",
    [
        {"meta_objective": 0.99},
        {"success": 1.0},
        {"n": 3},
        {"worst_agent": 2},
        {"fraction_hurt": 0.5},
        {"trajectories": 1},
        {"meta_objective_kind": "mc"},
        {"lie": 1},
    ],
)
def test_an_average_that_does_not_follow_from_its_rows_is_found(
    folder: RunFolder, change: dict[str, object]
) -> None:
    """The rows are true, what stands above them is not."""
    name = next(iter(change))
    outcome, round_, words = lines_of(folder, lambda lines: evaluation_in(lines, 4).update(change))
    assert (outcome, round_) == ("different", 4)
    assert f"evaluation of round 4: {name} " in words


def evaluation_in(lines: list[Any], round_: int) -> dict[str, Any]:
    """The line of one evaluation."""
    return next(line for line in lines if (line["kind"], line["round"]) == ("evaluation", round_))


@pytest.mark.parametrize("round_", [0, 2, 4])
def test_an_evaluation_that_the_run_went_on_behind_is_missed(folder: RunFolder, round_: int) -> None:
    """Rounds 0 and every second one were evaluated before the next one opened."""
    outcome, at, words = lines_of(
        folder, lambda lines: [line for line in lines if line is not evaluation_in(lines, round_)]
    )
    assert (outcome, at) == ("different", round_)
    assert words == f"no evaluation of round {round_} is recorded, and the run went on behind it"


def test_the_last_evaluation_of_a_plain_run_may_be_cut_off(folder: RunFolder) -> None:
    """A killed run ends like this; only a summary says that one ended after its last evaluation."""
    found = lines_of(folder, lambda lines: [line for line in lines if line["round"] < 6])
    assert found == ("equal", None, "")


def test_an_evaluation_of_a_round_that_has_none_is_found(folder: RunFolder) -> None:
    """The settings ask for rounds 0, 2, 4 and 6."""

    def more(lines: list[Any]) -> None:
        lines.append({**evaluation_in(lines, 4), "round": 3})

    outcome, round_, words = lines_of(folder, more)
    assert (outcome, round_) == ("different", 3)
    assert "an evaluation of round 3 was recorded, the run's settings have none" in words


def test_a_second_evaluation_of_a_round_is_found(folder: RunFolder) -> None:
    """Though each is true."""
    outcome, round_, words = lines_of(folder, lambda lines: lines.append(evaluation_in(lines, 4)))
    assert (outcome, round_, words) == ("different", 4, "round 4 has 2 evaluations")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: line["rows"].append(line["rows"][0]), "not each once and ascending"),
        (lambda line: line["rows"].reverse(), "not each once and ascending"),
        (lambda line: line.update(missing={"0": "lease"}), "agents [0] were recorded with a row and as"),
        (lambda line: line.update(missing={"77": "lease"}), "agents [77] were asked, but are in no"),
        (lambda line: line.update(rows=line["rows"][1:], n=3), "agents [0] were there and are neither"),
        (lambda line: line.update(rows=[], n=0), "agents [0, 1, 2, 3] were there and are neither"),
        (lambda line: line.update(overrides={"0": {}}), "not of the same agents: [1, 2, 3]"),
        (lambda line: line["rows"][0].update(agent="x"), "a row of agent 'x' was recorded"),
    ],
)
def test_rows_of_others_than_were_asked_are_found(
    folder: RunFolder, change: Callable[[Any], None], words: str
) -> None:
    """Before round 1 a run that waits for all its agents asks all of them."""
    outcome, round_, found = lines_of(folder, lambda lines: change(evaluation_in(lines, 0)))
    assert (outcome, round_) == ("different", 0)
    assert words in found


def test_a_key_that_nobody_measures_is_found(folder: RunFolder) -> None:
    """Rows have the names that are measured, and no others."""
    alter(folder, "evaluation", 2, {"lie": 1})
    found = verify(folder.path)
    assert (found.outcome, found.round) == ("different", 2)
    assert found.differences == ("evaluation of agent 0: lie 1 was recorded, nothing is measured",)


@pytest.mark.parametrize(
    ("recorded", "again", "equal"),
    [
        (None, math.nan, True),
        (None, math.inf, True),
        (math.nan, math.nan, True),
        (-math.inf, math.inf, False),
        (0.0, math.nan, False),
        (None, 0.0, False),
        ([1.0, None], (1.0, math.nan), True),
        ([1.0], (1.0, 2.0), False),
        ({"a": None}, {"a": math.inf}, True),
        ({"a": 1}, {}, False),
    ],
)
def test_values_are_the_same_as_json_can_write_them(recorded: object, again: object, equal: bool) -> None:
    """A server writes null for what is not finite, the plain loop writes its name."""
    assert same(recorded, again) is equal
