"""What an agent computes whose environment is one real plant: `agent.learner.Learner` with another sampler.

The run's own environment of the goal stays unused but for its spaces, which the plant must share.
"""

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np

from agent import events as e
from agent.daily_budget import DailyBudget
from agent.episode_store import EpisodeStore
from agent.learner import Learner, Progress
from agent.plant_file import PlantFile
from agent.plant_site import PlantSite
from agent.state_store import StateStore
from agent.worker import Watched
from edge_fed.config import Overrides
from edge_fed.envs import make_family
from edge_fed.envs.gymnasium import EpisodicEnvironment, Gymnasium
from edge_fed.envs.gymnasium.instance import Instance, Scales
from edge_fed.envs.gymnasium.making import make_env
from edge_fed.envs.gymnasium.shielded import Shielded
from edge_fed.params import crc32
from edge_fed.plant import Plant
from edge_fed.plant_sampler import PlantSampler, per_local_step
from edge_fed.profiles import steps_done
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement
from edge_fed.user_code import load


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
        path = state_folder / f"agent-{goal}-day.json"
        self._budget = DailyBudget(path, settings.daily_trajectories, today)
        self._site = PlantSite(settings.pace_s, self._budget, now)
        self._shielded: Shielded | None = None
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
            ProgramError: The plant or its shield cannot be made, or its spaces are not those of the run.
        """
        if self._plant is not None:
            self._plant.environment.close()  # one plant, one instance
        built = super().build(work)
        task = self._task
        if not isinstance(task, Reinforcement):
            raise ProgramError(ExitCode.REFUSED, f"a device acts, and this run's tasks are {task.unit}")
        plant = self._environment(task)
        folder = StateStore.of_agent(self._folder, work.run, self._goal).folder / "episodes"
        self._site.store = EpisodeStore(folder, self._say, plant.spaces, plant.horizon + 1)
        self._site.tells = not self._config.privacy.noisy
        self._plant = Plant(plant, self._site, self._settings.reset, self._overridden)
        sample = PlantSampler(self._plant, task.policy)
        self._task = msgspec.structs.replace(task, environment=plant, sample=sample)
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

    def _question(self, work: e.Train | e.Evaluate | e.Onboard) -> str:
        """Names what episodes are for: the work, its parameters, and the device as it is set up."""
        settings = zlib.crc32(msgspec.json.encode(self._settings))
        return f"{type(work).__name__.lower()}-{work.round:06d}-{crc32(work.params):08x}-{settings:08x}"

    def _overridden(self) -> int:
        return self._shielded.overridden if self._shielded else 0

    def _environment(self, task: Reinforcement) -> EpisodicEnvironment:
        simulated, settings = task.environment, self._settings
        scales = _scales(make_family(self._config.environment))
        shield = load(settings.shield, "shield of the device") if settings.shield else None

        def make() -> Instance:
            env = make_env(settings.environment, settings.env_args)
            if shield is not None and isinstance(env, gymnasium.Env):
                env = self._shielded = Shielded(env, shield, str(settings.shield))
            instance = Instance(env, scales)
            features = simulated.spaces.monomials  # of the value baseline: the family's, not the plant's
            instance.spaces = msgspec.structs.replace(instance.spaces, monomials=features)
            return instance

        name = f"agent {self._goal} (device {settings.environment})"
        plant = EpisodicEnvironment(name, simulated.horizon, simulated.discount, make, lambda: True)
        try:
            found = plant.spaces
        except ValueError as error:
            raise ProgramError(ExitCode.USAGE, f"{name} cannot be made: {error}", "mend --device") from error
        if found != simulated.spaces:
            plant.close()
            both = f"the plant has {found}, the run's environment {simulated.spaces}"
            raise ProgramError(ExitCode.REFUSED, f"{name}: {both}", "offer the spaces of the run")
        if isinstance(simulated, EpisodicEnvironment):
            simulated.close()
        return plant


def _scales(family: Any) -> Scales:
    """The run's fixed normalisation, which a plant shares with the simulations."""
    if not isinstance(family, Gymnasium):
        return Scales(1.0, 0.0, None)
    found = family.settings
    scale = None if found.obs_scale == 1.0 else np.array(found.obs_scale, dtype=np.float64)
    return Scales(found.reward_scale, found.reward_shift, scale)
