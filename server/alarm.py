"""When the machine is woken: at its next deadline, once the messages that had arrived before are read.

Judging a lease while the agent's heartbeat waits in the receive queue would blame the agent for our own
delay. So a timer, and a word of the supervisor, are passed on after one turn of the loop without messages.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from server import events as e

QUIET_S = 0.05  # messages that keep coming hold a timer up for no longer
EARLY_S = 0.001  # a timer may fire this much too early


class Handle(Protocol):
    """A call that the loop will make."""

    def cancel(self) -> None:
        """Never mind."""
        ...


class Loop(Protocol):
    """What is used of an event loop."""

    def time(self) -> float:
        """Monotonic seconds."""
        ...

    def call_at(self, when: float, callback: Callable[..., object], /) -> Handle:
        """Calls back at a time."""
        ...

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> Handle:
        """Calls back in the next turn."""
        ...


class Alarm:
    """One timer, and the events that wait for a quiet moment.

    Args:
        loop: The event loop.
        due: The machine's next deadline.
        handle: Passes an event to the machine.

    Attributes:
        messages: Messages read so far; the reader counts.
    """

    def __init__(self, loop: Loop, due: Callable[[], float], handle: Callable[[e.Event], None]) -> None:
        self.messages = 0
        self._loop = loop
        self._due = due
        self._handle = handle
        self._timer: Handle | None = None
        self._at = math.inf
        self._deferred: deque[e.Event] = deque()

    def arm(self) -> None:
        """Sets the timer; one that fires too early is cheaper than a new one for every message."""
        due = self._due()
        if due < self._at:
            self.cancel()
            self._at = due
            self._timer = self._loop.call_at(due, self._fire)

    def cancel(self) -> None:
        """No timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = None, math.inf

    def defer(self, event: e.Event) -> None:
        """Passes an event on once the messages that had arrived before it are read."""
        self._deferred.append(event)
        if len(self._deferred) == 1:
            self._loop.call_soon(self._when_quiet, self.messages, self._loop.time() + QUIET_S)

    def _fire(self) -> None:
        now, at = self._loop.time(), self._at
        self._timer, self._at = None, math.inf
        if self._due() <= now + EARLY_S:
            self.defer(e.Tick(late_s=max(0.0, now - at)))
        else:
            self.arm()

    def _when_quiet(self, seen: int, latest: float) -> None:
        if self.messages != seen and self._loop.time() < latest:
            self._loop.call_soon(self._when_quiet, self.messages, latest)
            return
        while self._deferred:
            self._handle(self._deferred.popleft())
