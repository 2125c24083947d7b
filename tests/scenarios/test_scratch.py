"""Private folders: removed by their owner, else by the next run; never while their owner lives."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scenarios.scratch import OWNER, Scratch, remove_leftovers

OWN_ONE = "from scenarios.scratch import Scratch; s = Scratch(); print(s.path, flush=True); input()"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test's own, for its child processes, too."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_private_and_goes_with_its_owner(temporary: Path) -> None:
    """Mode 0700; closing it twice does nothing more."""
    scratch = Scratch()
    assert scratch.path.stat().st_mode & 0o777 == 0o700
    (scratch.path / "server").touch()
    scratch.close()
    scratch.close()
    assert list(temporary.iterdir()) == []


def test_only_the_folders_of_the_dead_are_removed(temporary: Path) -> None:
    """A process that is killed with -9 leaves its folder until the next run begins."""
    with subprocess.Popen(
        [sys.executable, "-c", OWN_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().decode().strip())
        assert folder.parent == temporary
        remove_leftovers()
        assert folder.exists(), "its owner lives"
        owner.kill()
        owner.wait()
        assert folder.exists()
    scratch = Scratch()
    assert list(temporary.iterdir()) == [scratch.path]
    scratch.close()


def test_what_is_not_such_a_folder_stays(temporary: Path) -> None:
    """Folders without an owner's file (a campaign's findings), links, and what they point to."""
    (temporary / "edge-fed-campaign-1").mkdir()
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / OWNER).touch()
    (temporary / "edge-fed-link").symlink_to(elsewhere)
    fake = temporary / "edge-fed-fake"
    fake.mkdir()
    (fake / OWNER).symlink_to(elsewhere / OWNER)
    remove_leftovers()
    assert sorted(path.name for path in temporary.iterdir()) == [
        "edge-fed-campaign-1",
        "edge-fed-fake",
        "edge-fed-link",
        "elsewhere",
    ]
