"""A git repository around a file."""

import subprocess
from pathlib import Path


def commit(path: Path) -> None:
    """Makes the folder of ``path`` a repository, unless it is one, and commits the file as it is."""
    git(path, "init", "--quiet")
    git(path, "add", path.name)
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    git(path, *who, "commit", "--quiet", "--message", "test")


def git(path: Path, *command: str) -> None:
    """Runs git beside ``path``."""
    subprocess.run(["git", "-C", str(path.parent), *command], check=True, capture_output=True)
