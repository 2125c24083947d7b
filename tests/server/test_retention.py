"""Which checkpoints stay: the newest, the best evaluated, and those that somebody waits for."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.program.run_folder import RunFolder
from protocol import messages as m
from server import events as e
from server.checkpoint import load_params
from server.recording import Recorder
from server.recovery import recover
from server.retention import Retention
from tests.server.fleet import Fleet, config, measured_row
from tests.server.small_runs import commit


def row(round_: int, value: float | None, kind: str = "evaluation") -> dict[str, Any]:
    """A line of ``evaluations.jsonl``."""
    return {"kind": kind, "round": round_, "meta_objective": value}


def kept(
    retention: Retention, rounds: int, values: dict[int, float] | None = None, **needed: Any
) -> list[int]:
    """What is left after so many rounds; evaluations come between two commits, as in a run."""
    there: list[int] = []
    for round_ in range(rounds + 1):
        there.append(round_)
        for gone in retention.commit(round_, needed.get("needed", ())):
            there.remove(gone)
        if round_ in (values or {}):
            retention.evaluated(row(round_, (values or {})[round_]))
    return there


def test_zero_keeps_every_checkpoint() -> None:
    """The default; the best is known all the same."""
    retention = Retention(0, 0)
    assert kept(retention, 4, {0: 0.5, 2: 0.75, 4: 0.25}) == [0, 1, 2, 3, 4]
    assert retention.best == (2, 0.75)


@pytest.mark.parametrize(
    ("newest", "best", "expected"),
    [(2, 0, [6, 7]), (2, 1, [2, 6, 7]), (1, 2, [2, 4, 7]), (3, 2, [2, 4, 5, 6, 7]), (1, 9, [0, 2, 4, 6, 7])],
)
def test_the_newest_and_the_best_stay(newest: int, best: int, expected: list[int]) -> None:
    """Of equal values the later round is the better one; a new best one takes the place of the last."""
    values = {0: 0.1, 2: 0.9, 4: 0.8, 6: 0.2}
    assert kept(Retention(newest, best), 7, values) == expected
    assert kept(Retention(1, 1), 7, dict.fromkeys(values, 0.5)) == [6, 7]


def test_only_evaluations_in_training_count() -> None:
    """An onboarder's rows, an evaluation that nobody answered, and one that was skipped say nothing."""
    retention = Retention(1, 1)
    for line in (row(3, 0.9, "onboarding"), row(4, None), {"kind": "evaluation", "round": 5, "n": 0}):
        retention.evaluated(line)
    assert retention.best is None


def test_a_checkpoint_that_is_needed_stays() -> None:
    """However old it is."""
    assert kept(Retention(2, 0), 7, needed={1, 3}) == [1, 3, 6, 7]


@given(
    newest=st.integers(1, 4),
    best=st.integers(0, 3),
    values=st.dictionaries(st.integers(0, 20), st.floats(-1, 1), max_size=10),
    cut=st.integers(0, 20),
)
def test_a_restart_changes_nothing(newest: int, best: int, values: dict[int, float], cut: int) -> None:
    """A new process with the files and the evaluations of the earlier one keeps the same."""
    whole, first = Retention(newest, best), Retention(newest, best)
    expected, there = kept(whole, 20, values), kept(first, cut, values)
    second = Retention(newest, best, there)
    for round_ in sorted(values):
        if round_ <= cut:
            second.evaluated(row(round_, values[round_]))
    for round_ in range(cut + 1, 21):
        there.append(round_)
        for gone in second.commit(round_, ()):
            there.remove(gone)
        if round_ in values:
            second.evaluated(row(round_, values[round_]))
    assert there == expected
    assert second.best == whole.best


def test_the_files_of_the_best_round_stay_over_a_restart(tmp_path: Path) -> None:
    """``keep_best = 1``: found by the next server process in ``evaluations.jsonl``."""
    folder = RunFolder.create(config(rounds=10, keep_checkpoints=2, keep_best=1), tmp_path / "run")
    params = np.zeros(4)
    for process in range(2):
        recorder = Recorder(folder, lambda: None)
        for round_ in range(5 * process, 5 * process + 5):
            recorder.commit(commit(round_, params + round_, None), 0, 0)
            recorder.evaluation({"kind": "evaluation", "round": round_, "meta_objective": -abs(round_ - 3.0)})
            if round_ == 4:
                recorder.sync()
        recorder.close()
        assert recover(folder, params).damaged == ()
    assert folder.committed_rounds() == [3, 8, 9]
    assert recorder.retention.best == (3, 0.0)
    assert {path.suffix for path in folder.checkpoints.glob(".*")} == set(), "nothing is left to be recycled"


def test_what_is_on_the_disk_stays_until_something_newer_is(tmp_path: Path) -> None:
    """A power failure finds the checkpoint that was forced to the disk, however many came after it."""
    folder = RunFolder.create(config(keep_checkpoints=1), tmp_path / "run")
    recorder = Recorder(folder, lambda: None)
    for round_ in range(6):
        recorder.commit(commit(round_, np.full(4, float(round_)), None), 0, 0)
        if round_ == 2:
            recorder.sync()
    assert folder.committed_rounds() == [2, 5]
    recorder.sync()
    recorder.commit(commit(6, np.full(4, 6.0), None), 0, 0)
    assert folder.committed_rounds() == [5, 6]
    recorder.close()
    assert folder.committed_rounds() == [6]
    recorder = Recorder(folder, lambda: None)
    for round_ in (7, 8):
        recorder.commit(commit(round_, np.full(4, float(round_)), None), 0, 0)
    assert folder.committed_rounds() == [6, 8], "what the process before has left"
    recorder.close()
    assert folder.committed_rounds() == [8]


def test_a_checkpoint_that_an_onboarder_waits_for_is_not_removed_under_it() -> None:
    """From its request until its report every commit says that this round is needed."""
    fleet = Fleet(config(rounds=6, onboard="5", keep_checkpoints=1))
    agents = fleet.started(0, 1, 2)
    onboarder = fleet.agent(5)
    onboarder.join(role="onboard")
    assert fleet.saved[-1].needed == frozenset()

    def play() -> None:
        for agent in agents:
            agent.update()

    play()
    play()
    onboarder.send(m.Onboard(at="round", round=1))
    play()
    assert fleet.saved[-1].needed == {1}
    fleet.event(e.Loaded(1, fleet.saved[1].params))
    play()
    assert fleet.saved[-1].needed == {1}, "it may have to be sent again"
    onboarder.send(m.Report(kind="onboarding", round=1, rows=(measured_row(5),), trajectories=0))
    play()
    assert fleet.saved[-1].needed == frozenset()


def test_a_needed_checkpoint_is_there_for_the_onboarder(tmp_path: Path) -> None:
    """The recorder does as the commit says."""
    folder = RunFolder.create(config(keep_checkpoints=1), tmp_path / "run")
    recorder = Recorder(folder, lambda: None)
    for round_ in range(4):
        made = commit(round_, np.full(4, float(round_)), None)
        needed = frozenset({1}) if round_ > 1 else frozenset()
        recorder.commit(msgspec.structs.replace(made, needed=needed), 0, 0)
    loaded = load_params(folder, 1)
    recorder.close()
    assert loaded is not None and loaded.tolist() == [1.0] * 4


@pytest.mark.parametrize(("intact", "left"), [(8, [8]), (7, [7, 8])])
def test_a_process_that_commits_nothing_removes_what_the_one_before_it_could_not(
    intact: int, left: list[int], tmp_path: Path
) -> None:
    """Killed after its last commit; a newer checkpoint that is damaged stays for people to look at."""
    folder = RunFolder.create(config(keep_checkpoints=1), tmp_path / "run")
    killed = Recorder(folder, lambda: None)
    for round_ in range(9):
        killed.commit(commit(round_, np.full(4, float(round_)), None), 0, 0)
        if round_ in (2, 7):
            killed.sync()
    shutil.copytree(folder.path, tmp_path / "after a kill")
    killed.close()
    folder = RunFolder.open(tmp_path / "after a kill")
    assert folder.committed_rounds() == [7, 8]
    recorder = Recorder(folder, lambda: None)
    recorder.resume(intact)
    recorder.close()
    assert folder.committed_rounds() == left
    assert (folder.checkpoints / "latest").read_text() == f"round-{intact:06d}\n"
