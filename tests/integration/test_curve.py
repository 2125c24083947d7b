"""CURVE on real sockets: who gets in, and what everybody else is told. Nothing here sleeps."""

import asyncio
import contextlib
import tempfile

import pytest
import zmq
from zmq.utils import z85

from protocol.errors import AddressError, NotConnected
from protocol.limits import CHUNK_BYTES
from protocol.transport import AgentKeys, AgentSocket, Context, Guard, ServerSocket, make_pair, public_of

LONG_S = 20.0
SERVER, OTHER, AGENT, STRANGER = (make_pair() for _ in range(4))
KEYS = AgentKeys(secret=AGENT[1], server=SERVER[0])


class Door:
    """A guard that records what it is asked and told."""

    def __init__(self, *listed):
        self.listed = set(listed)
        self.asked = []
        self.failed = asyncio.Queue()

    def admits(self, key, address):
        """Whether the key is listed."""
        self.asked.append((key, address))
        return key in self.listed

    @property
    def guard(self):
        """For a socket."""
        return Guard(SERVER[1], self.admits, self.failed.put_nowait)


@contextlib.asynccontextmanager
async def served(address="tcp://127.0.0.1:0", door=None):
    """A server socket; in clear without a door."""
    with Context() as context:
        server = ServerSocket.bind(context, address, guard=door.guard if door else None)
        try:
            async with asyncio.timeout(LONG_S):
                yield server
        finally:
            server.close(0)


def port_of(server):
    """Its port."""
    return int(server.endpoint.rpartition(":")[2])


@contextlib.asynccontextmanager
async def agent_at(address, keys):
    """An agent's socket."""
    with Context() as context:
        agent = AgentSocket.connect(context, address, keys=keys)
        try:
            yield agent
        finally:
            agent.close(0)


@pytest.fixture(params=["tcp", "ipc"])
def address(request):
    """An address of each scheme that leaves the process."""
    with tempfile.TemporaryDirectory(prefix="ef") as folder:
        yield {"ipc": f"ipc://{folder}/s", "tcp": "tcp://127.0.0.1:0"}[request.param]


async def test_a_listed_agent_gets_in_and_its_messages_carry_its_key(address):
    """Both ways; the server knows the public key of every sender."""
    door = Door(AGENT[0])
    async with served(address, door) as server, agent_at(server.endpoint, KEYS) as agent:
        await agent.writable()
        for number in range(3):
            agent.send([b"%d" % number, bytes(100_000)])
            peer, frames = await server.receive()
            assert (bytes(frames[0]), server.sender) == (b"%d" % number, AGENT[0])
            server.send(peer, [b"welcome"])
            assert bytes((await agent.receive())[0]) == b"welcome"
    assert door.failed.empty()


async def test_the_largest_frames_pass_encrypted():
    """A chunk with its encryption is still within what a socket accepts as one frame."""
    chunk = bytes(range(256)) * (CHUNK_BYTES // 256)
    async with served(door=Door(AGENT[0])) as server, agent_at(server.endpoint, KEYS) as agent:
        await agent.writable()
        agent.send([b"header", chunk, chunk, chunk])
        peer, frames = await server.receive()
        assert [len(frame) for frame in frames] == [6, *[CHUNK_BYTES] * 3] and bytes(frames[3]) == chunk
        server.send(peer, frames)
        assert bytes((await agent.receive())[2]) == chunk


async def test_two_senders_are_told_apart():
    """The key is that of the message, not of whoever connected last."""
    door = Door(AGENT[0], OTHER[0])
    second = AgentKeys(OTHER[1], SERVER[0])
    async with (
        served(door=door) as server,
        agent_at(server.endpoint, KEYS) as one,
        agent_at(server.endpoint, second) as two,
    ):
        await one.writable()
        await two.writable()
        for agent, key in ((one, AGENT[0]), (two, OTHER[0])) * 3:
            agent.send([b"x"])
            await server.receive()
            assert server.sender == key


@pytest.mark.parametrize(
    ("keys", "guarded", "refusal", "noticed"),
    [
        (AgentKeys(STRANGER[1], SERVER[0]), True, "unlisted", {"unlisted"}),
        (AgentKeys(AGENT[1], OTHER[0]), True, "server_key", {"server_key"}),
        (None, True, "curve_peer", {"plain_peer", "broken_off"}),  # whoever reads the other's greeting first
        (KEYS, False, "plain_peer", None),
    ],
    ids=["unlisted", "wrong-server-key", "plaintext-agent", "plaintext-server"],
)
async def test_both_sides_learn_why_a_handshake_failed(keys, guarded, refusal, noticed, address):
    """The agent gets the cause, not no dead server; the server the kind [wire 43] [complaints 69]."""
    door = Door(AGENT[0]) if guarded else None
    async with served(address, door) as server, agent_at(server.endpoint, keys) as agent:
        assert await agent.refused() == refusal
        with pytest.raises(NotConnected):
            agent.send([b"never arrives"])
        if door:
            assert await door.failed.get() in noticed


async def test_a_key_that_is_listed_later_connects_with_the_next_try():
    """The list is asked for each handshake."""
    door = Door()
    async with served(door=door) as server:
        async with agent_at(server.endpoint, KEYS) as agent:
            assert await agent.refused() == "unlisted"
        door.listed.add(AGENT[0])
        async with agent_at(server.endpoint, KEYS) as agent:
            await agent.writable()


async def hangs_up(reader, writer):
    """Something between agent and server that takes connections and has no server behind it."""
    writer.close()


async def cuts(reader, writer):
    """A network that breaks after some bytes, before any greeting is complete."""
    writer.write(b"\xff" + bytes(7) + b"\x01\x7f\x03")
    await writer.drain()
    await reader.read(10)
    writer.close()


async def is_silent(reader, writer):
    """A server process that is stopped: the kernel takes the connection, nobody answers."""
    await reader.read()
    writer.close()


@pytest.mark.parametrize("behaviour", [hangs_up, cuts, is_silent], ids=lambda f: f.__name__)
@pytest.mark.parametrize("keys", [KEYS, None], ids=["keys", "plain"])
async def test_a_dead_server_does_not_look_like_a_refusal(behaviour, keys):
    """Connections that fail without a greeting are no statement about keys: the agent goes on trying."""
    tries, handlers = asyncio.Queue(), set()

    async def count(reader, writer):
        tries.put_nowait(1)
        handlers.add(asyncio.current_task())
        with contextlib.suppress(OSError):
            await behaviour(reader, writer)

    async with asyncio.timeout(LONG_S):
        impostor = await asyncio.start_server(count, "127.0.0.1", 0)
        port = impostor.sockets[0].getsockname()[1]
        async with agent_at(f"tcp://127.0.0.1:{port}", keys) as agent:
            refused = asyncio.create_task(agent.refused())
            for _ in range(1 if behaviour is is_silent else 12):  # several judgements of three tries each
                await tries.get()
            assert not refused.done()
            refused.cancel()
            await asyncio.wait([refused])
        impostor.close()
        await asyncio.wait(handlers)


async def test_nobody_at_the_address_is_no_refusal():
    """Connections that are refused by the kernel say nothing about keys; a server that comes is found."""
    async with served() as probe:
        endpoint = probe.endpoint
    async with agent_at(endpoint, KEYS) as agent:
        refused = asyncio.create_task(agent.refused())
        async with served(endpoint, Door(AGENT[0])):
            await agent.writable()
            assert not refused.done()
        refused.cancel()
        await asyncio.wait([refused])


async def test_garbage_is_tried_again(monkeypatch):
    """After a peer that broke ZMTP libzmq never dials again; the agent does, and finds the real server."""
    monkeypatch.setattr("protocol.transport.agent.DIAL_AGAIN_S", 0.01)
    spoke = asyncio.Event()

    async def garbage(reader, writer):
        writer.write(b"\xff" + bytes(7) + b"\x01\x7f\x03\x01NULL" + bytes(48) + b"\x04\x05WRONG")
        await writer.drain()
        await reader.read(64)
        writer.close()
        spoke.set()

    async with asyncio.timeout(LONG_S):
        impostor = await asyncio.start_server(garbage, "127.0.0.1", 0)
        port = impostor.sockets[0].getsockname()[1]
        async with agent_at(f"tcp://127.0.0.1:{port}", None) as agent:
            refused = asyncio.create_task(agent.refused())
            await spoke.wait()
            impostor.close()
            await impostor.wait_closed()
            async with served(f"tcp://127.0.0.1:{port}"):
                await agent.writable()
            refused.cancel()
            await asyncio.wait([refused])


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_keys_know_no_names(name):
    """[complaints 16, 72] Dialled by three names, with one and the same key."""
    bind = "tcp://[::1]:0" if name == "[::1]" else "tcp://127.0.0.1:0"
    try:
        probe = served(bind, Door(AGENT[0]))
        server = await probe.__aenter__()
    except AddressError:
        pytest.skip("this machine has no IPv6")
    port = server.endpoint.rpartition(":")[2]
    async with agent_at(f"tcp://{name}:{port}", KEYS) as agent:
        await agent.writable()
    await probe.__aexit__(None, None, None)


async def test_inproc_has_no_keys():
    """Refused on both sides, as libzmq would ignore them without a word."""
    with Context() as context:
        with pytest.raises(AddressError, match="inproc has no keys"):
            ServerSocket.bind(context, "inproc://s", guard=Door().guard)
        with pytest.raises(AddressError, match="inproc has no keys"):
            AgentSocket.connect(context, "inproc://s", keys=KEYS)


async def test_without_a_handler_nobody_gets_in(monkeypatch):
    """A guarded server whose handler is gone refuses all, instead of admitting all."""
    monkeypatch.setattr("protocol.transport.curve.HANDSHAKE_MS", 50)
    door = Door(AGENT[0])
    async with served(door=door) as server:
        server._gate.handler.close()
        async with agent_at(server.endpoint, KEYS) as agent:
            writable = asyncio.create_task(agent.writable())
            assert await door.failed.get() == "broken_off"
            assert not writable.done() and not door.asked
            writable.cancel()
            await asyncio.wait([writable])


async def test_a_failed_bind_leaves_no_handler_behind():
    """The address was busy; another one in the same context works."""
    async with served() as busy:
        with Context() as context:
            with pytest.raises(AddressError):
                ServerSocket.bind(context, busy.endpoint, guard=Door().guard)
            ServerSocket.bind(context, "tcp://127.0.0.1:0", guard=Door().guard).close(0)


async def test_fifty_idle_strangers_do_not_keep_an_agent_out():
    """Raw connections that never greet are no obstacle [wire 44]."""
    async with served(door=Door(AGENT[0])) as server:
        port = port_of(server)
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        async with agent_at(server.endpoint, KEYS) as agent:
            await agent.writable()
            agent.send([b"hello"])
            assert bytes((await server.receive())[1][0]) == b"hello"
        for _, writer in idle:
            writer.close()


async def test_strangers_that_never_greet_are_hung_up_on(monkeypatch):
    """After the time that a handshake may take."""
    monkeypatch.setattr("protocol.transport.curve.HANDSHAKE_MS", 50)
    async with served(door=Door(AGENT[0])) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                pass
        writer.close()


def test_public_keys():
    """The public key is that of the secret one, and can stand in a list that has comments."""
    for _ in range(50):
        public, secret = make_pair()
        assert public_of(secret) == public
        assert "#" not in public
    assert zmq.has("curve")


@contextlib.asynccontextmanager
async def relay(port, pass_on):
    """A relay to a port; ``pass_on`` is given direction and data and returns what arrives."""
    handlers = set()

    async def copy(reader, writer, way):
        while data := await reader.read(65536):
            writer.write(pass_on(way, data))
            await writer.drain()
        writer.close()

    async def handle(reader, writer):
        handlers.add(asyncio.current_task())
        upstream, upward = await asyncio.open_connection("127.0.0.1", port)
        ways = copy(reader, upward, "up"), copy(upstream, writer, "down")
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (upward, writer):
            end.close()
            with contextlib.suppress(OSError):
                await end.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await asyncio.wait(handlers)


async def test_what_was_changed_on_the_way_is_never_delivered(monkeypatch):
    """The agent does not see the message, takes it for no statement about keys, and dials again."""
    monkeypatch.setattr("protocol.transport.agent.DIAL_AGAIN_S", 0.01)
    spoil = asyncio.Event()

    def flip(way, data):
        if way == "up" or not spoil.is_set():
            return data
        spoil.clear()
        return data[:-1] + bytes([data[-1] ^ 1])

    async with (
        served(door=Door(AGENT[0])) as server,
        relay(port_of(server), flip) as port,
        agent_at(f"tcp://127.0.0.1:{port}", KEYS) as agent,
    ):
        refused = asyncio.create_task(agent.refused())
        await agent.writable()
        agent.send([b"first"])
        first, _ = await server.receive()
        spoil.set()
        server.send(first, [b"changed on the way"])
        second = first
        while second == first:  # the old connection may still take what is sent, or lose it
            with contextlib.suppress(NotConnected, TimeoutError):
                await agent.writable()
                agent.send([b"second"])
                async with asyncio.timeout(0.2):
                    second, _ = await server.receive()
        server.send(second, [b"as it was sent"])
        assert bytes((await agent.receive())[0]) == b"as it was sent"
        assert not refused.done()
        refused.cancel()
        await asyncio.wait([refused])


@pytest.mark.parametrize("keyed", [True, False])
async def test_nothing_can_be_read_on_the_way(keyed):
    """With keys neither what is said nor who says it; without, all of it."""
    seen = bytearray()

    def listen(_way, data):
        seen.extend(data)
        return data

    async with (
        served(door=Door(AGENT[0]) if keyed else None) as server,
        relay(port_of(server), listen) as port,
        agent_at(f"tcp://127.0.0.1:{port}", KEYS if keyed else None) as agent,
    ):
        await agent.writable()
        agent.send([b"up-" * 20])
        peer, _ = await server.receive()
        server.send(peer, [b"down-" * 20])
        await agent.receive()
    for said in (b"up-", b"down-"):
        assert (said in seen) is not keyed
    for key in (*AGENT, *SERVER):
        assert key.encode() not in seen and z85.decode(key) not in seen


SIGNATURE = b"\xff" + bytes(7) + b"\x01\x7f"
OLD = {
    "zmtp-1.0": b"\x01\x00" + b"\x06\x00hello",
    "zmtp-2.0": SIGNATURE + b"\x01\x05" + b"\x00\x00" + b"\x00\x05hello",
    "zmtp-3.1-null": SIGNATURE + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32) + b"\x00\x05hello",
    "zmtp-3.1-plain": SIGNATURE + b"\x03\x01" + b"PLAIN".ljust(20, b"\0") + bytes(32) + b"\x00\x05hello",
    "curve-without-hello": SIGNATURE + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32) + b"\x00\x05hello",
}


@pytest.mark.parametrize("name", OLD)
async def test_no_older_or_weaker_protocol_gets_around_the_keys(name):
    """The server hangs up, and what was sent is never received."""
    async with served(door=Door(AGENT[0])) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        writer.write(OLD[name])
        with contextlib.suppress(ConnectionError):
            while await reader.read(4096):
                pass
        writer.close()
        async with agent_at(server.endpoint, KEYS) as agent:
            await agent.writable()
            agent.send([b"from the agent"])
            assert bytes((await server.receive())[1][0]) == b"from the agent"
