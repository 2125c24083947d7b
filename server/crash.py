"""Where in a commit this process kills itself, for crash tests. A run that nobody tests has no such point."""

import os
from collections.abc import Callable

from edge_fed.program.files import write_all
from server.events import CommitPoint


class Crash:
    """The kill point of one commit.

    Args:
        die: Ends this process as SIGKILL would.
        point: Where; None: nowhere.
    """

    def __init__(self, die: Callable[[], None], point: CommitPoint | None) -> None:
        self._die = die
        self._point = point

    def at(self, point: CommitPoint) -> None:
        """Dies here if this is the point."""
        if point == self._point:
            self._die()

    def write(self, descriptor: int, data: bytes | memoryview, point: CommitPoint) -> None:
        """Writes every byte; or half of them and dies, if this is the point."""
        if point == self._point:
            write_all(descriptor, memoryview(data)[: len(data) // 2])
            self._die()
        write_all(descriptor, data)

    def cut(self, descriptor: int, point: CommitPoint) -> None:
        """For a file that something else has written: leaves half of it and dies, if this is the point."""
        if point == self._point:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            self._die()
