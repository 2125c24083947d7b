"""Slopes that outliers do not move, and figures that must end where they began."""

import math

import pytest

from scenarios.bench.gauge import Sample
from scenarios.bench.trend import slope, trend


def samples(kib: list[float], **held: list[int]) -> list[Sample]:
    """One look every ten rounds."""
    fixed = {"descriptors": 20, "threads": 4, "tasks": 3}
    return [
        Sample(
            10 * i, float(i), 7, round(rss), **{n: held[n][i] if n in held else v for n, v in fixed.items()}
        )
        for i, rss in enumerate(kib)
    ]


def test_a_line_has_its_slope_whatever_a_fifth_of_the_points_do() -> None:
    """Theil-Sen; least squares would be far off."""
    x = [float(i) for i in range(50)]
    y = [3 * i + 1 if i % 5 else 1e6 for i in x]
    assert slope(x, y) == pytest.approx(3, rel=0.05)
    assert slope([0.0, 0.0, 1.0], [1.0, 5.0, 3.0]) == 0.0, "points above one another say nothing"


def test_what_fills_up_at_first_is_no_growth() -> None:
    """Caches and arenas: the warm-up does not count."""
    found = trend("server", samples([50_000 - 9_000 * math.exp(-i / 4) for i in range(100)]), bound=10.0)
    assert found is not None
    assert found.faults == []
    assert found.verdict == "met"
    assert (found.samples, found.rounds) == (75, (250, 990))


def test_a_leak_of_a_vector_per_round_is_growth() -> None:
    """3 kB per round, seen as 30 kB per look."""
    found = trend("server", samples([50_000 + 30 * i for i in range(100)]), bound=1000.0)
    assert found is not None
    assert found.bytes_per_round == pytest.approx(3072)
    assert found.verdict == "grows: memory"
    assert found.rss_mib[1] > found.rss_mib[0]


@pytest.mark.parametrize("name", ["descriptors", "threads", "tasks"])
def test_what_must_stay_constant_may_not_creep(name: str) -> None:
    """One more in the last third is a fault; one more for a moment is none."""
    flat = [50_000.0] * 100
    found = trend("agent-0", samples(flat, **{name: [20 + (i > 60) for i in range(100)]}), bound=1000.0)
    assert found is not None
    assert found.faults == [name]
    found = trend("agent-0", samples(flat, **{name: [20 + (i == 60) for i in range(100)]}), bound=1000.0)
    assert found is not None
    assert found.faults == []
    assert found.constant[name] == (20, 20, 20, 21)


def test_a_process_that_died_young_has_no_trend() -> None:
    """Its warm-up is all there is."""
    assert trend("agent-1", samples([1.0] * 20), bound=1.0) is None
    assert trend("agent-1", [], bound=1.0) is None
    assert trend("server", samples([1.0] * 40), bound=1.0, least=391) is None, "it saw 390 rounds"
    assert trend("server", samples([1.0] * 40), bound=1.0, least=390) is not None
