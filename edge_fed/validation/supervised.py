"""What is wrong with a run of supervised tasks: found from its settings, without any data."""

from collections.abc import Iterator
from typing import Any

import msgspec

from edge_fed.config import Algorithm, DatasetConfig, RunConfig, effective_algorithm, parse_goals
from edge_fed.datasets import DATASETS
from edge_fed.errors import Fault
from edge_fed.supervised import MODELS
from edge_fed.supervised.learner import make_model, partition_args
from edge_fed.supervised.partition import PartitionArgs
from edge_fed.supervised.users import needs
from edge_fed.validation.fleet import Goals

BATCHES = ("inner_batch", "hessian_batch", "outer_batch")
UNUSED = ("baseline", "adapt_baseline", "inner_gradient", "curvature_batch")
"""Settings of policies and trajectories: here they would change nothing, so that they are refused."""


class Users(msgspec.Struct, frozen=True):
    """The users of a data set, as `edge_fed.validation.fleet.Goals`."""

    name: str
    num_train: int
    num_held_out: int
    config: DatasetConfig

    def make(self, goal: int, args: dict[str, Any] | None = None) -> PartitionArgs:  # noqa: ARG002
        """Reads an agent's own arguments; all users' are read alike.

        Raises:
            ValueError: They are wrong; the message names the argument.
        """
        return partition_args(self.config, args)


def users_of(config: RunConfig, faults: list[Fault]) -> Users | None:
    """The users; None if the data set is unknown, or if its arguments are wrong (a fault)."""
    if config.dataset.family not in DATASETS:  # reported by `name_faults`
        return None
    try:
        args = partition_args(config.dataset)
    except (ValueError, TypeError) as error:
        faults.append(Fault("dataset.args", str(error)))
        return None
    return Users(config.dataset.family, args.users, args.held_out, config.dataset)


def supervised_faults(config: RunConfig, users: Goals | None) -> Iterator[Fault]:
    """Settings that do not apply, batches and splits that are too small, wrong arguments of the model."""
    if config.model.name in MODELS and config.dataset.family in DATASETS:
        try:
            make_model(config)
        except (ValueError, TypeError) as error:
            yield Fault("model.args", str(error))
    for name in UNUSED:
        value, unset = getattr(config.algorithm, name), getattr(Algorithm(), name)
        if value != unset:
            yield Fault(f"algorithm.{name}", f"is {value!r}, but supervised tasks have none", "leave it out")
    yield from _batches(config.algorithm, "algorithm")
    for index, table in enumerate(config.agents):
        if any(getattr(table, name) is not None for name in BATCHES):
            yield from _batches(effective_algorithm(config.algorithm, table), f"agents.{index}")
    if users is not None:
        yield from _splits(config)


def _batches(settings: Algorithm, path: str) -> Iterator[Fault]:
    if settings.variant == "exact" and settings.hessian_batch == 0:
        yield Fault(
            f"{path}.hessian_batch",
            "is 0, but variant 'exact' estimates its curvature from this batch",
            "give it at least 1, or choose variant 'first_order'",
        )


def _splits(config: RunConfig) -> Iterator[Fault]:
    """A split must leave images to be scored, of every user that is measured with one."""
    onboarding, args = config.onboarding, partition_args(config.dataset)
    sizes = [sum(wanted.values()) for wanted in needs(config.dataset.family, args, "test")]
    trained = range(args.users)
    if onboarding.adapt_from == "split" and min(sizes[k] for k in trained) <= onboarding.adapt_episodes:
        yield _too_large(f"adapt_episodes is {onboarding.adapt_episodes}", min(sizes[k] for k in trained))
    largest = max(onboarding.m_adapt, default=0)
    for goal in _goals(config):
        split = goal >= args.users or onboarding.adapt_from == "split"
        if goal < len(sizes) and split and sizes[goal] <= largest:
            yield _too_large(f"the largest of m_adapt is {largest}", sizes[goal])
            return


def _goals(config: RunConfig) -> tuple[int, ...]:
    try:
        return parse_goals(config.onboarding.goals)
    except ValueError:  # reported by `onboarding_faults`
        return ()


def _too_large(what: str, size: int) -> Fault:
    message = f"{what}, but a user has {size} test images: a split leaves none to score"
    return Fault("onboarding", message, "take less, or a larger a_test in [dataset] args")
