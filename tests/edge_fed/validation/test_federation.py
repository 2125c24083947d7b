"""What is said of a run's onboarders although nothing is wrong with them."""

from typing import Any

import pytest

from edge_fed.validation.federation import onboarding_lines
from tests.scenarios.tiny import tiny


def lines(trained: Any, wanted: Any, num_train: int, num_held_out: int) -> list[str]:
    """For a family of so many goals."""
    scenario = tiny("", f"agents.0.goals={trained}", f"onboarding.goals={wanted}", "onboarding.m_adapt=[0]")
    return onboarding_lines(scenario, num_train, num_held_out)


def test_newcomers_with_goals_of_training_are_named_when_no_held_out_goal_is_used() -> None:
    """Nothing is wrong, but what is measured is not what held-out goals are there for."""
    (line,) = lines("0-3", "4-5", 6, 2)
    assert "no agent trains (4, 5), and none that is held out (6 to 7)" in line


@pytest.mark.parametrize(
    ("wanted", "num_train", "num_held_out"),
    [("6-7", 6, 2), ("4-6", 6, 2), ("4-5", 6, 0), ("0-1", 6, 2), ("[]", 6, 2)],
    ids=["held out", "both kinds", "there is none", "their own agents train them", "no newcomers"],
)
def test_what_is_probably_meant_is_not_spoken_of(wanted: str, num_train: int, num_held_out: int) -> None:
    """One held-out goal is enough, and a family without any has nothing to be reminded of."""
    assert lines("0-3", wanted, num_train, num_held_out) == []
