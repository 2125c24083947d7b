"""Small runs that several tests share."""

from collections.abc import Iterable

import msgspec

from edge_fed.config import (
    Agents,
    Algorithm,
    EnvironmentConfig,
    Federation,
    Overrides,
    PolicyConfig,
    RunConfig,
)
from edge_fed.federated.per_fedavg_pg import Round, full_attendance, per_fedavg_pg
from edge_fed.federated.record import Attendance
from edge_fed.federated.task import Task, initial_params, make_task


def gridworld(seed: int = 0, agents: str = "0-7", min_updates: int | None = None, **algorithm) -> RunConfig:
    """The paper's tabular setting (E1); ``algorithm`` overrides its keys."""
    paper = {"rounds": 80, "local_steps": 5, "inner_step_size": 2.0, "outer_step_size": 0.3}
    return RunConfig(
        name="gridworld",
        seed=seed,
        environment=EnvironmentConfig(family="gridworld", horizon=15),
        policy=PolicyConfig(name="softmax"),
        algorithm=msgspec.convert({**paper, **algorithm}, Algorithm),
        federation=Federation(min_updates=min_updates),
        agents=(Agents(goals=agents),),
    )


def navigation(seed: int = 0, **algorithm) -> RunConfig:
    """The paper's few-shot setting (E5); ``algorithm`` overrides its keys."""
    return RunConfig(seed=seed, algorithm=msgspec.convert(algorithm, Algorithm))


def tasks_of(config: RunConfig, agents: Iterable[int]) -> dict[int, Task]:
    """Every agent's task, without overrides."""
    return {agent: make_task(config, agent, Overrides()) for agent in agents}


def play(
    config: RunConfig, agents: Iterable[int], attendance: Iterable[Attendance] | None = None
) -> list[Round]:
    """All rounds of a plain run."""
    agents = tuple(agents)
    rounds = attendance or full_attendance(agents, config.algorithm.rounds)
    return list(per_fedavg_pg(config, tasks_of(config, agents), initial_params(config), rounds))
