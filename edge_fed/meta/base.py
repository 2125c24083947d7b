"""What a meta-gradient is given and what it returns.

Source of the symbols: Per-FedAvg-PG (the paper), sections 2 and 3; science.md 1.1 and 1.2.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from edge_fed.config import Algorithm, Attack
from edge_fed.envs.base import Mdp
from edge_fed.errors import ShapeError
from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.rollouts import BaseSampler, Trajectories
from edge_fed.seeding import Streams

AgentState = dict[str, F8]
"""What an agent keeps from round to round, as named arrays; empty for stateless agents."""


def insist_on_state(owner: str, state: AgentState, like: AgentState) -> None:
    """Checks that a state holds arrays with the names and shapes of ``like``; it may hold others.

    Raises:
        ShapeError: It does not; the message begins with ``owner``.
    """
    for name, array in like.items():
        found = state[name].shape if name in state else None
        if found != array.shape:
            raise ShapeError(f"{owner}: state {name!r} has shape {found}, needs {array.shape}")


class Task(msgspec.Struct, frozen=True):
    """What one agent owns; never leaves its process.

    Attributes:
        agent: Agent id = goal.
        environment: Its MDP.
        policy: The shared policy class.
        sample: Rolls the policy out in the environment, and counts.
        settings: The run's algorithm, after the agent's overrides.
        completeness: Least part of a round's local steps that it does: `edge_fed.profiles`.
        attack: What it sends instead of its update; None: it is honest.
        colluders: Honest learners of all agents whose updates the attack needs, ascending.
    """

    agent: int
    environment: Mdp
    policy: Policy
    sample: BaseSampler
    settings: Algorithm
    completeness: float = 1.0
    attack: Attack | None = None
    colluders: tuple[Any, ...] = ()


class Estimate(msgspec.Struct, frozen=True):
    """One local step's direction.

    Attributes:
        direction: Of ASCENT, ``[d]``.
        trajectories: Sampled for it, counted while sampling.
        metrics: Scalars of this step: ``inner_norm`` ||g_in||; of `exact` and `sg_mrl` also
            ``curvature_ratio`` ||c|| / ||v||, ``guard_rate`` (1 if the guard bit) and ``cosine`` of c and v,
            for what they add to v = g_out: c = alpha H v, in `sg_mrl` with its score term.
    """

    direction: F8
    trajectories: int
    metrics: dict[str, float]


class Baseline(ABC):
    """Subtracted from the rewards-to-go of ONE local step; fixed before the step samples anything.

    A subclass that learns overrides `initial` and `after`; the others are stateless.
    """

    def __init__(self, task: Task, state: AgentState) -> None:
        self.task = task
        self.state = state

    @classmethod
    def initial(cls, task: Task) -> AgentState:  # noqa: ARG003  stateless kinds need no task
        """The state of an agent that never trained."""
        return {}

    @abstractmethod
    def advantages(self, batch: Trajectories) -> F8:
        """R^h - b_h, ``[H+1, m]``; a learning baseline remembers the batch for `after`."""

    def after(self) -> AgentState:
        """The state for the next local step; ``state`` itself is left as it was."""
        return self.state


class LocalStep(msgspec.Struct, frozen=True):
    """What one local step has besides task and parameters.

    Attributes:
        streams: Its random streams, one per purpose.
        baseline: Of this step.
        memory: What a variant keeps from one local step to the next, under names of its own; empty at the
            first of a round, and gone with the round: it is no agent state.
    """

    streams: Streams
    baseline: Baseline
    memory: dict[str, Any] = msgspec.field(default_factory=dict)


MetaGradient = Callable[[Task, F8, LocalStep], Estimate]
"""(task, params [d], local step) -> estimate."""

CurvatureEstimator = Callable[[Policy, Trajectories, F8, F8], F8]
"""(policy, batch, its advantages [H+1, m], v [d]) -> H_hat v, ``[d]``."""
