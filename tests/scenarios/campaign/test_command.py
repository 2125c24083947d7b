"""``python -m scenarios campaign``: ten sequences with real programs, and flags that are wrong."""

import json
from pathlib import Path

import pytest

from scenarios.command_line import main

SEEDS = "39,52,58,83,198,261,285,302,309,315"  # quick ones that together draw nearly everything


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_ten_sequences_leave_nothing_to_find(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills, restarts, pauses, goodbyes, cuts: every checker is content."""
    code = main(["campaign", "--seeds", SEEDS, "--jobs", "3", "--keep", str(tmp_path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["findings"] == []
    assert code == 0
    assert found["sequences"] == 10
    assert found["counts"]["server processes"] > 10
    assert found["counts"]["programs ended by SIGKILL"] > 5
    assert (tmp_path / "seed-39" / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--sequences", "0"], "--sequences: is 0"),
        (["--jobs", "0"], "--jobs: is 0"),
        (["--seeds", "a"], "--seeds"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_wrong_flags_are_refused(flags: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything runs."""
    assert main(["campaign", *flags]) == 2
    assert text in capsys.readouterr().err
