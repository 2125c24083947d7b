"""The byte stream of ZMTP 3.x, taken apart as it comes; no byte is changed, added or lost. Pure.

Greeting of 64 bytes, then frames: flags (MORE, LONG, COMMAND), size in 1 or 8 bytes, body. A message is a run
of frames up to the first without MORE; commands (READY, PING, PONG, ...) may stand between its frames.
Source: ZMTP 3.1, RFC 37 of the ZeroMQ project. With a mechanism other than NULL the frames after the
greeting are opaque: each counts as a message of its own, because MORE is encrypted.
"""

import msgspec

GREETING_BYTES = 64
SIGNATURE = 0xFF  # the first byte
VERSION = 10  # where the major version stands
MECHANISM = slice(12, 32)
MORE, LONG, COMMAND = 1, 2, 4
LONG_SIZE_BYTES = 8


class NotZmtp(Exception):
    """The stream is of another protocol, or of ZMTP before 3.0; the message says what came."""


class Greeting(msgspec.Struct, frozen=True):
    """Some of the first 64 bytes of one direction: a peer sends the rest only when it has seen a part."""

    data: bytes


class Command(msgspec.Struct, frozen=True):
    """A whole command frame."""

    data: bytes
    name: str


class Piece(msgspec.Struct, frozen=True):
    """Some bytes of one message, frame headers included.

    Attributes:
        data: As it came.
        begins: It holds the message's first byte.
        ends: It holds the message's last byte.
    """

    data: bytes
    begins: bool
    ends: bool


Part = Greeting | Command | Piece


class Framing:
    """Takes one direction of one connection apart.

    Attributes:
        mechanism: Of the greeting, e.g. ``NULL``; empty before it has come.
    """

    def __init__(self) -> None:
        self.mechanism = ""
        self._buffer = bytearray()
        self._greeting = bytearray()
        self._left = 0  # bytes of the current frame's body that are still to come
        self._more = False  # of the current frame
        self._inside = False  # of a message

    @property
    def opaque(self) -> bool:
        """Whether messages cannot be told from the bytes."""
        return self.mechanism not in ("", "NULL")

    def feed(self, data: bytes) -> list[Part]:
        """Takes the next bytes; the parts' data, joined, is what was fed, up to what is still incomplete.

        Raises:
            NotZmtp: This is no ZMTP 3.x.
        """
        self._buffer += data
        parts: list[Part] = []
        while (part := self._next()) is not None:
            parts.append(part)
        return parts

    def _next(self) -> Part | None:
        if not self.mechanism:
            return self._greet()
        if self._left:
            return self._body(0) if self._buffer else None
        return self._frame()

    def _greet(self) -> Greeting | None:
        if not self._buffer:
            return None
        data = self._pull(min(len(self._buffer), GREETING_BYTES - len(self._greeting)))
        self._greeting += data
        if self._greeting[0] != SIGNATURE:
            raise NotZmtp(f"the stream begins with {bytes(self._greeting[:8])!r}, not with a ZMTP greeting")
        if len(self._greeting) > VERSION and self._greeting[VERSION] < 3:
            raise NotZmtp(f"ZMTP {self._greeting[VERSION]} is not understood; 3.0 and later are")
        if len(self._greeting) == GREETING_BYTES:
            name = bytes(self._greeting[MECHANISM]).rstrip(b"\0")
            self.mechanism = name.decode("ascii", "replace") or "?"
        return Greeting(data)

    def _frame(self) -> Command | Piece | None:
        if not self._buffer:
            return None
        flags = self._buffer[0]
        if flags & ~(MORE | LONG | COMMAND) or (flags & COMMAND and flags & MORE):
            raise NotZmtp(f"a frame has the flags {flags:#04x}")
        head = 1 + (LONG_SIZE_BYTES if flags & LONG else 1)
        if len(self._buffer) < head:
            return None
        size = int.from_bytes(self._buffer[1:head], "big")
        if flags & COMMAND:
            return self._command(head, size)
        self._left, self._more = size, bool(flags & MORE)
        return self._body(head)

    def _command(self, head: int, size: int) -> Command | None:
        if len(self._buffer) < head + size:
            return None
        data = self._pull(head + size)
        length = data[head] if size else 0
        return Command(data, data[head + 1 : head + 1 + length].decode("ascii", "replace"))

    def _body(self, head: int) -> Piece:
        """What is there of the current frame; ``head`` bytes of its header stand before it."""
        size = min(self._left, len(self._buffer) - head)
        self._left -= size
        begins, ends = not self._inside, not self._left and not self._more
        self._inside = not ends
        return Piece(self._pull(head + size), begins, ends)

    def _pull(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


def frames(message: bytes) -> list[bytes]:
    """The bodies of a whole message's frames."""
    found, at = [], 0
    while at < len(message):
        long = message[at] & LONG
        body = at + 1 + (LONG_SIZE_BYTES if long else 1)
        at = body + int.from_bytes(message[at + 1 : body], "big")
        found.append(message[body:at])
    return found
