"""What is wrong with batches, fits of values, inner gradients and the correction of a run."""

from collections.abc import Iterable, Iterator

from edge_fed.config import Algorithm, RunConfig, effective_algorithm
from edge_fed.envs.gymnasium import bootstraps
from edge_fed.errors import Fault
from edge_fed.meta import CURVED
from edge_fed.meta.baselines import BASELINES, ValueBaseline
from edge_fed.meta.regression import regression
from edge_fed.spaces import Spaces

BATCHES = ("inner_batch", "hessian_batch", "outer_batch")


def batch_faults(config: RunConfig) -> Iterator[Fault]:
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


def value_faults(config: RunConfig, spaces: Spaces) -> Iterator[Fault]:
    """Fits of values to observations that are too large for them, wherever they are asked for."""
    try:
        regression(spaces)
    except ValueError as error:
        name, environment = config.algorithm.baseline, config.environment
        if name in BASELINES and BASELINES[name] is ValueBaseline:
            yield Fault("algorithm.baseline", f"is {name!r}, but {error}")
        if bootstraps(environment, {}):
            yield Fault("environment.args", f"bootstrap is 'value', but {error}")
        for index, table in enumerate(config.agents):
            if "bootstrap" in table.args and bootstraps(environment, table.args):
                yield Fault(f"agents.{index}.args", f"bootstrap is 'value', but {error}")


def inner_gradient_faults(algorithm: Algorithm) -> Iterator[Fault]:
    """An inner gradient that the variant does not have."""
    if algorithm.variant == "sg_mrl" and algorithm.inner_gradient != "plain":
        yield Fault(
            "algorithm.inner_gradient",
            f"is {algorithm.inner_gradient!r}, but variant 'sg_mrl' is the gradient of the plain inner step",
            "choose 'plain', or variant 'exact' or 'first_order'",
        )


def correction_faults(settings: Algorithm) -> Iterator[Fault]:
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


def weight_faults(config: RunConfig) -> Iterator[Fault]:
    """Weights of single agents where all must weigh alike."""
    algorithm = config.algorithm
    for index, table in enumerate(config.agents):
        if table.weight != 1 and algorithm.correction != "none":
            yield Fault(
                f"agents.{index}.weight",
                f"is {table.weight:g}, but control variates cancel only in a plain mean",
                "leave it out, or choose correction 'none'",
            )
        if table.weight != 1 and algorithm.rule != "mean":
            yield Fault(
                f"agents.{index}.weight",
                f"is {table.weight:g}, but rule {algorithm.rule!r} weighs agents alike",
                "leave it out, or choose rule 'mean'",
            )
