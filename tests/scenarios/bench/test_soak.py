"""A short soak of real programs; the long one is in ``docs/soak.md``."""

import json
from pathlib import Path

import pytest

from scenarios.bench import soak
from scenarios.bench.__main__ import main

pytestmark = pytest.mark.processes
HIDDEN = (256,)  # d = 2,824: 23 kB
VECTOR_BYTES = 8 * (2 * 256 + 256 + 256 * 8 + 8)


def test_two_hundred_rounds_keep_no_vector_per_round() -> None:
    """[complaints 46] [wire 8, 39] Half a vector per round would show; descriptors, threads, tasks stay.

    The bound is generous, as the programs are still warming up and the machine is noisy.
    """
    case = soak.Case(meaning="short", agents=2, hidden=HIDDEN, rounds=200, every=4, bound=VECTOR_BYTES / 2)
    found = soak.soak(case, seconds=0.0, seed=0)
    assert (found["rounds"], found["processes"]) == (200, 3)
    assert [trend.program for trend in found["trends"]] == ["server", "agent-0", "agent-1"]
    assert {trend.program: trend.faults for trend in found["trends"] if trend.faults} == {}


def test_the_command_kills_and_starts_again_and_keeps_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``bench soak``: a server and an agent die, the run goes on; the file has the verdicts."""
    monkeypatch.setattr(soak, "AGENT_EVERY_S", 0.7)
    tiny = soak.Case(
        meaning="tiny", agents=2, hidden=(4,), rounds=10**6, every=1, bound=1e9, delay_s=0.002, churn=True
    )
    monkeypatch.setitem(soak.CASES, "churn", tiny)
    file = tmp_path / "soak.json"
    code = main(["soak", "--case", "churn", "--minutes", "0.02", "--output", str(file)])
    kept = json.loads(file.read_bytes())
    found = kept["cases"]["churn"]
    assert (code == 0) == kept["met"]
    assert found["servers_killed"] == 1
    assert found["agents_killed"] + found["agents_stopped"] >= 1
    assert found["rounds"] > 0
    assert "**churn**: tiny; 2 agents" in capsys.readouterr().out
