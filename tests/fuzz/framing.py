"""Lists of frames as one string of bytes, so that a fuzzer can change both.

The first byte holds the number of frames (its low four bits) and whether the first of them is our preamble
(`OURS_FIRST`); then come the frames, each but the last behind its length of two bytes.
"""

from collections.abc import Sequence

from protocol.codec import OURS

OURS_FIRST = 0x80
MOST = 15


def unframe(data: bytes) -> list[bytes]:
    """The frames that the bytes mean; whatever they are, they mean some."""
    if not data:
        return []
    count, rest = data[0] & MOST, data[1:]
    frames = [OURS] if data[0] & OURS_FIRST and count else []
    while len(frames) < count:
        if len(frames) == count - 1:
            frames.append(rest)
            break
        size = int.from_bytes(rest[:2], "little")
        frames.append(rest[2 : 2 + size])
        rest = rest[2 + size :]
    return frames


def frame(frames: Sequence[bytes | memoryview]) -> bytes:
    """The bytes that mean these frames (at most 15)."""
    plain = [bytes(part) for part in frames]
    assert len(plain) <= MOST
    ours = bool(plain) and plain[0] == OURS
    left = plain[1:] if ours else plain
    sized = [len(part).to_bytes(2, "little") + part for part in left[:-1]]
    return bytes([len(plain) | (OURS_FIRST if ours else 0)]) + b"".join(sized) + b"".join(left[-1:])
