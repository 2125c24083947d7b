"""Frames to events and messages to frames, with a socket made of a list."""

from typing import Any

import numpy as np
import pytest

from protocol import codec
from protocol import messages as m
from protocol.errors import Lagging, Unreachable
from protocol.limits import MINOR, Limits
from server import events as e
from server.carriage import Carriage

PEER = b"peer"
PING = m.Ping()


class FakeSocket:
    """Gives what the test put in, keeps what was sent, or raises."""

    def __init__(self) -> None:
        self.inbox: list[tuple[bytes, Any]] = []
        self.sent: list[tuple[bytes, Any]] = []
        self.error: Exception | None = None
        self.sender = "its key"
        self.bytes_sent = self.bytes_received = 0

    async def receive(self) -> tuple[bytes, Any]:
        """The next one."""
        return self.inbox.pop(0)

    def send(self, peer: bytes, frames: Any) -> None:
        """Keeps the frames."""
        if self.error:
            raise self.error
        self.sent.append((peer, frames))


class Bench:
    """A carriage over such a socket, and what it could not deliver."""

    def __init__(self, *, keyed: bool = False) -> None:
        self.socket: Any = FakeSocket()
        self.undelivered: list[e.Event] = []
        self.carriage = Carriage(
            self.socket,
            Limits(),
            self.undelivered.append,
            lambda header: 8 * len(header.session),
            keyed=keyed,
        )

    async def receive(self, frames: list[Any]) -> e.Event:
        """The event that these frames become."""
        self.socket.inbox.append((PEER, frames))
        return await self.carriage.receive()


@pytest.mark.parametrize(("keyed", "key"), [(True, "its key"), (False, "")])
async def test_a_message_arrives_with_the_key_of_its_sender(keyed: bool, key: str) -> None:
    """Only a server with keys asks the socket for it."""
    header = m.Header(session=bytes(16), seq=1)
    event = await Bench(keyed=keyed).receive(codec.encode(header, PING))
    assert event == e.Received(PEER, header, PING, {}, MINOR, key)


async def test_tensors_beyond_the_sender_s_room_arrive_as_shapes() -> None:
    """The room is asked by the header: with a session 128 bytes here, without one none."""
    update = m.Update(round=1, theta_crc32=0, crc32=0, trajectories=1, trajectories_spent=1)
    sizes = [(bytes(16), 16, True), (bytes(16), 17, False), (b"", 1, False)]
    for session, count, copied in sizes:
        header = m.Header(session=session, seq=1)
        event = await Bench().receive(codec.encode(header, update, {"delta": np.ones(count)}))
        assert isinstance(event, e.Received)
        assert event.tensors["delta"].shape == (count,)
        assert bool(event.tensors["delta"].all()) is copied


async def test_rubbish_is_an_event_and_gets_no_answer() -> None:
    """With the code and the words of the codec."""
    bench = Bench()
    event = await bench.receive([b"rubbish", b""])
    assert isinstance(event, e.Malformed)
    assert (event.peer, event.code) == (PEER, "malformed")
    assert "another program" in event.why
    assert not bench.socket.sent


async def test_another_major_version_is_answered_before_anybody_decides() -> None:
    """REJECT(version), outside any session; the event names both halves of the peer's version."""
    bench = Bench()
    frames: list[Any] = codec.encode(m.Header(), PING)
    frames[0] = frames[0][:4] + b"\x09" + frames[0][5:]
    assert await bench.receive(frames) == e.PeerVersion(PEER, 9, MINOR)
    ((peer, answer),) = bench.socket.sent
    message = codec.decode(answer).message
    assert isinstance(message, m.Reject)
    assert (peer, message.reason) == (PEER, "version")


@pytest.mark.parametrize(
    ("error", "event"),
    [(Unreachable("gone"), e.Unreachable(PEER)), (Lagging("full"), e.Lagging(PEER))],
    ids=["unreachable", "lagging"],
)
def test_a_message_that_does_not_leave_is_an_event(error: Exception, event: e.Event) -> None:
    """It is told to whoever decides; nothing is raised."""
    bench = Bench()
    bench.socket.error = error
    bench.carriage.send(e.Send(PEER, m.Header(), PING))
    assert bench.undelivered == [event]


def test_bytes_are_counted_from_one_asking_to_the_next() -> None:
    """Each round gets its own bytes; the sum stays."""
    bench = Bench()
    bench.socket.bytes_sent, bench.socket.bytes_received = 5, 7
    assert bench.carriage.counted_since() == (5, 7)
    bench.socket.bytes_sent = 9
    assert bench.carriage.counted_since() == (4, 0)
    assert bench.carriage.counted == (9, 7)
