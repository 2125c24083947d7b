"""One program at a time holds a device: two would act on its one plant in turns, and both count its day."""

import contextlib
import fcntl
import os
from pathlib import Path

from edge_fed.program.exit_codes import ExitCode, ProgramError


class DeviceLock:
    """A context manager; the system releases the lock whatever ends the program that holds it.

    Args:
        folder: Where the device counts its day; made if it is not there.
        goal: Of the device.
    """

    def __init__(self, folder: Path, goal: int) -> None:
        self._path = folder / f"agent-{goal}-device.lock"
        self._goal = goal
        self._descriptor: int | None = None

    def __enter__(self) -> "DeviceLock":
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            why = f"the device of goal {self._goal} is in use by another program{self._holder()}"
            self.__exit__()
            hint = "stop that one first; another plant keeps its state in another --state-dir (live: --state)"
            raise ProgramError(ExitCode.USAGE, why, hint) from error
        except OSError as error:  # some network file systems have no locks
            self.__exit__()
            why = f"the device of goal {self._goal} cannot be locked: {self._path}: {error.strerror}"
            raise ProgramError(
                ExitCode.USAGE, why, "choose a --state-dir (live: --state) on a local disk"
            ) from error
        with contextlib.suppress(OSError):  # it helps whoever is refused; a full disk has no room for it
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, str(os.getpid()).encode())
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _holder(self) -> str:
        """Its process, for people; empty: it has not said yet."""
        assert self._descriptor is not None
        number = os.pread(self._descriptor, 20, 0).decode(errors="replace")
        return f" (process {number})" if number.isdecimal() else ""
