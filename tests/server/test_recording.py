"""The run folder: commit by rename, journals, retention, kill points, and what a restart makes of it."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_fed.federated.control_variate import ServerControl
from edge_fed.federated.record import Contribution, RoundRecord
from edge_fed.params import F8, params_sha256
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.run_folder import RunFolder
from server.checkpoint import load_params
from server.events import Commit, CommitPoint
from server.ledger import Book, Last
from server.recording import LARGE_BYTES, Recorder
from server.recovery import recover
from tests.server.fleet import config

INITIAL = np.zeros(4)


class Killed(BaseException):
    """Stands for SIGKILL."""


def kill() -> None:
    """Ends the "process"."""
    raise Killed


def params_of(round_: int, size: int = 4) -> F8:
    """The parameters after a round."""
    return np.full(size, float(round_))


def commit(
    round_: int,
    *,
    die: CommitPoint | None = None,
    size: int = 4,
    missing: dict[int, str] | None = None,
) -> Commit:
    """A round with agents 0 to 2, of which 0 contributed."""
    params = params_of(round_, size)
    record = RoundRecord(
        round=round_,
        eligible=(0, 1, 2),
        cohort=(0, 1),
        contributors=(Contribution(0, 77, 1.0, 10),),
        params_sha256=params_sha256(params),
        missing=missing or {},
    )
    book = Book(last={0: Last(round_, 77, "folded")}, last_counted={0: round_})
    return Commit(round_, params, book, record if round_ else None, {"norm": 0.5}, 0.25, die=die)


def run(path: Path, rounds: int, **changes: object) -> RunFolder:
    """A folder with some committed rounds."""
    folder = RunFolder.create(config(**{"rounds": 9, **changes}), path / "run")  # type: ignore[arg-type]
    recorder = Recorder(folder, kill)
    for round_ in range(rounds + 1):
        if round_:
            fields = {"round": round_, "eligible": (0, 1, 2), "cohort": (0, 1)}
            recorder.journal("round_opened", fields, 1.0)
        recorder.commit(commit(round_), 100, 200)
    recorder.close()
    return folder


def lines(path: Path) -> list[dict[str, object]]:
    """All lines of a journal; fails on a torn one."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_checkpoint_loads_with_numpy_and_its_line_reads_as_json(tmp_path: Path, durability: str) -> None:
    """Three lines of NumPy suffice; each round is one line with its record."""
    folder = run(tmp_path, 2, durability=durability)
    array, sidecar = folder.checkpoint(2)
    with np.load(array) as file:
        assert file["params"].tolist() == [2.0] * 4
    assert json.loads(sidecar.read_bytes())["params_sha256"] == params_sha256(params_of(2))
    first, second = lines(folder.metrics)
    assert (first["schema"], first["round"], second["round"]) == (1, 1, 2)
    assert second["contributors"] == [{"agent": 0, "crc32": 77, "weight": 1.0, "trajectories": 10}]
    assert (second["seconds"], second["bytes_sent"], second["metrics"]) == (0.25, 100, {"norm": 0.5})
    assert (folder.checkpoints / "latest").read_text() == "round-000002\n"


def test_a_large_checkpoint_is_written_the_same(tmp_path: Path) -> None:
    """Beyond a megabyte the file is streamed."""
    folder = RunFolder.create(config(rounds=9), tmp_path / "run")
    recorder = Recorder(folder, kill)
    size = LARGE_BYTES // 8 + 1
    recorder.commit(commit(1, size=size), 0, 0)
    recorder.close()
    loaded = load_params(folder, 1)
    assert loaded is not None
    assert np.array_equal(loaded, params_of(1, size))
    assert not loaded.flags.writeable


def test_only_the_newest_checkpoints_are_kept_if_the_run_says_so(tmp_path: Path) -> None:
    """Two are kept; metrics keep every round."""
    folder = run(tmp_path, 5, keep_checkpoints=2)
    assert folder.committed_rounds() == [4, 5]
    assert len(lines(folder.metrics)) == 5
    assert load_params(folder, 3) is None
    recovered = recover(folder, INITIAL)
    assert recovered.ledger.committed == 5
    assert len(lines(folder.metrics)) == 5


def test_a_kill_between_array_and_sidecar_leaves_the_round_uncommitted(tmp_path: Path) -> None:
    """Resume stands at the round before, with the open round's cohort, and ignores the lone array file."""
    folder = run(tmp_path, 2)
    recorder = Recorder(folder, kill)
    recorder.journal("round_opened", {"round": 3, "eligible": (0, 1, 2), "cohort": (1, 2)}, 1.0)
    with pytest.raises(Killed):
        recorder.commit(commit(3, die="array"), 0, 0)
    assert folder.checkpoint(3)[0].exists()
    recorder.close()
    recovered = recover(folder, INITIAL)
    assert recovered.ledger.committed == 2
    assert recovered.resume.round == 3
    assert recovered.resume.cohort == (1, 2)
    assert recovered.ledger.params.tolist() == [2.0] * 4
    assert recovered.ledger.last_counted == {0: 2}
    assert recovered.ledger.last[0] == Last(2, 77, "folded")


def test_a_line_that_a_kill_swallowed_is_restored_from_the_sidecar(tmp_path: Path) -> None:
    """The rename was the commit; the line follows from it."""
    folder = run(tmp_path, 3)
    whole = lines(folder.metrics)
    text = folder.metrics.read_text().splitlines(keepends=True)
    folder.metrics.write_text("".join(text[:2]))
    recover(folder, INITIAL)
    assert lines(folder.metrics) == whole


def test_a_torn_line_and_lines_beyond_the_checkpoint_are_cut(tmp_path: Path) -> None:
    """[complaints 59] What is not committed never happened."""
    folder = run(tmp_path, 3)
    for path in folder.checkpoint(3):
        path.unlink()
    with folder.metrics.open("a") as file:
        file.write('{"schema":1,"round":4,"elig')
    with folder.events.open("a") as file:
        file.write('{"schema":1,"ev')
    recovered = recover(folder, INITIAL)
    assert recovered.ledger.committed == 2
    assert [line["round"] for line in lines(folder.metrics)] == [1, 2]
    assert [line["round"] for line in lines(folder.events)] == [1, 2, 3]
    assert recovered.resume.round == 3
    assert (recovered.bytes_sent, recovered.bytes_received) == (200, 400)


@pytest.mark.parametrize("damage", ["array", "sidecar", "missing array"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, damage: str) -> None:
    """Hash or syntax is wrong: the checkpoint before it is used, and the damage is named."""
    folder = run(tmp_path, 3)
    array, sidecar = folder.checkpoint(3)
    if damage == "array":
        np.savez(array, params=np.ones(4))
    elif damage == "sidecar":
        sidecar.write_text(sidecar.read_text()[:-9])
    else:
        array.unlink()
    recovered = recover(folder, INITIAL)
    assert recovered.ledger.committed == 2
    assert recovered.damaged[0].startswith("round-000003.json")


def test_a_recycled_file_with_its_old_content_is_no_checkpoint(tmp_path: Path) -> None:
    """A power failure may lose the new content of a file that was renamed: the round inside tells."""
    folder = run(tmp_path, 5, keep_checkpoints=3)
    for old, new in zip(folder.checkpoint(4), folder.checkpoint(5), strict=True):
        new.write_bytes(old.read_bytes())
    recovered = recover(folder, INITIAL)
    assert recovered.ledger.committed == 4
    assert "round 4" in recovered.damaged[0]


CONTROL = ServerControl(np.zeros(4), 1.0, 3)


def corrected_run(path: Path, rounds: int, size: int = 4) -> RunFolder:
    """A folder of a run with control variates: minus the parameters, so that neither passes for the other."""
    folder = RunFolder.create(config(rounds=9, correction="control_variate"), path / "run")
    recorder = Recorder(folder, kill)
    for round_ in range(rounds + 1):
        made = commit(round_, size=size)
        control = -made.params
        record = made.record and msgspec.structs.replace(made.record, control_sha256=params_sha256(control))
        book = msgspec.structs.replace(made.book, control_since=round_)
        recorder.commit(msgspec.structs.replace(made, control=control, record=record, book=book), 100, 200)
    recorder.close()
    return folder


@pytest.mark.parametrize("size", [4, LARGE_BYTES // 16 + 1])
@pytest.mark.parametrize("rounds", [0, 2])
def test_a_control_variate_survives_a_restart(tmp_path: Path, rounds: int, size: int) -> None:
    """It is in the array file beside the parameters, checked by its own hash, and read-only again."""
    folder = corrected_run(tmp_path, rounds, size)
    array, sidecar = folder.checkpoint(rounds)
    with np.load(array) as file:
        assert file["control"].tolist() == (-params_of(rounds, size)).tolist()
    expected = params_sha256(-params_of(rounds, size))
    assert json.loads(sidecar.read_bytes())["control_sha256"] == expected
    assert [line["control_sha256"] for line in lines(folder.metrics)][-1:] == [expected][:rounds]
    ledger = recover(folder, INITIAL, CONTROL).ledger
    assert ledger.control is not None
    assert np.array_equal(ledger.control.value, -params_of(rounds, size))
    assert (ledger.control.round_step, ledger.control.agents) == (1.0, 3)
    assert ledger.control_since == rounds
    assert not ledger.control.value.flags.writeable


@pytest.mark.parametrize("damage", [{}, {"control": np.ones(4)}])
def test_a_checkpoint_without_its_control_variate_is_passed_over(
    tmp_path: Path, damage: dict[str, F8]
) -> None:
    """The parameters alone are not where the run stood."""
    folder = corrected_run(tmp_path, 3)
    np.savez(folder.checkpoint(3)[0], params=params_of(3), **damage)  # type: ignore[arg-type]
    recovered = recover(folder, INITIAL, CONTROL)
    assert recovered.ledger.committed == 2
    assert recovered.damaged[0].startswith("round-000003.json")
    assert "control" in recovered.damaged[0]


def test_nothing_committed_starts_with_the_first_control_variate(tmp_path: Path) -> None:
    """A kill before the first checkpoint leaves c = 0."""
    folder = RunFolder.create(config(rounds=9, correction="control_variate"), tmp_path / "run")
    assert recover(folder, INITIAL, CONTROL).ledger.control is CONTROL


def test_no_intact_checkpoint_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    """A run that lost everything does not silently start again."""
    folder = run(tmp_path, 0)
    folder.checkpoint(0)[0].write_bytes(b"nothing")
    with pytest.raises(ProgramError, match="intact"):
        recover(folder, INITIAL)


def test_a_folder_in_which_nothing_was_committed_starts_from_the_beginning(tmp_path: Path) -> None:
    """A kill before the first checkpoint loses nothing."""
    folder = RunFolder.create(config(rounds=9), tmp_path / "run")
    recovered = recover(folder, INITIAL)
    assert recovered.ledger.committed == -1
    assert recovered.ledger.params is INITIAL


def test_who_is_expected_after_a_restart_are_those_who_were_there(tmp_path: Path) -> None:
    """Agents that left or were lost in the last round are not waited for; a slow one is."""
    folder = RunFolder.create(config(rounds=9), tmp_path / "run")
    recorder = Recorder(folder, kill)
    recorder.commit(commit(0), 0, 0)
    recorder.commit(commit(1, missing={1: "deadline", 2: "bye"}), 0, 0)
    recorder.close()
    assert recover(folder, INITIAL).resume.expected == (0, 1)


def test_evaluations_and_reports_survive_a_restart(tmp_path: Path) -> None:
    """What was measured is not measured again; an evaluation of an uncommitted round is."""
    folder = run(tmp_path, 1)
    recorder = Recorder(folder, kill)
    recorder.evaluation({"kind": "evaluation", "round": 0, "trajectories": 7, "meta_objective": 0.5})
    recorder.evaluation({"kind": "evaluation", "round": 9, "trajectories": 7})
    report = {"kind": "onboarding", "round": 9, "agent": 6, "incarnation": "ab", "rows": []}
    recorder.evaluation({**report, "trajectories": 3})
    recorder.close()
    recovered = recover(folder, INITIAL)
    assert recovered.resume.evaluated == {0}
    assert recovered.evaluation_trajectories == 7
    assert recovered.latest_evaluation["meta_objective"] == 0.5
    assert recovered.resume.reports[0]["agent"] == 6


def test_a_finished_run_is_recognised(tmp_path: Path) -> None:
    """By its summary, which is written whole or not at all."""
    folder = run(tmp_path, 2)
    recorder = Recorder(folder, kill)
    recorder.summary({"outcome": "finished"})
    recorder.close()
    assert recover(folder, INITIAL).resume.finished
    assert msgspec.json.decode(folder.summary.read_bytes()) == {"schema": 1, "outcome": "finished"}
    assert folder.summary.read_bytes().endswith(b"}\n"), (
        "the prompt of a shell after `cat` begins its own line"
    )


def test_one_server_per_run_folder(tmp_path: Path) -> None:
    """The second one is told to choose another folder."""
    folder = run(tmp_path, 1)
    with folder.locked(), pytest.raises(ProgramError, match="in use"), RunFolder.open(folder.path).locked():
        pass
