"""Whether a file is committed, in real repositories and without any."""

import shutil
from pathlib import Path

import pytest

from scenarios.study.committed import why_not_committed
from tests.scenarios.study.repository import commit, git


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in a folder that is no repository."""
    path = tmp_path / "decided.toml"
    path.write_text("seeds = 1\n")
    return path


def test_a_committed_file_has_nothing_in_its_way(file: Path) -> None:
    """Other files of the repository do not matter."""
    commit(file)
    (file.parent / "other").write_text("not committed")
    assert why_not_committed(file) == ""


def test_a_changed_file_is_not_the_committed_one(file: Path) -> None:
    """Neither in the folder nor staged, until it is committed again."""
    commit(file)
    file.write_text("seeds = 2\n")
    assert why_not_committed(file) == "differs from the last commit"
    git(file, "add", file.name)
    assert why_not_committed(file) == "differs from the last commit"
    commit(file)
    assert why_not_committed(file) == ""


def test_a_file_that_is_only_staged_is_not_committed(file: Path) -> None:
    """Nor is one that nobody added, in a repository without any commit."""
    git(file, "init", "--quiet")
    assert why_not_committed(file).startswith("is not committed (fatal:")
    git(file, "add", file.name)
    assert why_not_committed(file).startswith("is not committed (fatal:")


def test_no_repository_and_no_git_are_clear_answers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing crashes, and what nobody can tell counts as not committed."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(file.parent.parent))
    assert why_not_committed(file).startswith("lies in no git repository (fatal: not a git repository")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert why_not_committed(file).startswith("git is not installed")
