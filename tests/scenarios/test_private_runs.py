"""Whole runs with private noise: what they record, what they state, what leaves no agent."""

import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent import carriage, learner
from scenarios.command_line import main
from scenarios.plain import run_plain
from scenarios.script import runtime_faults
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.test_inproc import inproc
from tests.scenarios.test_script import action
from tests.scenarios.tiny import HEAD, ONBOARDING, tiny

PRIVACY = "\n[privacy]\nclip_norm = 0.5\nnoise_multiplier = 2\n"
CHURN = action("restart", "0", "at_round = 2", 'point = "sent"') + action("kill", "1", "at_round = 4")


@pytest.fixture
def accountant() -> Any:
    """The library, which is an extra."""
    return pytest.importorskip("dp_accounting")


def spied(monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], list[bytes]]:
    """Every secret that an agent reads, and every frame that an agent sends."""
    secrets: list[bytes] = []
    frames: list[bytes] = []
    real_secret, real_encode = learner.noise_secret, carriage.encode

    def secret(folder: Path) -> bytes:
        secrets.append(real_secret(folder))
        return secrets[-1]

    def encode(*arguments: Any) -> Any:
        found = real_encode(*arguments)
        frames.extend(bytes(frame) for frame in found)
        return found

    monkeypatch.setattr(learner, "noise_secret", secret)
    monkeypatch.setattr(carriage, "encode", encode)
    return secrets, frames


def shapes(secret: bytes) -> Sequence[bytes]:
    """The ways in which a secret could stand in a file."""
    return (secret, secret.hex().encode(), base64.b64encode(secret), repr(secret).encode()[2:-1])


def test_the_secret_is_in_no_frame_log_or_file_of_the_run(
    accountant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[complaints 65] Through a restart, a kill and an onboarder; and a restarted agent has the same one."""
    secrets, frames = spied(monkeypatch)
    scenario = tiny(CHURN + ONBOARDING + PRIVACY, "algorithm.baseline=value")
    outcome = inproc(scenario, tmp_path / "run")
    assert outcome.failure is None and len(outcome.rounds) == 6
    assert len(set(secrets)) == 4 and len(secrets) > 15
    files = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 15 and len(frames) > 50
    for secret in set(secrets):
        for shape in shapes(secret):
            assert not any(shape in content for content in (*files, *frames))


def test_a_private_run_is_stated_and_not_replayable(
    accountant: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every record says that noise was on; verify names the reason and has its exit code."""
    outcome = inproc(tiny(ONBOARDING + PRIVACY), tmp_path / "run")
    assert all(line["private_noise"] and not line["metrics"] for line in outcome.rounds)
    assert outcome.evaluated == {} and len(outcome.onboarding) == 5
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["privacy"] == outcome.privacy
    assert outcome.privacy is not None
    assert outcome.privacy["updates"] == 6 and 12.0 < outcome.privacy["epsilon"] < 14.0
    assert main(["verify", str(tmp_path / "run")]) == 4
    assert "not replayable: private noise" in capsys.readouterr().out
    assert verify(tmp_path / "run").rounds == 0


def test_the_plain_loop_draws_noise_of_its_own_and_states_the_same(accountant: Any) -> None:
    """Two runs of one seed differ; what they guarantee does not."""
    scenario = tiny(PRIVACY)
    first, second = run_plain(scenario, Silent()), run_plain(scenario, Silent())
    assert first.params_sha256 != second.params_sha256
    assert first.privacy == second.privacy
    assert first.privacy is not None and first.privacy["agents"]["3"]["updates"] == 6


def test_clipping_alone_gives_the_bits_of_the_plain_loop(tmp_path: Path) -> None:
    """[complaints 65] No secret, no statement, and the record replays."""
    scenario = tiny("\n[privacy]\nclip_norm = 0.05\n", "algorithm.baseline=value")
    expected, found = run_plain(scenario, Silent()), inproc(scenario, tmp_path / "run")
    assert found.params_sha256 == expected.params_sha256 and found.privacy is None
    assert found.rounds[0]["metrics"]["clipped"] == 1.0
    assert verify(tmp_path / "run").outcome == "equal"


def test_check_states_what_the_planned_rounds_guarantee(
    accountant: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything starts, for an agent that is asked in every round."""
    (tmp_path / "tiny.toml").write_text(HEAD + PRIVACY)
    assert main(["check", str(tmp_path / "tiny.toml")]) == 0
    assert "at delta 1e-05 for an agent that is asked in every round (6 updates" in capsys.readouterr().out
    main(["check", str(tmp_path / "tiny.toml"), "--json"])
    assert json.loads(capsys.readouterr().out)["privacy"]["updates"] == 6


def test_a_private_run_needs_the_accountant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before a run folder is made, with the command that mends it; so does the server."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    (tmp_path / "tiny.toml").write_text(HEAD + PRIVACY)
    run = ["run", str(tmp_path / "tiny.toml"), "--runtime", "inproc", "--run-dir", str(tmp_path / "run")]
    assert main(run) == 2
    assert "pip install 'edge-fed[privacy]'" in capsys.readouterr().err
    from server.command_line import main as server

    assert server(["--config", str(tmp_path / "tiny.toml"), "--run-dir", str(tmp_path / "run")]) == 2
    assert "pip install 'edge-fed[privacy]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_expectations_of_what_is_not_sent_are_refused() -> None:
    """Training agents report nothing; the plain loop measures for itself."""
    expect = "\n[[expect]]\nmetric = 'meta_objective'\ncomparison = '>'\nvalue = 0\n"
    scenario = tiny(PRIVACY + expect)
    assert [fault.path for fault in runtime_faults(scenario, "inproc")] == ["expect.0.metric"]
    assert not runtime_faults(scenario, "plain")
