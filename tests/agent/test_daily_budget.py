"""A day's trajectories: counted before they begin, on disk, by a clock that the test sets."""

import datetime
from pathlib import Path

import pytest

from agent.daily_budget import BudgetSpent, DailyBudget
from edge_fed.program.exit_codes import ExitCode, ProgramError

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC).timestamp()
DAY = 86_400.0


class Clock:
    """Seconds since the epoch, as the test wants them."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        """Now."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """At noon."""
    return Clock()


def test_the_day_ends_at_midnight_utc(tmp_path: Path, clock: Clock) -> None:
    """The message says how many are left, for what too few, and when there are more."""
    budget = DailyBudget(tmp_path / "made" / "day.json", 3, clock)
    budget.spend()
    budget.spend()
    budget.insist(1, "an episode")
    why = r"daily budget of 3 trajectories has 1 left, round 4 needs 2; back at 2026-12-01T00:00Z"
    with pytest.raises(BudgetSpent, match=why) as found:
        budget.insist(2, "round 4")
    assert found.value.for_s == DAY / 2
    clock.now += DAY / 2 - 1
    with pytest.raises(BudgetSpent, match="has 1 left") as found:
        budget.insist(2, "round 4")
    assert found.value.for_s == 1.0
    clock.now += 1
    budget.insist(3, "round 4")


def test_the_count_survives_a_restart(tmp_path: Path, clock: Clock) -> None:
    """Also of an episode that was never finished: it was on the plant."""
    for _ in range(3):
        DailyBudget(tmp_path / "day.json", 3, clock).spend()
    with pytest.raises(BudgetSpent, match="has 0 left, an episode needs 1"):
        DailyBudget(tmp_path / "day.json", 3, clock).spend()
    with pytest.raises(BudgetSpent):
        DailyBudget(tmp_path / "day.json", 2, clock).insist(1, "a smaller budget")
    clock.now += DAY
    DailyBudget(tmp_path / "day.json", 3, clock).insist(3, "the next day")


def test_a_clock_that_is_set_back_gives_no_second_budget(tmp_path: Path, clock: Clock) -> None:
    """The day that was counted on stays the day."""
    budget = DailyBudget(tmp_path / "day.json", 2, clock)
    budget.spend()
    clock.now -= DAY
    budget.spend()
    with pytest.raises(BudgetSpent, match="back at 2026-12-01"):
        budget.spend()


@pytest.mark.parametrize("ahead", ["2026-12-02", "2046-11-30", "9999-12-31"])
def test_a_count_of_the_future_is_named(ahead: str, tmp_path: Path, clock: Clock) -> None:
    """One start with a wrong clock must not lock the plant for years: file, day, clock and remedy."""
    (tmp_path / "day.json").write_text(f'{{"day": "{ahead}", "used": 1}}')
    with pytest.raises(
        ProgramError, match=rf"day\.json counts .* of {ahead}, and the clock says 2026-11-30"
    ) as found:
        DailyBudget(tmp_path / "day.json", 2, clock)
    assert found.value.code is ExitCode.USAGE and "set the clock, or remove the file" in found.value.hint


def test_a_clock_that_is_mended_in_between_is_named_too(tmp_path: Path, clock: Clock) -> None:
    """The program ran ahead of the day: it says so and does not wait for that day."""
    budget = DailyBudget(tmp_path / "day.json", 2, clock)
    budget.spend()
    clock.now -= 2 * DAY
    for spends in (budget.spend, lambda: budget.insist(1, "an episode")):
        with pytest.raises(ProgramError, match="the clock says 2026-11-28"):
            spends()


def test_a_count_that_cannot_be_read_is_named(tmp_path: Path, clock: Clock) -> None:
    """A torn file must not mean a whole new budget: a person decides."""
    used = ("null", "1e400", "-100", "1.5", "true", '"1"', "[" * 50_000)
    bad = (
        "",
        "{}",
        '{"day": "yesterday", "used": 1}',
        *(f'{{"day": "2026-11-30", "used": {text}}}' for text in used),
    )
    for text in bad:
        (tmp_path / "day.json").write_text(text)
        with pytest.raises(ProgramError, match=r"day\.json") as found:
            DailyBudget(tmp_path / "day.json", 2, clock)
        assert "delete the file" in found.value.hint


def test_without_a_limit_nothing_is_counted(tmp_path: Path, clock: Clock) -> None:
    """Nor written."""
    budget = DailyBudget(tmp_path / "day.json", None, clock)
    budget.spend()
    budget.insist(10**9, "a round")
    assert list(tmp_path.iterdir()) == []
