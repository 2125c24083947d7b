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
from tests.scenarios.doctored import content, copied, edit_lines, edit_sidecar, edit_summary
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


@pytest.fixture(scope="module")
def private_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A run with private noise and an onboarder."""
    pytest.importorskip("dp_accounting")
    path = tmp_path_factory.mktemp("private") / "run"
    assert inproc(tiny(ONBOARDING + PRIVACY, "algorithm.participation=0.5"), path).failure is None
    return content(path)


@pytest.mark.parametrize(
    ("change", "round_", "word"),
    [
        (lambda run: edit_lines(run / "metrics.jsonl", lambda r: r[2].update(cohort=[0])), 3, "is drawn"),
        (lambda run: edit_lines(run / "metrics.jsonl", lambda r: r.pop(2) and None), 4, "round 3 is missing"),
        (lambda run: edit_lines(run / "metrics.jsonl", lambda r: r[2].update(private_noise=False)), 3,
         "private_noise False was recorded, the run's settings say True"),
        (lambda run: edit_lines(run / "metrics.jsonl", lambda r: r[2].update(params_sha256="0" * 64)), 3,
         "the checkpoint of round 3 has params_sha256"),
        (lambda run: edit_lines(run / "metrics.jsonl", lambda r: r[2].update(fingerprints={})), 3,
         "no fingerprint"),
        (lambda run: edit_lines(run / "evaluations.jsonl", lambda r: r[0]["rows"][0].update({"return": 9.0})),
         6, "onboarding of goal 8: return 9.0 was recorded"),
        (lambda run: edit_lines(run / "evaluations.jsonl", lambda r: [
            *r, {"kind": "evaluation", "round": 6, "rows": [], "n": 0}]), 6, "settings have none"),
        (lambda run: edit_privacy(run, lambda p: p.update(epsilon=0.1)), 6, "privacy: epsilon 0.1"),
        (lambda run: edit_privacy(run, lambda p: p["agents"]["0"].update(updates=0, epsilon=0.0)), 6,
         "0 updates of agent 0 were seen"),
        (lambda run: edit_privacy(run, lambda p: p.update(agents=5)), 6, "cannot be read"),
        (lambda run: edit_summary(run, privacy=None), 6, "privacy None was recorded"),
        (lambda run: edit_summary(run, rounds=2), 2, "summary.json: params_sha256"),
        (lambda run: edit_sidecar(run, 6, lambda t: t["book"].update(released={})), 6, "0 updates of agent"),
    ],
)  # fmt: skip
def test_what_needs_no_replay_of_noise_is_compared_in_a_private_run(
    private_files: dict[str, bytes], tmp_path: Path, change: Any, round_: int, word: str
) -> None:
    """Who was asked, hashes, contiguity, onboarders, the stated epsilon; only then it is not replayable."""
    run = copied(private_files, tmp_path)
    assert verify(run).outcome == "not replayable"
    change(run)
    found = verify(run)
    assert (found.outcome, found.round) == ("different", round_)
    assert word in " ".join(found.differences)


def edit_privacy(run: Path, change: Any) -> None:
    """Another statement in ``summary.json``."""
    said = json.loads((run / "summary.json").read_text())["privacy"]
    change(said)
    edit_summary(run, privacy=said)


def test_a_line_with_private_noise_in_a_run_without_is_a_difference(tmp_path: Path) -> None:
    """One word in one line does not keep the others from being computed again."""
    inproc(tiny(), tmp_path / "run")
    edit_lines(tmp_path / "run" / "metrics.jsonl", lambda rows: rows[2].update(private_noise=True))
    found = verify(tmp_path / "run")
    assert (found.outcome, found.round) == ("different", 3)
    assert found.differences[0] == "private_noise True was recorded, the run's settings say False"
