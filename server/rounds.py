"""One open round: who is asked, whose update is held, who is excused, and what comes out. Pure.

Updates are folded in ascending agent id while they come in; those ahead of their turn wait in a buffer of
at most (cohort - 1) vectors. An excuse is final: it lets the fold go on without that agent. A rule that
gathers (`edge_fed.federated.robust`) holds all of them until the round ends.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from edge_fed.config import Algorithm
from edge_fed.errors import EdgeFedError, NonFinite
from edge_fed.federated.aggregation import AGGREGATIONS, ALIKE, Fold, Own, check_update
from edge_fed.federated.control_variate import ServerControl
from edge_fed.federated.quarantine import REFUSED
from edge_fed.federated.record import Contribution
from edge_fed.federated.robust import aggregator
from edge_fed.params import F8, crc32
from edge_fed.profiles import LOST
from protocol.messages import Update


class Answer(msgspec.Struct, frozen=True):
    """What becomes of an update at once; the outcome of its ACK, or ``conflict``."""

    outcome: Literal["held", "duplicate", "late", "refused", "conflict"]
    reason: str = ""


class Result(msgspec.Struct, frozen=True):
    """What comes out of a round.

    Attributes:
        resets: Contributors that started it without their agent state, ascending.
        control: The server's half of the correction after it.
    """

    outcome: Literal["folded", "skipped"]
    params: F8
    contributors: tuple[Contribution, ...]
    metrics: dict[str, float]
    resets: tuple[int, ...]
    control: ServerControl | None


class Held(msgspec.Struct, frozen=True):
    """What is remembered of a held update after its vector was folded."""

    crc32: int
    metrics: dict[str, float]


class OpenRound:
    """A round between its opening and its result.

    Args:
        number: 1..K.
        eligible: Agents that were there at the boundary, ascending.
        cohort: Agents that are asked, ascending.
        params: What they start from, ``[d]``.
        settings: Of the run; how updates are weighted and combined.
        need: Updates below which the round is skipped.
        opened: Monotonic seconds of the opening.
        deadline: Monotonic seconds at which the rest is excused.
        control: The server's half of the run's correction; None: it has none.
        max_norm: An update whose Euclidean norm is above it is refused.
        own: Weights of single agents, on top of those of the settings.

    Attributes:
        tensors: What THETA carries.
        lost: Agents whose update does not get through, as their connectivity says.
        conflicts: Agents that sent a second, different update while the round was open.
    """

    def __init__(
        self,
        number: int,
        eligible: tuple[int, ...],
        cohort: tuple[int, ...],
        params: F8,
        settings: Algorithm,
        need: int,
        opened: float,
        deadline: float,
        control: ServerControl | None = None,
        max_norm: float = math.inf,
        own: Own = ALIKE,
    ) -> None:
        self.number = number
        self.eligible = eligible
        self.cohort = cohort
        self.params = params
        self.need = need
        self.opened = opened
        self.deadline = deadline
        self.control = control
        self.tensors = {"params": params, **({"control": control.value} if control else {})}
        self.theta_crc32 = crc32(*self.tensors.values())
        self.missing: dict[int, str] = {}
        self.lost: frozenset[int] = frozenset()
        self.resets: set[int] = set()
        self.conflicts: set[int] = set()
        self._max_norm = max_norm
        self._weight = AGGREGATIONS[settings.aggregation]
        self._fold = aggregator(params, settings, own)
        self._held: dict[int, Held] = {}
        self._ahead: dict[int, tuple[Update, F8]] = {}
        self._turn = 0  # index into the cohort of the next agent to fold
        self._folded: list[Contribution] = []

    @property
    def waiting(self) -> tuple[int, ...]:
        """Cohort members whose update is neither held nor excused."""
        return tuple(a for a in self.cohort if a not in self._held and a not in self.missing)

    @property
    def complete(self) -> bool:
        """Whether nobody is waited for."""
        return len(self._held) + len(self.missing) == len(self.cohort)

    @property
    def arrivals(self) -> tuple[int, ...]:
        """Agents whose update is held, in order of arrival; the fold does not depend on it."""
        return tuple(self._held)

    @property
    def held(self) -> int:
        """Updates held so far."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """What is sent to one agent."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def expects(self, agent: int) -> bool:
        """Whether this agent's update is still wanted."""
        return agent in self.cohort and agent not in self._held and agent not in self.missing

    def offer(self, agent: int, update: Update, delta: F8) -> Answer:
        """Holds an update, or says why not. A wrong one excuses its agent for this round.

        Args:
            agent: Who sent it.
            update: Its message; its round is this one.
            delta: Parameters after minus parameters received.
        """
        held = self._held.get(agent)
        if held is not None:
            return _same(held.crc32 == update.crc32, agent, update)
        if agent not in self.cohort:
            return Answer("refused", f"agent {agent} is not in the cohort of round {self.number}")
        if agent in self.missing:
            return Answer("late", f"excused before: {self.missing[agent]}")
        if agent in self.lost:
            self.excuse(agent, LOST)
            return Answer("late", LOST)
        fault = self._fault(update, delta)
        if fault:
            self.excuse(agent, f"refused: {fault}")
            return Answer("refused", fault)
        self._held[agent] = Held(update.crc32, update.metrics)
        self._ahead[agent] = (update, delta)
        self._advance()
        return Answer("held")

    def excuse(self, agent: int, reason: str) -> bool:
        """Gives an agent up for this round; returns whether it was waited for."""
        if not self.expects(agent):
            return False
        # What a lost message says about its agent never came: no strike, as in the plain loop.
        self.missing[agent] = LOST if agent in self.lost and reason.startswith(REFUSED) else reason
        self._advance()
        return True

    def result(self) -> Result:
        """Ends the round; with too few updates, or a sum that overflows, the parameters stay as they were."""
        skipped = Result("skipped", self.params, (), {}, (), self.control)
        if self.held < self.need:
            return skipped
        try:
            params, control = self._fold.result(), self.control
            if control is not None:
                assert isinstance(self._fold, Fold)  # `check_run`: a correction needs the mean
                control = control.after(self._fold)
        except NonFinite:  # updates that are finite one by one may still overflow together
            return skipped
        resets = tuple(part.agent for part in self._folded if part.agent in self.resets)
        if control and resets:
            control = control.restarted()
        return Result("folded", params, tuple(self._folded), self._metrics(), resets, control)

    def held_updates(self) -> Iterable[tuple[int, int]]:
        """Agent and checksum of every held update, in agent order."""
        return ((agent, self._held[agent].crc32) for agent in sorted(self._held))

    def _fault(self, update: Update, delta: F8) -> str:
        if update.theta_crc32 != self.theta_crc32:
            return (
                f"computed from parameters with crc32 {update.theta_crc32:08x}, "
                f"round {self.number} has {self.theta_crc32:08x}"
            )
        weight = self._weight(update.trajectories)
        if not (math.isfinite(weight) and weight > 0):
            return f"weight {weight} from {update.trajectories} trajectories: must be positive and finite"
        try:
            check_update(delta, self.params.size, self._max_norm)
        except EdgeFedError as error:
            return str(error)
        found = crc32(delta)
        if found != update.crc32:
            return f"its crc32 is {found:08x}, the message says {update.crc32:08x}"
        return ""

    def _advance(self) -> None:
        while self._turn < len(self.cohort):
            agent = self.cohort[self._turn]
            if agent in self._ahead:
                update, delta = self._ahead.pop(agent)
                weight = self._fold.add(agent, delta, update.trajectories)
                self._folded.append(Contribution(agent, update.crc32, weight, update.trajectories))
            elif agent not in self.missing:
                return
            self._turn += 1

    def _metrics(self) -> dict[str, float]:
        return mean_metrics(self._held[part.agent].metrics for part in self._folded)


def mean_metrics(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Means over the contributors that report a metric, in agent order."""
    columns: dict[str, list[float]] = {}
    for metrics in each:
        for name, value in metrics.items():
            columns.setdefault(name, []).append(value)
    return {name: _mean(values) for name, values in columns.items()}


def _mean(values: list[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):  # agents may report infinities of both signs, and huge values
        return sum(values) / len(values)


def _same(same: bool, agent: int, update: Update) -> Answer:
    if same:
        return Answer("duplicate")
    return Answer("conflict", f"agent {agent} has sent another update of round {update.round} before")
