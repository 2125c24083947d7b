"""A private folder outside the run folder: for an ipc socket, throw-away keys, and secrets.

Whoever gets the run folder must not get these. A run that ends removes its folder; one that was killed
with -9 cannot, so the next run of the same user does: each folder holds a file that its owner has locked, and
the system releases that lock whatever ends the owner.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "edge-fed-"
OWNER = "owner"  # the locked file; a folder without it is not ours to remove


class Scratch:
    """A folder of mode 0700, from now until `close`; makes room by removing those of dead owners first.

    Attributes:
        path: The folder.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self) -> None:
        remove_leftovers()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        making = self.path / "making"
        self._lock = os.open(making, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        making.rename(self.path / OWNER)  # under its name it is locked from the first moment on

    def close(self) -> None:
        """Removes the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_leftovers() -> None:
    """Removes this user's folders whose owners are dead; what cannot be removed stays."""
    for folder in _of_this_user():
        with contextlib.suppress(OSError):  # gone, or its owner lives
            lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _of_this_user() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                yield folder
