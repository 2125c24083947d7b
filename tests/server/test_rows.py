"""What agents may report: anything that no measurement gives is refused by name."""

from typing import Any

import msgspec
import pytest

from edge_fed.config import EnvironmentConfig, Onboarding, Overrides, PolicyConfig, Privacy, RunConfig
from edge_fed.federated.task import blueprint, initial_params, make_learner
from protocol.messages import Report
from server.rows import LARGEST, Rules
from tests.server.fleet import config, measured_row

ONBOARDING = Onboarding(goals="5", m_adapt=(0, 40), adapt_episodes=30, eval_episodes=20, scratch=(20,))
TABULAR = msgspec.structs.replace(config(), onboarding=ONBOARDING)
SAMPLED = msgspec.structs.replace(
    TABULAR, environment=EnvironmentConfig(horizon=15), policy=PolicyConfig(name="mlp")
)
GOOD: dict[str, Any] = {
    "agent": 1,
    "kind": "dp",
    "expected_return": 0.5,
    "meta_objective": 0.75,
    "success": 0.25,
    "success_adapted": None,
    "m_adapt": None,
    "trajectories": 40,
    "adapt_trajectories": 0,
    "eval_trajectories": 40,
    "env_steps": 640,
}
HOSTILE = [float("nan"), float("inf"), -float("inf"), 10 * LARGEST, -1e308]


def rules(settings: RunConfig = TABULAR) -> Rules:
    """Of a run."""
    return Rules(settings, blueprint(settings))


def evaluated(row: dict[str, Any], settings: RunConfig = TABULAR) -> str:
    """What is wrong with agent 1's evaluation."""
    return rules(settings).evaluation(1, Report(kind="evaluation", round=0, rows=(row,), trajectories=1))


def onboarded(*rows: dict[str, Any], settings: RunConfig = TABULAR, spent: int = 5) -> str:
    """What is wrong with the report of goal 5."""
    return rules(settings).onboarding(5, Report(kind="onboarding", round=0, rows=rows, trajectories=spent))


@pytest.mark.parametrize("settings", [TABULAR, SAMPLED], ids=["dp", "mc"])
def test_what_is_measured_is_taken(settings: RunConfig) -> None:
    """The rows of real learners, tabular and sampled, with every budget that they have."""
    params, checked = initial_params(settings), rules(settings)
    row = make_learner(settings, 1, Overrides()).evaluate(params, 0, settings.onboarding)
    assert evaluated(row, settings) == ""
    found = make_learner(settings, 5, Overrides()).onboard(params, 0, settings.onboarding, lambda _done: None)
    assert {row["init"] for row in found.rows} == {"learned", "careful", "random", "scratch"}
    spent = found.adapt_trajectories + found.eval_trajectories
    report = Report(kind="onboarding", round=0, rows=tuple(found.rows), trajectories=spent)
    assert checked.onboarding(5, report) == ""


@pytest.mark.parametrize("name", ["expected_return", "meta_objective", "success", "success_adapted"])
@pytest.mark.parametrize("value", HOSTILE)
def test_an_evaluation_is_finite_in_every_value(name: str, value: float) -> None:
    """Success included; and far from where a mean overflows."""
    assert evaluated({**GOOD, name: value}) != ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "mc"}, "measured by mc, in this run agents measure by dp"),
        ({"kind": "\x1b[2J"}, "Invalid enum value"),
        ({"agent": 2}, "a row of agent 2"),
        ({"m_adapt": 30}, "m_adapt is 30, the run says None"),
        ({"trajectories": -1}, ">= 0"),
        ({"trajectories": 41}, "at most 40 are asked for"),
        ({"trajectories": 2**63 - 1}, "<= "),
        ({"adapt_trajectories": 41}, "at most 40 are asked for"),
        ({"env_steps": 641}, "641 steps of the environment in 40 trajectories"),
        ({"env_steps": -640}, ">= 0"),
        ({"success": 1.5}, "<= 1"),
        ({"success": "much"}, "Expected `float | null`"),
        ({"x" * 100: "y"}, "unknown field"),
        ({"trajectories": True}, "Expected `int`"),
    ],
)
def test_an_evaluation_is_what_was_asked_for(change: dict[str, Any], words: str) -> None:
    """Keys, types, kind, budgets and bounds."""
    assert evaluated(GOOD) == ""
    assert words in evaluated({**GOOD, **change})


def test_a_sampled_evaluation_says_how_it_adapted() -> None:
    """Its budget is that of the run."""
    row = {**GOOD, "kind": "mc", "m_adapt": 30, "trajectories": 70, "adapt_trajectories": 30}
    assert evaluated(row, SAMPLED) == ""
    assert "m_adapt is 31, the run says 30" in evaluated({**row, "m_adapt": 31}, SAMPLED)
    assert "measured by dp" in evaluated({**row, "kind": "dp"}, SAMPLED)
    assert "71 trajectories: at most 70" in evaluated({**row, "trajectories": 71}, SAMPLED)


def test_an_evaluation_has_one_row() -> None:
    """Neither none nor two, and no other kind."""
    for rows in ((), (GOOD, GOOD)):
        report = Report(kind="evaluation", round=0, rows=rows, trajectories=1)
        assert rules().evaluation(1, report) == "an evaluation has exactly one row"


@pytest.mark.parametrize("value", HOSTILE)
def test_an_onboarders_returns_are_finite(value: float) -> None:
    """And its success."""
    assert onboarded(measured_row(5, value)).startswith("row 0: return is ")
    assert onboarded(measured_row(5, success=value)) != ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"goal": 6}, "row 0: it is of goal 6"),
        ({"init": "best"}, "Invalid enum value 'best'"),
        ({"init": 5}, "Expected `str`"),
        ({"m_adapt": 41}, "m_adapt 41 is no budget of this run for learned"),
        ({"m_adapt": "x"}, "Expected `int`"),
        ({"init": "random", "m_adapt": 40}, "no budget of this run for random"),
        ({"init": "scratch", "m_adapt": 40}, "no budget of this run for scratch"),
        ({"init": "careful", "factor": 1.0}, "m_adapt 0 is no budget of this run for careful"),
        ({"init": "careful", "m_adapt": 40}, "factor None of careful"),
        ({"init": "careful", "m_adapt": 40, "factor": 1.5}, "<= 1"),
        ({"factor": 0.5}, "factor 0.5 of learned: careful rows have one, others none"),
        ({"return": "much"}, "Expected `float`"),
        ({"success": [1]}, "Expected `float | null`"),
        ({"trajectories": -1}, ">= 0"),
        ({"trajectories": 1}, "1 trajectories: at most 0 are asked for"),
        ({"m_adapt": 40, "trajectories": 41}, "41 trajectories: at most 40 are asked for"),
        ({"lie": 1}, "unknown field `lie`"),
    ],
)
def test_a_row_of_an_onboarder_is_one_that_it_measures(change: dict[str, Any], words: str) -> None:
    """Keys, types, initialization, budgets and bounds."""
    assert onboarded(measured_row(5)) == ""
    assert words in onboarded({**measured_row(5), **change})


def test_careful_rows_say_how_far_they_went() -> None:
    """The factor of the step, 0 if none was taken."""
    for factor in (0.0, 0.25, 1.0):
        row = measured_row(5, init="careful", m_adapt=40, trajectories=40, factor=factor)
        assert onboarded(row) == ""


def test_rows_are_complete_and_each_there_once() -> None:
    """A row without its goal, none at all, and two of a kind are refused."""
    assert "missing required field" in onboarded({"goal": 5})
    assert onboarded() == "it has no rows"
    again = onboarded(measured_row(5), measured_row(5, 2.0))
    assert again == "row 1: a second one of learned with m_adapt 0"


def test_a_report_spends_no_more_than_it_was_asked_for() -> None:
    """Every budget, each tried before it is taken, and every row scored."""
    most = 3 * 40 + 20 + 5 * 20
    assert onboarded(measured_row(5), spent=most) == ""
    assert f"at most {most} are asked for" in onboarded(measured_row(5), spent=2**63 - 1)


def test_in_a_private_run_rows_may_stay_at_home() -> None:
    """Then the report says that it was measured, and nothing else."""
    private = Privacy(clip_norm=1.0, noise_multiplier=1.0)
    assert onboarded(settings=msgspec.structs.replace(TABULAR, privacy=private)) == ""


def test_a_run_without_budgets_has_no_rows() -> None:
    """Nothing is to be measured, so nothing is missing."""
    nothing = Onboarding(goals="5", m_adapt=(), scratch=(), random=False)
    assert onboarded(settings=msgspec.structs.replace(TABULAR, onboarding=nothing), spent=0) == ""
