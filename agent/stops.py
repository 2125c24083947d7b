"""Signals that end a life, and waits that they end: the first in order, a second one at once.

What a life on a plant does may never return: a `step` whose plant does not answer. There a thread ends the
program when a signal is not heeded in time. The system itself tells the thread, for Python's handlers do not
run while the main thread is in foreign code. Code that holds Python's lock for ever stops the thread, too.
"""

import math
import os
import select
import signal
import threading
import time
from types import FrameType

from edge_fed.program.stopping import Stopping

ENDING = (signal.SIGINT, signal.SIGTERM)
HEED_S = 2.0  # as of an agent: `agent.runtime.WORKER_END_S`
LONGEST_MS = 2**31 - 1  # that a wait of the system takes


class Signalled(BaseException):
    """A signal ended a wait, or what would come next; no fault that code may catch and try again."""


class Stops:
    """A context manager: signals are noted within it.

    Args:
        heed_s: A signal that no `pause` has seen so long after it came ends the program; None: it may wait.

    Attributes:
        number: Of the first signal; 0: none came.
    """

    def __init__(self, heed_s: float | None = None) -> None:
        self.number = 0
        self._heed_s = heed_s
        self._heeded = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = Stopping()
        self._ends: tuple[int, int] = (-1, -1)  # of a pipe: a signal writes into it, a wait looks at it

    def __enter__(self) -> "Stops":
        self._ends = os.pipe()
        self._before = {number: signal.signal(number, self._signalled) for number in ENDING}
        if self._heed_s is not None:
            told, tells = os.pipe()
            os.set_blocking(tells, False)
            self._woke = signal.set_wakeup_fd(tells, warn_on_full_buffer=False), tells
            self._thread = threading.Thread(target=self._insist, args=(told, self._heed_s), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._heeded.set()
            before, tells = self._woke
            signal.set_wakeup_fd(before)
            os.close(tells)
            self._thread.join()
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
            self._heeded.set()
            raise Signalled

    def say(self, text: str) -> None:
        """Where a plant is, which nobody asks a life."""

    def _insist(self, told: int, heed_s: float) -> None:
        """The thread: the first signal, then the bounded wait for its `pause`."""
        number = next((byte for byte in iter(lambda: os.read(told, 1), b"") if byte[0] in ENDING), None)
        os.close(told)
        if number is not None and not self._heeded.wait(heed_s):
            text = (
                f"error: the step did not return within {heed_s:g} s of the signal: ended without close()\n"
            )
            os.write(2, text.encode())
            os._exit(128 + number[0])

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        meaning = self._stopping.order(time.monotonic())
        if meaning == "second":
            os._exit(128 + number)
        if meaning == "first":
            self.number = number
            os.write(self._ends[1], b".")
