"""Expectations: every named metric is found, compared and reported."""

import pytest

from edge_fed.errors import ConfigError
from scenarios.expectations import COMPARISONS, judge
from scenarios.timeline import Expect
from tests.scenarios.tiny import tiny

ROWS = [
    {"goal": 6, "init": "learned", "m_adapt": 100, "return": 1.0, "success": 0.5, "trajectories": 100},
    {"goal": 7, "init": "learned", "m_adapt": 100, "return": 2.0, "success": 0.7, "trajectories": 100},
    {"goal": 6, "init": "learned", "m_adapt": 0, "return": 9.0, "success": 0.9, "trajectories": 0},
    {"goal": 6, "init": "scratch", "m_adapt": 100, "return": 0.2, "success": None, "trajectories": 100},
    {"goal": 6, "init": "random", "m_adapt": 0, "return": 0.1, "success": 0.2, "trajectories": 0},
]


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        ("meta_objective", 0.79),
        ("rounds", 80.0),
        ("onboarding.100.return", 1.5),
        ("onboarding.100.success", 0.6),
        ("onboarding.0.return", 9.0),
        ("scratch.100.return", 0.2),
        ("scratch.100.success", None),
        ("random.success", 0.2),
        ("onboarding.20.success", None),
        ("expected_return", None),
    ],
)
def test_a_metric_is_the_mean_over_the_goals_that_measured_it(metric: str, found: float | None) -> None:
    """Rows are chosen by initialization and budget; what nobody measured is unmet, not zero."""
    values = {"meta_objective": 0.79, "rounds": 80.0, "expected_return": None}
    verdict = judge([Expect(metric=metric, comparison="<=", value=1e9)], values, ROWS)[0]
    assert verdict.found == (pytest.approx(found) if found is not None else None)
    assert verdict.met == (found is not None)


@pytest.mark.parametrize(
    ("comparison", "met"),
    [
        ("<", [True, False, False]),
        ("<=", [True, True, False]),
        ("==", [False, True, False]),
        (">=", [False, True, True]),
        (">", [False, False, True]),
    ],
)
def test_each_comparison_reads_found_then_value(comparison: str, met: list[bool]) -> None:
    """``rounds < 5`` means that fewer than five rounds were found."""
    assert [COMPARISONS[comparison](found, 5.0) for found in (4.0, 5.0, 6.0)] == met


def test_honest_agents_are_a_metric_only_where_others_attack() -> None:
    """An expectation that no run of the scenario could meet is refused before it."""
    expect = "[[expect]]\nmetric = 'honest_meta_objective'\ncomparison = '>='\nvalue = 0.1\n"
    with pytest.raises(ConfigError, match="nobody attacks in this scenario"):
        tiny(expect)
    tiny(expect, 'agents=[{goals="0-2"},{goals="3",attack={kind="noise"}}]')
