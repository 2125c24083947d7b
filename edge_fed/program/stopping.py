"""Signals that end a program: the first one in order, a second one at once. Pure.

``timeout`` sends its signal to the program and then to the program's group: one order comes twice.
"""

from typing import Literal

ECHO_S = 0.5  # a person who types again is slower


class Stopping:
    """What the signals of one program's life mean."""

    def __init__(self) -> None:
        self._first: float | None = None

    def order(self, now: float) -> Literal["first", "echo", "second"]:
        """What a signal means that comes now.

        Args:
            now: Monotonic seconds.
        """
        if self._first is None:
            self._first = now
            return "first"
        return "echo" if now - self._first < ECHO_S else "second"
