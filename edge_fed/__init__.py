"""Personalized federated reinforcement learning: the mathematics, and the plumbing programs share.

For a notebook::

    import numpy
    import edge_fed

    config = edge_fed.load_config("my-fleet.toml")          # or edge_fed.RunConfig(...)
    for round in edge_fed.train(config):                    # the plain loop; the bits are those of a fleet
        print(round.record.round, round.record.params_sha256)
    newcomer = edge_fed.make_learner(config, goal=8)
    own = newcomer.adapt(round.params, 100, numpy.random.default_rng(0), careful=True)
    print(newcomer.evaluate(own, config.seed, config.onboarding)["expected_return"])

What users write themselves, an environment family, a policy, a variant, a curvature estimator or a baseline,
is named ``module:name`` where the settings name one (`edge_fed.tables`), or put into the table of its kind.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_fed.config import Algorithm, EnvironmentConfig, Onboarding, PolicyConfig, RunConfig
    from edge_fed.envs import FAMILIES
    from edge_fed.federated.per_fedavg_pg import train
    from edge_fed.federated.task import initial_params, make_learner
    from edge_fed.meta import BASELINES, CURVATURES, VARIANTS
    from edge_fed.policies import POLICIES
    from edge_fed.program.config_file import load_config

__all__ = [
    "BASELINES",
    "CURVATURES",
    "FAMILIES",
    "POLICIES",
    "VARIANTS",
    "Algorithm",
    "EnvironmentConfig",
    "Onboarding",
    "PolicyConfig",
    "RunConfig",
    "initial_params",
    "load_config",
    "make_learner",
    "train",
]

_HOMES = {
    **dict.fromkeys(("Algorithm", "EnvironmentConfig", "Onboarding", "PolicyConfig", "RunConfig"), "config"),
    **dict.fromkeys(("BASELINES", "CURVATURES", "VARIANTS"), "meta"),
    "FAMILIES": "envs",
    "POLICIES": "policies",
    "initial_params": "federated.task",
    "load_config": "program.config_file",
    "make_learner": "federated.task",
    "train": "federated.per_fedavg_pg",
}


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used: a program that needs one module pays for no other."""
    if name not in _HOMES:
        raise AttributeError(f"module 'edge_fed' has no attribute {name!r}")
    return getattr(import_module(f"edge_fed.{_HOMES[name]}"), name)
