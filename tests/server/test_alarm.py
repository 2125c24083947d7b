"""Timers and the quiet moment, on a loop made of a list."""

import math
from collections.abc import Callable
from typing import Any

from server import events as e
from server.alarm import Alarm


class FakeHandle:
    """A call to come."""

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        """Never mind."""
        self.cancelled = True


class FakeLoop:
    """Time and calls by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[FakeHandle] = []

    def time(self) -> float:
        """The time set by the test."""
        return self.now

    def call_at(self, when: float, callback: Callable[..., object], /) -> FakeHandle:
        """Notes the call."""
        self.calls.append(FakeHandle(when, callback))
        return self.calls[-1]

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> FakeHandle:
        """Notes the call."""
        self.calls.append(FakeHandle(self.now, lambda: callback(*args)))
        return self.calls[-1]

    def turn(self) -> None:
        """One turn: everything that is due now, but nothing that it adds."""
        ready = [call for call in self.calls if call.when <= self.now and not call.cancelled]
        self.calls = [call for call in self.calls if call not in ready and not call.cancelled]
        for call in ready:
            call.call()


class Bench:
    """An alarm whose deadline the test moves."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.due = math.inf
        self.events: list[e.Event] = []
        self.alarm = Alarm(self.loop, lambda: self.due, self.events.append)


def test_a_tick_comes_after_the_messages_that_were_there_first() -> None:
    """As long as messages come, the timer waits; one quiet turn lets it through."""
    bench = Bench()
    bench.due = 5.0
    bench.alarm.arm()
    bench.loop.now = 5.0
    bench.loop.turn()
    for _ in range(3):
        bench.alarm.messages += 1
        bench.loop.turn()
        assert bench.events == []
    bench.loop.turn()
    assert bench.events == [e.Tick(late_s=0.0)]


def test_a_flood_of_messages_cannot_hold_a_tick_up_for_ever() -> None:
    """After 50 ms it comes all the same."""
    bench = Bench()
    bench.due = 5.0
    bench.alarm.arm()
    bench.loop.now = 5.0
    bench.loop.turn()
    for _ in range(60):
        bench.alarm.messages += 1
        bench.loop.now += 0.001
        bench.loop.turn()
    assert bench.events == [e.Tick(late_s=0.0)]


def test_a_tick_says_how_late_it_is() -> None:
    """A process that was stopped for a minute sees it in the timer."""
    bench = Bench()
    bench.due = 5.0
    bench.alarm.arm()
    bench.loop.now = 65.0
    bench.loop.turn()
    bench.loop.turn()
    assert bench.events == [e.Tick(late_s=60.0)]


def test_a_deadline_that_moved_on_costs_no_tick() -> None:
    """The old timer fires, finds nothing due, and is set anew."""
    bench = Bench()
    bench.due = 5.0
    bench.alarm.arm()
    bench.due = 9.0
    bench.alarm.arm()
    bench.loop.now = 5.0
    bench.loop.turn()
    bench.loop.turn()
    assert bench.events == []
    assert [call.when for call in bench.loop.calls] == [9.0]


def test_an_earlier_deadline_replaces_the_timer() -> None:
    """Only one timer is set at a time."""
    bench = Bench()
    bench.due = 9.0
    bench.alarm.arm()
    bench.due = 5.0
    bench.alarm.arm()
    assert [call.when for call in bench.loop.calls if not call.cancelled] == [5.0]


def test_words_of_the_supervisor_keep_their_order() -> None:
    """``lost`` before ``proceed`` stays before it."""
    bench = Bench()
    bench.alarm.defer(e.DeclaredLost(3))
    bench.alarm.messages += 1
    bench.alarm.defer(e.Proceed(5))
    bench.loop.turn()
    bench.loop.turn()
    assert bench.events == [e.DeclaredLost(3), e.Proceed(5)]
