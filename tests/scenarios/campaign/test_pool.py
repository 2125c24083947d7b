"""Each sequence has a process of its own: one that hangs or dies is a finding, no end of the campaign."""

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from scenarios.campaign import pool
from scenarios.campaign.verdict import Verdict

pytestmark = pytest.mark.processes

HANGS = "input()"
DIES = "import sys; sys.exit('a bug')"


def start(code: str, monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Lets every sequence be a small program; returns their processes."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(seed: int, _folder: Path) -> pool.Running:
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stderr=pipe)
        started.append(process)
        return pool.Running(seed, process, time.monotonic())

    monkeypatch.setattr(pool, "_start", begin)
    return started


def test_a_sequence_that_hangs_is_ended_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit it is told to stop, and nothing of it is left."""
    started = start(HANGS, monkeypatch)
    (verdict,) = pool.run_all([7], tmp_path, 1, lambda _fraction, _text: None, limit_s=0.2)
    assert [finding.text for finding in verdict.findings] == ["did not end within 0.2 s"]
    assert started[0].returncode is not None
    assert started[0].stdin is not None
    started[0].stdin.close()


def test_a_sequence_that_dies_is_found_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No verdict lies beside its folder; the others are judged by theirs, in the order of their seeds."""
    started = start(DIES, monkeypatch)
    (tmp_path / "seed-3").mkdir()
    kept = Verdict(seed=3, end="finished", counts={"rounds": 4})
    (tmp_path / "seed-3" / "verdict.json").write_bytes(msgspec.json.encode(kept))
    told: list[str] = []
    verdicts = pool.run_all([8, 3], tmp_path, 2, lambda _fraction, text: told.append(text))
    assert [(verdict.seed, verdict.end) for verdict in verdicts] == [(3, "finished"), (8, "no verdict")]
    assert verdicts[1].findings[0].text == "its process ended with code 1: a bug"
    assert any("(1 with findings)" in text for text in told)
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
