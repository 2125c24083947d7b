"""Aggregation rules beside the mean, which a few wrong updates cannot move far.

With n updates x_1..x_n, ascending by agent, of which f may be arbitrary (`byzantine`):

    rule              result                                                needs
    median            per coordinate (Yin et al. 2018)                      n >= 1; holds for f < n / 2
    trimmed_mean      per coordinate, without the f smallest and f largest  n >= 2f+1 (Yin et al. 2018)
    geometric_median  argmin_z sum_i ||z - x_i|| (Pillutla et al. 2022)     n >= 1; holds for f < n / 2
    krum              the x_i nearest to its n-f-2 nearest neighbours       n >= 2f+3 (Blanchard et al. 2017)
    clipped_mean      the mean of min(1, clip_norm / ||x_i||) x_i           n >= 1; bounds, excludes nobody

What they promise holds for honest updates that are alike. Agents of personalized learning are not: each
rule also takes honest agents for wrong ones whose task differs from the others' (`krum` listens to one agent
per round), and an attacker who stays within their spread is not found by any of them. Measured in the
studies `byzantine` (goals in all directions: the median learns nothing, even without attackers) and
`byzantine-alike` (goals in similar ones: there it costs nothing that shows, and keeps the run alive).

`mean` and `clipped_mean` fold: they hold one vector. The others gather all updates of the round, n vectors.
All weigh agents alike: a weight that an agent states itself would be its way around the rule.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec
import numpy as np

from edge_fed.config import Algorithm, RunConfig
from edge_fed.errors import BadWeight, OutOfOrder
from edge_fed.federated.aggregation import ALIKE, Fold, Own, check_update, moved, norm
from edge_fed.federated.cohort import minimum_updates
from edge_fed.params import F8

BLOCK = (
    65_536  # coordinates sorted at once: [n, BLOCK] is what the rules per coordinate hold beside the updates
)
PASSES = 100  # of Weiszfeld's iteration at most; it converges linearly, and mostly within 20
STILL = 1e-12  # it ends when a pass moves less than this part of the typical distance
SMOOTHING = 1e-6  # distances count as no smaller than this part of the typical one (nu of Pillutla et al.)

Combine = Callable[[Sequence[F8], int], F8]
"""(updates [d] in ascending agent id, f) -> one update, ``[d]``."""


class Aggregator(Protocol):
    """What a round does with its updates."""

    def add(self, agent: int, delta: F8, trajectories: int) -> float:
        """Takes one agent's update and returns its weight; on an error nothing has changed."""

    def result(self) -> F8:
        """The next parameters, ``[d]``, a fresh read-only array; refuses what is not finite."""


class ClippedFold(Fold):
    """The mean of updates that are no longer than ``clip_norm``."""

    def __init__(self, params: F8, clip_norm: float) -> None:
        super().__init__(params)
        self._clip_norm = clip_norm

    def add(self, agent: int, delta: F8, trajectories: int) -> float:
        """As of a mean; the update counts shortened, its direction is kept."""
        check_update(delta, self._params.size)
        return super().add(agent, clipped(delta, self._clip_norm), trajectories)


class Gather:
    """Keeps the updates of a round, and combines them at its end.

    Args:
        params: The parameters that the updates differ from, ``[d]``.
        combine: The rule.
        byzantine: f.
        needs: Updates that the rule needs.
    """

    def __init__(self, params: F8, combine: Combine, byzantine: int, needs: int) -> None:
        self._params = params
        self._combine = combine
        self._byzantine = byzantine
        self._needs = needs
        self._updates: list[F8] = []
        self._last: int | None = None

    def add(self, agent: int, delta: F8, trajectories: int) -> float:  # noqa: ARG002  all weigh alike
        """Takes one agent's update; it must not be changed before `result`.

        Raises:
            OutOfOrder: An agent with this or a larger id was added before.
            ShapeError: The update has another dimension.
            NonFinite: The update holds NaN or infinity.
        """
        if self._last is not None and agent <= self._last:
            raise OutOfOrder(f"agent {agent} after agent {self._last}; updates fold in ascending agent id")
        check_update(delta, self._params.size)
        self._updates.append(delta)
        self._last = agent
        return 1.0

    def result(self) -> F8:
        """The next parameters.

        Raises:
            BadWeight: Fewer updates than the rule needs.
            NonFinite: Finite updates give something that is not: the round must be skipped.
        """
        if len(self._updates) < self._needs:
            raise BadWeight(f"{len(self._updates)} updates, the rule needs {self._needs}; skip the round")
        with np.errstate(all="ignore"):  # `moved` refuses what overflows
            return moved(self._params, self._combine(self._updates, self._byzantine))


class Rule(msgspec.Struct, frozen=True):
    """One entry of `RULES`.

    Attributes:
        kind: ``fold``: streaming, one vector; ``gather``: holds all updates until the round ends.
        begin: (params [d], settings, agents' own weights) -> what a round's updates go into.
        needs: f -> updates without which the rule promises nothing: such a round is skipped.
    """

    kind: Literal["fold", "gather"]
    begin: Callable[[F8, Algorithm, Own], Aggregator]
    needs: Callable[[int], int]


def aggregator(params: F8, settings: Algorithm, own: Own = ALIKE) -> Aggregator:
    """What the updates of a round go into: the same for the plain loop, the server and verify."""
    return RULES[settings.rule].begin(params, settings, own)


def needed_updates(config: RunConfig, cohort: int) -> int:
    """Updates below which a round of this cohort is skipped: the run's minimum, and what its rule needs."""
    settings = config.algorithm
    return max(
        minimum_updates(cohort, config.federation.min_updates), RULES[settings.rule].needs(settings.byzantine)
    )


def clipped(delta: F8, clip_norm: float) -> F8:
    """``delta`` itself if it is no longer than ``clip_norm``, else shortened to it."""
    length = norm(delta)
    if length <= clip_norm:
        return delta
    largest = float(np.abs(delta).max())  # dividing by it first: the length itself may overflow
    short = delta / largest
    return short * (clip_norm / norm(short))


def coordinate_median(updates: Sequence[F8], _byzantine: int = 0) -> F8:
    """The middle value of each coordinate, of an even number the mean of the middle two."""
    return trimmed_mean(updates, (len(updates) - 1) // 2)


def trimmed_mean(updates: Sequence[F8], byzantine: int, block: int = BLOCK) -> F8:
    """The mean of each coordinate without its f smallest and f largest values.

    Source: Yin, Chen, Ramchandran, Bartlett 2018, definition 2, with f values cut at each end instead of a
    fraction: when honest agents are absent, the wrong ones need not be.
    """
    found = np.empty_like(updates[0])
    for first in range(0, found.size, block):
        rows = np.sort([update[first : first + block] for update in updates], axis=0)
        kept = rows[byzantine : len(updates) - byzantine]
        total = np.zeros(kept.shape[1])
        for row in kept:  # one by one: NumPy's own order of summation depends on the block
            total += row
        # The bounds change a rounding error only, and make "between the kept values" true to the bit.
        found[first : first + block] = np.clip(total / len(kept), kept[0], kept[-1])
    return found


def geometric_median(updates: Sequence[F8], _byzantine: int = 0) -> F8:
    """The point with the least sum of distances to the updates.

    Source: Pillutla, Kakade, Harchaoui 2022 (RFA), algorithm 2, the smoothed Weiszfeld iteration. It begins
    at the median of each coordinate, which f < n / 2 updates cannot move far; the mean is moved by one.
    """
    point = coordinate_median(updates)
    distances = [norm(update - point) for update in updates]
    typical = sorted(distances)[len(updates) // 2]
    if typical == 0 or math.isinf(typical):  # most are equal, and so their own median; or beyond any norm
        return point
    for _ in range(PASSES):
        weights = [1.0 / max(distance, SMOOTHING * typical) for distance in distances]
        before, point = point, _weighted_mean(updates, weights)
        if norm(point - before) <= STILL * typical:
            break
        distances = [norm(update - point) for update in updates]
    return point


def _weighted_mean(updates: Sequence[F8], weights: Sequence[float]) -> F8:
    total, found = math.fsum(weights), np.zeros_like(updates[0])
    for update, weight in zip(updates, weights, strict=True):
        found += (weight / total) * update
    return found


def krum(updates: Sequence[F8], byzantine: int) -> F8:
    """The update with the least sum of squared distances to its n-f-2 nearest others; ties: lowest agent.

    Source: Blanchard, El Mhamdi, Guerraoui, Stainer 2017, section 4. It needs n >= 2f+3.
    """
    n = len(updates)
    squared = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            distance = norm(updates[i] - updates[j])
            squared[i, j] = squared[j, i] = distance * distance  # may be infinite
    others = [sorted(float(squared[i, j]) for j in range(n) if j != i) for i in range(n)]
    scores = [sum(distances[: n - byzantine - 2]) for distances in others]
    return updates[scores.index(min(scores))]


def _gather(combine: Combine, needs: Callable[[int], int]) -> Rule:
    return Rule(
        "gather", lambda params, s, _own: Gather(params, combine, s.byzantine, needs(s.byzantine)), needs
    )


def _one(_byzantine: int) -> int:
    return 1


RULES: dict[str, Rule] = {
    "mean": Rule("fold", lambda params, settings, own: Fold(params, settings.aggregation, own), _one),
    "clipped_mean": Rule(
        "fold", lambda params, settings, _own: ClippedFold(params, float(settings.clip_norm)), _one
    ),
    "median": _gather(coordinate_median, _one),
    "trimmed_mean": _gather(trimmed_mean, lambda f: 2 * f + 1),
    "geometric_median": _gather(geometric_median, _one),
    "krum": _gather(krum, lambda f: 2 * f + 3),
}
"""The rules by name. A new one is a function and one line here."""
