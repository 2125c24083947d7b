"""When to register, to beat, to give up, and to say what is waited for. Pure: the time is passed in.

Sources: zguide ch. 4 (paranoid pirate) for the lease, Dask's ``connect`` for back-off with jitter.
"""

import math
from collections.abc import Callable
from typing import Literal

Jitter = Callable[[int], float]
"""Attempt number -> draw from [0, 1)."""

Wait = Literal["", "server", "answer", "work", "day"]
"""Nothing; a server at all; a word from the server of this session; something to do; the next day."""

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 8.0  # a server that hears but does not answer is busy, or its link slow: do not add to it
UNREACHABLE_RETRY_S = 1.0  # the socket itself tells when it has found a server; this is for its silence
NAME_AFTER_S = 2.0  # no wait stays silent for longer
NAME_AGAIN_S = 10.0  # for waits that are in order, beside a living server
NAME_DAY_S = 3600.0  # a wait that ends by the calendar
LATE_S = 0.5  # a clock event later than this means that this process was stopped


class Contact:
    """What an agent knows about its server's life, and when it must act on it.

    Args:
        now: Monotonic seconds.
        give_up_after_s: Silence after which the program ends.
        jitter: Draws that keep a fleet from registering in step.

    Attributes:
        doubts: The session was given up for the server's silence alone, and nothing is known of its end.
        away_until: When an agent that has left for a while registers again.
    """

    def __init__(self, now: float, give_up_after_s: float, jitter: Jitter) -> None:
        self.give_up_after_s = give_up_after_s
        self.heartbeat_s = 1.0
        self.lease_s = 5.0
        self.joined = False
        self.ever = False
        self.reached = False
        self.doubts = False
        self._jitter = jitter
        self._heard = now
        self._sent = now
        self._attempt = 0
        self._register_at = now
        self.away_until = -math.inf
        self._times = 1.0  # the lease that the server named counts so many times
        self._waiting_for: Wait = ""
        self._name_at = math.inf

    def silent_s(self, now: float) -> float:
        """Seconds since the server was heard, or since the start."""
        return now - self._heard

    def heard(self, now: float) -> None:
        """The server said something."""
        self._heard = now
        self.ever = True

    def sent(self, now: float) -> None:
        """Something was sent within the session."""
        self._sent = now

    def joined_at(self, now: float, heartbeat_s: float, lease_s: float, *, same: bool = False) -> None:
        """The server granted a session; ``same``: the one that was given up, so that it was alive.

        Then only its link is slow, and to register again each time would make it slower: the agent's own
        patience doubles, up to the one that it has with a server that is gone.
        """
        if same:
            self._times *= 2
        self.doubts = False
        self.joined, self.heartbeat_s = True, heartbeat_s
        self.lease_s = max(lease_s, min(self._times * lease_s, self.give_up_after_s))
        self._attempt = 0
        self.heard(now)
        self.sent(now)

    def lost(self, now: float, *, silent: bool = False) -> None:
        """The session is gone, or seems so for the server's silence alone: register at once."""
        self.doubts = silent
        self.joined = self.reached = False
        self._attempt = 0
        self._register_at = now

    def registering(self, now: float) -> None:
        """REGISTER goes out: the next one after an exponential pause with jitter."""
        pause = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(self._attempt, 30))
        self._register_at = now + pause * (0.5 + 0.5 * self._jitter(self._attempt))
        self._attempt += 1
        self.reached = True

    def unreachable(self, now: float) -> None:
        """Nobody takes messages: register when the socket has found a server, or look again soon."""
        self.joined = self.reached = self.doubts = False
        self._attempt = 0
        self._register_at = max(now + UNREACHABLE_RETRY_S, self.away_until)

    def away(self, until: float) -> None:
        """It leaves, and registers at that time; patience with a server that is gone begins then."""
        self.joined = self.reached = self.doubts = False
        self._attempt = 0
        self.away_until = self._register_at = self._heard = until

    def reachable(self, now: float) -> None:
        """A server was found: register at once."""
        if not self.joined and not self.reached:
            self._register_at = max(now, self.away_until)

    def asleep(self, seconds: float) -> None:
        """This process was stopped for so long: nobody's silence in that time counts."""
        self._heard += seconds
        self._name_at += seconds

    def register_due(self, now: float) -> bool:
        """Whether to send REGISTER."""
        return not self.joined and now >= self._register_at

    def given_up(self, now: float) -> bool:
        """Whether the program should end for want of a server."""
        return not self.joined and self.silent_s(now) >= self.give_up_after_s

    def lease_over(self, now: float) -> bool:
        """Whether a server that granted a session counts as gone."""
        return self.joined and self.silent_s(now) >= self.lease_s

    def beat_due(self, now: float) -> bool:
        """Whether to send HEARTBEAT: nothing was sent for an interval."""
        return self.joined and now >= self._sent + self.heartbeat_s

    def naming(self, what: Wait, since: float, now: float) -> bool:
        """Whether to name the current wait now; call it after every event.

        Args:
            what: What is waited for now.
            since: When that wait began.
            now: Monotonic seconds.
        """
        if what != self._waiting_for:
            self._waiting_for = what
            self._name_at = since + NAME_AFTER_S if what else math.inf
        if now < self._name_at:
            return False
        slow_s = max(NAME_AFTER_S, self.lease_s / 3)  # a long lease means a slow link
        pauses = {"work": NAME_AGAIN_S, "answer": slow_s, "day": NAME_DAY_S}
        self._name_at = now + pauses.get(what, NAME_AFTER_S)
        return True

    def due(self) -> float:
        """The next time at which a tick may do something."""
        if self.joined:
            times = (self._sent + self.heartbeat_s, self._heard + self.lease_s, self._name_at)
        else:
            times = (self._register_at, self._heard + self.give_up_after_s, self._name_at)
        return min(times)
