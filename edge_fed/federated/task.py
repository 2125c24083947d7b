"""From a configuration to what one agent owns, and to the parameters that all start from."""

from collections.abc import Iterable

import msgspec

from edge_fed.config import Overrides, RunConfig, effective_algorithm, overrides_by_goal
from edge_fed.envs import make_family
from edge_fed.federated.attacks import colluders
from edge_fed.meta.base import Task
from edge_fed.params import F8
from edge_fed.policies import init_seed, make_policy
from edge_fed.policies.base import Policy
from edge_fed.rollouts import Sampler
from edge_fed.seeding import SERVER, Purpose, stream

__all__ = ["Task", "initial_params", "make_task"]


def make_task(config: RunConfig, goal: int, overrides: Overrides) -> Task:
    """Builds one agent's environment, policy and sampler.

    Args:
        config: The run's settings.
        goal: Agent id = goal, a training or a held-out one.
        overrides: What this agent changes for itself.

    Raises:
        UnknownName: No such family or policy.
        UnknownGoal: The family has no such goal; the message names the range.
        TypeError, ValueError: An argument of family or policy is wrong; the message names it.
    """
    environment = make_family(config.environment).make(goal, overrides.args)
    policy = make_policy(config.policy, environment.spaces)
    settings = effective_algorithm(config.algorithm, overrides)
    completeness = 1.0 if overrides.completeness is None else overrides.completeness
    sample, attack = Sampler(environment, policy), overrides.attack
    others = _honest(config, colluders(config, overrides))
    return Task(goal, environment, policy, sample, settings, completeness, attack, others)


def _honest(config: RunConfig, goals: Iterable[int]) -> tuple[Task, ...]:
    """These agents' tasks, with samplers of their own, as they would be without their attack."""
    planned = overrides_by_goal(config)
    return tuple(
        make_task(config, goal, msgspec.structs.replace(planned[goal], attack=None)) for goal in goals
    )


def initial_params(config: RunConfig, policy: Policy | None = None) -> F8:
    """The run's initial parameters, ``[d]``.

    One fixed initialization for all run seeds, as in the paper (science.md A14): keyed by the policy's
    own ``init_seed`` (0 unless given), not by ``config.seed``.

    Args:
        config: The run's settings.
        policy: The policy if it exists already; None builds it.
    """
    if policy is None:
        policy = make_policy(config.policy, make_family(config.environment).make(0).spaces)
    return policy.initial(stream(init_seed(config.policy), SERVER, 0, 0, Purpose.INITIAL))
