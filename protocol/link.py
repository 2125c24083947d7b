"""An emulated network link: when does a message arrive? Pure; the agent's runtime waits until then.

Model, per direction: messages leave one after the other at the link's bandwidth; each arrives a latency and
a random jitter after its last byte left; lost segments delay it by retransmission, as TCP would, and take
their share of the bandwidth; no message overtakes another. Real cuts belong to a proxy, not here.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

Direction = Literal["up", "down"]
Uniforms = Callable[[str], tuple[float, float]]
"""Two uniform numbers in [0, 1) for a key: equal keys give equal numbers."""

SEGMENT_BYTES = 1460  # of TCP on Ethernet
RETRANSMIT_S = 0.2  # the least that Linux waits for a lost segment


class LinkProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a link behaves. The default is no emulation at all.

    Attributes:
        latency_s: One way.
        jitter_s: Largest random addition to the latency, drawn uniformly.
        bandwidth_bps: Bits per second in each direction; 0: unlimited.
        loss: Chance that a segment is lost and sent again.
    """

    latency_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    jitter_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    bandwidth_bps: Annotated[float, Meta(ge=0)] = 0.0
    loss: Annotated[float, Meta(ge=0, le=0.9)] = 0.0


def draws(seed: int, agent: int) -> Uniforms:
    """The uniform numbers of one agent's link, the same in every process and on every machine.

    Args:
        seed: Run seed.
        agent: Agent id.
    """

    def uniforms(key: str) -> tuple[float, float]:
        digest = hashlib.sha256(f"{seed} {agent} {key}".encode()).digest()
        words = np.frombuffer(digest[:16], dtype="<u8")
        first, second = np.random.Generator(np.random.Philox(key=words)).random(2)
        return float(first), float(second)

    return uniforms


class Link:
    """One agent's link to the server.

    Attributes:
        profile: How it behaves; may be replaced while messages are under way.
    """

    def __init__(self, profile: LinkProfile, uniforms: Uniforms) -> None:
        self.profile = profile
        self._uniforms = uniforms
        self._free: dict[Direction, float] = {"up": -math.inf, "down": -math.inf}
        self._last: dict[Direction, float] = {"up": -math.inf, "down": -math.inf}

    def delivery(
        self,
        direction: Direction,
        size: int,
        now: float,
        message: str = "",
        round_: int = 0,
        attempt: int = 0,
    ) -> float:
        """When a message that is handed over now arrives.

        Args:
            direction: ``up``: agent to server.
            size: Bytes of all frames.
            now: Time of handing over, in seconds; must not decrease.
            message: Type, e.g. ``UPDATE``: with round and attempt it keys the draws.
            round_: The message's round; 0 for those that have none.
            attempt: Counts repetitions of the same message.

        Returns:
            Time of arrival in seconds, never before an earlier message of the same direction.
        """
        profile = self.profile
        jitter, luck = self._uniforms(f"{direction} {message} {round_} {attempt}")
        sending = 8 * size / profile.bandwidth_bps / (1 - profile.loss) if profile.bandwidth_bps else 0.0
        self._free[direction] = max(now, self._free[direction]) + sending
        wait = profile.latency_s + jitter * profile.jitter_s
        wait += retransmissions(size, profile.loss, luck) * (RETRANSMIT_S + 2 * profile.latency_s)
        self._last[direction] = max(self._last[direction], self._free[direction] + wait)
        return self._last[direction]


def retransmissions(size: int, loss: float, uniform: float) -> int:
    """How many times in a row some segment of a message must be sent again.

    Each of n segments needs a geometric number of sendings; the message waits for the largest of them.
    P(at most r) = (1 - loss**(r + 1))**n, inverted at ``uniform``: it grows with size and with loss.

    Args:
        size: Bytes.
        loss: Chance that a segment is lost, 0 <= loss < 1.
        uniform: In [0, 1).
    """
    if loss == 0.0 or uniform == 0.0:
        return 0
    segments = max(1, math.ceil(size / SEGMENT_BYTES))
    # 1 - uniform**(1/n) without cancellation: the chance of loss that one segment may still have.
    rest = -math.expm1(math.log(uniform) / segments)
    return max(0, math.ceil(math.log(rest) / math.log(loss)) - 1)
