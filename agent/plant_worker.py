"""What a living device does on its one plant: `agent.life_worker.LifeWorker`, day after day.

A piece of work lasts as many days as the budget makes of it. Its episodes stay on disk until the life has
moved on: whoever was killed, or waited for the next day, goes on with those that are there.
"""

import time
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent import life_events as e
from agent.daily_budget import BudgetSpent, DailyBudget, day_file
from agent.episode_store import EpisodeStore
from agent.life_worker import LifeWorker
from agent.news import News
from agent.plant_file import PlantFile
from agent.plant_site import PlantSite
from agent.plant_task import make_plant, on_plant
from agent.stops import Stops
from edge_fed.config import EnvironmentConfig
from edge_fed.params import F8, crc32
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement


class PlantWorker(LifeWorker):
    """One device; a context manager, which makes the plant and closes it.

    Args:
        task: As the run says, simulated.
        run: The run's environment.
        initial: As of `LifeWorker`; so are the next two.
        alpha: Step size.
        seed: Of all draws.
        settings: Of the device.
        folder: Where the day's count, and the episodes of the work at hand, survive a restart.
        stops: Ends waits.
        tell: Takes the news.
        now: Monotonic seconds.
        today: Seconds since the epoch.
    """

    def __init__(
        self,
        task: Reinforcement,
        run: EnvironmentConfig,
        initial: F8,
        alpha: float,
        seed: int,
        *,
        settings: PlantFile,
        folder: Path,
        stops: Stops,
        tell: Callable[[News], None],
        now: Callable[[], float] = time.monotonic,
        today: Callable[[], float] = time.time,
    ) -> None:
        budget = DailyBudget(day_file(folder, task.agent), settings.daily_trajectories, today)
        self._site = PlantSite(settings.pace_s, budget, now)
        self._plant = make_plant(task, run, settings, self._site)
        there = on_plant(task, self._plant)
        super().__init__(there, there, initial, alpha, seed)
        self._settings = settings
        self._stops = stops
        self._tell = tell
        self._episode = 0
        plant = self._plant.environment
        kept = folder / f"live-{task.agent}-episodes"
        self._site.store = EpisodeStore(kept, self._warn, plant.spaces, plant.horizon + 1)

    def __enter__(self) -> "PlantWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self._plant.environment.close()

    def perform(self, work: e.Work, params: F8, episode: int, *, changed: bool) -> e.Event:
        """As `LifeWorker.perform`, with the episodes of it that are there from before.

        Raises:
            Signalled: A signal came; the next action is not applied.
            ProgramError: The day's count or an episode cannot be kept.
        """
        self._episode = episode
        try:
            if not isinstance(work, e.Learn):  # else the life is not yet past the batch that it learns from
                self._site.store.open(self._question(params, episode))
            while True:
                self._site.attend(self._stops)
                try:
                    return self._told(super().perform(work, params, episode, changed=changed))
                except BudgetSpent as spent:
                    self._wait(spent)
        except OSError as error:  # what the plant raises has another name
            why = f"an episode cannot be kept: {error}"
            raise ProgramError(ExitCode.FAILED, why, "make room, then run it again") from error

    def _told(self, event: e.Event) -> e.Event:
        if self._settings.shield is None or not isinstance(event, e.Acted):
            return event
        return msgspec.structs.replace(event, overridden=self._site.overridden)

    def _wait(self, spent: BudgetSpent) -> None:
        self._tell(News(self._episode, "waits", str(spent), {"for_s": spent.for_s}))
        self._site.rest(spent)

    def _warn(self, text: str) -> None:
        self._tell(News(self._episode, "warning", text))

    def _question(self, params: F8, episode: int) -> str:
        """Names the work by where the life is, and the device as it is set up."""
        settings = zlib.crc32(msgspec.json.encode(self._settings))
        return f"live-{episode:06d}-{crc32(params):08x}-{settings:08x}"


def described(settings: PlantFile, episode: int, budget: int | None) -> News:
    """What a life on a plant begins with, for its owner."""
    day = (
        f"at most {settings.daily_trajectories} episodes a day"
        if settings.daily_trajectories
        else "no daily budget"
    )
    shield = f"shield {settings.shield}" if settings.shield else "no shield"
    parts = [f"acts on the plant {settings.environment}", day, shield]
    if budget == 0:
        parts.append("no policy is tried that it did not begin with (--budget 0)")
    if settings.reset == "never":
        parts.append(
            "never reset: returns depend on each other, alarms without drift may come sooner than stated"
        )
    return News(episode, "device", "; ".join(parts), msgspec.to_builtins(settings.facts()))
