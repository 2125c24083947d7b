"""One direction, as bytes and times: no socket, no clock."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.proxy.armed import Armed, OpaqueStream
from scenarios.proxy.lane import FULL_BYTES, SLICE_S, Lane, message_type
from scenarios.proxy.rules import Rule
from tests.scenarios.proxy.streams import ACK, BEAT, HELLO, PING, frame, greeting, message


class Way:
    """A lane upwards, its faults, and what left."""

    def __init__(self, *rules: Rule) -> None:
        self.armed = Armed(0, 3)
        self.now = 0.0
        for rule in rules:
            self.armed.arm(rule)
        self.lane = Lane(self.armed, "up")
        self.cut = False
        assert self.send(greeting()) == greeting()

    def send(self, *parts: bytes) -> bytes:
        """Feeds and takes at once."""
        for part in parts:
            self.lane.feed(part, self.now)
        return self.left()

    def left(self) -> bytes:
        """All that may leave now."""
        out = b""
        while leaving := self.lane.take(self.now):
            out += leaving.data
            self.cut = self.cut or leaving.cut
        return out

    def wait(self, seconds: float) -> bytes:
        """What leaves in the next seconds."""
        end, out = self.now + seconds, b""
        while (due := self.lane.due()) <= end:
            self.now = max(self.now, due)
            out += self.left()
        self.now = end
        return out + self.left()


def test_types_are_read_from_our_messages() -> None:
    """Anything else is a question mark."""
    assert [message_type(one) for one in (HELLO, BEAT, ACK)] == ["REGISTER", "HEARTBEAT", "ACK"]
    assert message_type(message(b"x")) == message_type(message(b"x", b"\xc1")) == "?"


def test_without_faults_every_byte_passes_at_once() -> None:
    """Also half a message."""
    way = Way()
    assert way.send(HELLO[:5]) == HELLO[:5]
    assert way.send(HELLO[5:], PING, BEAT) == HELLO[5:] + PING + BEAT


def test_drop_takes_whole_messages_and_no_heartbeat_of_zmtp() -> None:
    """The one of the type vanishes; PING and PONG are never touched."""
    way = Way(Rule(kind="drop", only="REGISTER"))
    assert way.send(PING, HELLO[:10], PING, HELLO[10:], BEAT) == PING + PING + BEAT


def test_a_fault_that_comes_in_the_middle_of_a_message_spares_it() -> None:
    """A part that has passed cannot be taken back."""
    way = Way()
    first = way.send(HELLO[:20])
    way.armed.arm(Rule(kind="drop"))
    assert first + way.send(HELLO[20:], HELLO) == HELLO


def test_duplicate_sends_twice_and_reorder_swaps() -> None:
    """In the stream's own framing."""
    assert Way(Rule(kind="duplicate", count=1)).send(HELLO, BEAT) == HELLO + HELLO + BEAT
    assert Way(Rule(kind="reorder", count=1)).send(HELLO, BEAT, ACK) == BEAT + HELLO + ACK


def test_a_message_waits_to_be_overtaken_only_so_long() -> None:
    """Nothing comes after it: it leaves by itself."""
    way = Way(Rule(kind="reorder", count=1, seconds=2.0))
    assert way.send(HELLO) == b""
    assert way.wait(1.9) == b"" and way.wait(0.2) == HELLO


def test_delay_keeps_the_order_and_lets_heartbeats_go_ahead() -> None:
    """A message that is not delayed does not overtake one that is."""
    way = Way(Rule(kind="delay", seconds=3.0, count=1))
    assert way.send(HELLO, BEAT, PING) == PING
    assert way.wait(2.9) == b"" and way.wait(0.2) == HELLO + BEAT
    assert way.send(ACK[:9]) == ACK[:9], "it passes as it comes again"


def test_cut_ends_the_connection_behind_a_part_of_the_message() -> None:
    """Half of it passes, nothing after."""
    way = Way(Rule(kind="cut", only="ACK", count=1))
    assert way.send(HELLO, ACK, BEAT) == HELLO + ACK[: len(ACK) // 2]
    assert way.cut
    assert way.send(BEAT) == b""


def test_freeze_keeps_everything_and_stops_reading() -> None:
    """After it all goes on."""
    way = Way()
    way.armed.arm(Rule(kind="freeze"))
    assert not way.lane.reading and way.send(HELLO) == b"" and way.lane.due() == math.inf
    way.armed.heal()
    assert way.lane.reading and way.left() == HELLO


def test_half_open_loses_for_ever_and_tells_nobody() -> None:
    """Also what was under way, also after healing; and it is never over."""
    way = Way(Rule(kind="delay", seconds=1.0))
    way.send(HELLO)
    way.lane.silence()
    way.armed.heal()
    assert way.wait(2.0) == b"" and way.send(BEAT) == b""
    way.lane.ended = True
    assert not way.lane.over and way.lane.reading
    armed = Armed(0, 0)
    armed.arm(Rule(kind="half_open", direction="up"))
    for direction, passed in (("up", None), ("down", greeting())):
        lane = Lane(armed, direction)  # type: ignore[arg-type]
        lane.feed(greeting(), 0.0)
        leaving = lane.take(0.0)
        assert (leaving.data if leaving else None) == passed, "connections made meanwhile are caught too"


def test_throttle_counts_bytes_and_stops_reading_when_full() -> None:
    """1000 bytes at 100 per second take ten seconds, in slices; the sender is not read far ahead."""
    way = Way()
    way.armed.arm(Rule(kind="throttle", bytes_per_s=100.0))
    body = frame(b"x" * 991)
    assert len(way.send(body)) == int(100 * SLICE_S)
    assert 490 <= len(way.wait(5.0)) <= 510
    assert len(way.wait(4.9)) < 500 and way.wait(0.2)
    way.send(frame(b"x" * FULL_BYTES))
    assert not way.lane.reading


def test_a_closed_sender_is_over_when_all_has_left() -> None:
    """Not before."""
    way = Way(Rule(kind="delay", seconds=1.0))
    way.send(HELLO)
    way.lane.ended = True
    assert not way.lane.over
    assert way.wait(1.0) == HELLO
    assert way.lane.over


def test_an_encrypted_stream_refuses_faults_of_whole_messages() -> None:
    """When one is armed, and when the stream comes later; a cut works on it."""
    armed = Armed(0, 0)
    lane = Lane(armed, "up")
    lane.feed(greeting("CURVE"), 0.0)
    with pytest.raises(OpaqueStream, match="CURVE"):
        lane.check(Rule(kind="drop"))
    armed.arm(Rule(kind="drop"))
    with pytest.raises(OpaqueStream, match="CURVE"):
        lane.feed(frame(b"secret"), 0.0)
    way = Way()
    way.lane = Lane(way.armed, "up")
    way.armed.arm(Rule(kind="cut", count=1))
    sent = way.send(greeting("CURVE"), frame(b"secret"))
    assert sent == greeting("CURVE") + frame(b"secret")[:4] and way.cut


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from([HELLO, BEAT, ACK, PING]), max_size=12),
    st.lists(st.integers(0, 5000), max_size=8),
    st.sampled_from(["drop", "delay", "duplicate", "reorder"]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_what_leaves_is_always_whole_messages(
    parts: list[bytes], cuts: list[int], kind: str, chance: float
) -> None:
    """Whatever is dropped, doubled, held or swapped, and however the bytes come: the framing holds."""
    way = Way(Rule(kind=kind, chance=chance, seconds=0.5))  # type: ignore[arg-type]
    stream = b"".join(parts)
    marks = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    out = b""
    for low, high in itertools.pairwise(marks):
        out += way.send(stream[low:high]) + way.wait(0.2)
    out += way.wait(100.0)
    left = Lane(Armed(0, 0), "up")._framing
    found = [b""]
    for part in left.feed(greeting() + out)[1:]:
        found[-1] += part.data
        if getattr(part, "ends", True):
            found.append(b"")
    whole = found[:-1]
    assert found[-1] == b""
    done = way.armed.done.total()
    expected = len(parts) + {"drop": -done, "duplicate": done}.get(kind, 0)
    assert len(whole) == expected
    assert whole.count(PING) == parts.count(PING)
    if kind == "delay":
        assert [one for one in whole if one != PING] == [one for one in parts if one != PING]
    elif kind == "reorder":
        assert sorted(whole) == sorted(parts)
