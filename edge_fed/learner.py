"""What server, agent, plain loop and scenarios know of a task: nothing of environments or data sets.

Two kinds exist: `edge_fed.reinforcement` (a policy in an environment) and `edge_fed.supervised` (a model on a
user's examples). The core ascends for both: the supervised J is minus the loss.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec
from numpy.random import Generator

from edge_fed.config import Algorithm, Attack, Onboarding
from edge_fed.meta.base import AgentState, Estimate
from edge_fed.params import F8
from edge_fed.seeding import Streams

Row = dict[str, Any]
Progress = Callable[[int], None]
"""Called with the number of pieces of work done; may raise to stop."""
Warn = Callable[[str], None]
"""Called with what a person should know of a measurement and its rows do not say, at most once."""
Unit = Literal["trajectories", "samples"]


class Onboarded(msgspec.Struct, frozen=True):
    """What an onboarder measured.

    Attributes:
        rows: One per initialization and budget: ``goal``, ``init`` (learned | careful | scratch | random),
            ``m_adapt``, ``return``, ``success`` (None: the task has no such notion), ``trajectories``
            (spent on adaptation or on training from scratch by this row alone); of careful ones also
            ``factor``, the part of the step that was taken.
        params: The initialization adapted with the largest budget, carefully unless the run says otherwise,
            ``[d]``: what ``--save`` keeps.
        adapt_trajectories: Sampled to adapt and to train from scratch, all rows together.
        eval_trajectories: Sampled to score, all rows together.
        env_steps: Environment steps of both.
    """

    rows: list[Row]
    params: F8
    adapt_trajectories: int
    eval_trajectories: int
    env_steps: int


class Blueprint(msgspec.Struct, frozen=True):
    """The common shape of all tasks of a run: what a server, which owns none, must know.

    Attributes:
        family: Their name, for people.
        num_train: Goals 0..num_train-1 are for training,
        num_held_out: these many follow.
        dimension: Number of parameters d.
        description: Canonical, of the layout of the parameters; its hash is agreed in the handshake.
        initial: Draws the initial parameters, ``[d]``.
        measured: ``kind`` of the rows of their evaluations.
    """

    family: str
    num_train: int
    num_held_out: int
    dimension: int
    description: str
    initial: Callable[[Generator], F8]
    measured: Literal["dp", "mc"] = "mc"

    @property
    def goals(self) -> int:
        """Number of goals, held-out ones included."""
        return self.num_train + self.num_held_out


class Learner(Protocol):
    """What one agent owns; it never leaves its process. Frozen: only what it samples is counted."""

    @property
    def agent(self) -> int:
        """Agent id = goal."""
        ...

    @property
    def settings(self) -> Algorithm:
        """The run's algorithm, after the agent's overrides."""
        ...

    @property
    def completeness(self) -> float:
        """Least part of a round's local steps that it does: `edge_fed.profiles`."""
        ...

    @property
    def attack(self) -> Attack | None:
        """What it sends instead of its update; None: it is honest."""
        ...

    @property
    def colluders(self) -> tuple["Learner", ...]:
        """Honest learners of all agents whose updates the attack needs, ascending."""
        ...

    @property
    def unit(self) -> Unit:
        """What is sampled, and counted wherever a record says ``trajectories``."""
        ...

    @property
    def spent(self) -> int:
        """Trajectories or samples drawn so far."""
        ...

    @property
    def env_steps(self) -> int:
        """Environment steps taken so far; 0 where there is no environment."""
        ...

    @property
    def dimension(self) -> int:
        """Number of parameters d."""
        ...

    @property
    def description(self) -> str:
        """Canonical, of the layout of the parameters."""
        ...

    def fresh(self) -> "Learner":
        """The same task, nothing counted yet."""
        ...

    def initial(self, rng: Generator) -> F8:
        """Initial parameters, ``[d]``."""
        ...

    def initial_state(self) -> AgentState:
        """What an agent that never trained keeps between local steps; empty: nothing."""
        ...

    def local_step(
        self, params: F8, state: AgentState, streams: Streams, memory: dict[str, Any]
    ) -> tuple[Estimate, AgentState]:
        """The variant's direction of ascent at ``params`` ``[d]``, and the state after it.

        Args:
            params: theta of the step, left as it is.
            state: Of the agent, left as it is.
            streams: The step's random streams.
            memory: Of the round: a variant may keep something in it from one local step to the next.
        """
        ...

    def adapt(
        self, params: F8, m: int, rng: Generator, *, alpha: float | None = None, careful: bool = False
    ) -> F8:
        """Personalises ``params`` ``[d]`` with m fresh trajectories or samples per inner step.

        Args:
            params: The shared initialization, left as it is.
            m: 0 adapts nothing.
            rng: Stream of the sampling.
            alpha: Step size; None: the run's ``inner_step_size``.
            careful: Takes no step that was not tried, within the same m.
        """
        ...

    def evaluate(self, params: F8, seed: int, config: Onboarding, warn: Warn = ...) -> Row:
        """Measures the shared ``params`` ``[d]`` before and after adaptation: `evaluation.evaluate`."""
        ...

    def onboard(
        self, params: F8, seed: int, config: Onboarding, progress: Progress, warn: Warn = ...
    ) -> Onboarded:
        """Measures an agent that never trained: `edge_fed.onboarding.onboard`."""
        ...
