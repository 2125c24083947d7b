"""The drift alarm: published run lengths, references that are estimates, and returns that are not normal."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from edge_fed.drift import (
    CLIP,
    LEAST,
    Cusum,
    Reference,
    expected_run_length,
    follow,
    measure,
)

NORMAL = np.array([NormalDist().inv_cdf((i + 0.5) / 20_000) for i in range(20_000)])
STATED = 2000.0
KINDS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "rare falls": lambda rng, n: -rng.exponential(size=n),
    "rare successes": lambda rng, n: rng.exponential(size=n),
    "success or not": lambda rng, n: (rng.random(n) < 0.8).astype(float),
}


@pytest.mark.parametrize(
    ("k", "h", "published"),
    [(0.5, 4.0, 168.0), (0.5, 5.0, 465.0), (0.25, 8.01, 370.0), (0.5, 4.77, 370.0), (1.0, 2.52, 370.0)],
)
def test_run_lengths_are_the_published_ones(k, h, published):
    """Tables of two-sided CUSUMs of standard normals: half of what one side takes (Montgomery, chapter 9)."""
    assert expected_run_length(-NORMAL - k, h) / 2 == pytest.approx(published, rel=0.03)


def test_run_length_is_that_of_a_simulation():
    """Skewed steps: the chain's expectation is the mean of 400 simulated runs, within four of its errors."""
    rng = np.random.default_rng(0)
    steps = rng.exponential(size=50) - 1.3
    expected = expected_run_length(steps, 6.0)
    runs = []
    for _ in range(400):
        value, count = 0.0, 0
        while value <= 6.0:
            value, count = max(0.0, value + rng.choice(steps)), count + 1
        runs.append(count)
    assert abs(np.mean(runs) - expected) < 4 * np.std(runs) / math.sqrt(len(runs))


def test_steps_that_never_rise_never_alarm():
    """No threshold is reached; nor where rounding hides the way there."""
    assert expected_run_length(np.array([-1.0, 0.0]), 5.0) == math.inf
    assert expected_run_length(np.concatenate([np.full(999, -50.0), [0.01]]), 1000.0) > 1e12


def test_the_sum_follows_its_definition():
    """S_t = max(0, S - z - k), clipped, and the episodes since it was 0; the alarm says how many it took."""
    reference = Reference(mean=10.0, sd=2.0, episodes=100, allowance=0.5, threshold=5.0)
    found, at = follow(reference, Cusum(), np.array([12.0, 8.0, 9.0]))
    assert at is None and found == Cusum(0.5, 2, 17.0)
    found, at = follow(reference, found, np.array([10.5, -1000.0, 10.0, 0.0]))
    assert (found, at) == (Cusum(CLIP - 0.5 - 0.5 + CLIP - 0.5, 3, -990.0), 4)


def test_batches_do_not_matter():
    """The sum over one batch is that over its parts."""
    rng = np.random.default_rng(1)
    reference = measure(rng.normal(size=100))
    returns = rng.normal(-0.4, 1, size=60)
    whole, _ = follow(reference, Cusum(), returns[:30])
    parts = Cusum()
    for part in np.split(returns[:30], 3):
        parts, _ = follow(reference, parts, part)
    assert parts == whole


def test_one_mishap_is_no_drift():
    """However low one return is, two are needed."""
    reference = measure(np.random.default_rng(2).normal(size=100), 100.0)
    _, at = follow(reference, Cusum(), np.array([-1e9, *[reference.mean] * 20]))
    assert at is None
    _, at = follow(reference, Cusum(), np.full(9, -1e9))
    assert at is not None and at > 1


@pytest.mark.parametrize("level", [0.0, 5.0, -3.0])
def test_returns_without_spread_make_a_reference(level):
    """All equal, also all zero: the least threshold, and a clear fall is found."""
    reference = measure(np.full(50, level))
    assert reference.sd > 0 and reference.threshold == LEAST
    assert follow(reference, Cusum(), np.full(500, level))[1] is None
    assert follow(reference, Cusum(), np.full(5, level - 2.0))[1] is not None


def test_a_longer_run_length_has_a_higher_threshold():
    """And a reference of fewer episodes too, because it is less sure."""
    returns = np.random.default_rng(3).normal(size=400)
    thresholds = [measure(returns, length).threshold for length in (1e2, 1e3, 1e4, 1e5)]
    assert thresholds == sorted(set(thresholds))
    assert measure(np.tile(returns[:50], 8)).threshold < measure(returns[:50]).threshold


@pytest.mark.seeds
@pytest.mark.parametrize(
    ("kind", "too_short", "delay"),
    [
        ("normal", 0.10, 30),
        ("rare falls", 0.20, 40),
        ("rare successes", 0.05, 20),
        ("success or not", 0.15, 40),
    ],
)
def test_stated_run_lengths_and_delays_hold_for_references_that_are_estimates(kind, too_short, delay):
    """Of 100 references of 100 episodes few have a shorter run length; a fall of one sd is found soon.

    The bounds are the table of the module with room for 100 references instead of 400.
    """
    rng = np.random.default_rng(4)
    draw = KINDS[kind]
    population = np.sort(draw(rng, 20_000))[10::20]
    lengths, delays = [], []
    for _ in range(100):
        reference = measure(draw(rng, 100), STATED)
        lengths.append(expected_run_length(reference.steps(population), reference.threshold))
        _, at = follow(reference, Cusum(), draw(rng, 5000) - population.std())
        delays.append(at or math.inf)
    assert np.mean(np.array(lengths) < STATED) <= too_short
    assert np.mean(delays) <= delay
