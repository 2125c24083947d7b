"""Measuring on a noisy machine: sides take turns, block by block; ratios are paired; medians are quoted."""

import statistics
import time
from collections.abc import Callable, Mapping

import msgspec

Run = Callable[[int], None]
"""Does n units of work."""


class Spread(msgspec.Struct, frozen=True):
    """Median, minimum and maximum of a figure."""

    median: float
    low: float
    high: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the benchmark.

    Attributes:
        case: What was measured.
        unit: Of ``product`` and ``limit``.
        product: Ours.
        limit: What it is held against; None where there was nothing to pair it with.
        ratio: product / limit, paired in one run; None if unpaired.
        goal: The ratio that is asked for; None where none is.
        note: How it was measured.
    """

    case: str
    unit: str
    product: Spread
    limit: Spread | None = None
    ratio: Spread | None = None
    goal: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """``met``, ``missed``, or ``unpaired``."""
        if self.ratio is None or self.goal is None:
            return "unpaired" if self.ratio is None else "-"
        return "met" if self.ratio.median <= self.goal else "missed"


def spread(values: list[float]) -> Spread:
    """Summarises measured values."""
    return Spread(statistics.median(values), min(values), max(values))


def in_turn(sides: Mapping[str, Run], blocks: int, block_s: float = 0.15) -> dict[str, list[float]]:
    """CPU microseconds per unit, block by block, the sides taking turns.

    Args:
        sides: Name -> work; all must do equal units.
        blocks: Blocks per side that count.
        block_s: Rough length of a block.
    """
    counts = {}
    for name, run in sides.items():
        run(10)
        start = time.perf_counter()
        run(20)
        counts[name] = max(5, int(20 * block_s / (time.perf_counter() - start)) // 5 * 5)
    got: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(blocks):
        for name, run in sides.items():
            start = time.process_time()
            run(counts[name])
            got[name].append(1e6 * (time.process_time() - start) / counts[name])
    return got


def paired(
    case: str, unit: str, product: list[float], limit: list[float] | None, goal: float | None, note: str = ""
) -> Row:
    """A row whose ratio is taken pair by pair; without a limit the figures stand unpaired."""
    if not limit:
        return Row(case=case, unit=unit, product=spread(product), goal=goal, note=note)
    ratios = [ours / theirs for ours, theirs in zip(product, limit, strict=True)]
    return Row(
        case=case,
        unit=unit,
        product=spread(product),
        limit=spread(limit),
        ratio=spread(ratios),
        goal=goal,
        note=note,
    )
