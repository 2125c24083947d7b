"""Who takes part in a round, and how many updates make it valid: for the plain loop, server and verify."""

import math
from collections.abc import Sequence

from edge_fed.config import RunConfig
from edge_fed.profiles import available
from edge_fed.seeding import Purpose, stream


def cohort_size(eligible: int, participation: float) -> int:
    """The number of agents asked: ``max(1, ceil(participation * eligible))``, 0 if nobody is there."""
    # 0.1 * 30 is a little more than 3 in binary; the reader of "10 % of 30" means 3.
    return min(eligible, max(1, math.ceil(participation * eligible - 1e-9)))


def round_cohort(config: RunConfig, round_: int, eligible: Sequence[int]) -> tuple[int, ...]:
    """The agents asked in a round, ascending: a sample of those that are available in it; maybe nobody.

    Args:
        config: The run's settings.
        round_: 1..K.
        eligible: Agents that are READY and not lost at the boundary.
    """
    there = available(config, round_, eligible)
    return cohort(config.seed, round_, there, config.algorithm.participation)


def cohort(seed: int, round_: int, eligible: Sequence[int], participation: float) -> tuple[int, ...]:
    """Samples the round's agents without replacement, ascending.

    Each agent draws one number from its own stream and the smallest are taken, ties by id: the choice
    depends on neither the order of the list nor on timing, and one agent's absence moves no other's draw.

    Args:
        seed: Run seed.
        round_: 1..K.
        eligible: Agents that are READY and not lost at the boundary.
        participation: r, the fraction of them that is asked.
    """
    size = cohort_size(len(eligible), participation)
    if size == len(eligible):
        return tuple(sorted(eligible))
    draw = {agent: stream(seed, agent, round_, 0, Purpose.COHORT).random() for agent in eligible}
    return tuple(sorted(sorted(eligible, key=lambda agent: (draw[agent], agent))[:size]))


def minimum_updates(cohort: int, wanted: int | None) -> int:
    """Updates below which a round is skipped: the configured number, else half of the cohort, rounded up."""
    return max(1, math.ceil(cohort / 2)) if wanted is None else wanted
