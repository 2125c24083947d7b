"""One direction of a real wire, packet by packet: when does it come out at the other end, if at all? Pure.

The counterpart of `protocol.link`, which knows whole messages only. Here nothing is sent again and nothing
waits for a receipt: that is the kernel's TCP, at both ends.
"""

import math
from collections.abc import Callable

from protocol.link import LinkProfile

QUEUE_PACKETS = 1000  # that wait for the wire; more are dropped (the default of netem)


class Wire:
    """Packets leave one by one at the link's bandwidth, then comes latency with jitter; some are lost.

    Args:
        link: How it behaves.
        chance: Uniform numbers in [0, 1), of losses and jitter.
    """

    def __init__(self, link: LinkProfile, chance: Callable[[], float]) -> None:
        self._link = link
        self._chance = chance
        self._free = -math.inf
        self._last = -math.inf

    def arrival(self, size: int, now: float) -> float | None:
        """When a packet that enters now comes out, never before an earlier one; None: it does not.

        Args:
            size: Bytes, IP header included.
            now: In seconds; must not decrease.
        """
        link = self._link
        if self._chance() < link.loss:
            return None
        sending = 8 * size / link.bandwidth_bps if link.bandwidth_bps else 0.0
        if sending and self._free - now > QUEUE_PACKETS * sending:
            return None
        self._free = max(now, self._free) + sending
        late = link.latency_s + self._chance() * link.jitter_s
        self._last = max(self._last, self._free + late)
        return self._last
