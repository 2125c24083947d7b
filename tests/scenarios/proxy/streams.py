"""ZMTP streams as bytes, for tests."""

from protocol import messages as m
from protocol.codec import encode
from scenarios.proxy.zmtp import COMMAND, LONG, MORE

PING = bytes([COMMAND, 7]) + b"\x04PING\x00\x0a"


def greeting(mechanism: str = "NULL", major: int = 3) -> bytes:
    """The first 64 bytes."""
    signature = b"\xff" + bytes(8) + b"\x7f"
    return signature + bytes([major, 1]) + mechanism.encode().ljust(20, b"\0") + bytes(32)


def frame(body: bytes, *, more: bool = False, long: bool = False) -> bytes:
    """One message frame."""
    long = long or len(body) > 255
    flags = (MORE if more else 0) | (LONG if long else 0)
    return bytes([flags]) + len(body).to_bytes(8 if long else 1, "big") + body


def message(*bodies: bytes) -> bytes:
    """One message."""
    last = len(bodies) - 1
    return b"".join(frame(body, more=at < last) for at, body in enumerate(bodies))


def wire(record: m.Message) -> bytes:
    """One of our messages without tensors, as the stream carries it."""
    return message(*(bytes(part) for part in encode(m.Header(), record)))


BEAT = wire(m.Heartbeat(phase="idle"))
HELLO = wire(m.Register(agent=3, incarnation=bytes(16)))
ACK = wire(m.Ack(round=1, outcome="held"))
