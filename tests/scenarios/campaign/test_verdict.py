"""What a campaign says in the end: counts, findings with the command that replays them, the slowest."""

import json
import re
from pathlib import Path

import pytest

from scenarios.actions import ACTIONS
from scenarios.campaign.checks import Finding
from scenarios.campaign.evidence import read
from scenarios.campaign.verdict import MEANINGS, Verdict, as_json, counts_of, in_all
from scenarios.command_line import main

COMMITTED = Path(__file__).parents[3] / "docs" / "campaign.json"


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


def meaning_of(count: str) -> list[str]:
    """The entries of `MEANINGS` that a count falls under."""
    shapes = {
        "<action> agent|server [how]": f"({'|'.join(ACTIONS)}) (agent|server)( .+)?",
        "all programs ended by TERM|KILL": "all programs ended by (TERM|KILL)",
        "excused: <reason>": "excused: .+",
        "compared with <what>": "compared with the (run without faults|loop with the timeline|record)",
    }
    assert shapes.keys() <= MEANINGS.keys()
    return [name for name in MEANINGS if re.fullmatch(shapes.get(name, re.escape(name)), count)]


def test_help_explains_every_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Each count of the committed campaign falls under one explanation, and --help prints them all."""
    counts = json.loads(COMMITTED.read_text())["counts"]
    assert {count: len(meaning_of(count)) for count in counts} == dict.fromkeys(counts, 1)
    with pytest.raises(SystemExit):
        main(["campaign", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"{name}: {' '.join(meaning.split()[:3])}" in shown for name, meaning in MEANINGS.items())
    assert "exit codes: 0 ok" in shown
