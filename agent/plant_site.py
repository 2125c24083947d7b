"""What stands around a plant in an agent's program: its pace, its day's budget, its kept episodes."""

from collections.abc import Callable
from typing import Protocol

from agent.daily_budget import BudgetSpent, DailyBudget
from agent.episode_store import EpisodeStore
from edge_fed.plant import Episode, Key

LOOK_S = 600.0  # at the clock while it waits for a day: the clock may be set, the machine may sleep


class Watch(Protocol):
    """Who wants the work: `agent.worker.Watched`, `agent.stops.Stops`."""

    def say(self, text: str, /) -> None:
        """Takes where the plant is."""
        ...

    def pause(self, seconds: float) -> None:
        """Waits so long, or 0 s; raises when nobody wants the work any more."""
        ...


class PlantSite:
    """One plant's; see `edge_fed.plant.Site`.

    Args:
        pace_s: Least seconds between two actions.
        budget: Of the day.
        now: Monotonic seconds.

    Attributes:
        store: Of the run that the agent is in.
        tells: Whether anybody may know where it is: how long an episode lasts is data.
        overridden: Actions that the shield changed in the current work, kept episodes included.
    """

    store: EpisodeStore

    def __init__(self, pace_s: float, budget: DailyBudget, now: Callable[[], float]) -> None:
        self.overridden = 0
        self.tells = True
        self._pace_s = pace_s
        self._budget = budget
        self._now = now
        self._applied = now()  # when a program before this one acted last, nobody knows
        self._where = ""
        self._watched: Watch

    def attend(self, watched: Watch) -> None:
        """New work begins."""
        self._watched = watched
        self.overridden = 0

    def begin(self, episode: int, episodes: int) -> None:
        """Counts an episode.

        Raises:
            BudgetSpent: None may begin today.
            Stopped: Nobody wants the work any more.
        """
        self._watched.pause(0.0)
        self._budget.spend()
        self._where = f"episode {episode + 1} of {episodes}"

    def act(self, step: int, steps: int) -> None:
        """Waits until the next action is due.

        Raises:
            Stopped: Nobody wants the work any more.
        """
        if self.tells:
            self._watched.say(f"step {step + 1} of {steps}, {self._where}")
        self._watched.pause(0.0)
        while (left_s := self._applied + self._pace_s - self._now()) > 0:
            self._watched.pause(left_s)
        self._applied = self._now()

    def rest(self, spent: BudgetSpent) -> None:
        """Waits until an episode may begin again.

        Raises:
            Stopped: Nobody wants the work any more.
        """
        while True:
            self._watched.pause(min(spent.for_s, LOOK_S))
            try:
                return self._budget.insist(1, "an episode")
            except BudgetSpent as still:
                spent = still

    def kept(self, key: Key) -> Episode | None:
        """The episode, if it is there from before."""
        found = self.store.get(key)
        self.overridden += found.overridden if found else 0
        return found

    def keep(self, key: Key, episode: Episode) -> None:
        """Writes an episode that was played."""
        self.overridden += episode.overridden
        self.store.put(key, episode)
