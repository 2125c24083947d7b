"""What is wrong with a configuration beyond its single fields: everything that needs two fields or a table.

All faults are found, not only the first. `edge_fed.config` bounds what one field can say alone.
"""

from collections.abc import Collection

from edge_fed.config import Overrides, RunConfig
from edge_fed.errors import Fault
from edge_fed.federated.task import blueprint
from edge_fed.policies import POLICIES
from edge_fed.validation.algorithm import (
    batch_faults,
    correction_faults,
    inner_gradient_faults,
    value_faults,
    weight_faults,
)
from edge_fed.validation.byzantine import byzantine_faults
from edge_fed.validation.devices import device_faults
from edge_fed.validation.federation import federation_faults, noise_faults, onboarding_faults, privacy_faults
from edge_fed.validation.fleet import Goals, family_of, planned_agents, policy_faults
from edge_fed.validation.supervised import supervised_faults, users_of
from edge_fed.validation.values import name_faults, number_faults, run_name_faults, size_faults


def check_run(config: RunConfig, absent: Collection[int] = ()) -> list[Fault]:
    """Finds everything wrong with a run before anything starts.

    Args:
        config: Settings whose single fields are valid.
        absent: Planned agents that are not there when the run starts (they join later).

    Returns:
        Faults with dotted paths; empty if the run can start.
    """
    faults = [
        *number_faults(config),
        *size_faults(config),
        *run_name_faults(config.name),
        *name_faults(config),
    ]
    family: Goals | None
    if config.task.kind == "supervised":
        family = users_of(config, faults)
        planned = planned_agents(config, family, faults)
        faults += supervised_faults(config, family)
    else:
        family, planned = _reinforcement(config, faults)
    if not faults:
        dimension = blueprint(config).dimension
        faults += [*device_faults(config, dimension), *noise_faults(config, dimension)]
    faults += correction_faults(config.algorithm)
    faults += weight_faults(config)
    faults += privacy_faults(config)
    faults += byzantine_faults(config, planned.keys() - set(absent))
    faults += federation_faults(config, len(set(planned) - set(absent)), len(planned))
    faults += onboarding_faults(config, family)
    return faults


def _reinforcement(config: RunConfig, faults: list[Fault]) -> tuple[Goals | None, dict[int, Overrides]]:
    """What only policies in environments can have wrong; returns the family and the planned agents."""
    family = family_of(config, faults)
    planned = planned_agents(config, family, faults)
    if family is not None and config.policy.name in POLICIES:
        faults += policy_faults(config, family)
    if family is not None:
        faults += value_faults(config, family.make(0).spaces)
    faults += batch_faults(config)
    faults += inner_gradient_faults(config.algorithm)
    return family, planned
