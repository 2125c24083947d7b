"""The current wait: its name, who is missing, how long it lasts at most, and when to say so. Pure.

A wait that ends within `NAME_AFTER_S` is not worth a line; a longer one is named, again on every change of
who is missing, and again every `NAME_AGAIN_S`.
"""

import math
from collections.abc import Callable

from server.events import Wait

NAME_AFTER_S = 1.5  # no wait stays silent for 2 s
NAME_AGAIN_S = 10.0


class Watch:
    """At most one wait at a time.

    Attributes:
        until: When the wait ends without those who are missing; infinity: there is none.
    """

    def __init__(self) -> None:
        self.until = math.inf
        self._what = ""
        self._ends = ""
        self._missing: Callable[[], tuple[int, ...]] = tuple
        self._named: tuple[int, ...] | None = None
        self._say_at = math.inf

    def begin(
        self,
        what: str,
        missing: Callable[[], tuple[int, ...]],
        until: float,
        ends: str,
        now: float,
        *,
        after_s: float = NAME_AFTER_S,
    ) -> None:
        """Starts a wait in place of the one before.

        Args:
            what: Its name.
            missing: Who is waited for; asked only when there is something to say.
            until: Monotonic seconds of its end.
            ends: What happens at its end, for people.
            now: Monotonic seconds.
            after_s: When to name it first.
        """
        self.until, self._what, self._missing, self._ends = until, what, missing, ends
        self._named = None
        self._say_at = now + after_s

    def end(self) -> None:
        """Nothing is waited for."""
        self.until = self._say_at = math.inf
        self._what = ""

    def postpone(self, until: float) -> None:
        """The wait may last longer."""
        self.until = until

    def due(self) -> float:
        """The next time at which there is something to say or the wait ends."""
        return min(self._say_at, self.until)

    def changed(self, now: float) -> None:
        """Somebody came or went: a wait that was named is named again at once."""
        if self._named is not None and self._named != self._missing():
            self._say_at = now

    def say(self, now: float) -> Wait | None:
        """The line to log now, if one is due."""
        if now < self._say_at or not self._what:
            return None
        self._say_at = now + NAME_AGAIN_S
        self._named = self._missing()
        return Wait(self._what, self._named, round(max(0.0, self.until - now), 1), self._ends)

    def line(self, now: float) -> str:
        """The wait in words, for agents that ask what the server does."""
        if not self._what:
            return ""
        missing = self._missing()
        whom = f" of agents {_list(missing)}" if missing else ""
        left = f", {self.until - now:.0f} s left" if self.until < math.inf else ""
        return f"the server waits for {self._what}{whom}{left}"


def _list(agents: tuple[int, ...], most: int = 12) -> str:
    names = [str(agent) for agent in agents[:most]]
    return ", ".join(names) + (f" and {len(agents) - most} more" if len(agents) > most else "")
