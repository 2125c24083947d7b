"""Whether a file stands in its repository's last commit as it stands on the disk."""

import shutil
import subprocess
from pathlib import Path


def why_not_committed(path: Path) -> str:
    """Asks git.

    Args:
        path: The file.

    Returns:
        Empty if the last commit holds exactly these bytes, else in words what is in the way: git or a
        repository that is not there counts as not committed, for nobody could tell.
    """
    git = shutil.which("git")
    if git is None:
        return "git is not installed, so nobody can tell whether it was committed"
    inside = _ask(git, path, "rev-parse", "--is-inside-work-tree")
    if inside.returncode:
        return f"lies in no git repository ({_last_line(inside.stderr)})"
    held = _ask(git, path, "show", f"HEAD:./{path.name}")
    if held.returncode:
        return f"is not committed ({_last_line(held.stderr)})"
    return "" if held.stdout == path.read_bytes() else "differs from the last commit"


def _ask(git: str, path: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([git, "-C", str(path.parent), *command], capture_output=True, check=False)


def _last_line(stderr: bytes) -> str:
    return (stderr.decode(errors="replace").strip().splitlines() or ["git says nothing"])[-1]
