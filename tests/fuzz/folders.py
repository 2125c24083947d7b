"""Folders for targets that read files: made anew in memory-backed storage where there is some."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

SHM = Path("/dev/shm")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder that is removed afterwards."""
    where = SHM if SHM.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="edge-fed-fuzz-", dir=where) as name:
        yield Path(name)
