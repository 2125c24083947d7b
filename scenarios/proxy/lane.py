"""One direction of one connection: bytes in, bytes out, later, or never. Pure; the time is passed in.

A message passes as it comes unless a fault wants to see it whole, or an earlier one is held back. So at every
moment either a message is passing or messages are held, never both, and commands (heartbeats) may always go
ahead of what is held. Throttle and freeze act on the bytes that leave.
"""

import math
from collections import deque

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.header import unpack
from protocol.link import Direction
from scenarios.proxy.armed import Armed, check
from scenarios.proxy.rules import Rule
from scenarios.proxy.zmtp import Framing, Greeting, Piece, frames

FULL_BYTES = 128 * 1024  # more is not read before some has left: a slow receiver is felt by the sender
SLICE_S = 0.02  # a throttle lets so many seconds' worth of bytes go at a time


class Leaving(msgspec.Struct, frozen=True):
    """Bytes to forward; with ``cut`` the connection ends behind them."""

    data: bytes
    cut: bool = False


class Lane:
    """One direction.

    Args:
        armed: The faults of this agent.
        direction: ``up``: agent to server.

    Attributes:
        ended: The sender has closed.
        spoke: More than a greeting came: this is no mere look at who is there.
        lost_bytes: Swallowed because this direction is half open.
    """

    def __init__(self, armed: Armed, direction: Direction) -> None:
        self.ended = False
        self.spoke = False
        self.lost_bytes = 0
        self._armed = armed
        self._direction = direction
        self._framing = Framing()
        self._deaf = armed.any("half_open", direction)
        self._whole = False  # the current message is held until it is complete
        self._message = bytearray()
        self._out: deque[Leaving] = deque()
        self._size = 0  # bytes in _out
        self._later: deque[tuple[float, Leaving]] = deque()  # whole messages and the times they may leave at
        self._overtaken: tuple[float, bytes] | None = None  # waits for the next message to go first
        self._free_at = -math.inf  # of the throttle
        self._cut = False

    @property
    def reading(self) -> bool:
        """Whether the sender should be read now."""
        return self._deaf or (self._size < FULL_BYTES and not self._armed.any("freeze", self._direction))

    @property
    def over(self) -> bool:
        """Whether the sender has closed and all that it sent has left; half open: never, nobody is told."""
        held = self._out or self._later or self._overtaken
        return self.ended and not self._deaf and not held

    def check(self, rule: Rule) -> None:
        """Whether a fault can act on this stream.

        Raises:
            OpaqueStream: It acts on whole messages, and they are encrypted.
        """
        if self._framing.mechanism:
            check(rule, self._framing.mechanism)

    def silence(self) -> None:
        """Half open: from now on everything is lost, what is under way included."""
        self._deaf = True
        self._out.clear()
        self._later.clear()
        self._overtaken, self._size = None, 0

    def feed(self, data: bytes, now: float) -> None:
        """Takes bytes of the sender.

        Raises:
            NotZmtp: The stream is no ZMTP 3.x.
            OpaqueStream: A fault wants whole messages, and they are encrypted.
        """
        if self._deaf or self._cut:
            self.lost_bytes += len(data)
            return
        for part in self._framing.feed(data):
            self.spoke = self.spoke or not isinstance(part, Greeting)
            if isinstance(part, Piece):
                self._piece(part, now)
            else:
                self._put(Leaving(part.data))

    def take(self, now: float) -> Leaving | None:
        """The next bytes that may leave now."""
        self._ripen(now)
        if not self._out or self._armed.any("freeze", self._direction) or now < self._free_at:
            return None
        first = self._out.popleft()
        rate = self._armed.bytes_per_s(self._direction)
        if rate is not None:
            first = self._slice(first, max(1, int(rate * SLICE_S)))
            self._free_at = now + len(first.data) / rate
        self._size -= len(first.data)
        return first

    def due(self) -> float:
        """When `take` may give something that it does not give now; infinity: not before more comes."""
        if self._armed.any("freeze", self._direction):
            return math.inf
        times = [self._free_at] if self._out else []
        times += [self._later[0][0]] if self._later else []
        times += [self._overtaken[0]] if self._overtaken else []
        return min(times, default=math.inf)

    def _piece(self, piece: Piece, now: float) -> None:
        if piece.begins:
            judged = self._armed.judges(self._direction, self._framing.mechanism)
            self._whole = judged or bool(self._later or self._overtaken)
        if not self._whole:
            self._put(Leaving(piece.data))
            return
        self._message += piece.data
        if piece.ends:
            message, self._message = bytes(self._message), bytearray()
            self._decide(message, now)

    def _decide(self, message: bytes, now: float) -> None:
        """One whole message meets the faults."""
        kind = "" if self._framing.opaque else message_type(message)
        rule = self._armed.judge(self._direction, kind)
        what = rule.kind if rule else ""
        if rule and what == "reorder" and self._overtaken is None:
            self._overtaken = (now + rule.seconds, message)
            return
        if rule and what == "cut":
            part = min(len(message) - 1, max(1, int(len(message) * rule.fraction)))
            self._hold(Leaving(message[:part], cut=True), now)
        elif what != "drop":
            delay_s = rule.seconds if rule and what == "delay" else 0.0
            for _ in range(2 if what == "duplicate" else 1):
                self._hold(Leaving(message), now + delay_s)
        if self._overtaken and what != "drop":
            self._release(now)

    def _hold(self, leaving: Leaving, at: float) -> None:
        """Lets it leave at this time, and not before what is held already."""
        self._later.append((max(at, self._later[-1][0]) if self._later else at, leaving))

    def _release(self, now: float) -> None:
        """The message that was to be overtaken goes on."""
        if self._overtaken:
            self._hold(Leaving(self._overtaken[1]), now)
            self._overtaken = None

    def _ripen(self, now: float) -> None:
        if self._overtaken and now >= self._overtaken[0]:
            self._release(now)
        while self._later and now >= self._later[0][0]:
            self._put(self._later.popleft()[1])

    def _put(self, leaving: Leaving) -> None:
        if self._cut:
            return
        self._cut = leaving.cut
        self._out.append(leaving)
        self._size += len(leaving.data)

    def _slice(self, first: Leaving, size: int) -> Leaving:
        """At most so many bytes of it; the rest is next."""
        if len(first.data) <= size:
            return first
        self._out.appendleft(Leaving(first.data[size:], first.cut))
        return Leaving(first.data[:size])


def message_type(message: bytes) -> str:
    """The type of one of our messages, e.g. ``UPDATE``; ``?`` for anything else."""
    bodies = frames(message)
    try:
        body = unpack(bodies[1]).get("message")
    except (IndexError, RemoteProtocolError):
        return "?"
    return str(body.get("t", "?")) if isinstance(body, dict) else "?"
