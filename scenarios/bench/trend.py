"""Whether a figure grows: a robust slope, and whether it ends where it began. Pure."""

from collections.abc import Sequence

import msgspec
import numpy as np

from edge_fed.params import F8
from scenarios.bench.gauge import Sample

WARM_UP = 0.25  # of the rounds: caches, arenas and buffers fill
ENOUGH = 20  # samples after it
CONSTANT = ("descriptors", "threads", "tasks")


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one process.

    Attributes:
        program: Its name.
        rounds: First and last round that count, after the warm-up.
        samples: How many counted.
        rss_mib: Resident memory at both ends (medians of the first and last tenth).
        bytes_per_round: Theil-Sen slope of it: the median of the slopes between all pairs of samples.
        bound: What it may be.
        constant: Descriptors, threads, tasks: median of the first third, of the last third, least, most.
        series: (round, resident KiB), thinned out, warm-up included.
    """

    program: str
    rounds: tuple[int, int]
    samples: int
    rss_mib: tuple[float, float]
    bytes_per_round: float
    bound: float
    constant: dict[str, tuple[int, int, int, int]]
    series: tuple[tuple[int, int], ...] = ()

    @property
    def faults(self) -> list[str]:
        """What is not as it should be."""
        grows = ["memory"] if self.bytes_per_round > self.bound else []
        return grows + [name for name, (first, last, *_) in self.constant.items() if last > first]

    @property
    def verdict(self) -> str:
        """``met``, or what grows."""
        return f"grows: {', '.join(self.faults)}" if self.faults else "met"


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Theil-Sen: the median of the slopes between all pairs; a quarter of the points may be anywhere."""
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    first, second = np.triu_indices(len(xs), 1)
    apart = xs[second] != xs[first]
    first, second = first[apart], second[apart]
    slopes: F8 = (ys[second] - ys[first]) / (xs[second] - xs[first])
    return float(np.median(slopes))


def trend(program: str, samples: Sequence[Sample], bound: float, least: int = 0) -> Trend | None:
    """The trend of one process; None if it did not live long enough to say.

    Args:
        program: Its name.
        samples: All of one process, in order.
        bound: Bytes per round that its memory may grow by.
        least: Rounds that it must have lived for.
    """
    if not samples:
        return None
    begin, end = samples[0].round, samples[-1].round
    late = [sample for sample in samples if sample.round >= begin + WARM_UP * (end - begin)]
    if len(late) < ENOUGH or end - begin < least:
        return None
    thin = samples[:: 1 + len(samples) // 40]
    return Trend(
        program=program,
        rounds=(late[0].round, late[-1].round),
        samples=len(late),
        rss_mib=_ends([sample.rss_kib / 1024 for sample in late]),
        bytes_per_round=1024 * slope([s.round for s in late], [s.rss_kib for s in late]),
        bound=bound,
        constant={name: _thirds([getattr(sample, name) for sample in late]) for name in CONSTANT},
        series=tuple((sample.round, sample.rss_kib) for sample in thin),
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    tenth = max(1, len(values) // 10)
    return round(float(np.median(values[:tenth])), 2), round(float(np.median(values[-tenth:])), 2)


def _thirds(values: Sequence[int]) -> tuple[int, int, int, int]:
    third = len(values) // 3
    first, last = np.median(values[:third]), np.median(values[-third:])
    return round(float(first)), round(float(last)), min(values), max(values)
