"""One direction of the emulated link: things that arrive later, in the order in which they left."""

import asyncio
from collections import deque
from collections.abc import Callable

from edge_fed.program.guard import GuardedLoop

Arrival = Callable[[], None]


class Lane:
    """First in, first out. A deque, because timers of equal times have no order among themselves."""

    def __init__(self, loop: asyncio.AbstractEventLoop | GuardedLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[float, Arrival]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, when: float, arrive: Arrival) -> None:
        """Calls ``arrive`` at loop time ``when``, after everything that was put before."""
        self._waiting.append((when, arrive))
        if self._timer is None:
            self._timer = self._loop.call_at(when, self._arrive)

    def hurry(self) -> None:
        """Lets everything arrive now: the program ends."""
        while self._waiting:
            self._waiting.popleft()[1]()
        self.clear()

    def clear(self) -> None:
        """Forgets what is under way."""
        self._waiting.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arrive(self) -> None:
        self._timer = None
        while self._waiting and self._waiting[0][0] <= self._loop.time():
            self._waiting.popleft()[1]()
        if self._waiting and self._timer is None:
            self._timer = self._loop.call_at(self._waiting[0][0], self._arrive)
