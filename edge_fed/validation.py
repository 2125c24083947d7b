"""What is wrong with a configuration beyond its single fields: everything that needs two fields or a table.

All faults are found, not only the first. `edge_fed.config` bounds what one field can say alone.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from edge_fed.byzantine_faults import byzantine_faults
from edge_fed.config import Algorithm, Goals, Overrides, RunConfig, effective_algorithm, parse_goals
from edge_fed.device_faults import device_faults
from edge_fed.envs import FAMILIES, make_family
from edge_fed.envs.base import Family
from edge_fed.errors import Fault, UnknownGoal, UnknownName, nearest
from edge_fed.federated.aggregation import AGGREGATIONS
from edge_fed.federated.attacks import ATTACKS
from edge_fed.federated.cohort import cohort_size
from edge_fed.federated.robust import RULES
from edge_fed.meta import BASELINES, CURVATURES, CURVED, VARIANTS
from edge_fed.policies import POLICIES, make_policy
from edge_fed.profiles import LINK_BOUNDS, PRESETS
from edge_fed.spaces import Spaces

MAX_AGENTS = 10_000
MAX_CONFIG_BYTES = 60_000  # of the 64 KiB of a WELCOME's header
MAX_NAME_BYTES = 200  # the name is a part of the run folder's name
LEAST_NOISE = 0.01
BATCHES = ("inner_batch", "hessian_batch", "outer_batch")


def check_run(config: RunConfig, absent: Collection[int] = ()) -> list[Fault]:
    """Finds everything wrong with a run before anything starts.

    Args:
        config: Settings whose single fields are valid.
        absent: Planned agents that are not there when the run starts (they join later).

    Returns:
        Faults with dotted paths; empty if the run can start.
    """
    faults = [*_numbers(config), *_size(config), *_run_name(config.name), *_names(config)]
    family = _family(config, faults)
    planned = _planned(config, family, faults)
    if family is not None and config.policy.name in POLICIES:
        faults += _policy(config, family)
    if not faults and family is not None:
        faults += device_faults(config, make_policy(config.policy, family.make(0).spaces).dimension)
    faults += _batches(config)
    faults += _correction(config.algorithm)
    faults += _privacy(config)
    faults += _inner_gradient(config.algorithm)
    faults += byzantine_faults(config, planned.keys() - set(absent))
    faults += _federation(config, len(set(planned) - set(absent)), len(planned))
    faults += _onboarding(config, family)
    return faults


def link_faults(link: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """What is wrong with the keys and values of an emulated link."""
    for key, value in link.items():
        if key not in LINK_BOUNDS:
            yield Fault(f"{path}.{key}", "unknown key of a link", nearest(key, LINK_BOUNDS))
            continue
        low, high = LINK_BOUNDS[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            yield Fault(f"{path}.{key}", f"is {value!r}, expected a number from {low:g} to {high:g}")


def goals_of(goals: Goals, path: str, family: Family | None, faults: list[Fault]) -> tuple[int, ...]:
    """Parses goals; what is no goal, or none of the family, becomes a fault at ``path``."""
    try:
        found = parse_goals(goals)
    except ValueError as error:
        faults.append(Fault(path, str(error)))
        return ()
    if family is not None:
        last = family.num_train + family.num_held_out - 1
        wrong = [goal for goal in found if goal > last]
        if wrong:
            many = f"{family.name} has no goal {wrong[0]}" + (
                f" (nor {len(wrong) - 1} more)" if wrong[1:] else ""
            )
            held_out = f", {family.num_train} to {last} held out" if family.num_held_out else ""
            faults.append(
                Fault(path, many, f"valid: 0 to {last}; 0 to {family.num_train - 1} train{held_out}")
            )
            return ()
    return found


def _numbers(config: RunConfig) -> Iterator[Fault]:
    """NaN, infinity and integers that no wire carries, wherever they stand."""
    yield from _finite(msgspec.to_builtins(config), "")
    for index, table in enumerate(config.agents):
        if table.link is not None:
            yield from link_faults(table.link, f"agents.{index}.link")


def _finite(value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _finite(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from _finite(below, f"{path}.{index}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(path, f"is {value}, expected a finite number")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield Fault(path, "is too large, expected a number of 64 bits")


def _size(config: RunConfig) -> Iterator[Fault]:
    """Settings that do not fit the one message in which agents receive them."""
    try:
        sizes = {
            name: len(msgspec.msgpack.encode(getattr(config, name))) for name in RunConfig.__struct_fields__
        }
    except (OverflowError, ValueError):  # reported by `_numbers`
        return
    total, largest = sum(sizes.values()), max(sizes, key=lambda name: sizes[name])
    if total > MAX_CONFIG_BYTES:
        why = f"takes {sizes[largest]} of {total} bytes, but agents receive all settings in one message"
        yield Fault(largest, why, f"shorten it: {MAX_CONFIG_BYTES} bytes fit in all")


def _run_name(name: str) -> Iterator[Fault]:
    """A name that cannot be the last part of a folder's name, or that no terminal shows."""
    if not name:
        yield Fault("name", "is empty", 'leave it out, or write e.g. name = "my-fleet"')
    elif "/" in name or not name.isprintable():
        yield Fault("name", f"is {name!r}, but a folder is named after it", "leave / and control signs out")
    elif len(name.encode()) > MAX_NAME_BYTES:
        yield Fault("name", f"has {len(name.encode())} bytes, at most {MAX_NAME_BYTES} fit a folder's name")


def _names(config: RunConfig) -> Iterator[Fault]:
    algorithm = config.algorithm
    tables: list[tuple[str, str, str, Collection[str]]] = [
        ("environment.family", "family", config.environment.family, FAMILIES),
        ("policy.name", "policy", config.policy.name, POLICIES),
        ("algorithm.variant", "variant", algorithm.variant, VARIANTS),
        ("algorithm.curvature", "curvature estimator", algorithm.curvature, CURVATURES),
        ("algorithm.baseline", "baseline", algorithm.baseline, BASELINES),
        ("algorithm.aggregation", "weights", algorithm.aggregation, AGGREGATIONS),
        ("algorithm.rule", "aggregation rule", algorithm.rule, RULES),
    ]
    for index, table in enumerate(config.agents):
        if table.curvature is not None:
            path = f"agents.{index}.curvature"
            tables.append((path, "curvature estimator", table.curvature, CURVATURES))
        if table.attack is not None:
            tables.append((f"agents.{index}.attack.kind", "attack", table.attack.kind, ATTACKS))
        if table.profile is not None:
            tables.append((f"agents.{index}.profile", "profile of a link", table.profile, PRESETS))
    for path, what, name, known in tables:
        if name not in known:
            yield Fault(path, f"unknown {what} {name!r}", nearest(name, known))


def _family(config: RunConfig, faults: list[Fault]) -> Family | None:
    try:
        return make_family(config.environment)
    except UnknownName:  # reported by `_names`
        return None
    except (ValueError, TypeError) as error:
        faults.append(Fault("environment.args", str(error)))
        return None


def _planned(config: RunConfig, family: Family | None, faults: list[Fault]) -> dict[int, Overrides]:
    """The planned agents; goals that are wrong, doubled or cannot be built become faults."""
    planned: dict[int, Overrides] = {}
    tables: dict[int, int] = {}
    for index, table in enumerate(config.agents):
        path = f"agents.{index}.goals"
        if table.goals == ():
            faults.append(Fault(path, "is empty", 'write e.g. goals = "0-5", or leave the table out'))
        for goal in goals_of(table.goals, path, family, faults):
            if goal in tables:
                faults.append(
                    Fault(path, f"goal {goal} is also in agents.{tables[goal]}.goals", "one agent per goal")
                )
            planned[goal] = table
            tables[goal] = index
        if table.args and family is not None:
            mine = [goal for goal, where in tables.items() if where == index]
            faults.extend(_built(family, mine, table.args, f"agents.{index}.args"))
    if not config.agents:
        faults.append(Fault("agents", "nobody trains", 'add [[agents]] with goals = "0-5"'))
    elif len(planned) > MAX_AGENTS:
        faults.append(Fault("agents", f"{len(planned)} agents, at most {MAX_AGENTS} fit one run"))
    return planned


def _built(family: Family, goals: list[int], args: dict[str, Any], path: str) -> Iterator[Fault]:
    """Builds one environment with an agent's own arguments; equal arguments fail alike."""
    try:
        for goal in goals[:1]:
            family.make(goal, args)
    except (ValueError, TypeError, UnknownGoal) as error:
        yield Fault(path, str(error))


def _policy(config: RunConfig, family: Family) -> Iterator[Fault]:
    """A policy that cannot work on the family's spaces, or wrong arguments of one that can."""
    spaces, name = family.make(0).spaces, config.policy.name
    if not _fits(name, spaces):
        fitting = ", ".join(repr(other) for other in POLICIES if _fits(other, spaces))
        message = f"policy {name!r} cannot work on the observations of {family.name!r}"
        yield Fault("policy.name", message, f"choose {fitting}")
        return
    try:
        make_policy(config.policy, spaces)
    except (ValueError, TypeError) as error:
        yield Fault("policy.args", str(error))


def _fits(name: str, spaces: Spaces) -> bool:
    """Whether the policy with its default arguments can work on these spaces."""
    try:
        POLICIES[name](spaces, {})
    except (ValueError, TypeError):
        return False
    return True


def _batches(config: RunConfig) -> Iterator[Fault]:
    """Batches too small for what they are used for, in [algorithm] and in each table of agents."""
    yield from _too_small(config.algorithm, BATCHES, "algorithm")
    for index, table in enumerate(config.agents):
        own = [name for name in BATCHES if getattr(table, name) is not None]
        yield from _too_small(effective_algorithm(config.algorithm, table), own, f"agents.{index}")


def _too_small(settings: Algorithm, names: Iterable[str], path: str) -> Iterator[Fault]:
    if settings.variant == "fedavg_pg":  # one gradient from all three batches together
        return
    for name in names:
        size = getattr(settings, name)
        fresh = settings.variant in CURVED and settings.curvature_batch == "fresh"
        if name == "hessian_batch" and not fresh:
            continue
        if size == 0:
            yield Fault(
                f"{path}.{name}",
                f"is 0, but variant {settings.variant!r} estimates its curvature from this batch",
                "give it at least 1, or choose variant 'first_order'",
            )
        elif size == 1 and settings.baseline == "loo":
            yield Fault(
                f"{path}.{name}",
                "is 1, but baseline 'loo' compares each trajectory with the others",
                "give it at least 2, or choose another baseline",
            )


def _inner_gradient(algorithm: Algorithm) -> Iterator[Fault]:
    if algorithm.variant == "sg_mrl" and algorithm.inner_gradient != "plain":
        yield Fault(
            "algorithm.inner_gradient",
            f"is {algorithm.inner_gradient!r}, but variant 'sg_mrl' is the gradient of the plain inner step",
            "choose 'plain', or variant 'exact' or 'first_order'",
        )


def _correction(settings: Algorithm) -> Iterator[Fault]:
    """Settings under which control variates cannot be computed, or would not cancel."""
    if settings.correction == "none":
        return
    if settings.outer_step_size == 0:
        yield Fault(
            "algorithm.outer_step_size",
            "is 0, but correction 'control_variate' divides each update by it",
            "give it a number above 0, or choose correction 'none'",
        )
    if settings.aggregation != "uniform":
        yield Fault(
            "algorithm.aggregation",
            f"is {settings.aggregation!r}, but control variates cancel only in a plain mean",
            "choose aggregation 'uniform', or correction 'none'",
        )


def _privacy(config: RunConfig) -> Iterator[Fault]:
    privacy = config.privacy
    if privacy.noisy and privacy.clip_norm == "off":
        yield Fault(
            "privacy.noise_multiplier",
            f"is {privacy.noise_multiplier:g}, but without a clip norm one update can say anything, "
            "whatever the noise",
            "give privacy.clip_norm a number, about the norm of an update",
        )
    if 0 < privacy.noise_multiplier < LEAST_NOISE:
        yield Fault(
            "privacy.noise_multiplier",
            f"is {privacy.noise_multiplier:g}: below {LEAST_NOISE:g} the guarantee of a single update is "
            "an epsilon above 20,000, which is none",
            "give it 0, or about 1 and more",
        )
    if privacy.noisy and config.federation.keep_best:
        yield Fault(
            "federation.keep_best",
            f"is {config.federation.keep_best}, but agents that add private noise send no evaluations",
            "leave it out",
        )


def _federation(config: RunConfig, at_start: int, planned: int) -> Iterator[Fault]:
    federation = config.federation
    if federation.quorum is not None and planned and federation.quorum > at_start:
        later = f" ({planned - at_start} more join later)" if planned > at_start else ""
        yield Fault(
            "federation.quorum",
            f"is {federation.quorum}, but {at_start} agents are planned at the start{later}",
            f"give it at most {at_start}",
        )
    asked = cohort_size(at_start, config.algorithm.participation)
    if federation.min_updates is not None and planned and federation.min_updates > asked:
        yield Fault(
            "federation.min_updates",
            f"is {federation.min_updates}, but a round asks {asked} of "
            f"{at_start} agents, so that every round would be skipped",
            f"give it at most {asked}",
        )
    if federation.keep_best and not federation.keep_checkpoints:
        yield Fault(
            "federation.keep_best",
            f"is {federation.keep_best}, but keep_checkpoints = 0 keeps every checkpoint",
            "give keep_checkpoints at least 1, or leave keep_best out",
        )
    if federation.lease_s <= federation.heartbeat_s:
        yield Fault(
            "federation.lease_s",
            f"is {federation.lease_s:g}, not longer than heartbeat_s = "
            f"{federation.heartbeat_s:g}: every agent would be lost",
            "give it several heartbeats",
        )


def _onboarding(config: RunConfig, family: Family | None) -> Iterator[Fault]:
    onboarding = config.onboarding
    faults: list[Fault] = []
    goals = goals_of(onboarding.goals, "onboarding.goals", family, faults)
    yield from faults
    for name in ("m_adapt", "scratch"):
        budgets = getattr(onboarding, name)
        if len(set(budgets)) != len(budgets):
            yield Fault(f"onboarding.{name}", "names a number of trajectories twice")
    for index, budget in enumerate(onboarding.m_adapt):
        if budget == 1 and config.algorithm.adapt_baseline == "loo":
            message = "is 1, but adapt_baseline 'loo' compares each trajectory with the others"
            yield Fault(f"onboarding.m_adapt.{index}", message, "give it 0 or at least 2")
    for index, budget in enumerate(onboarding.scratch):
        if budget % onboarding.scratch_batch:
            message = f"is {budget}, no multiple of scratch_batch = {onboarding.scratch_batch}"
            yield Fault(f"onboarding.scratch.{index}", message)
    if goals and not onboarding.m_adapt:
        message = "is empty, so that the onboarders have nothing to measure"
        yield Fault("onboarding.m_adapt", message, "e.g. m_adapt = [0, 100]")
