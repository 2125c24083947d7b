"""SIGKILL at every step of a commit: what is found is whole, and the run goes on to the same bits."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from edge_fed.program.run_folder import RunFolder
from server.events import CommitPoint
from tests.server.small_runs import DEADLY, ROUNDS, Kind, before, begin, content, go_on, reopen

POINTS: tuple[CommitPoint, ...] = get_args(CommitPoint)
AFTER = {"committed", "half-line", "retention"}  # the rename of the sidecar was the commit
KINDS = {
    f"{durability}, {'with' if control else 'no'} control, keep {keep or 'all'}": Kind(
        durability, control, keep
    )
    for durability in ("process", "power")
    for control in (False, True)
    for keep in (0, 2)
} | {f"{durability}, large": Kind(durability, True, 2, large=True) for durability in ("process", "power")}


def name(kind: str, point: str) -> str:
    """Of a folder."""
    return f"{kind} at {point}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``killed``: one run per kind and point, each killed there; ``whole``: the undisturbed ones."""
    base = tmp_path_factory.mktemp("crash")
    for label, kind in KINDS.items():
        folder = begin(base / "whole" / label, kind)
        (folder.path / "kind").write_bytes(msgspec.json.encode(kind))
        go_on(folder, kind, before(folder, kind).ledger, DEADLY - 1)
        for point in POINTS:
            shutil.copytree(folder.path, base / "killed" / name(label, point))
        go_on(folder, kind, before(folder, kind).ledger)
    command = [sys.executable, "-m", "tests.server.small_runs", str(base / "killed")]
    subprocess.run(command, check=True, timeout=300)
    return base


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("label", KINDS)
def test_a_kill_at_any_step_of_a_commit_loses_nothing_that_was_committed(
    root: Path, label: str, point: str
) -> None:
    """[complaints 18, 20, 59] The state is that before or after the round, as the step says; nothing between.

    The journal is whole up to it, and the run that goes on leaves the same bytes as one that nobody killed.
    """
    kind, folder = KINDS[label], reopen(root / "killed" / name(label, point))
    found, committed = before(folder, kind), DEADLY if point in AFTER else DEADLY - 1
    assert found.ledger.committed == committed
    assert found.damaged == (), "a kill damages nothing"
    assert found.resume.round == (0 if point in AFTER else DEADLY), "the open round is known"
    assert [row["round"] for row in folder.rows(folder.metrics)] == [*range(1, committed + 1)]
    assert folder.metrics.read_bytes().count(b"\n") == committed
    assert found.ledger.last_counted == {0: committed}
    go_on(folder, kind, found.ledger)
    assert content(folder) == content(RunFolder.open(root / "whole" / label))


def test_the_undisturbed_runs_keep_what_they_should(root: Path) -> None:
    """So that comparing with them says something."""
    for label, kind in KINDS.items():
        first = ROUNDS + 1 - kind.keep if kind.keep else 0
        assert RunFolder.open(root / "whole" / label).committed_rounds() == [*range(first, ROUNDS + 1)]
