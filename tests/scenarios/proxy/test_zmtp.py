"""The parser of ZMTP streams: nothing depends on how the bytes are split, and no byte changes."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.proxy.zmtp import Command, Framing, Greeting, NotZmtp, Part, Piece, frames
from tests.scenarios.proxy.streams import PING, frame, greeting, message

BODIES = st.lists(st.binary(max_size=300), min_size=1, max_size=4)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[list[bytes]], int]:
    """A stream, the messages in it, and how many heartbeats stand anywhere between its frames."""
    stream, messages, pings = greeting(), [], 0
    for bodies in draw(st.lists(BODIES, max_size=5)):
        messages.append(bodies)
        for at, body in enumerate(bodies):
            if draw(st.booleans()):
                stream, pings = stream + PING, pings + 1
            stream += frame(body, more=at < len(bodies) - 1, long=draw(st.booleans()))
    return stream, messages, pings


def fed(stream: bytes, cuts: list[int]) -> list[Part]:
    """The parts of a stream that comes in these portions."""
    framing = Framing()
    marks = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [part for low, high in itertools.pairwise(marks) for part in framing.feed(stream[low:high])]


def whole(parts: list[Part]) -> list[bytes]:
    """The messages, put together from their pieces."""
    found: list[bytes] = []
    for part in parts:
        if isinstance(part, Piece):
            if part.begins:
                found.append(b"")
            found[-1] += part.data
    assert all(isinstance(part, Piece | Command | Greeting) for part in parts)
    return found


@settings(max_examples=50)
@given(streams(), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_gives_the_same_messages(
    made: tuple[bytes, list[list[bytes]], int], cuts: list[int]
) -> None:
    """Bodies, order, heartbeats and every byte are the same however the stream is cut up."""
    stream, messages, pings = made
    parts = fed(stream, cuts)
    assert [frames(found) for found in whole(parts)] == messages
    assert [part.name for part in parts if isinstance(part, Command)] == ["PING"] * pings
    assert sorted(b"".join(part.data for part in parts)) == sorted(stream)
    ends = [part.ends for part in parts if isinstance(part, Piece)]
    assert sum(ends) == len(messages) and (not ends or ends[-1])


def test_byte_by_byte_is_the_stream() -> None:
    """One byte at a time; without heartbeats inside messages even the order of the bytes is the stream's."""
    stream = greeting() + PING + message(b"a", b"", b"x" * 3_000) + message(b"") + PING
    parts = fed(stream, list(range(len(stream))))
    assert b"".join(part.data for part in parts) == stream
    assert [frames(found) for found in whole(parts)] == [[b"a", b"", b"x" * 3_000], [b""]]


def test_a_large_body_passes_before_it_is_complete() -> None:
    """A message is not kept back until its end: a slow link stays a slow link."""
    framing = Framing()
    framing.feed(greeting())
    first = framing.feed(frame(b"x" * 1000, long=True)[:500])
    assert first == [Piece(frame(b"x" * 1000, long=True)[:500], True, False)]


def test_an_encrypted_stream_is_opaque() -> None:
    """With CURVE each frame is a message of its own, because MORE is hidden."""
    framing = Framing()
    assert not framing.opaque
    parts = framing.feed(greeting("CURVE") + frame(b"\x07MESSAGE...") + frame(b"\x07MESSAGE..."))
    assert framing.opaque and framing.mechanism == "CURVE"
    assert [part.ends for part in parts if isinstance(part, Piece)] == [True, True]


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"GET / HTTP/1.1", "begins with b'GET / HT'"),
        (greeting(major=1), "ZMTP 1 is not understood"),
        (greeting() + b"\xf0\x00", "flags 0xf0"),
        (greeting() + b"\x05\x00", "flags 0x05"),
    ],
)
def test_what_is_no_zmtp_is_named(stream: bytes, why: str) -> None:
    """Another protocol, an old version, flags that do not exist, a command with MORE."""
    with pytest.raises(NotZmtp) as caught:
        Framing().feed(stream)
    assert why in str(caught.value)
