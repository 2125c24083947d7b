"""The scenarios of the suite, and how they are run."""

from pathlib import Path

import pytest

from edge_fed.errors import ConfigError
from scenarios.faults.suite import Ended, chosen, gather, library, without_faults
from scenarios.proxy.rules import KINDS
from scenarios.script import load_scenario, runtime_faults


def test_every_scenario_is_right_and_says_what_it_proves() -> None:
    """Each has a sentence, expects how many are excused, and runs as processes only."""
    for name, path in library().items():
        scenario = load_scenario(str(path))
        assert scenario.name == name and len(scenario.description) > 40
        assert {expect.metric for expect in scenario.expect} == {"rounds", "excused"}
        assert runtime_faults(scenario, "processes") == [] != runtime_faults(scenario, "plain")
        assert runtime_faults(without_faults(scenario), "plain") == []


def test_every_kind_is_there_in_each_direction_that_matters() -> None:
    """A kind that nobody tests would not be in the table."""
    rules = [
        (action.args["kind"], action.args.get("direction", "both"))
        for path in library().values()
        for action in load_scenario(str(path)).timeline
        if action.do == "fault"
    ]
    assert {kind for kind, _ in rules} == set(KINDS)
    for kind in ("drop", "cut", "freeze", "half_open"):
        assert {("up"), ("down")} <= {direction for one, direction in rules if one == kind}


def test_names_are_chosen_or_refused() -> None:
    """All by default, each once, an unknown one with the nearest."""
    assert chosen([]) == list(library())
    assert chosen(["partition", "partition"]) == ["partition"]
    with pytest.raises(ConfigError, match=r"partitoin: is no fault of the suite.*'partition'"):
        chosen(["partitoin"])


def test_a_run_that_left_nothing_is_evidence_too(tmp_path: Path) -> None:
    """It could not start: the reason is the problem."""
    ended = Ended(2, {"error": {"message": "no such thing"}}, (), 0.5)
    found = gather("partition", tmp_path / "none", ended)
    assert (found.code, found.problem, found.rounds) == (2, "no such thing", [])
    assert found.verified == "no run to verify" and len(found.calm) == 6
