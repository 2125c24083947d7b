"""The checks of the suite on made-up evidence: each can fail."""

from typing import Any

import msgspec
import pytest

from scenarios.faults.verdict import SILENT_S, Evidence, judge
from tests.scenarios.test_script import action, scenario_of


def line(round_: int, counted: tuple[int, ...] = (0, 1, 2, 3), **changes: Any) -> dict[str, Any]:
    """One committed round."""
    made: dict[str, Any] = {
        "round": round_,
        "eligible": [0, 1, 2, 3],
        "cohort": [0, 1, 2, 3],
        "contributors": [{"agent": agent} for agent in counted],
        "missing": {},
        "outcome": "folded",
        "params_sha256": f"{round_}" * 8,
    }
    return {**made, **changes}


def evidence(**changes: Any) -> Evidence:
    """A run in which agent 3 lost an update and nobody was excused."""
    made = Evidence(
        name="update-lost",
        scenario=scenario_of(action("fault", args='kind = "drop"')),
        code=0,
        problem="",
        unmet=(),
        rounds=[line(1), line(2)],
        calm=[line(1), line(2)],
        summary={"stale": 2, "duplicates": 1},
        agents={"3": {"connections": 2, "done": {"drop up UPDATE": 1}}},
        problems=(),
        verified="equal",
        news=(1.0, 3.0),
        seconds=4.04,
    )
    return msgspec.structs.replace(made, **changes)


def test_a_run_that_went_well() -> None:
    """Its figures, and nothing found."""
    verdict = judge(evidence())
    assert verdict.findings == () and verdict.same_bits
    assert (verdict.reconnects, verdict.copies_refused, verdict.seconds) == (1, 3, 4.0)
    assert verdict.acted == {"drop up UPDATE": 1} and verdict.excused == {}


def test_an_excuse_with_a_name_is_in_order_and_shown() -> None:
    """From then on the record is another one, and other parameters are right."""
    rounds = [line(1), line(2, (0, 1, 2), missing={"3": "lease"}, params_sha256="other")]
    verdict = judge(evidence(rounds=rounds))
    assert verdict.findings == () and not verdict.same_bits
    assert verdict.excused == {2: {"3": "lease"}}


WRONG = {
    "a run that fails": ({"code": 1, "problem": "no more"}, "exit code 1: no more"),
    "an expectation unmet": ({"code": 1, "unmet": ("excused == 0: 1.0",)}, "expected excused == 0: 1.0"),
    "a proxy that gave up": ({"problems": ("closed",)}, "closed"),
    "a fault that never acts": (
        {"agents": {"3": {"connections": 1, "done": {}}}},
        "no fault acted on agent 3",
    ),
    "a lost update": (
        {"rounds": [line(1, (0, 1, 2)), line(2)]},
        "round 1: asked [0, 1, 2, 3], counted [0, 1, 2]",
    ),
    "one counted twice": ({"rounds": [line(1, (0, 1, 2, 3, 3))]}, "counted [0, 1, 2, 3, 3]"),
    "no reason": ({"rounds": [line(1, (0, 1, 2), missing={"3": ""})]}, "agent 3 is missing without a reason"),
    "the wrong one": ({"rounds": [line(1, (0, 2, 3), missing={"1": "lease"})]}, "nothing disturbed it"),
    "other bits": (
        {"rounds": [line(1), line(2, params_sha256="x")]},
        "round 2 has the record of the run without",
    ),
    "no replay": ({"verified": "different"}, "verify: different"),
    "a silent wait": ({"news": (0.0, SILENT_S + 1.0)}, "nothing was said for 11.0 s"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_found(case: str) -> None:
    """Exactly this, in words."""
    changes, text = WRONG[case]
    findings = judge(evidence(**changes)).findings
    assert len(findings) == 1 and text in findings[0]
