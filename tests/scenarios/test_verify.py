"""`verify` reads every file of a run folder, and says which of them it cannot believe."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.run_folder import RunFolder
from scenarios.campaign.evidence import Evidence
from scenarios.campaign.replaying import verifies
from scenarios.command_line import main
from scenarios.faults.suite import verified_as
from scenarios.verify import verify
from server.checkpoint import seal, unseal
from tests.scenarios.test_inproc import inproc
from tests.scenarios.tiny import ONBOARDING, tiny

Damage = Callable[[bytes], bytes]


def flipped(data: bytes) -> bytes:
    """A bit in the middle is another one."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def truncated(data: bytes) -> bytes:
    """The second half is lost."""
    return data[: len(data) // 2]


def reworded(data: bytes) -> bytes:
    """Still JSON, with another word."""
    assert b'"schema"' in data
    return data.replace(b'"schema"', b'"scheme"', 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of a run, by its path in the folder."""
    path = tmp_path_factory.mktemp("whole") / "run"
    inproc(tiny(ONBOARDING, "federation.keep_checkpoints=10"), path)
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def run(files: dict[str, bytes], tmp_path: Path) -> Path:
    """The same run, to be damaged."""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def damage(run: Path, name: str, how: Damage) -> None:
    """Changes a file of the run."""
    file = run / name
    file.write_bytes(how(file.read_bytes()))


@pytest.mark.parametrize("round_", [0, 3, 6])
@pytest.mark.parametrize(
    ("end", "how"),
    [("npz", flipped), ("npz", truncated), ("json", flipped), ("json", truncated), ("json", reworded)],
)
def test_a_damaged_checkpoint_is_named_on_one_line(
    run: Path, round_: int, end: str, how: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever file of whichever kept round it is: exit code 1, no trace, and not "different"."""
    name = f"round-{round_:06d}.{end}"
    damage(run, f"checkpoints/{name}", how)
    assert main(["verify", str(run)]) == 1
    captured = capsys.readouterr()
    cause, hint = captured.err.splitlines()
    assert cause.startswith(f"error: checkpoint {name} cannot be read: ")
    assert hint.startswith("next: put back")
    assert cause.endswith(f"; the rounds before round {round_} are equal") == (round_ > 0)
    assert captured.out == ""


def test_a_missing_checkpoint_hides_no_difference_before_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Round 2 was altered, the parameters of round 4 are gone: round 2 is what is named."""
    (run / "checkpoints" / "round-000004.npz").unlink()
    assert main(["verify", str(run)]) == 1
    assert capsys.readouterr().err.splitlines()[0].endswith("; the rounds before round 4 are equal")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    second = json.loads(lines[1])
    second["params_sha256"] = "0" * 64
    (run / "metrics.jsonl").write_text("\n".join([lines[0], json.dumps(second), *lines[2:]]) + "\n")
    assert main(["verify", str(run)]) == 1
    assert "different at round 2" in capsys.readouterr().out


def test_every_damaged_file_is_named_in_one_object(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--json``: programs read the same line."""
    damage(run, "checkpoints/round-000002.json", flipped)
    damage(run, "checkpoints/round-000004.npz", truncated)
    (run / "checkpoints" / "round-000005.npz").unlink()
    assert main(["verify", str(run), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["success"], found["error"]["type"]) == (False, "failed")
    for name in ("round-000002.json", "round-000004.npz", "round-000005.npz"):
        assert f"checkpoint {name} cannot be read: " in found["error"]["message"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "evaluations.jsonl"])
def test_a_damaged_log_is_no_difference(run: Path, name: str) -> None:
    """What cannot be read cannot be compared."""
    damage(run, name, lambda data: b"{" + data)
    with pytest.raises(ProgramError, match="cannot be read"):
        verify(run)


def test_what_resume_does_not_read_is_not_judged(run: Path) -> None:
    """``latest`` may be damaged, and a checkpoint may be moved away with its sidecar."""
    (run / "checkpoints" / "latest").write_bytes(b"\x00")
    for end in ("npz", "json"):
        (run / "checkpoints" / f"round-000003.{end}").unlink()
    assert verify(run).outcome == "equal"


def test_a_whole_checkpoint_of_another_round_is_a_difference(run: Path) -> None:
    """Array and sidecar fit each other, and not the record."""
    array, sidecar = RunFolder.open(run).checkpoint(4)
    array.write_bytes(array.with_name("round-000002.npz").read_bytes())
    content = json.loads(unseal(sidecar.with_name("round-000002.json").read_bytes()))
    sidecar.write_bytes(seal(json.dumps(content | {"round": 4}).encode()))
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 4)
    assert "the checkpoint of round 4 has params_sha256" in found.differences[0]


def test_campaigns_and_faults_report_damage_as_a_finding(run: Path) -> None:
    """One damaged run does not end the whole series."""
    damage(run, "checkpoints/round-000004.npz", flipped)
    evidence = SimpleNamespace(folder=RunFolder.open(run))
    (finding,) = verifies(cast(Evidence, evidence))
    assert finding.startswith("verify: checkpoint round-000004.npz cannot be read")
    assert verified_as(run).startswith("checkpoint round-000004.npz cannot be read")


def test_a_conflict_of_an_agent_that_was_not_there_is_a_difference(run: Path) -> None:
    """The line of the round is whole, and cannot be true."""
    log = run / "metrics.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1]["conflicts"] = [7]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 2)
    assert found.differences == (
        "conflicts [7] were recorded, but these agents were not eligible in that round",
    )
