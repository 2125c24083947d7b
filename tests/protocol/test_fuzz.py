"""Random and damaged frames: decoding ends in a message or in RemoteProtocolError, and in nothing else."""

import pickle
import random

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import messages as m
from protocol.codec import OURS, TYPES, Envelope, decode, encode
from protocol.errors import RemoteProtocolError
from protocol.limits import Limits
from protocol.session import name
from tests.fuzz.targets import session
from tests.protocol.samples import SAMPLES
from tests.protocol.strategies import plain

SMALL = Limits(chunk_bytes=16, max_tensor_bytes=64)


def carried(kind):
    """Tensors for a message of this type."""
    return dict.fromkeys(m.TENSORS.get(kind, ()), np.ones(3))


VALID = {
    name(kind): [bytes(frame) for frame in encode(m.Header(), message, carried(kind), SMALL)]
    for kind, message in SAMPLES.items()
}


def survives(frames):
    """Decodes; True if a message came of it."""
    try:
        envelope = decode(frames, SMALL)
    except RemoteProtocolError:
        return False
    assert type(envelope) is Envelope
    return True


def test_random_frames():
    """[wire 30] 20,000 lists of 0 to 5 random frames, most of them behind a valid preamble."""
    draw = random.Random(0)
    for _ in range(20_000):
        frames = [draw.randbytes(draw.choice((0, 1, 8, 30))) for _ in range(draw.randrange(6))]
        if frames and draw.random() < 0.8:
            frames[0] = OURS
        survives(frames)


def test_damaged_messages():
    """[wire 30] 20,000 valid messages with flipped bytes, cut, doubled, dropped or exchanged frames."""
    draw = random.Random(1)
    messages = list(VALID.values())
    accepted = 0
    for _ in range(20_000):
        frames = list(draw.choice(messages))
        at = draw.randrange(len(frames))
        frame = bytearray(frames[at])
        kind = draw.randrange(5)
        if kind == 0 and frame:
            frame[draw.randrange(len(frame))] = draw.randrange(256)
            frames[at] = bytes(frame)
        elif kind == 1:
            frames[at] = bytes(frame[: draw.randrange(len(frame) + 1)])
        elif kind == 2:
            frames.insert(at, bytes(frame))
        elif kind == 3:
            del frames[at]
        else:
            other = draw.choice(messages)
            frames[at] = draw.choice(other)
        accepted += survives(frames)
    assert 0 < accepted < 20_000


@settings(max_examples=100)  # coverage-guided: python -m tests.fuzz edits
@given(
    st.sampled_from(sorted(TYPES)), st.dictionaries(st.text(max_size=8) | st.sampled_from(["round"]), plain)
)
def test_random_fields_of_known_types(title, fields):
    """A well-formed header with any plain fields."""
    header = {"session": b"", "message": {**fields, "t": title}, "tensors": []}
    survives([OURS, msgpack.packb(header)])


@settings(max_examples=200)
@given(st.lists(st.tuples(*[st.integers(0, 255)] * 3), max_size=60))
def test_any_sequence_of_messages(steps):
    """[wire 48] Lost, late, doubled, forged: invariants hold; what is refused changes nothing."""
    session.target(bytes(byte for step in steps for byte in step))


class Exploit:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return exec, ("import builtins; builtins.exploited = True",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_inert(protocol):
    """[wire 33] [complaints 70] As header, as chunk or as byte string, a pickle is bytes and runs nothing."""
    import builtins

    bomb = pickle.dumps(Exploit(), protocol)
    assert not survives([OURS, bomb])
    assert not survives([bomb, bomb, bomb])
    padded = bomb.ljust(-(-len(bomb) // 8) * 8, b"\0")
    header = msgpack.unpackb(VALID["UPDATE"][1])
    header["tensors"] = [{"name": "delta", "dtype": "|O", "count": len(padded) // 8, "chunks": 1}]
    assert not survives([OURS, msgpack.packb(header), padded])
    message = m.Register(agent=0, incarnation=b"i" * 16, overrides={"x": bomb})
    assert decode(encode(m.Header(), message)).message.overrides == {"x": bomb}
    assert not hasattr(builtins, "exploited")
