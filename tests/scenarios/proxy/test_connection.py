"""One connection between two pairs of sockets: how it ends, and that a slow receiver slows the sender."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from scenarios.proxy.armed import Armed
from scenarios.proxy.connection import READ_BYTES, Connection, Stream
from scenarios.proxy.lane import FULL_BYTES
from scenarios.proxy.rules import Rule
from tests.scenarios.proxy.streams import BEAT, frame, greeting

WAIT_S = 10.0  # only a hang takes so long


class Wire:
    """An agent's and a server's stream with a connection between them."""

    def __init__(self, armed: Armed, connection: Connection, agent: Stream, server: Stream) -> None:
        self.armed = armed
        self.connection = connection
        self.agent = agent
        self.server = server
        self.running = asyncio.create_task(connection.run())


@contextlib.asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    """Both have sent their greeting, and seen the other's."""
    pairs = [socket.socketpair() for _ in range(2)]
    ends = [
        Stream(*await asyncio.open_unix_connection(sock=one, limit=READ_BYTES))
        for pair in pairs
        for one in pair
    ]
    agent, near, far, server = ends
    armed = Armed(0, 3)
    made = Wire(armed, Connection(armed, near, far), agent, server)
    for sender, receiver in ((agent, server), (server, agent)):
        sender.writer.write(greeting())
        assert await asyncio.wait_for(receiver.reader.readexactly(64), WAIT_S) == greeting()
    try:
        yield made
    finally:
        made.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await made.running
        for end in (agent, server):
            end.writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("closes", ["agent", "server"])
async def test_the_end_of_one_side_comes_after_all_that_it_sent(closes: str) -> None:
    """The other reads everything, then the end; also behind a throttle."""
    async with wire() as made:
        near, far = (made.agent, made.server) if closes == "agent" else (made.server, made.agent)
        made.armed.arm(Rule(kind="throttle", bytes_per_s=20_000.0))
        near.writer.write(BEAT * 20)
        near.writer.close()
        assert await asyncio.wait_for(far.reader.read(-1), WAIT_S) == BEAT * 20
        await asyncio.wait_for(made.running, WAIT_S)


async def test_half_open_tells_neither_end_until_both_have_gone() -> None:
    """The agent closes, the server is not told; when it closes, too, the connection is over."""
    async with wire() as made:
        for lane in (made.connection.up, made.connection.down):
            lane.silence()
        made.agent.writer.write(BEAT)
        made.agent.writer.close()
        while not made.connection.up.ended:
            await asyncio.sleep(0)
        assert made.connection.up.lost_bytes == len(BEAT)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made.server.reader.read(1), 0.02)
        assert not made.running.done()
        made.server.writer.close()
        await asyncio.wait_for(made.running, WAIT_S)


async def test_a_receiver_that_does_not_read_is_felt_by_the_sender() -> None:
    """Not all of ten megabytes is taken in; after it reads, all of it comes."""
    async with wire() as made:
        message = frame(bytes(10_000_000))
        made.agent.writer.write(message)
        drained = asyncio.create_task(made.agent.writer.drain())
        while made.connection.up.reading:
            await asyncio.sleep(0)
        assert made.connection.up._size < FULL_BYTES + READ_BYTES
        assert not drained.done(), "the sender still has most of it"
        reading = made.server.reader.readexactly(len(message))
        assert await asyncio.wait_for(reading, WAIT_S) == message
        await drained


async def test_a_cut_ends_both_sides_in_the_middle() -> None:
    """Half of a message, and the end, whatever comes after."""
    async with wire() as made:
        made.armed.arm(Rule(kind="cut", count=1, fraction=0.25))
        made.agent.writer.write(BEAT + BEAT)
        assert await asyncio.wait_for(made.server.reader.read(-1), WAIT_S) == BEAT[: len(BEAT) // 4]
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(made.agent.reader.read(-1), WAIT_S) == b""
        await asyncio.wait_for(made.running, WAIT_S)
