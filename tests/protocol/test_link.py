"""The emulated link: pure, keyed, first in first out."""

import math
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.link import RETRANSMIT_S, SEGMENT_BYTES, Link, LinkProfile, draws, retransmissions

profiles = st.builds(
    LinkProfile,
    latency_s=st.floats(0, 2),
    jitter_s=st.floats(0, 2),
    bandwidth_bps=st.just(0.0) | st.floats(1e3, 1e9),
    loss=st.just(0.0) | st.floats(0, 0.9),
)
sizes = st.integers(0, 10_000_000)
handovers = st.lists(st.tuples(st.sampled_from(("up", "down")), sizes, st.floats(0, 1)), max_size=30)


def fixed(first, second=0.0):
    """The same two uniform numbers for every key."""
    return lambda key: (first, second)


def test_no_emulation_is_no_delay():
    """The default profile delivers at once."""
    assert Link(LinkProfile(), draws(0, 0)).delivery("up", 10**9, 3.5) == 3.5


def test_a_case_by_hand():
    """1000 bytes at 8000 bit/s take a second each, one after the other; then come latency and jitter."""
    link = Link(LinkProfile(latency_s=0.5, jitter_s=2.0, bandwidth_bps=8000.0), fixed(0.25))
    assert link.delivery("up", 1000, 10.0) == 10.0 + 1.0 + 0.5 + 0.5
    assert link.delivery("up", 1000, 10.0) == 10.0 + 2.0 + 0.5 + 0.5
    assert link.delivery("down", 1000, 10.0) == 10.0 + 1.0 + 0.5 + 0.5
    assert link.delivery("up", 1000, 100.0) == 100.0 + 1.0 + 0.5 + 0.5


def test_loss_is_delay_by_hand():
    """One segment, loss 0.5: a draw of 0.8 lies between 1/2 + 1/4 and 1/2 + 1/4 + 1/8, so two losses."""
    profile = LinkProfile(latency_s=0.1, bandwidth_bps=8000.0, loss=0.5)
    link = Link(profile, fixed(0.0, 0.8))
    assert retransmissions(1000, 0.5, 0.8) == 2
    assert link.delivery("up", 1000, 0.0) == pytest.approx(2.0 + 0.1 + 2 * (RETRANSMIT_S + 0.2))


@pytest.mark.parametrize(("segments", "loss"), [(1, 0.3), (3, 0.3), (700, 0.01), (10, 0.9)])
def test_losses_have_the_distribution_of_the_largest_geometric(segments, loss):
    """Share of at most r retransmissions = (1 - loss**(r+1))**segments, on an even grid of draws."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    found = np.array([retransmissions(segments * SEGMENT_BYTES, loss, u) for u in grid])
    for r in range(found.max() + 1):
        assert (found <= r).mean() == pytest.approx((1 - loss ** (r + 1)) ** segments, abs=1e-4)


@pytest.mark.parametrize("uniform", [0.0, 5e-324, 0.5, math.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("size", [0, 1, 10**12])
def test_extreme_draws_stay_finite(uniform, size):
    """No draw makes a message arrive never."""
    assert 0 <= retransmissions(size, 0.9, uniform) < 1000


@given(profiles, handovers)
def test_no_message_overtakes_another(profile, handed):
    """Per direction, deliveries are in order and never before handing over; directions do not disturb."""
    link = Link(profile, draws(1, 2))
    alone = {side: Link(profile, draws(1, 2)) for side in ("up", "down")}
    last, now = {"up": -math.inf, "down": -math.inf}, 0.0
    for number, (side, size, later) in enumerate(handed):
        now += later
        arrival = link.delivery(side, size, now, "UPDATE", number)
        assert arrival >= now and arrival >= last[side]
        assert arrival == alone[side].delivery(side, size, now, "UPDATE", number)
        last[side] = arrival


@given(profiles, sizes, sizes)
def test_larger_messages_do_not_arrive_earlier(profile, first, second):
    """With the same draw."""
    small, large = sorted((first, second))
    arrivals = [Link(profile, draws(1, 2)).delivery("up", size, 0.0, "UPDATE", 1) for size in (small, large)]
    assert arrivals[0] <= arrivals[1]


def test_draws_depend_on_every_part_of_the_key():
    """Seed, agent, direction, type, round and attempt each change the jitter."""
    profile = LinkProfile(jitter_s=1.0)

    def arrival(seed=1, agent=2, direction="up", message="UPDATE", round_=3, attempt=0):
        return Link(profile, draws(seed, agent)).delivery(direction, 10, 0.0, message, round_, attempt)

    changes = [
        {},
        {"seed": 2},
        {"agent": 3},
        {"direction": "down"},
        {"message": "ACK"},
        {"round_": 4},
        {"attempt": 1},
    ]
    arrivals = [arrival(**change) for change in changes]
    assert len(set(arrivals)) == len(changes)
    assert arrivals == [arrival(**change) for change in changes]


def test_draws_are_uniform():
    """Mean and variance of 2,000 keys are those of the uniform distribution (5 sigma)."""
    uniforms = draws(7, 1)
    values = np.array([uniforms(f"up UPDATE {round_} 0") for round_ in range(2000)])
    assert np.abs(values.mean(axis=0) - 0.5).max() < 5 * np.sqrt(1 / 12 / 2000)
    assert abs(np.corrcoef(values.T)[0, 1]) < 5 / np.sqrt(2000)
    assert values.min() >= 0.0 and values.max() < 1.0


def test_draws_are_the_same_in_every_process():
    """Python's randomised hash plays no part."""
    code = "from protocol.link import draws; print(draws(1, 2)('up UPDATE 3 0'))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(draws(1, 2)("up UPDATE 3 0"))


@pytest.mark.parametrize(
    "wrong", [{"loss": 0.95}, {"latency_s": -1}, {"loss": float("nan")}, {"speed": 1}, {"jitter_s": "1"}]
)
def test_wrong_profiles_are_refused(wrong):
    """Out of range, NaN, unknown key, wrong type."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, LinkProfile)
