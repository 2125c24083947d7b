"""From a configuration to what one agent owns, and to the parameters that all start from."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import msgspec
from numpy.random import Generator

from edge_fed import reinforcement, supervised
from edge_fed.config import Overrides, RunConfig, overrides_by_goal
from edge_fed.errors import ConfigError, Fault
from edge_fed.federated.attacks import colluders
from edge_fed.learner import Blueprint, Learner
from edge_fed.meta.base import Task
from edge_fed.params import F8
from edge_fed.policies import init_seed
from edge_fed.reinforcement import Reinforcement
from edge_fed.seeding import SERVER, Purpose, stream

__all__ = ["Task", "blueprint", "initial_params", "make_learner", "make_task"]


class Kind(NamedTuple):
    """One kind of task: from a configuration to a learner, and to the shape that all of them share."""

    make: Callable[[RunConfig, int, Overrides], Learner]
    blueprint: Callable[[RunConfig], Blueprint]


KINDS: dict[str, Kind] = {
    "reinforcement": Kind(reinforcement.make_task, reinforcement.blueprint),
    "supervised": Kind(supervised.make_supervised, supervised.blueprint),
}
"""The table of ``[task] kind``."""


def make_learner(config: RunConfig, goal: int, overrides: Overrides | None = None) -> Learner:
    """Builds what one agent owns.

    Args:
        config: The run's settings.
        goal: Agent id = goal, a training or a held-out one.
        overrides: What this agent changes for itself; None: what its ``[[agents]]`` table says.

    Raises:
        UnknownName: No such family, policy, data set or model.
        UnknownGoal: There is no such goal; the message names the range.
        TypeError, ValueError: An argument is wrong; the message names it.
        MissingData: A user's files are not there.
    """
    if overrides is None:
        overrides = overrides_by_goal(config).get(goal, Overrides())
    learner = KINDS[config.task.kind].make(config, goal, overrides)
    others = _honest(config, colluders(config, overrides))
    return msgspec.structs.replace(learner, colluders=others) if others else learner  # type: ignore[type-var]


def make_task(config: RunConfig, goal: int, overrides: Overrides) -> Reinforcement:
    """`make_learner` for what works on environments alone.

    Raises:
        ConfigError: The run's tasks are of another kind.
    """
    learner = make_learner(config, goal, overrides)
    if not isinstance(learner, Reinforcement):
        message = f"is {config.task.kind!r}, but this works on policies in environments alone"
        raise ConfigError([Fault("task.kind", message)], config.name)
    return learner


def blueprint(config: RunConfig) -> Blueprint:
    """The common shape of the run's tasks; builds none, and needs no data.

    Raises:
        UnknownName, TypeError, ValueError: As `make_learner`.
    """
    return KINDS[config.task.kind].blueprint(config)


def _honest(config: RunConfig, goals: Iterable[int]) -> tuple[Learner, ...]:
    """These agents' learners, with counters of their own, as they would be without their attack."""
    planned = overrides_by_goal(config)
    return tuple(
        make_learner(config, goal, msgspec.structs.replace(planned[goal], attack=None)) for goal in goals
    )


class _Initial(Protocol):
    def initial(self, rng: Generator) -> F8: ...


def initial_params(config: RunConfig, policy: _Initial | None = None) -> F8:
    """The run's initial parameters, ``[d]``.

    One fixed initialization for all run seeds, as in the paper (science.md A14): keyed by the policy's or
    model's own ``init_seed`` (0 unless given), not by ``config.seed``.

    Args:
        config: The run's settings.
        policy: Policy or learner if there is one already; None builds what is needed.
    """
    initial = policy.initial if policy is not None else blueprint(config).initial
    named = config.model if config.task.kind == "supervised" else config.policy
    return initial(stream(init_seed(named), SERVER, 0, 0, Purpose.INITIAL))
