"""The proxy between real zmq sockets, over tcp and ipc. Nothing here sleeps: every wait is for an event."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zmq

from protocol import messages as m
from protocol.codec import decode, encode
from protocol.errors import AddressError
from protocol.limits import Limits
from protocol.transport import AgentSocket, Context, ServerSocket
from scenarios.proxy.armed import OpaqueStream
from scenarios.proxy.proxy import Proxy
from scenarios.proxy.rules import Rule

SCHEMES = ("tcp", "ipc")
WAIT_S = 10.0  # only a hang takes so long


class Between:
    """A server, an agent, and the proxy between them."""

    def __init__(self, server: ServerSocket, proxy: Proxy, agent: AgentSocket) -> None:
        self.server = server
        self.proxy = proxy
        self.agent = agent
        self.peer = b""

    def up(self, *texts: str) -> None:
        """The agent sends."""
        for text in texts:
            self.agent.send(encode(m.Header(), m.Heartbeat(phase=text)))

    def down(self, *texts: str) -> None:
        """The server sends."""
        for text in texts:
            self.server.send(self.peer, encode(m.Header(), m.Heartbeat(phase=text)))

    async def heard(self, count: int = 1) -> list[str]:
        """What the server hears next."""
        found = []
        for _ in range(count):
            self.peer, frames = await asyncio.wait_for(self.server.receive(), WAIT_S)
            found.append(phase(frames))
        return found

    async def told(self, count: int = 1) -> list[str]:
        """What the agent hears next."""
        return [phase(await asyncio.wait_for(self.agent.receive(), WAIT_S)) for _ in range(count)]


def phase(frames: list[memoryview]) -> str:
    """The text of a heartbeat."""
    message = decode(frames).message
    assert isinstance(message, m.Heartbeat)
    return message.phase


async def connected_again(proxy: Proxy) -> None:
    """Waits for a second connection; the proxy has no event for it."""
    async with asyncio.timeout(WAIT_S):
        while proxy.connections < 2:
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def between(scheme: str, limits: Limits | None = None) -> AsyncIterator[Between]:
    """Both ends have heard of each other."""
    with tempfile.TemporaryDirectory(prefix="ef") as folder, Context() as context:
        places = ["tcp://127.0.0.1:0"] * 2 if scheme == "tcp" else [f"ipc://{folder}/{end}" for end in "sp"]
        server = ServerSocket.bind(context, places[0], limits)
        proxy = Proxy(3)
        agent = AgentSocket.connect(context, await proxy.listen(places[1], server.endpoint), limits)
        made = Between(server, proxy, agent)
        try:
            await asyncio.wait_for(agent.writable(), WAIT_S)
            made.up("hello")
            assert await made.heard() == ["hello"]
            yield made
        finally:
            agent.close(0)
            server.close(0)
            await proxy.close()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_both_ways_in_order(scheme: str) -> None:
    """Without a fault it is a wire; messages of many frames and a megabyte pass as they are."""
    async with between(scheme) as made:
        made.up("a", "b")
        assert await made.heard(2) == ["a", "b"]
        made.down("c")
        assert await made.told() == ["c"]
        large = [b"x" * 1_000_000, b"", b"y"]
        made.agent.send(large)
        _, frames = await made.server.receive()
        assert [bytes(frame) for frame in frames] == large
        assert made.proxy.connections == 1 and made.proxy.done == {}


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_messages_are_dropped_doubled_and_swapped(scheme: str) -> None:
    """Each in its direction, as often as asked for, and counted."""
    async with between(scheme) as made:
        made.proxy.arm(Rule(kind="drop", direction="up", count=1))
        made.proxy.arm(Rule(kind="duplicate", direction="down", count=1))
        made.up("lost", "b")
        assert await made.heard() == ["b"]
        made.down("c", "d")
        assert await made.told(3) == ["c", "c", "d"]
        made.proxy.arm(Rule(kind="reorder", direction="up", count=1))
        made.up("second", "first")
        assert await made.heard(2) == ["first", "second"]
        assert made.proxy.done == {
            "drop up HEARTBEAT": 1,
            "duplicate down HEARTBEAT": 1,
            "reorder up HEARTBEAT": 1,
        }


async def test_a_delayed_message_comes_later_but_first() -> None:
    """The order stays: what was sent after it waits behind it."""
    async with between("ipc") as made:
        made.proxy.arm(Rule(kind="delay", direction="up", seconds=0.05, count=1))
        made.up("late", "next")
        made.down("answer")
        assert await made.told() == ["answer"], "the other direction does not wait"
        assert await made.heard(2) == ["late", "next"]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_frozen_bytes_arrive_after_the_thaw(scheme: str) -> None:
    """Nothing passes, nothing is lost, and the connection is the same one."""
    async with between(scheme) as made:
        made.proxy.arm(Rule(kind="freeze"))
        made.up("a")
        made.down("b")
        for waiting in (made.server.receive(), made.agent.receive()):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.02)
        made.proxy.heal()
        assert (await made.heard(), await made.told()) == (["a"], ["b"])
        assert made.proxy.connections == 1


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_cut_in_the_middle_of_a_message(scheme: str) -> None:
    """[complaints 12] The peer never sees the half; the socket reconnects, and what is sent then arrives."""
    async with between(scheme) as made:
        made.proxy.arm(Rule(kind="cut", direction="up", count=1))
        made.agent.send([b"x" * 500_000, b"y" * 500_000])
        await connected_again(made.proxy)
        await asyncio.wait_for(made.agent.writable(), WAIT_S)
        made.up("again")
        assert await made.heard() == ["again"]
        assert made.proxy.done == {"cut up ?": 1}


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_stale_link_is_found_by_socket_heartbeats(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[complaints 7] Half open: the heartbeats of the socket end the connection and it reconnects by itself.

    Scaled: heartbeats every 50 ms, dead after 200 ms, instead of 2 s and 10 s.
    """
    monkeypatch.setattr("protocol.transport.pump.HEARTBEAT_MS", 50)
    monkeypatch.setattr("protocol.transport.pump.HEARTBEAT_TIMEOUT_MS", 200)
    async with between(scheme) as made:
        made.proxy.arm(Rule(kind="half_open"))
        made.up("lost")
        made.proxy.heal()
        await connected_again(made.proxy)
        await asyncio.wait_for(made.agent.writable(), WAIT_S)
        made.up("again")
        assert await made.heard() == ["again"], "what the dead connection swallowed is lost"
        made.down("answer")
        assert await made.told() == ["answer"]


FRAME_S = 0.2  # of a throttled chunk
RATE = 500_000


async def test_a_throttled_bulk_message_does_not_trip_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """[wire 26] A message that takes much longer than the heartbeats' patience arrives over one connection.

    Scaled from 20 MB in chunks of 4 MiB at 5 MB/s with a patience of 2 s: 700 kB in 7 chunks at 500 kB/s,
    0.2 s each, 1.4 s in all, with a patience of 1 s.
    """
    monkeypatch.setattr("protocol.transport.pump.HEARTBEAT_MS", 100)
    monkeypatch.setattr("protocol.transport.pump.HEARTBEAT_TIMEOUT_MS", 1000)
    async with between("tcp") as made:
        made.proxy.arm(Rule(kind="throttle", direction="down", bytes_per_s=RATE))
        chunks = [bytes(int(RATE * FRAME_S))] * 7
        made.server.send(made.peer, chunks)
        frames = await asyncio.wait_for(made.agent.receive(), WAIT_S)
        assert [len(frame) for frame in frames] == [len(chunk) for chunk in chunks]
        assert made.proxy.connections == 1


async def test_one_large_frame_does_trip_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """[wire 26] The reason for chunks: the same bytes as one frame end the connection in between."""
    monkeypatch.setattr("protocol.transport.pump.HEARTBEAT_MS", 50)
    monkeypatch.setattr("protocol.transport.pump.HEARTBEAT_TIMEOUT_MS", 300)
    async with between("tcp", Limits(chunk_bytes=1024 * 1024)) as made:
        made.proxy.arm(Rule(kind="throttle", direction="down", bytes_per_s=RATE))
        made.server.send(made.peer, [bytes(700_000)])
        await connected_again(made.proxy)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_it_outlives_the_server_and_a_dead_server_is_a_refusal(scheme: str) -> None:
    """While nobody listens an agent sees no connection; the next server is found at the same address."""
    async with between(scheme) as made:
        where = made.server.endpoint
        made.server.close(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never_writable(made.agent), 0.05)
        while True:  # the kernel may need a moment to give the port back
            try:
                made.server = ServerSocket.bind(made.agent._pump._context, where)
                break
            except AddressError:
                await asyncio.sleep(0.01)
        await asyncio.wait_for(made.agent.writable(), WAIT_S)
        made.up("again")
        assert await made.heard() == ["again"]


async def never_writable(agent: AgentSocket) -> None:
    """Ends if the agent has a connection after its server has gone."""
    while agent._pump.connected:
        await asyncio.sleep(0)
    await agent.writable()


async def test_another_protocol_is_refused_by_name(tmp_path: Path) -> None:
    """The connection is closed and the reason told."""
    said: list[str] = []
    with Context() as context:
        server = ServerSocket.bind(context, "tcp://127.0.0.1:0")
        proxy = Proxy(3, report=said.append)
        place = await proxy.listen(f"ipc://{tmp_path}/p", server.endpoint)
        reader, writer = await asyncio.open_unix_connection(place.removeprefix("ipc://"))
        writer.write(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), WAIT_S)
        assert "not with a ZMTP greeting" in said[0] and "agent 3" in said[0]
        assert proxy.connections == 0, "nobody has spoken"
        writer.close()
        server.close(0)
        await proxy.close()


async def test_curve_hides_messages_and_bytes_stay_bytes(tmp_path: Path) -> None:
    """With CURVE a drop is refused by name and not armed; freeze, throttle and cut act on the bytes."""
    public, secret = zmq.curve_keypair()
    server_public, server_secret = zmq.curve_keypair()
    context = zmq.Context()
    server, agent = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    for end in (server, agent):
        end.setsockopt(zmq.LINGER, 0)
        end.setsockopt(zmq.RCVTIMEO, int(1000 * WAIT_S))
    server.curve_server, server.curve_publickey, server.curve_secretkey = True, server_public, server_secret
    agent.curve_serverkey, agent.curve_publickey, agent.curve_secretkey = server_public, public, secret
    port = server.bind_to_random_port("tcp://127.0.0.1")
    proxy = Proxy(3)
    agent.connect(await proxy.listen(f"ipc://{tmp_path}/p", f"tcp://127.0.0.1:{port}"))
    try:
        agent.send_multipart([b"one", b"two"])
        assert await asyncio.to_thread(server.recv_multipart) == [b"one", b"two"]
        with pytest.raises(OpaqueStream, match="drop acts on whole messages, and CURVE hides them"):
            proxy.arm(Rule(kind="drop"))
        proxy.arm(Rule(kind="throttle", bytes_per_s=20_000.0))
        proxy.arm(Rule(kind="freeze"))
        agent.send(b"x" * 1000)
        proxy.heal(Rule(kind="freeze"))
        assert await asyncio.to_thread(server.recv) == b"x" * 1000
        proxy.arm(Rule(kind="cut", direction="up", count=1))
        agent.send(b"y" * 1000)
        await connected_again(proxy)
        agent.send(b"z")
        assert await asyncio.to_thread(server.recv) == b"z"
        assert proxy.done == {"throttle both": 1, "freeze both": 1, "cut up": 1}
    finally:
        await proxy.close()
        context.destroy(0)


async def test_a_place_that_is_taken_is_named(tmp_path: Path) -> None:
    """The living one keeps it."""
    first = Proxy(0)
    place = await first.listen(f"ipc://{tmp_path}/p", "tcp://127.0.0.1:9")
    with pytest.raises(AddressError, match="another program uses it"):
        await Proxy(1).listen(place, "tcp://127.0.0.1:9")
    await first.close()
    assert not (tmp_path / "p").exists()


async def test_whoever_comes_while_it_closes_is_turned_away(tmp_path: Path) -> None:
    """Nothing is left open: neither those that the loop had accepted, nor those that were being carried."""
    for turns in range(6):
        proxy = Proxy(0)
        place = f"ipc://{tmp_path}/p"
        server = await asyncio.start_unix_server(lambda _r, w: w.transport.abort(), tmp_path / "s")
        await proxy.listen(place, f"ipc://{tmp_path}/s")
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "p"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.close()
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        writer.transport.abort()
        server.close()
        await server.wait_closed()
