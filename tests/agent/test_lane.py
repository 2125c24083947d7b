"""One direction of the emulated link, on a clock that only the test moves."""

from collections.abc import Callable
from typing import Any

from agent.lane import Lane


class Clock:
    """The two methods of an event loop that a lane uses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        """Seconds."""
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> "Timer":
        """Remembers a timer."""
        self.timers.append(Timer(when, call))
        return self.timers[-1]

    def move(self, to: float) -> None:
        """Rings what is due."""
        self.now = to
        for timer in [t for t in self.timers if t.when <= to]:
            self.timers.remove(timer)
            if not timer.cancelled:
                timer.call()


class Timer:
    """A timer that can be cancelled."""

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when, self.call, self.cancelled = when, call, False

    def cancel(self) -> None:
        """It will not ring."""
        self.cancelled = True


def lane() -> tuple[Lane, Clock, list[Any]]:
    """A lane, its clock, and what arrived."""
    clock = Clock()
    return Lane(clock), clock, []  # type: ignore[arg-type]


def test_things_arrive_at_their_time_and_in_order() -> None:
    """Also many at the very same time come out as they went in."""
    made, clock, arrived = lane()
    for number, when in enumerate([1.0, 2.0, 2.0, 2.0, 5.0]):
        made.put(when, lambda number=number: arrived.append(number))
    clock.move(0.9)
    assert arrived == []
    clock.move(2.0)
    assert arrived == [0, 1, 2, 3] and len(made) == 1
    clock.move(5.0)
    assert arrived == [0, 1, 2, 3, 4] and len(made) == 0


def test_what_arrives_may_send_again() -> None:
    """An arrival that puts something new neither loses nor repeats anything."""
    made, clock, arrived = lane()
    made.put(1.0, lambda: (arrived.append("a"), made.put(3.0, lambda: arrived.append("b")))[0])
    clock.move(1.0)
    clock.move(3.0)
    assert arrived == ["a", "b"] and not clock.timers


def test_hurry_lets_everything_arrive_and_clear_nothing() -> None:
    """At the end of the program what is under way leaves in order; a kill loses it."""
    made, clock, arrived = lane()
    made.put(9.0, lambda: arrived.append(1))
    made.put(9.5, lambda: arrived.append(2))
    made.hurry()
    assert arrived == [1, 2]
    made.put(9.9, lambda: arrived.append(3))
    made.clear()
    clock.move(20.0)
    assert arrived == [1, 2] and len(made) == 0
