"""Answers libzmq's question whether a peer may connect: the ZeroMQ Authentication Protocol (RFC 27).

One handler per context. A file of its own instead of ``zmq.auth``: that answers from a coroutine, reads
certificate folders and logs on its own; here one function decides, in the loop that decides everything.
"""

import asyncio
from collections.abc import Callable, Sequence

import zmq
from zmq.utils import z85

from protocol.transport.context import Context

ENDPOINT = "inproc://zeromq.zap.01"
VERSION = b"1.0"


class ZapHandler:
    """Admits or refuses CURVE peers; start it before the socket that it guards binds.

    Args:
        context: Of that socket.
        admits: Public key in Z85 and IP address of a peer -> whether it may connect.
    """

    def __init__(self, context: Context, admits: Callable[[str, str], bool]) -> None:
        self._context = context
        self._admits = admits
        self._socket = context.raw.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(ENDPOINT)
        except BaseException:
            self._socket.close(0)
            raise
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._read)
        context.open.add(self)
        self._read()

    def close(self, _linger_ms: int = 0) -> None:
        """Ends it: from now on nobody is admitted."""
        if not self._socket.closed:
            self._loop.remove_reader(self._descriptor)
            self._socket.unbind(ENDPOINT)  # now, not when the reaper comes: the next server may need it
            self._socket.close(0)
            self._context.open.discard(self)

    def _read(self) -> None:
        while not self._socket.closed:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if b"" in frames:
                at = frames.index(b"") + 1
                self._socket.send_multipart([*frames[:at], *answer(frames[at:], self._admits)])


def answer(request: Sequence[bytes], admits: Callable[[str, str], bool]) -> list[bytes]:
    """The reply to one ZAP request.

    Args:
        request: Version, request id, domain, address, identity, mechanism, and the public key (32 bytes).
        admits: As for `ZapHandler`.

    Returns:
        Version, request id, status code, status text, user id (the public key in Z85), metadata.
    """
    if len(request) < 6 or request[0] != VERSION:
        return [VERSION, request[1] if len(request) > 1 else b"", b"500", b"not ZAP 1.0", b"", b""]
    _, number, _, address, _, mechanism, *credentials = request
    if mechanism != b"CURVE" or len(credentials) != 1 or len(credentials[0]) != 32:
        return [VERSION, number, b"400", b"CURVE is needed", b"", b""]
    key = z85.encode(credentials[0]).decode("ascii")
    if not admits(key, address.decode("ascii", "replace")):
        return [VERSION, number, b"400", b"this key is not listed", b"", b""]
    return [VERSION, number, b"200", b"OK", key.encode("ascii"), b""]
