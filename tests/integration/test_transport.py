"""Sockets of both sides over inproc, ipc and tcp. Nothing here sleeps: every wait is for an event."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
import zmq

from protocol import messages as m
from protocol.codec import decode, encode
from protocol.errors import (
    Closed,
    Lagging,
    LocalProtocolError,
    NotConnected,
    RemoteProtocolError,
    Unreachable,
)
from protocol.limits import CHUNK_BYTES, HIGH_WATER_MARK, Limits
from protocol.transport import AgentSocket, Context, ServerSocket
from protocol.transport.pump import YIELD_MESSAGES
from tests.protocol.samples import SAMPLES

SCHEMES = ("inproc", "ipc", "tcp")
OUTSIDE = ("ipc", "tcp")
HELLO = encode(m.Header(), m.Ping())
LONG_S = 5.0
THETA = SAMPLES[m.Theta]


@pytest.fixture
def address(request):
    """An address of the scheme that the test asks for."""
    with tempfile.TemporaryDirectory(prefix="ef") as folder:
        yield {"inproc": "inproc://s", "ipc": f"ipc://{folder}/s", "tcp": "tcp://127.0.0.1:0"}[request.param]


def over(*schemes):
    """Runs a test over these schemes."""
    return pytest.mark.parametrize("address", schemes, indirect=True)


def plain(frames):
    """Frames as bytes."""
    return [bytes(frame) for frame in frames]


@contextlib.asynccontextmanager
async def connected(address, agents=1, limits=None):
    """A server, agents that it has heard of, and their routing ids."""
    with Context() as context:
        server = ServerSocket.bind(context, address, limits)
        joined, peers = [], []
        async with asyncio.timeout(LONG_S):
            for _ in range(agents):
                agent = AgentSocket.connect(context, server.endpoint, limits)
                await agent.writable()
                agent.send(HELLO)
                joined.append(agent)
                peers.append((await server.receive())[0])
            yield server, joined, peers
        for agent in joined:
            agent.close(0)
        server.close(0)


def until_libzmq_looks():
    """An operation looks for news from other threads at most once a millisecond: after this, it will."""
    later = time.monotonic() + 0.003
    while time.monotonic() < later:
        pass


async def send_when_possible(server, peer, frames):
    """Sends as soon as the peer takes it."""
    while True:
        try:
            return server.send(peer, frames)
        except Lagging:
            await asyncio.sleep(0)


async def until_unreachable(server, peer):
    """Waits until the server notices that the peer is gone."""
    while True:
        try:
            server.send(peer, HELLO)
        except Unreachable:
            return
        except Lagging:
            pass
        await asyncio.sleep(0)


@over(*SCHEMES)
async def test_messages_arrive_as_they_were_sent(address):
    """Both ways, frame by frame, empty frames included; both sides count the same bytes."""
    frames = [b"", b"x", bytes(range(256)) * 12, b"", np.arange(500.0).data.cast("B")]
    async with connected(address) as (server, (agent,), (peer,)):
        for _ in range(20):
            server.send(peer, frames)
            assert plain(await agent.receive()) == plain(frames)
            agent.send(frames)
            sender, received = await server.receive()
            assert (sender, plain(received)) == (peer, plain(frames))
        size = 20 * sum(len(bytes(frame)) for frame in frames)
        assert server.bytes_sent == agent.bytes_received == size
        assert agent.bytes_sent == server.bytes_received == size + sum(map(len, HELLO))


@over(*SCHEMES)
async def test_each_agent_gets_its_own(address):
    """Routing ids tell connections apart."""
    async with connected(address, agents=8) as (server, agents, peers):
        assert len(set(peers)) == 8
        for number, peer in enumerate(peers):
            server.send(peer, [b"%d" % number])
        for number, agent in enumerate(agents):
            assert plain(await agent.receive()) == [b"%d" % number]


@over(*SCHEMES)
async def test_bursts_and_silence(address):
    """8 agents send 250 messages each as fast as the pipes take them, then nothing: all arrive, in order.

    [wire 11]
    """

    async def burst(agent):
        for number in range(250):
            await agent.writable()
            agent.send([b"%d" % number])

    async with connected(address, agents=8) as (server, agents, peers):
        async with asyncio.TaskGroup() as tasks:
            for agent in agents:
                tasks.create_task(burst(agent))
            seen = {peer: [] for peer in peers}
            for _ in range(8 * 250):
                peer, (frame,) = await server.receive()
                seen[peer].append(int(bytes(frame)))
        assert all(numbers == list(range(250)) for numbers in seen.values())


@over(*SCHEMES)
async def test_a_cancelled_receive_loses_nothing(address):
    """[wire 10] The receiver is cancelled at every point of its wait, 1,000 times, while messages come."""
    async with connected(address) as (server, (agent,), (peer,)):

        async def feed():
            for number in range(1000):
                await send_when_possible(server, peer, [b"%d" % number])
                if number % 3 == 0:
                    await asyncio.sleep(0)

        feeding = asyncio.create_task(feed())
        seen = []
        for patience in range(1000):
            receiving = asyncio.create_task(agent.receive())
            for _ in range(patience % 4):
                await asyncio.sleep(0)
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                seen.append(int(bytes((await receiving)[0])))
        while len(seen) < 1000:
            seen.append(int(bytes((await agent.receive())[0])))
        await feeding
        assert seen == list(range(1000))


@over(*SCHEMES)
async def test_other_tasks_run_under_load(address):
    """[wire 12] Receives that are always ready still let the loop go round."""
    turns = 0

    async def tick():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with connected(address, agents=8) as (server, agents, _):
        ticking = asyncio.create_task(tick())
        longest = 0
        for _ in range(20):
            for agent in agents:
                with contextlib.suppress(NotConnected):
                    for _ in range(HIGH_WATER_MARK):
                        agent.send(HELLO)
            before = turns
            for _ in range(8):
                await server.receive()
            longest = longest + 8 if turns == before else 0
            assert longest <= YIELD_MESSAGES
        ticking.cancel()
        await asyncio.wait([ticking])
        assert turns >= 20 * 8 // YIELD_MESSAGES


@over(*SCHEMES)
async def test_a_torn_message_never_leaves(address):
    """[wire 1] A frame that cannot be sent is found before the first one is handed over."""
    strided = np.arange(10.0)[::2].data
    async with connected(address) as (server, (agent,), (peer,)):
        for wrong in (strided, "text", 5, None):
            with pytest.raises(LocalProtocolError, match="not contiguous bytes"):
                server.send(peer, [b"header", wrong])
            with pytest.raises(LocalProtocolError, match="not contiguous bytes"):
                agent.send([b"header", wrong])
        server.send(peer, [b"whole"])
        agent.send([b"whole"])
        assert plain(await agent.receive()) == [b"whole"]
        assert plain((await server.receive())[1]) == [b"whole"]


@over(*SCHEMES)
async def test_an_agent_that_does_not_read_lags_alone(address):
    """Its pipe fills up and the server is told; nothing vanishes; other agents are served meanwhile.

    [wire 18]
    """
    async with connected(address, agents=2) as (server, (slow, quick), (slow_peer, quick_peer)):
        sent = 0
        with contextlib.suppress(Lagging):
            while sent < 10_000:
                server.send(slow_peer, [b"%d" % sent, bytes(CHUNK_BYTES // 4)])
                sent += 1
                server.send(quick_peer, [b"hello"])
                await quick.receive()
        assert HIGH_WATER_MARK <= sent < 10_000
        received = [int(bytes((await slow.receive())[0])) for _ in range(sent)]
        assert received == list(range(sent))
        await send_when_possible(server, slow_peer, [b"again"])
        assert plain(await slow.receive()) == [b"again"]


@over(*SCHEMES)
async def test_a_closed_agent_is_unreachable(address):
    """The server is told by its next send, and serves the others."""
    async with connected(address, agents=2) as (server, (first, second), (peer, other)):
        first.close(0)
        await until_unreachable(server, peer)
        server.send(other, [b"hello"])
        assert plain(await second.receive()) == [b"hello"]
        with pytest.raises(Unreachable):
            server.send(b"nobody", [b"hello"])


@over(*OUTSIDE)
async def test_a_killed_process_is_unreachable(address):
    """SIGKILL, no goodbye."""
    code = (
        "import asyncio, sys\n"
        "from protocol.transport import AgentSocket, Context\n"
        "async def main():\n"
        "    agent = AgentSocket.connect(Context(), sys.argv[1])\n"
        "    await agent.writable()\n"
        "    agent.send([b'hello'])\n"
        "    await agent.receive()\n"
        "asyncio.run(main())\n"
    )
    with Context() as context:
        server = ServerSocket.bind(context, address)
        with subprocess.Popen([sys.executable, "-c", code, server.endpoint]) as process:
            async with asyncio.timeout(LONG_S):
                peer, _ = await server.receive()
                os.kill(process.pid, signal.SIGKILL)
                await until_unreachable(server, peer)
        server.close(0)


@over(*OUTSIDE)
async def test_nothing_is_queued_without_a_server(address):
    """[wire 19, 20] Sends fail until there is a connection; the server hears only what was sent after."""
    with Context() as context:
        probe = ServerSocket.bind(context, address)
        endpoint = probe.endpoint
        probe.close(0)
    with Context() as context:
        agent = AgentSocket.connect(context, endpoint)
        for _ in range(100):
            with pytest.raises(NotConnected, match=endpoint):
                agent.send([b"too early"])
        server = ServerSocket.bind(context, endpoint)
        async with asyncio.timeout(LONG_S):
            await agent.writable()
            agent.send([b"in time"])
            assert plain((await server.receive())[1]) == [b"in time"]
        agent.close(0)
        server.close(0)


@over(*OUTSIDE)
async def test_agents_find_a_restarted_server(address):
    """Three restarts on the same address: the agent reconnects by itself, under a new routing id.

    [complaints 4] [wire 21]
    """
    with Context() as agents_context:
        contexts = Context()
        server = ServerSocket.bind(contexts, address)
        endpoint = server.endpoint
        agent = AgentSocket.connect(agents_context, endpoint)

        async def knock():
            while True:
                await agent.writable()
                with contextlib.suppress(NotConnected):  # the connection broke a moment ago
                    agent.send(HELLO)
                await asyncio.sleep(0)

        async with asyncio.timeout(LONG_S):
            for _ in range(3):
                knocking = asyncio.create_task(knock())
                peer, frames = await server.receive()
                knocking.cancel()
                await asyncio.wait([knocking])
                assert plain(frames) == plain(HELLO)
                server.send(peer, [b"welcome"])
                assert plain(await agent.receive()) == [b"welcome"]
                server.close(0)
                assert contexts.close()
                contexts = Context()
                server = ServerSocket.bind(contexts, endpoint)
        server.close(0)
        contexts.close()
        agent.close(0)


async def test_arrays_are_aligned_whatever_their_size():
    """[wire 6] From 1 to 2000 elements over tcp, where small frames arrive unaligned."""
    async with connected("tcp://127.0.0.1:0") as (server, (agent,), (peer,)):
        for d in range(1, 2001):
            vector = np.arange(float(d))
            server.send(peer, encode(m.Header(), THETA, {"params": vector}))
            params = decode(await agent.receive()).tensors["params"]
            assert params.flags.aligned and params.flags.owndata and params.flags.writeable
            assert (params == vector).all()


@over(*SCHEMES)
async def test_receivers_share_no_memory_with_senders(address):
    """[wire 5] An agent that changes what it received changes neither what was sent nor what others get."""
    async with connected(address, agents=2) as (server, agents, peers):
        theta = np.arange(100_000.0)
        for peer in peers:
            server.send(peer, encode(m.Header(), THETA, {"params": theta}))
        for agent in agents:
            params = decode(await agent.receive()).tensors["params"]
            assert (params == np.arange(100_000.0)).all()
            params += 1.0
        assert (theta == np.arange(100_000.0)).all()


@over(*SCHEMES)
async def test_large_messages(address):
    """20 MB each way, in chunks, more than once."""
    vector = np.random.default_rng(0).standard_normal(2_500_000)
    async with connected(address) as (server, (agent,), (peer,)):
        for _ in range(2):
            server.send(peer, encode(m.Header(), THETA, {"params": vector}))
            received = decode(await agent.receive()).tensors["params"]
            agent.send(encode(m.Header(), SAMPLES[m.Update], {"delta": received}))
            _, frames = await server.receive()
            assert len(frames) == 2 + 20
            assert (decode(frames).tensors["delta"] == vector).all()


@over(*SCHEMES)
async def test_too_many_frames_are_a_malformed_message(address):
    """The rest of the message is discarded, the next one is whole, the server lives."""
    limits = Limits(max_tensor_bytes=CHUNK_BYTES)
    async with connected(address, limits=limits) as (server, (agent,), _):
        agent.send([HELLO[0], HELLO[1], *[b"x"] * 10_000])
        _, frames = await server.receive()
        assert len(frames) <= limits.max_frames + 1
        with pytest.raises(RemoteProtocolError, match="frames"):
            decode(frames, limits)
        agent.send(HELLO)
        assert decode((await server.receive())[1]).message == m.Ping()


@over(*SCHEMES)
async def test_too_many_bytes_are_a_malformed_message(address):
    """Frames of legal size whose sum is beyond the limit."""
    limits = Limits(max_tensor_bytes=2 * CHUNK_BYTES)
    frames = encode(m.Header(), THETA, {"params": np.zeros(3 * CHUNK_BYTES // 8)})
    async with connected(address, limits=limits) as (server, (agent,), (peer,)):
        server.send(peer, frames)
        with pytest.raises(RemoteProtocolError):
            decode(await agent.receive(), limits)


@over(*OUTSIDE)
async def test_an_oversized_frame_costs_its_sender_the_connection(address):
    """[wire 41] The server never sees it and goes on; the agent reconnects by itself."""
    async with connected(address, agents=2) as (server, (wild, tame), (peer, other)):
        wild.send([b"x" * (Limits().max_frame_bytes + 1)])
        await until_unreachable(server, peer)
        server.send(other, [b"hello"])
        assert plain(await tame.receive()) == [b"hello"]
        await wild.writable()
        wild.send(HELLO)
        again, frames = await server.receive()
        assert plain(frames) == plain(HELLO) and again != peer


@over(*SCHEMES)
async def test_one_receiver_at_a_time(address):
    """A second one is a mistake of the program, and is told so."""
    async with connected(address) as (server, (agent,), _):
        for side in (server, agent):
            first = asyncio.create_task(side.receive())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="two tasks"):
                await side.receive()
            first.cancel()
            await asyncio.wait([first])


@over(*SCHEMES)
async def test_closing_wakes_who_waits(address):
    """Receivers get Closed, then and later; closing twice is harmless."""
    async with connected(address) as (server, (agent,), (peer,)):
        waiting = [asyncio.create_task(side.receive()) for side in (server, agent)]
        await asyncio.sleep(0)
        for side in (server, agent):
            side.close()
            side.close()
        for task in waiting:
            with pytest.raises(Closed):
                await task
        for call in (server.receive, agent.receive, agent.writable):
            with pytest.raises(Closed):
                await call()
        with pytest.raises(Closed):
            agent.send(HELLO)
        with pytest.raises(Closed):
            server.send(peer, HELLO)


@over(*OUTSIDE)
async def test_closing_wakes_who_waits_for_a_connection(address):
    """Also before there ever was one."""
    with Context() as context:
        agent = AgentSocket.connect(context, address.replace(":0", ":9"))
        waiting = asyncio.create_task(agent.writable())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two tasks"):
            await agent.writable()
        agent.close()
        with pytest.raises(Closed):
            await waiting


async def test_receiving_swallows_no_room_to_send():
    """The pipe empties while a sender waits; receiving a message then does not keep it waiting."""
    async with connected("inproc://s") as (server, (agent,), (peer,)):
        sent = 0
        with contextlib.suppress(NotConnected):
            while sent < YIELD_MESSAGES:
                agent.send(HELLO)
                sent += 1
        assert HIGH_WATER_MARK <= sent < YIELD_MESSAGES  # so that the server's receives below do not suspend
        waiting = asyncio.create_task(agent.writable())
        await asyncio.sleep(0)
        for _ in range(sent):
            await server.receive()
        server.send(peer, [b"hello"])
        until_libzmq_looks()
        assert plain(await agent.receive()) == [b"hello"]
        await waiting


@over(*OUTSIDE)
async def test_an_agents_last_message_leaves(address):
    """[wire 38] BYE just before the end of the agent."""
    async with connected(address) as (server, (agent,), _):
        agent.send([b"bye"])
        agent.close()
        assert plain((await server.receive())[1]) == [b"bye"]


@over(*OUTSIDE)
async def test_a_servers_last_message_leaves(address):
    """SHUTDOWN just before the end of the program reaches 8 agents, 10 times (`IMMEDIATE` loses some).

    [wire 38]
    """
    for _ in range(10):
        async with connected(address, agents=8) as (server, agents, peers):
            for peer in peers:
                server.send(peer, [b"shutdown"])
            server.close()
            for agent in agents:
                assert plain(await agent.receive()) == [b"shutdown"]


@over(*SCHEMES)
@pytest.mark.parametrize("operation", ["writable", "send", "send to a full pipe"])
async def test_no_operation_swallows_a_wake_up(address, operation):
    """A message arrives while its receiver waits; whatever else is done before the loop runs, it wakes up.

    [wire 11]
    """
    async with connected(address) as (server, (agent,), (peer,)):
        receiving = asyncio.create_task(agent.receive())
        await asyncio.sleep(0)
        server.send(peer, [b"hello"])
        until_libzmq_looks()
        if operation == "writable":
            await agent.writable()
        elif operation == "send":
            agent.send(HELLO)
        else:
            with contextlib.suppress(NotConnected):
                for _ in range(10_000):
                    agent.send([bytes(1000)])
        assert plain(await receiving) == [b"hello"]


@over(*SCHEMES)
async def test_a_context_ends_although_nobody_reads(address):
    """40 MB that cannot leave, and a socket that nobody closed, do not hold the program up.

    [complaints 24] [wire 37]
    """
    context = Context()
    other = context if address.startswith("inproc") else Context()
    server = ServerSocket.bind(context, address)
    agent = AgentSocket.connect(other, server.endpoint)
    async with asyncio.timeout(LONG_S):
        await agent.writable()
        agent.send(HELLO)
        peer, _ = await server.receive()
    server.send(peer, encode(m.Header(), THETA, {"params": np.zeros(5_000_000)}))
    assert context.close(timeout_s=LONG_S)
    assert context.close()
    with pytest.raises(Closed):
        server.send(peer, HELLO)
    agent.close(0)
    assert other.close(timeout_s=LONG_S)


async def test_many_starts_and_stops_leak_nothing():
    """[wire 39] 200 contexts with both sockets; the suite's leak check counts descriptors and threads."""
    for _ in range(200):
        async with connected("tcp://127.0.0.1:0") as (server, (agent,), (peer,)):
            server.send(peer, HELLO)
            await agent.receive()


@over(*OUTSIDE)
async def test_what_waits_to_be_read_does_not_stop_the_input(address):
    """A full receive pipe stops libzmq's input, and a heartbeat that is then due aborts the process.

    (libzmq 4.3.5, stream_engine_base.cpp:310: a server stopped for 12 s died in 5 of 5 tries with 8.)
    Hence many more messages fit than credit allows: one update and some heartbeats per agent.
    """
    async with connected(address) as (server, _agents, _peers):
        assert server._pump._socket.getsockopt(zmq.RCVHWM) >= 100 * HIGH_WATER_MARK
        assert server._pump._socket.getsockopt(zmq.SNDHWM) == HIGH_WATER_MARK
