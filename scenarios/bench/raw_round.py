"""The floor below a round: bare pyzmq, one process per peer, a worker-thread hop in each, no codec.

The server (this process) sends one payload to every peer and waits for every echo. A peer hands what it
received to a worker thread, as an agent hands parameters to its learner, and sends what the thread gives
back. Run as a program it is a peer: ``python -m scenarios.bench.raw_round ENDPOINT``.
"""

import asyncio
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator

import numpy as np
import zmq
import zmq.asyncio

PAYLOAD_HWM = 64


def raw_rounds(peers: int, dimension: int, rounds: int) -> list[float]:
    """Wall seconds of each of ``rounds`` lockstep rounds over tcp, after a tenth as many to warm up.

    Args:
        peers: Number of peer processes.
        dimension: float64 values in the payload.
        rounds: Rounds to time.
    """
    return asyncio.run(_serve(peers, dimension, rounds))


async def _serve(peers: int, dimension: int, rounds: int) -> list[float]:
    context = zmq.asyncio.Context()
    sock = context.socket(zmq.ROUTER)
    sock.sndhwm = sock.rcvhwm = PAYLOAD_HWM
    sock.bind("tcp://127.0.0.1:*")
    endpoint = sock.getsockopt_string(zmq.LAST_ENDPOINT)
    command = [sys.executable, "-P", "-m", "scenarios.bench.raw_round", endpoint]
    children = [subprocess.Popen(command) for _ in range(peers)]
    try:
        ids = [(await sock.recv_multipart())[0] for _ in range(peers)]
        payload = np.linspace(-1.0, 1.0, dimension)
        seconds = []
        for _ in range(rounds + max(1, rounds // 10)):
            start = time.perf_counter()
            for peer in ids:
                await sock.send_multipart([peer, payload], copy=False)
            for _ in ids:
                await sock.recv_multipart(copy=False)
            seconds.append(time.perf_counter() - start)
        for peer in ids:
            await sock.send_multipart([peer, b""])
        return seconds[-rounds:]
    finally:
        for child in children:
            child.terminate() if sys.exc_info()[0] else child.wait(10)
        sock.close(0)
        context.term()


async def _peer(endpoint: str) -> None:
    context = zmq.asyncio.Context()
    sock = context.socket(zmq.DEALER)
    sock.sndhwm = sock.rcvhwm = PAYLOAD_HWM
    sock.connect(endpoint)
    await sock.send(b"hello")
    work: queue.SimpleQueue[zmq.Frame] = queue.SimpleQueue()
    done: asyncio.Queue[zmq.Frame] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def worker() -> None:
        for frame in iter(work.get, None):
            loop.call_soon_threadsafe(done.put_nowait, frame)

    threading.Thread(target=worker, daemon=True).start()
    async for frame in _frames(sock):
        work.put(frame)
        await sock.send_multipart([await done.get()], copy=False)
    sock.close(100)
    context.term()


async def _frames(sock: zmq.asyncio.Socket) -> AsyncIterator[zmq.Frame]:
    while True:
        frame = (await sock.recv_multipart(copy=False))[0]
        if not len(frame):
            return
        yield frame


if __name__ == "__main__":
    asyncio.run(_peer(sys.argv[1]))
