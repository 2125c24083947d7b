"""What an agent computes whose environment is one real plant: `agent.learner.Learner` with another sampler.

The run's own environment of the goal stays unused but for its spaces, which the plant must share.
"""

import time
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent import events as e
from agent.daily_budget import BudgetSpent, DailyBudget, day_file
from agent.episode_store import EpisodeStore
from agent.learner import Learner, Progress
from agent.plant_file import PlantFile
from agent.plant_site import PlantSite
from agent.plant_task import make_plant, on_plant
from agent.state_store import StateStore
from agent.worker import Watched
from edge_fed.config import Overrides
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.params import crc32
from edge_fed.plant import Plant
from edge_fed.plant_sampler import per_local_step
from edge_fed.profiles import steps_done
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement


class PlantLearner(Learner):
    """What one device computes.

    Args:
        goal: As of `Learner`; so are the next five.
        overrides: What its command line sets, the device's facts among it.
        state_folder: Where agent state, kept episodes and the day's count survive a restart.
        save: Where to keep the adapted policy.
        secret_folder: Of its private noise.
        min_noise: That it insists on.
        settings: Of the device.
        say: Takes a line for people.
        now: Monotonic seconds.
        today: Seconds since the epoch.
    """

    def __init__(
        self,
        goal: int,
        overrides: Overrides,
        state_folder: Path,
        save: Path | None = None,
        secret_folder: Path | None = None,
        min_noise: float = 0.0,
        *,
        settings: PlantFile,
        say: Callable[[str], None] = lambda _text: None,
        now: Callable[[], float] = time.monotonic,
        today: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(goal, overrides, state_folder, save, secret_folder, min_noise)
        self._settings = settings
        self._say = say
        self._budget = DailyBudget(day_file(state_folder, goal), settings.daily_trajectories, today)
        self._site = PlantSite(settings.pace_s, self._budget, now)
        self._plant: Plant | None = None
        self._kept = 0

    def perform(self, work: e.Work, progress: Progress) -> e.Event:
        """Does one piece of work, with the episodes of it that are there from before."""
        assert isinstance(progress, Watched)
        self._site.attend(progress)
        if isinstance(work, e.Train | e.Evaluate | e.Onboard):
            self._kept = self._site.store.open(self._question(work))
            if self._kept:
                self._say(f"round {work.round}: {self._kept} episodes are there from before")
        return super().perform(work, progress)

    def build(self, work: e.Build) -> e.Built:
        """As `Learner.build`, and puts the plant in the place of the run's environment.

        Raises:
            ProgramError: As `Learner.build`; or the plant or its shield cannot be made, or its spaces are
                not those of the run, or it cannot train as the run says.
        """
        if self._plant is not None:
            self._plant.environment.close()  # one plant, one instance
        built = super().build(work)
        task = self._task
        if not isinstance(task, Reinforcement):
            raise ProgramError(ExitCode.REFUSED, f"a device acts, and this run's tasks are {task.unit}")
        bootstraps = isinstance(task.environment, EpisodicEnvironment) and task.environment.bootstrap
        if bootstraps and work.role == "train":  # nothing else bootstraps
            what = "bootstrap 'value' needs how each episode ended, which a device does not keep"
            hint = "choose bootstrap 'none' for the run, or simulate, or --onboard"
            raise ProgramError(ExitCode.REFUSED, what, hint)
        self._plant = make_plant(task, self._config.environment, self._settings, self._site)
        plant = self._plant.environment
        folder = StateStore.of_agent(self._folder, work.run, self._goal).folder / "episodes"
        self._site.store = EpisodeStore(folder, self._say, plant.spaces, plant.horizon + 1)
        self._site.tells = not self._config.privacy.noisy
        self._task = on_plant(task, self._plant)
        return built

    def train(self, work: e.Train, progress: Progress) -> e.Trained:
        """The update of a round, if the day has room for all of it.

        Raises:
            BudgetSpent: It has not.
        """
        task = self._task
        steps = steps_done(
            task.completeness, task.settings.local_steps, self._config.seed, self._goal, work.round
        )
        need = steps * per_local_step(task.settings) - self._kept
        self._budget.insist(need, f"round {work.round}")
        done = super().train(work, progress)
        if self._settings.shield is None:
            return done
        self._say(f"round {work.round}: the shield changed {self._site.overridden} actions")
        if self._config.privacy.noisy:  # metrics say of its data what the noise hides
            return done
        metrics = {**done.metrics, "shield_overrides": float(self._site.overridden)}
        return msgspec.structs.replace(done, metrics=metrics)

    def evaluate(self, work: e.Evaluate) -> e.Measured:
        """Keeps the final parameters adapted to the plant, in as many days as that takes; no figures.

        Figures would take hundreds of episodes more.
        """
        if self._save is None:
            return e.Measured(work.number, (), 0)
        while True:
            try:
                unsaved = self._adapt_and_keep(work)
            except BudgetSpent as spent:
                self._say(f"its own policy is not adapted yet: {spent}")
                self._site.rest(spent)
                continue
            if not unsaved:
                self._say(f"adapted the parameters of round {work.round} and saved them: {self._save}")
            return e.Measured(work.number, (), 0, unsaved)

    def _question(self, work: e.Train | e.Evaluate | e.Onboard) -> str:
        """Names what episodes are for: the work, its parameters, and the device as it is set up."""
        settings = zlib.crc32(msgspec.json.encode(self._settings))
        return f"{type(work).__name__.lower()}-{work.round:06d}-{crc32(work.params):08x}-{settings:08x}"
