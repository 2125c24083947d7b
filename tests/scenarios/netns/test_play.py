"""The emulated link against the kernel's own TCP over packets that are late: equal in the order of magnitude.

No assertion on a figure of this machine: the links are so slow (60 ms each way) that its noise is small
beside them, and the bound is a factor of three.
"""

import statistics

import pytest

from edge_fed.profiles import HEADER_BYTES, sending_s
from protocol.link import LinkProfile
from scenarios.netns.play import emulated, real
from scenarios.netns.spaces import unavailable

FACTOR = 3.0
ROUNDS = 6


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["netem", "relay"])
def test_rounds_over_a_real_link_last_as_long_as_over_the_emulated_one(kind, capsys):
    """Server and agent in namespaces of their own, 60 ms and 500 kbit/s; and the same link emulated."""
    if why := unavailable(kind):
        pytest.skip(why)
    link = LinkProfile(latency_s=0.06, bandwidth_bps=5e5)
    theirs = statistics.median(real(link, kind, ROUNDS))
    ours = statistics.median(emulated(link, ROUNDS))
    with capsys.disabled():
        print(f"\nmedian round: {1000 * ours:.0f} ms emulated, {1000 * theirs:.0f} ms over {kind}")
    assert theirs >= 2 * link.latency_s <= ours, "no round can be faster than its two latencies"
    assert 1 / FACTOR <= theirs / ours <= FACTOR


@pytest.mark.processes
def test_a_bandwidth_of_the_kernels_own(capsys):
    """`tc tbf` at 500 kbit/s: the 3.1 kB of each frame take what `check` computes."""
    if why := unavailable("tbf"):
        pytest.skip(why)
    link = LinkProfile(bandwidth_bps=5e5)
    expected = 2 * sending_s({"bandwidth_bps": 5e5}, 360 * 8 + HEADER_BYTES)
    theirs = statistics.median(real(link, "tbf", ROUNDS))
    with capsys.disabled():
        print(f"\nmedian round: {1000 * expected:.0f} ms computed, {1000 * theirs:.0f} ms over tbf")
    assert 1 / FACTOR <= theirs / expected <= FACTOR
