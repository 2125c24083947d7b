"""What a campaign says in the end: counts, findings with the command that replays them, the slowest."""

from pathlib import Path

import pytest

from scenarios.campaign.checks import Finding
from scenarios.campaign.evidence import read
from scenarios.campaign.verdict import Verdict, as_json, counts_of, in_all


@pytest.mark.processes
def test_counts_of_a_sequence(original: Path) -> None:
    """Actions as drawn, and what followed from them."""
    found = counts_of(read(original))
    assert found["restart agent trained"] == found["kill server array"] == found["pause agent"] == 1
    assert found["server processes"] == found["programs ended by SIGKILL"] == 2
    assert found["rounds"] == 6
    assert found["updates counted"] == 23
    assert found["excused: lost"] == 1
    assert found["compared with the loop with the timeline"] == 1


def test_a_campaign_sums_up() -> None:
    """A seed with a finding says how to run it again; exit code and ``success`` follow from the findings."""
    bad = Verdict(seed=5, seconds=2.0, end="finished", counts={"rounds": 4}, findings=(Finding("a", "b"),))
    good = Verdict(seed=6, seconds=9.0, end="finished", counts={"rounds": 5, "kill agent": 1})
    found = as_json([bad, good], 11.0)
    assert found["success"] is False
    assert found["counts"] == in_all([bad, good]) == {"kill agent": 1, "rounds": 9}
    assert found["findings"][0]["replay"] == "python -m scenarios campaign --seed 5 --keep runs/campaign"
    assert found["slowest"][0] == {"seed": 6, "seconds": 9.0}
    assert as_json([good], 9.0)["success"] is True
