"""The pace of a plant: a clock that the test moves, waits that end when nobody wants the work any more."""

import contextlib
import threading
from pathlib import Path

import pytest

from agent.daily_budget import BudgetSpent, DailyBudget
from agent.plant_site import PlantSite
from agent.worker import Stopped, Watched


class Clock:
    """Monotonic seconds, which pass in waits alone."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.now


class Waits(Watched):
    """A watch whose waits move the clock, a little too little each."""

    def __init__(self, clock: Clock) -> None:
        self.stop = threading.Event()
        self.said: list[str] = []
        self._clock = clock
        super().__init__(lambda _step: None, self.said.append, self.stop, lambda _step: 0.0)

    def pause(self, seconds: float) -> None:
        """Waits, and raises if it is stopped."""
        super().pause(0.0)
        self._clock.now += max(0.9 * seconds, min(seconds, 0.01))


@pytest.fixture
def clock() -> Clock:
    """At 100 s."""
    return Clock()


def site(clock: Clock, tmp_path: Path, pace_s: float) -> tuple[PlantSite, Waits]:
    """A plant of this pace without a budget, and its watch."""
    found, waits = PlantSite(pace_s, DailyBudget(tmp_path / "day.json", None, clock), clock), Waits(clock)
    found.attend(waits)
    return found, waits


def test_an_action_follows_the_one_before_it_no_earlier_than_the_pace(clock: Clock, tmp_path: Path) -> None:
    """Also the first: nobody knows when a program before this one acted. Time that the plant took counts."""
    plant, _ = site(clock, tmp_path, 2.0)
    applied = []
    for took in (0.5, 0.0, 7.0, 0.1):
        plant.begin(0, 1)
        plant.act(0, 3)
        applied.append(clock.now)
        clock.now += took
    gaps = [b - a for a, b in zip([100.0, *applied], applied, strict=False)]
    assert gaps == pytest.approx([2.0, 2.0, 2.0, 7.0], abs=0.02) and min(gaps) >= 2.0


def test_without_a_pace_nothing_waits(clock: Clock, tmp_path: Path) -> None:
    """The plant's own steps take their time."""
    plant, _ = site(clock, tmp_path, 0.0)
    plant.act(0, 3)
    plant.act(1, 3)
    assert clock.now == 100.0


def test_it_says_where_it_is(clock: Clock, tmp_path: Path) -> None:
    """In numbers from 1 on, as people count."""
    plant, waits = site(clock, tmp_path, 1.0)
    plant.begin(2, 20)
    plant.act(11, 30)
    assert waits.said == ["step 12 of 30, episode 3 of 20"]


@pytest.mark.parametrize("pace_s", [0.0, 1.0])
def test_a_stop_ends_the_wait_before_the_action(clock: Clock, tmp_path: Path, pace_s: float) -> None:
    """And no episode begins."""
    plant, waits = site(clock, tmp_path, pace_s)
    waits.stop.set()
    with pytest.raises(Stopped):
        plant.act(0, 3)
    with pytest.raises(Stopped):
        plant.begin(0, 3)


def test_code_that_tries_again_whatever_fails_cannot_try_a_spent_day_again(
    clock: Clock, tmp_path: Path
) -> None:
    """A user's variant that catches every Exception of its samples ends with the day that it is part of."""
    plant, tries = PlantSite(0.0, DailyBudget(tmp_path / "day.json", 1, clock), clock), 0
    plant.attend(Waits(clock))
    plant.begin(0, 2)

    def stubborn() -> None:
        nonlocal tries
        for _ in range(3):
            tries += 1
            with contextlib.suppress(Exception):
                plant.begin(1, 2)

    with pytest.raises(BudgetSpent, match="has 0 left"):
        stubborn()
    assert tries == 1
