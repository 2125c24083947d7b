"""How many trajectories a device may begin in a day (UTC), counted on disk: a restart forgets none.

An episode is counted before it begins: one that a crash ends was on the plant all the same. A clock that is
set back by up to a day gives no second budget; one that is further behind the count is wrong now or was wrong
then, and a person says which.
"""

import datetime
import json
from collections.abc import Callable
from pathlib import Path

from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import read_regular, write_atomic

Day = datetime.date
A_DAY = datetime.timedelta(days=1)


class BudgetSpent(BaseException):
    """The day's trajectories are used up, or too few are left; no fault that code may catch and try again.

    Attributes:
        for_s: Seconds until the next day.
    """

    def __init__(self, message: str, for_s: float) -> None:
        super().__init__(message)
        self.for_s = for_s


def day_file(folder: Path, goal: int) -> Path:
    """Where a device counts, in its state folder: one file, in whichever way it acts."""
    return folder / f"agent-{goal}-day.json"


class DailyBudget:
    """One device's count.

    Args:
        path: Its file; its folder is made when it is first written.
        limit: Trajectories per day; None: no limit, and no file.
        now: Seconds since the epoch.

    Raises:
        ProgramError: The file is there and cannot be read, or its day is more than one ahead of the clock.
    """

    def __init__(self, path: Path, limit: int | None, now: Callable[[], float]) -> None:
        self._path = path
        self._limit = limit
        self._now = now
        self._day, self._used = self._read() if limit is not None else (Day.min, 0)
        self._today()  # wrong by days: said at the start, not before the first episode

    def insist(self, need: int, what: str) -> None:
        """Makes sure of so many trajectories before the first of them.

        Raises:
            BudgetSpent: Fewer are left; says how many, for what, and when there are more.
            ProgramError: The clock is more than a day behind the day that was counted on.
        """
        if self._limit is None:
            return
        today = self._today()
        left = self._limit - (self._used if today == self._day else 0)
        if left >= need:
            return
        tomorrow = datetime.datetime.combine(today + A_DAY, datetime.time(), datetime.UTC)
        raise BudgetSpent(
            f"the daily budget of {self._limit} trajectories has {max(0, left)} left, {what} needs {need}; "
            f"back at {tomorrow:%Y-%m-%dT%H:%MZ}",
            tomorrow.timestamp() - self._now(),
        )

    def spend(self) -> None:
        """Counts one trajectory that is about to begin.

        Raises:
            BudgetSpent: None is left.
            ProgramError: As `insist`.
        """
        if self._limit is None:
            return
        self.insist(1, "an episode")
        today = self._today()
        used = self._used + 1 if today == self._day else 1
        self._path.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps({"day": today.isoformat(), "used": used}).encode()
        write_atomic(self._path, data, sync=True)
        self._day, self._used = today, used

    def _today(self) -> Day:
        """By the clock, but never before a day that was counted on already."""
        clock = datetime.datetime.fromtimestamp(self._now(), datetime.UTC).date()
        if self._day - clock > A_DAY:
            why = f"{self._path} counts trajectories of {self._day}, and the clock says {clock}"
            hint = "set the clock, or remove the file: the plant may then begin a whole day's budget again"
            raise ProgramError(ExitCode.USAGE, why, hint)
        return max(self._day, clock)

    def _read(self) -> tuple[Day, int]:
        try:
            found = json.loads(read_regular(self._path))
            day, used = Day.fromisoformat(found["day"]), found["used"]
            if type(used) is not int or used < 0:
                raise ValueError(f"used is no count: {used!r}")
            return day, used
        except FileNotFoundError:
            return Day.min, 0
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"the count of today's trajectories cannot be read: {self._path}: {error!r}"
            hint = "delete the file if the plant may begin a whole day's budget again"
            raise ProgramError(ExitCode.USAGE, why, hint) from error
