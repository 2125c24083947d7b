"""A task on one real plant: the run's own environment gives its spaces, and is used no further."""

from typing import Any

import gymnasium
import msgspec
import numpy as np

from agent.plant_file import PlantFile
from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.gymnasium import EpisodicEnvironment, Gymnasium
from edge_fed.envs.gymnasium.instance import Instance, Scales
from edge_fed.envs.gymnasium.making import make_env
from edge_fed.envs.gymnasium.shielded import Shield, Shielded
from edge_fed.plant import Plant, Site
from edge_fed.plant_sampler import PlantSampler
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement
from edge_fed.user_code import UserCodeError, load


def make_plant(task: Reinforcement, run: EnvironmentConfig, settings: PlantFile, site: Site) -> Plant:
    """The plant, in its place; the environment that the task simulates is closed.

    Args:
        task: As the run says, simulated.
        run: The run's environment, whose scales the plant shares.
        settings: Of the device.
        site: Where the plant stands.

    Raises:
        ProgramError: The plant or its shield cannot be made, or its spaces are not those of the run.
    """
    simulated, scales, shield = task.environment, _scales(make_family(run)), _shield(settings)
    shielded: list[Shielded] = []

    def make() -> Instance:
        env = make_env(settings.environment, settings.env_args)
        if shield is not None and isinstance(env, gymnasium.Env):
            env = Shielded(env, shield, str(settings.shield))
            shielded[:] = [env]
        instance = Instance(env, scales)
        features = simulated.spaces.monomials  # of the value baseline: the family's, not the plant's
        instance.spaces = msgspec.structs.replace(instance.spaces, monomials=features)
        return instance

    name = f"agent {task.agent} (device {settings.environment})"
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
    return Plant(plant, site, settings.reset, lambda: shielded[0].overridden if shielded else 0)


def on_plant(task: Reinforcement, plant: Plant) -> Reinforcement:
    """The same task with the plant in the place of its environment."""
    sample = PlantSampler(plant, task.policy)
    return msgspec.structs.replace(task, environment=plant.environment, sample=sample)


def _shield(settings: PlantFile) -> Shield | None:
    try:
        return load(settings.shield, "shield of the device") if settings.shield else None
    except UserCodeError as error:
        raise ProgramError(ExitCode.USAGE, str(error), "mend --device") from error


def _scales(family: Any) -> Scales:
    """The run's fixed normalisation, which a plant shares with the simulations."""
    if not isinstance(family, Gymnasium):
        return Scales(1.0, 0.0, None)
    found = family.settings
    scale = None if found.obs_scale == 1.0 else np.array(found.obs_scale, dtype=np.float64)
    return Scales(found.reward_scale, found.reward_shift, scale)
