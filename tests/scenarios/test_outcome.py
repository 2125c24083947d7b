"""The result object: its keys are a contract, its numbers are sums of what was recorded."""

import json
import math

import pytest

from scenarios.outcome import Failure, Outcome, as_json
from tests.scenarios.tiny import ONBOARDING, tiny

EXPECT = """
[[expect]]
metric = "rounds"
comparison = "=="
value = 2
[[expect]]
metric = "onboarding.10.return"
comparison = ">"
value = 5
"""


def line(number: int, *agents: int) -> dict[str, object]:
    """A round's line."""
    return {
        "round": number,
        "outcome": "folded" if agents else "skipped",
        "contributors": [{"agent": agent, "trajectories": 10 * (agent + 1)} for agent in agents],
        "params_sha256": f"hash {number}",
    }


def evaluation(number: int, value: float) -> dict[str, object]:
    """An evaluation's line."""
    return {
        "kind": "evaluation",
        "round": number,
        "n": 2,
        "meta_objective": value,
        "meta_objective_kind": "dp",
        "expected_return": value / 2,
    }


def report(goal: int, number: int, value: float) -> dict[str, object]:
    """An onboarder's report."""
    row = {
        "goal": goal,
        "init": "learned",
        "m_adapt": 10,
        "return": value,
        "success": 1.0,
        "trajectories": 10,
    }
    return {"kind": "onboarding", "round": number, "agent": goal, "rows": [row]}


def full() -> Outcome:
    """A run of two rounds with everything in it."""
    return Outcome(
        scenario=tiny(ONBOARDING + EXPECT),
        runtime="plain",
        rounds=[line(1, 0, 1), line(2, 1)],
        evaluations=[evaluation(0, 1.0), report(8, 1, 9.0), evaluation(2, 3.0), report(8, 2, 4.0)],
        params_sha256="hash 2",
        wall_s=1.25,
    )


def test_the_keys_of_the_object_are_the_contract() -> None:
    """Exactly these keys with these types, in success and in failure."""
    failed = Outcome(scenario=None, runtime="inproc", failure=Failure(2, "usage", "wrong", "mend it"))
    for outcome in (full(), failed):
        found = json.loads(json.dumps(as_json(outcome), allow_nan=False))
        assert set(found) == {
            "success",
            "scenario",
            "runtime",
            "run_dir",
            "rounds",
            "params_sha256",
            "wall_s",
            "bytes_sent",
            "bytes_received",
            "trajectories",
            "metrics",
            "privacy",
            "error",
        }
        assert set(found["metrics"]) == {
            "meta_objective",
            "meta_objective_kind",
            "expected_return",
            "onboarding",
            "expectations",
        }
        assert [type(found[key]) for key in ("success", "rounds", "bytes_sent", "wall_s")] == [
            bool,
            int,
            int,
            float,
        ]
    assert found["error"] == {"type": "usage", "message": "wrong", "hint": "mend it"}
    assert found["success"] is False
    assert found["scenario"] is None


def test_the_numbers_are_those_of_the_last_round() -> None:
    """Trajectories are summed per agent; a goal's latest report counts; the newest evaluation counts."""
    found = as_json(full())
    assert found["trajectories"] == {"0": 10, "1": 40}
    assert found["metrics"]["meta_objective"] == 3.0
    assert found["metrics"]["expected_return"] == 1.5
    assert [row["return"] for row in found["metrics"]["onboarding"]] == [4.0]
    assert found["rounds"] == 2


def test_an_unmet_expectation_is_no_failed_run() -> None:
    """The run succeeded, the exit code says 1, the verdict names what was found."""
    outcome = full()
    assert outcome.exit_code == 1
    assert as_json(outcome)["success"] is True
    assert as_json(outcome)["error"] is None
    assert as_json(outcome)["metrics"]["expectations"] == [
        {"metric": "rounds", "comparison": "==", "value": 2.0, "found": 2.0, "met": True},
        {"metric": "onboarding.10.return", "comparison": ">", "value": 5.0, "found": 4.0, "met": False},
    ]


def test_an_evaluation_of_an_earlier_round_is_not_the_result() -> None:
    """A run that ended early has no meta objective, rather than that of round 0."""
    outcome = Outcome(scenario=tiny(), runtime="plain", rounds=[line(1, 0)], evaluations=[evaluation(0, 1.0)])
    assert as_json(outcome)["metrics"]["meta_objective"] is None
    assert outcome.values()["meta_objective"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("skipped_rounds", 1), ("excused", 0), ("rounds", 2), ("trajectories", 30), ("wall_s", 0)],
)
def test_expectations_can_name_counts(name: str, value: float) -> None:
    """Skipped rounds are committed rounds too."""
    outcome = Outcome(scenario=tiny(), runtime="plain", rounds=[line(1, 0, 1), line(2)])
    found = outcome.values()[name]
    assert found is not None
    assert math.isclose(found, value)
