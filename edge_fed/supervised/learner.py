"""Supervised learning as a `edge_fed.learner.Learner`: one user's examples and the shared model.

The unit is the sample: an example drawn counts each time. Sources: Fallah et al. 2020 (seeds 001 and 003).
"""

from typing import Any

import msgspec
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.config import (
    Algorithm,
    Attack,
    DatasetConfig,
    ModelConfig,
    Onboarding,
    Overrides,
    RunConfig,
    effective_algorithm,
)
from edge_fed.datasets import dataset
from edge_fed.datasets.base import Part
from edge_fed.errors import UnknownName
from edge_fed.learner import Blueprint, Learner, Onboarded, Progress, Row, Unit, Warn
from edge_fed.meta.base import AgentState, Estimate
from edge_fed.params import F8
from edge_fed.seeding import Streams
from edge_fed.supervised.careful import careful_step
from edge_fed.supervised.directions import DIRECTIONS
from edge_fed.supervised.evaluation import evaluate
from edge_fed.supervised.network import Batch, EluNetwork, make_network
from edge_fed.supervised.onboarding import onboard
from edge_fed.supervised.partition import PartitionArgs
from edge_fed.supervised.users import User

MODELS = {"mlp-elu": make_network}
"""The table of ``[model] name``."""


class Counter:
    """Samples drawn."""

    def __init__(self) -> None:
        self.samples = 0


class Supervised(msgspec.Struct, frozen=True):
    """What one user owns; see `Learner` for the methods."""

    agent: int
    model: EluNetwork
    user: User
    settings: Algorithm
    counter: Counter
    completeness: float = 1.0
    attack: Attack | None = None
    colluders: tuple[Learner, ...] = ()

    @property
    def unit(self) -> Unit:
        """Samples."""
        return "samples"

    @property
    def spent(self) -> int:
        """Samples drawn so far."""
        return self.counter.samples

    @property
    def env_steps(self) -> int:
        """0: there is no environment."""
        return 0

    @property
    def dimension(self) -> int:
        """Of the model."""
        return self.model.dimension

    @property
    def description(self) -> str:
        """Of the model."""
        return self.model.description

    def fresh(self) -> "Supervised":
        """The same user with a counter of its own."""
        return msgspec.structs.replace(self, counter=Counter())

    def initial(self, rng: Generator) -> F8:
        """The model's, ``[d]``."""
        return self.model.initial(rng)

    def initial_state(self) -> AgentState:
        """None is kept."""
        return {}

    def draw(self, count: int, rng: Generator, part: Part = "train") -> Batch:
        """Examples of the user's own, counted."""
        self.counter.samples += count
        return self.user.draw(part, count, rng)

    def local_step(
        self,
        params: F8,
        state: AgentState,
        streams: Streams,
        memory: dict[str, Any],  # noqa: ARG002  of variants that keep something
    ) -> tuple[Estimate, AgentState]:
        """The variant's direction of ascent of J = -loss."""
        direction = DIRECTIONS[self.settings.variant]
        return direction(self.model, params, self.settings, self.draw, streams), state

    def adapt(
        self, params: F8, m: int, rng: Generator, *, alpha: float | None = None, careful: bool = False
    ) -> F8:
        """``adapt_steps`` steps of stochastic gradient ascent of J, each on m fresh samples of its own."""
        size = self.settings.inner_step_size if alpha is None else alpha
        part: Part = "test" if self.user.unseen else "train"
        for _ in range(self.settings.adapt_steps if m else 0):
            batch = self.draw(m, rng, part)
            params = (
                self.careful_step(params, batch, size)[0] if careful else self.stepped(params, batch, size)
            )
        return params.copy()

    def stepped(self, params: F8, batch: Batch, alpha: float) -> F8:
        """Theta + alpha grad J on a batch, ``[d]``."""
        found: F8 = params + alpha * self.model.gradient(self.model.cast(params), batch)
        return found

    def careful_step(self, params: F8, batch: Batch, alpha: float) -> tuple[F8, float]:
        """A step that is tried first, and the part of it that was taken: `edge_fed.supervised.careful`."""
        return careful_step(self.model, params, batch, alpha)

    def evaluate(
        self,
        params: F8,
        seed: int,
        config: Onboarding,
        warn: Warn = lambda _text: None,  # noqa: ARG002  of policies, whose steps are looked at
    ) -> Row:
        """Loss and accuracy before and after adaptation."""
        return evaluate(self.fresh(), params, seed, config)

    def onboard(
        self,
        params: F8,
        seed: int,
        config: Onboarding,
        progress: Progress,
        warn: Warn = lambda _text: None,  # noqa: ARG002  of policies, whose steps are looked at
    ) -> Onboarded:
        """Loss and accuracy for each budget, and of the baselines."""
        return onboard(self.fresh(), params, seed, config, progress)


def make_supervised(config: RunConfig, goal: int, overrides: Overrides) -> Supervised:
    """Builds one user; its attack finds no colluders yet.

    Args:
        config: The run's settings.
        goal: Agent id = user.
        overrides: What this agent changes for itself; of the data set's arguments, ``folder`` alone.

    Raises:
        UnknownName, UnknownGoal, TypeError, ValueError: As `edge_fed.federated.task.make_learner`.
        MissingData: The files of the user's data are not there.
    """
    model = make_model(config)
    partition_args(config.dataset, overrides.args)  # an agent's own are checked, and name a folder at most
    args, folder = partition_args(config.dataset), overrides.args.get("folder", "")
    user = User(config.dataset.family, args, goal, model.dtype, folder)
    settings = effective_algorithm(config.algorithm, overrides)
    completeness = 1.0 if overrides.completeness is None else overrides.completeness
    return Supervised(goal, model, user, settings, Counter(), completeness, overrides.attack)


def blueprint(config: RunConfig) -> Blueprint:
    """The shape of the users' tasks; needs no data.

    Raises:
        UnknownName, TypeError, ValueError: As `make_supervised`.
    """
    args, model = partition_args(config.dataset), make_model(config)
    return Blueprint(
        config.dataset.family, args.users, args.held_out, model.dimension, model.description, model.initial
    )


def make_model(config: RunConfig) -> EluNetwork:
    """The run's model on the examples of its data set; ``init_seed`` is an argument of every model.

    Raises:
        UnknownName: No such model or data set.
        ValueError: An argument is wrong; the message names it.
    """
    named: ModelConfig = config.model
    if named.name not in MODELS:
        raise UnknownName("model", named.name, MODELS)
    known = dataset(config.dataset.family)
    args = {name: value for name, value in named.args.items() if name != "init_seed"}
    return MODELS[named.name](known.inputs, known.classes, args)


def partition_args(config: DatasetConfig, own: dict[str, Any] | None = None) -> PartitionArgs:
    """The arguments of the data set, with an agent's own over them.

    Raises:
        ValueError: An argument is wrong, or an agent changes more than its folder; the message names it.
    """
    for name in own or {}:
        if name != "folder":
            raise ValueError(
                f"an agent may name its own folder of data, not {name!r}: users would share images"
            )
    return read_args(PartitionArgs, {**config.args, **(own or {})}, f"data set {config.family!r}")
