"""Aggregation: how the updates of a round become the next parameters.

An update is the difference to the parameters that its agent received, so

    params_next = params + (sum_i w_i delta_i) / (sum_i w_i),    i ascending.

Summing in agent order, not in order of arrival, makes the result independent of the network; summing
differences leaves the bits unchanged where every step was zero (the mean of equal vectors would not).
Rules that a few wrong updates cannot move far are in `edge_fed.federated.robust`.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from edge_fed.config import RunConfig, parse_goals
from edge_fed.errors import BadWeight, NonFinite, OutOfOrder, ShapeError, TooLarge
from edge_fed.params import F8

Weight = Callable[[int], float]
"""Trajectories behind an update -> its weight."""

AGGREGATIONS: dict[str, Weight] = {
    "uniform": lambda _trajectories: 1.0,  # the algorithm as the paper states it
    "weighted": float,  # by trajectories sampled
}
"""The weights by name. A new one is one line here."""

Own = Mapping[int, float]
"""Agent -> what its weight is multiplied with; 1 for those that are not in it."""
ALIKE: Own = MappingProxyType({})


def own_weights(config: RunConfig) -> Own:
    """What the ``[[agents]]`` tables say."""
    tables = (table for table in config.agents if table.weight != 1)
    return {agent: table.weight for table in tables for agent in parse_goals(table.goals)}


def check_update(delta: F8, dimension: int, max_norm: float = math.inf) -> None:
    """Refuses what must not be averaged.

    Raises:
        ShapeError: ``delta`` is not ``[dimension]``.
        NonFinite: It holds NaN or infinity.
        TooLarge: Its Euclidean norm is above ``max_norm``.
    """
    if delta.shape != (dimension,):
        raise ShapeError(f"update has shape {delta.shape}, the run's parameters have ({dimension},)")
    if not np.isfinite(delta).all():
        bad = np.flatnonzero(~np.isfinite(delta))
        raise NonFinite(f"{bad.size} of {dimension} entries are not finite, the first at index {bad[0]}")
    if max_norm < math.inf and (length := norm(delta)) > max_norm:
        raise TooLarge(f"its norm is {length:.6g}, above max_update_norm = {max_norm:g}")


def norm(delta: F8) -> float:
    """Euclidean norm; infinite if it overflows, and of a vector that is not finite infinite or NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(float(delta @ delta))


def moved(params: F8, update: F8) -> F8:
    """The parameters of the next round, ``[d]``, a fresh read-only array.

    Raises:
        NonFinite: Finite updates gave something that is not: the round must be skipped.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # refused by name below
        found = params + update
    if not np.isfinite(found).all():
        raise NonFinite("the sum of finite updates is not finite; the parameters stay as they were")
    found.flags.writeable = False
    return found


class Fold:
    """A streaming weighted mean in ascending agent id; holds one vector, not n.

    Args:
        params: The parameters that the updates differ from, ``[d]``.
        weights: Name in `AGGREGATIONS`.
        own: Of single agents, on top of it.
    """

    def __init__(self, params: F8, weights: str = "uniform", own: Own = ALIKE) -> None:
        self._params = params
        self._weight = AGGREGATIONS[weights]
        self._own = own
        self._sum = np.zeros_like(params)
        self._total = 0.0
        self._last: int | None = None

    def add(self, agent: int, delta: F8, trajectories: int) -> float:
        """Adds one agent's update and returns the weight it got; on an error nothing has changed.

        Raises:
            OutOfOrder: An agent with this or a larger id was added before.
            BadWeight: The weight is not a positive finite number.
            ShapeError: The update has another dimension.
            NonFinite: The update holds NaN or infinity.
        """
        if self._last is not None and agent <= self._last:
            raise OutOfOrder(f"agent {agent} after agent {self._last}; updates fold in ascending agent id")
        weight = self._weight(trajectories) * self._own.get(agent, 1.0)
        if not (math.isfinite(weight) and weight > 0):
            raise BadWeight(f"weight {weight} of agent {agent}: must be positive and finite")
        check_update(delta, self._params.size)
        with np.errstate(over="ignore", invalid="ignore"):  # `result` refuses what overflows
            self._sum += delta if weight == 1.0 else weight * delta
        self._total += weight
        self._last = agent
        return weight

    @property
    def sum(self) -> F8:
        """sum_i w_i delta_i of what was added, ``[d]``; it is not yours to change."""
        return self._sum

    @property
    def weight(self) -> float:
        """sum_i w_i of what was added."""
        return self._total

    def result(self) -> F8:
        """The next parameters, ``[d]``, a fresh read-only array.

        Raises:
            BadWeight: Nothing was added.
            NonFinite: Finite updates add up to something that is not: the round must be skipped.
        """
        if self._last is None:
            raise BadWeight("no update was added; a round without updates is skipped, not averaged")
        with np.errstate(over="ignore", invalid="ignore"):  # refused by name in `moved`
            return moved(self._params, self._sum / self._total)
