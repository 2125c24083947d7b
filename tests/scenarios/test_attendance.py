"""Who is there in which round: each action of membership, worked by hand."""

import pytest

from scenarios.attendance import absent_at_start, attendance, in_seconds
from scenarios.timeline import Scenario
from tests.scenarios.test_script import action, scenario_of

ALL = (0, 1, 2, 3)
WITHOUT = (0, 1, 2)


def eligible(scenario: Scenario) -> list[tuple[int, ...]]:
    """Eligible agents of rounds 1..10."""
    return [here.eligible for here in attendance(scenario)]


def absent(scenario: Scenario) -> dict[int, list[int]]:
    """Round -> eligible agents whose update never comes."""
    return {
        here.round: sorted(set(here.eligible) - here.present)
        for here in attendance(scenario)
        if here.present is not None
    }


def test_without_a_timeline_everybody_is_there() -> None:
    """Ten rounds, four agents each."""
    assert eligible(scenario_of()) == [ALL] * 10
    assert absent(scenario_of()) == {}


CASES = [
    (action("join"), [WITHOUT] * 4 + [ALL] * 6, {}),
    (action("join", when="at_round = 1"), [ALL] * 10, {}),
    (action("kill"), [ALL] * 4 + [WITHOUT] * 6, {}),
    (action("leave"), [ALL] * 4 + [WITHOUT] * 6, {}),
    (action("restart"), [ALL] * 10, {}),
    (action("restart", args="down_rounds = 2"), [ALL] * 4 + [WITHOUT] * 2 + [ALL] * 4, {}),
    (action("kill", args='point = "assigned"'), [ALL] * 5 + [WITHOUT] * 5, {5: [3]}),
    (action("kill", args='point = "trained"'), [ALL] * 5 + [WITHOUT] * 5, {5: [3]}),
    (action("kill", args='point = "sent"'), [ALL] * 5 + [WITHOUT] * 5, {}),
    (action("restart", args='point = "trained"'), [ALL] * 10, {5: [3]}),
    (
        action("restart", args='point = "trained", down_rounds = 2'),
        [ALL] * 5 + [WITHOUT] * 2 + [ALL] * 3,
        {5: [3]},
    ),
    (
        action("kill") + action("join", when="at_round = 8"),
        [ALL] * 4 + [WITHOUT] * 3 + [ALL] * 3,
        {},
    ),
    (action("kill", when="at_round = 10", args='point = "sent"'), [ALL] * 10, {}),
    (action("kill", "server") + action("slow", args="compute_delay_s = 1"), [ALL] * 10, {}),
]


@pytest.mark.parametrize(("timeline", "who", "missing"), CASES)
def test_each_action_changes_the_rounds_that_it_names(
    timeline: str, who: list[tuple[int, ...]], missing: dict[int, list[int]]
) -> None:
    """Join r: first eligible in r. kill r: counts in r-1, not in r. A point kills within round r."""
    assert eligible(scenario_of(timeline)) == who
    assert absent(scenario_of(timeline)) == missing


def test_late_joiners_are_absent_at_the_start_and_only_they() -> None:
    """An agent that leaves and returns was there."""
    scenario = scenario_of(
        action("join", "2-3") + action("leave", "1", "at_round = 2") + action("join", "1", "at_round = 9")
    )
    assert absent_at_start(scenario) == (2, 3)


def test_actions_in_seconds_are_told_apart() -> None:
    """Their rounds cannot be known, so that the plain loop must refuse them."""
    scenario = scenario_of(
        action("slow", when="at_s = 1", args="compute_delay_s = 1") + action("kill", when="at_s = 2")
    )
    assert in_seconds(scenario) == [1]
