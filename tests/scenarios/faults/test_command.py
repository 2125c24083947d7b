"""The command as a person types it."""

import json
from pathlib import Path

import pytest

from scenarios.command_line import main
from scenarios.faults.command import line_of, most
from scenarios.faults.suite import library
from scenarios.faults.verdict import judge
from tests.scenarios.faults.test_verdict import evidence, line


def test_the_list_says_what_each_proves(capsys: pytest.CaptureFixture[str]) -> None:
    """As a table and as JSON."""
    assert main(["faults", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "socket heartbeats" in shown and "half_open" in shown
    assert main(["faults", "--list", "--json", "partition"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["name"] == "partition" and "cut off" in found["proves"]
    assert len(library()) >= 20


@pytest.mark.parametrize(
    ("flags", "text"),
    [(["--jobs", "0"], "--jobs: is 0"), (["nonsense"], "nonsense: is no fault of the suite")],
)
def test_wrong_flags(flags: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Usage, before anything runs."""
    assert main(["faults", *flags]) == 2
    assert text in capsys.readouterr().err


def test_a_line_says_what_happened() -> None:
    """The figures, what the fault did, excused agents with their reasons, and the verdict."""
    rounds = [line(1), line(2, (0, 1, 2), missing={"3": "lease"})]
    found = line_of(judge(evidence(rounds=rounds, calm=[line(1), line(2, params_sha256="x")])))
    assert found.split(None, 2) == [
        "update-lost",
        "passed",
        "2 rounds, reconnected 1x, refused 3x as a copy, 4 s; drop up UPDATE;"
        " excused: agent 3 in round 2 (lease)",
    ]
    assert "FAILED" in line_of(judge(evidence(verified="different")))
    assert "same bits" in line_of(judge(evidence()))
    assert most({"a": 1, "b": 9, "c": 2, "d": 3, "e": 1}) == [("b", 9), ("d", 3), ("c", 2), ("others", 2)]


@pytest.mark.processes
def test_a_connection_that_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[complaints 12] With real programs: one reconnection, the bits of the run without faults, exit 0."""
    assert main(["faults", "cut-update", "--json", "--run-dir", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "faults:   0% 1 run\n" in err
    (found,) = json.loads(out)["faults"]
    assert found["same_bits"] and found["excused"] == {} and found["reconnects"] == 1
    assert found["acted"] == {"cut up UPDATE": 1} and found["rounds"] == 6
