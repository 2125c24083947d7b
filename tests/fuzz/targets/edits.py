"""Real messages with a few values exchanged: deeper than damaged bytes get.

Bytes: the message's type, then edits: where (a path into the header, by positions) and what.
"""

import copy
from typing import Any

import msgpack
import numpy as np

from protocol import messages as m
from protocol.codec import OURS, encode
from tests.fuzz.targets.codec import LIMITS, check
from tests.protocol.samples import SAMPLES

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 5, -1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 0.0, 3.0, 1e308,
    float("nan"), float("inf"), "", "t", "<f8", "|O", "f8,O", "params", "control", "delta", "PING", "THETA",
    "train", "onboard", "\0", "x" * 129, "a" * 64, "y" * 5000, b"", b"i" * 16, b"z" * 17, [], [0], [[]], {},
    {"t": "PING"}, {"": None}, [{}] * 70, {1: 2}, {b"k": 1}, msgpack.ExtType(5, b"x"), msgpack.Timestamp(1),
)  # fmt: skip
BASES = [
    encode(
        m.Header(session=b"s" * 16, seq=3),
        message,
        dict.fromkeys(m.TENSORS.get(kind, ()), np.ones(9)),
        LIMITS,
    )
    for kind, message in SAMPLES.items()
]
BASES.append(encode(m.Header(), SAMPLES[m.Theta], {"params": np.ones(9), "control": -np.ones(9)}, LIMITS))


def target(data: bytes) -> None:
    """Whatever stands in a header, decoding keeps the properties of the codec."""
    frames = [bytes(frame) for frame in BASES[data[0] % len(BASES)]] if data else []
    header = msgpack.unpackb(frames[1]) if frames else {}
    rest = iter(data[1:])
    for where in rest:
        what = next(rest, 0)
        if where >= 0xF0:
            frames = exchange(frames, where, what)
        else:
            edit(header, where, next(rest, 0), what)
    if frames and frames[0] == OURS:
        frames[1:2] = [msgpack.packb(header)]
    check(frames)


def edit(header: Any, *path_and_value: int) -> None:
    """Puts one value, removes a key, or adds one, at a place that two numbers choose."""
    first, second, what = path_and_value
    place: Any = header
    if first & 0x80 and len(place):  # one level down
        below = list(place.values())[first % len(place)]
        place = below[0] if isinstance(below, list) and below and isinstance(below[0], dict) else below
    if not isinstance(place, dict):
        return
    keys = [*place, "more"]
    key = keys[second % len(keys)]
    if what >= len(VALUES):
        place.pop(key, None)
    else:
        place[key] = copy.deepcopy(VALUES[what])  # a later edit may go into it


def exchange(frames: list[bytes], where: int, what: int) -> list[bytes]:
    """Cuts, doubles, drops or lengthens one frame."""
    at = what % len(frames) if frames else 0
    match where & 3:
        case 0:
            return [*frames[:at], *frames[at + 1 :]]
        case 1:
            return [*frames[: at + 1], *frames[at:]]
        case 2:
            return [part[: what >> 2] if index == at else part for index, part in enumerate(frames)]
    return [part + bytes(what >> 2) if index == at else part for index, part in enumerate(frames)]
