"""Messages to frames and back: pure, no sockets, no clock.

One message is one multipart: an 8-byte preamble, a msgpack header, then the tensors as raw little-endian
chunks. ``msgpack`` does the bytes, ``msgspec`` validates them into one frozen record per type. Encoding
copies no tensor (its frames are views: leave the array unchanged until the message is sent); decoding copies
each tensor once. `protocol/README.md` specifies the bytes.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import msgspec

from protocol import header as header_frame
from protocol.errors import LocalProtocolError, RemoteProtocolError, VersionMismatch
from protocol.limits import MAGIC, MAJOR, MAX_HEADER_BYTES, MINOR, PREAMBLE_BYTES, Limits
from protocol.messages import OPTIONAL_TENSORS, TENSORS, AnyMessage, Header, Message, Record, Reject
from protocol.tensors import F8, Buffer, Names, Tensors, join, split

Frames = list[bytes | memoryview]
R = TypeVar("R", bound=Record)

PREAMBLE = struct.Struct("<4sBBH")
OURS = PREAMBLE.pack(MAGIC, MAJOR, MINOR, 0)
TYPES: dict[str, type[Message]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyMessage)}
NO_TENSORS: Mapping[str, F8] = MappingProxyType({})
NAMES: dict[type[Message], Names] = {
    kind: Names(names, OPTIONAL_TENSORS.get(kind, ())) for kind, names in TENSORS.items()
}
NOTHING = Names()
DEFAULT_LIMITS = Limits()


class Envelope(msgspec.Struct, frozen=True):
    """A decoded message.

    Attributes:
        header: Session, number, run and committed round.
        message: The validated record.
        tensors: Name -> float64, [count]; owned, aligned, writeable; without memory beyond ``room``.
        minor: The sender's minor version; both sides use the lower one.
    """

    header: Header
    message: Message
    tensors: dict[str, F8]
    minor: int


def encode(
    header: Header,
    message: Message,
    tensors: Mapping[str, F8] = NO_TENSORS,
    limits: Limits = DEFAULT_LIMITS,
) -> Frames:
    """Turns a message into frames; everything is checked before anything can be sent.

    Args:
        header: From `Session.send`, or ``Header()`` outside a session.
        message: A record of `protocol.messages`.
        tensors: Those of ``TENSORS[type(message)]``, perhaps ``OPTIONAL_TENSORS``; contiguous float64, [d].
        limits: Chunk size and total size.

    Raises:
        LocalProtocolError: A field or tensor cannot be sent; the message names it.
    """
    name = str(type(message).__struct_config__.tag)
    if TYPES.get(name) is not type(message):
        raise LocalProtocolError(f"{type(message).__name__} is no message type of this protocol")
    entries, chunks = split(tensors, NAMES.get(type(message), NOTHING), limits, name)
    plain = msgspec.structs.asdict(header)
    plain["message"] = body = {"t": name, **msgspec.structs.asdict(message)}
    plain["tensors"] = entries
    packed = header_frame.pack(plain, name)
    try:
        _convert(plain, Header)
        _convert(body, type(message))
    except header_frame.FAILURES as error:
        raise LocalProtocolError(f"{name} cannot be sent: {error}") from error
    return [OURS, packed, *chunks]


def decode(
    frames: Sequence[Buffer],
    limits: Limits = DEFAULT_LIMITS,
    room: Callable[[Header], int] | None = None,
) -> Envelope:
    """Turns frames into a validated message; pure, so the same frames may be decoded twice.

    Args:
        frames: Preamble, header, chunks.
        limits: Chunk size and total size.
        room: Header -> bytes of tensors that are copied for its sender. Of more, only the shapes are given:
            arrays without memory and content, to be refused. None: all that the limits allow.

    Raises:
        RemoteProtocolError: ``malformed`` or ``unknown_type``.
        VersionMismatch: The preamble is of another major version; nothing after it was read.
    """
    if not 2 <= len(frames) <= limits.max_frames:
        raise RemoteProtocolError("malformed", f"{len(frames)} frames, 2 to {limits.max_frames} are allowed")
    minor = (
        MINOR if frames[0] == OURS else _check_preamble(bytes(memoryview(frames[0])[: PREAMBLE_BYTES + 1]))
    )
    plain = header_frame.unpack(bytes(memoryview(frames[1])[: MAX_HEADER_BYTES + 1]))
    try:
        header = _convert(plain, Header)
        message = _message(plain.get("message"))
        entries = _convert(plain, Tensors).tensors
    except header_frame.FAILURES as error:
        raise RemoteProtocolError("malformed", f"header: {error}") from error
    names = NAMES.get(type(message), NOTHING)
    some = names.required or entries or len(frames) > 2
    copied = limits.max_tensor_bytes if room is None or not some else room(header)
    tensors = join(entries, frames[2:], names, limits, copied) if some else {}
    return Envelope(header, message, tensors, minor)


def reject_version(error: VersionMismatch) -> Reject:
    """The answer to a peer of another major version. It is sent in our major, outside any session.

    The peer reads our version from the preamble and fails with the same error on its side.
    """
    return Reject(
        reason="version",
        message=str(error),
        expected=f"protocol {MAJOR}.{MINOR}",
        received=f"protocol {error.major}.{error.minor}",
    )


def _check_preamble(preamble: bytes) -> int:
    if len(preamble) != PREAMBLE_BYTES or preamble[: len(MAGIC)] != MAGIC:
        raise RemoteProtocolError("malformed", "no preamble of this protocol; is it another program?")
    _, major, minor, flags = PREAMBLE.unpack(preamble)
    if major != MAJOR:
        raise VersionMismatch(major, minor)
    if flags:
        raise RemoteProtocolError("malformed", f"flags {flags:#06x} were not agreed on")
    return int(minor)


def _message(plain: Any) -> Message:
    name = plain.get("t") if isinstance(plain, dict) else None
    if not isinstance(name, str):
        raise ValueError("message has no type `t`")
    kind = TYPES.get(name)
    if kind is None:
        raise RemoteProtocolError("unknown_type", f"message type {name[:40]!r}")
    return _convert(plain, kind)


def _convert(plain: Any, kind: type[R]) -> R:
    return msgspec.convert(plain, kind, builtin_types=(bytes,))  # bytes are bytes, never base64 text
