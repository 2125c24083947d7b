"""A real wire, packet by packet: order, time, losses, and the queue before it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.link import LinkProfile
from scenarios.netns.wire import QUEUE_PACKETS, Wire

handovers = st.lists(st.tuples(st.integers(20, 1500), st.floats(0, 1)), max_size=40)


def uniform(seed=0):
    """Uniform numbers."""
    return np.random.default_rng(seed).random


def test_a_case_by_hand():
    """1000 bytes at 8000 bit/s take a second each, one after the other; then comes the latency."""
    wire = Wire(LinkProfile(latency_s=0.5, bandwidth_bps=8000.0), lambda: 0.5)
    assert [wire.arrival(1000, now) for now in (10.0, 10.0, 100.0)] == [11.5, 12.5, 101.5]


@given(handovers, st.floats(0, 1), st.floats(0, 1), st.just(0.0) | st.floats(1e4, 1e9), st.floats(0, 0.9))
def test_packets_come_out_in_order_and_never_early(handed, latency, jitter, bandwidth, loss):
    """Whatever the link: arrivals do not decrease, and none comes before its latency and sending time."""
    link = LinkProfile(latency_s=latency, jitter_s=jitter, bandwidth_bps=bandwidth, loss=loss)
    wire, now, last = Wire(link, uniform()), 0.0, -math.inf
    for size, later in handed:
        now += later
        arrival = wire.arrival(size, now)
        if arrival is not None:
            sending = 8 * size / bandwidth if bandwidth else 0.0
            assert arrival >= max(last, (now + sending + latency) * (1 - 1e-12))
            last = arrival


def test_as_many_packets_are_lost_as_the_link_says():
    """5 sigma over 10,000 packets; lost ones take no time on the wire."""
    wire = Wire(LinkProfile(loss=0.2, bandwidth_bps=1e6), uniform())
    gone = [wire.arrival(100, float(k)) is None for k in range(10_000)]
    assert abs(np.mean(gone) - 0.2) < 5 * math.sqrt(0.16 / 10_000)


def test_a_full_queue_drops():
    """As in netem, a thousand packets may wait; the next one is lost, so that TCP learns the bandwidth."""
    wire = Wire(LinkProfile(bandwidth_bps=8000.0), lambda: 0.5)
    taken = [wire.arrival(1000, 0.0) for _ in range(QUEUE_PACKETS + 50)]
    assert sum(arrival is not None for arrival in taken) == pytest.approx(QUEUE_PACKETS, abs=1)
