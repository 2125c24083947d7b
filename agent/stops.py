"""Signals that end a life, and waits that they end: the first in order, a second one at once."""

import math
import os
import select
import signal
import time
from types import FrameType

from edge_fed.program.stopping import Stopping

ENDING = (signal.SIGINT, signal.SIGTERM)
LONGEST_MS = 2**31 - 1  # that a wait of the system takes


class Signalled(BaseException):
    """A signal ended a wait, or what would come next; no fault that code may catch and try again."""


class Stops:
    """A context manager: signals are noted within it.

    Attributes:
        number: Of the first signal; 0: none came.
    """

    def __init__(self) -> None:
        self.number = 0
        self._stopping = Stopping()
        self._ends: tuple[int, int] = (-1, -1)  # of a pipe: a signal writes into it, a wait looks at it

    def __enter__(self) -> "Stops":
        self._ends = os.pipe()
        self._before = {number: signal.signal(number, self._signalled) for number in ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for end in self._ends:
            os.close(end)

    def pause(self, seconds: float) -> None:
        """Waits so long, or 0 s.

        Raises:
            Signalled: A signal came.
        """
        if not self.number and seconds > 0:
            poll = select.poll()
            poll.register(self._ends[0], select.POLLIN)
            poll.poll(min(math.ceil(1000 * seconds), LONGEST_MS))
        if self.number:
            raise Signalled

    def say(self, text: str) -> None:
        """Where a plant is, which nobody asks a life."""

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        meaning = self._stopping.order(time.monotonic())
        if meaning == "second":
            os._exit(128 + number)
        if meaning == "first":
            self.number = number
            os.write(self._ends[1], b".")
