"""Agents that do not read, all at once, and one of them gone: no send waits."""

import contextlib

import pytest

from protocol.errors import Lagging, Unreachable
from protocol.limits import CHUNK_BYTES
from tests.integration.test_transport import HELLO, connected, until_unreachable


@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
async def test_no_send_waits_when_every_pipe_is_full(scheme, tmp_path):
    """[wire 18] Each send says at once that its agent lags; one that dies with a full pipe is unreachable."""
    address = f"ipc://{tmp_path}/s" if scheme == "ipc" else "tcp://127.0.0.1:0"
    async with connected(address, agents=2) as (server, agents, peers):
        for peer in peers:
            with contextlib.suppress(Lagging):
                for _ in range(10_000):
                    server.send(peer, [bytes(CHUNK_BYTES // 4)])
        lagging = 0
        for peer in peers * 10:
            with contextlib.suppress(Lagging):
                server.send(peer, HELLO)
                continue
            lagging += 1
        assert lagging >= 10, "both are full, but for what the kernel still takes"
        agents[0].close(0)
        await until_unreachable(server, peers[0])
        with pytest.raises(Unreachable):
            server.send(peers[0], HELLO)
        while True:  # the other one reads again
            await agents[1].receive()
            with contextlib.suppress(Lagging):
                server.send(peers[1], HELLO)
                break
