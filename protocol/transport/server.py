"""The server's end: one ROUTER socket that all agents connect to."""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Self

import zmq

from protocol.errors import AddressError, Lagging, Unreachable
from protocol.limits import Limits
from protocol.tensors import Buffer
from protocol.transport.addresses import claim_ipc, explain, parse
from protocol.transport.context import Context
from protocol.transport.curve import Guard, secure_server
from protocol.transport.monitor import FailureMonitor
from protocol.transport.pump import Pump, configure
from protocol.transport.zap import ZapHandler

BACKLOG = 1024  # a whole fleet may connect at once
LINGER_MS = 500  # for the last SHUTDOWN


class ServerSocket:
    """Receives from any agent, sends to one agent; never blocks and never drops without saying so.

    Peers are routing ids that libzmq invents for each connection: a peer that reconnects gets a new one, so
    they tell connections apart, not agents.

    Attributes:
        endpoint: The address that was bound, with the real port.
    """

    def __init__(self, pump: Pump, endpoint: str, gate: "Gate") -> None:
        self.endpoint = endpoint
        self._pump = pump
        self._gate = gate
        self._file = _inode(endpoint)

    @classmethod
    def bind(
        cls, context: Context, address: str, limits: Limits | None = None, guard: Guard | None = None
    ) -> Self:
        """Binds an address; needs a running event loop.

        Args:
            context: Of this program.
            address: ``tcp://host:port`` (port 0: any free one), ``ipc://path`` or ``inproc://name``.
            limits: Largest frame and message.
            guard: Speak CURVE, and only with whom it admits; None: in clear, with anybody. One guarded
                server in a context; not for ``inproc://``.

        Raises:
            AddressError: The address is invalid, busy, too long, or not this machine's.
        """
        parts = parse(address, bind=True)
        if guard and parts.scheme == "inproc":
            raise AddressError(f"{address}: inproc has no keys; it never leaves the process")
        limits = limits or Limits()
        named = parts.scheme == "ipc" and not parts.host.startswith("@")  # @: no file in the file system
        if named:
            claim_ipc(parts.host)
        socket = context.raw.socket(zmq.ROUTER)
        gate = Gate()
        try:
            configure(socket, limits, parts.scheme)
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.setsockopt(zmq.BACKLOG, BACKLOG)
            socket.setsockopt(zmq.IPV6, int(parts.is_ipv6))
            if guard:
                secure_server(socket, guard.secret)
                gate.handler = ZapHandler(context, guard.admits)
                gate.monitor = FailureMonitor(socket, guard.failed)
            socket.bind(address)
            if named:
                os.chmod(parts.host, 0o600)  # only this user's agents
            endpoint = socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        except (zmq.ZMQError, OSError) as error:
            gate.close(lambda: socket.close(0))
            raise explain(address, error) from error
        return cls(Pump(context, socket, limits, keyed=guard is not None), endpoint, gate)

    @property
    def sender(self) -> str:
        """Public key of the sender of the message that `receive` gave last, in Z85; empty without a guard."""
        return self._pump.sender

    @property
    def bytes_sent(self) -> int:
        """Bytes of all frames handed over, without routing ids and ZMTP framing."""
        return self._pump.bytes_sent

    @property
    def bytes_received(self) -> int:
        """Bytes of all frames received, without routing ids and ZMTP framing."""
        return self._pump.bytes_received

    async def receive(self) -> tuple[bytes, list[memoryview]]:
        """Waits for a message of any agent; one task at a time; cancelling it loses nothing.

        Returns:
            The peer's routing id and the frames; decoding copies what it keeps.

        Raises:
            Closed: The socket was closed.
        """
        peer, *frames = await self._pump.receive()
        return bytes(peer), frames

    def send(self, peer: bytes, frames: Sequence[Buffer]) -> None:
        """Sends to one peer at once, or not at all.

        Raises:
            Unreachable: The peer's connection is gone.
            Lagging: The peer has stopped reading.
        """
        try:
            self._pump.send(frames, peer)
        except zmq.Again:
            raise Lagging("the agent has stopped reading; its pipe is full") from None
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            raise Unreachable("the agent's connection is gone") from None

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Closes the socket and removes its ipc file; what was sent may leave for ``linger_ms``."""
        self._gate.close(lambda: self._pump.close(linger_ms))
        if self._file and self._file == _inode(self.endpoint):
            with contextlib.suppress(OSError):
                os.unlink(self.endpoint.removeprefix("ipc://"))


class Gate:
    """What guards a server's socket, if it is guarded."""

    def __init__(self) -> None:
        self.handler: ZapHandler | None = None
        self.monitor: FailureMonitor | None = None

    def close(self, close_socket: Callable[[], None]) -> None:
        """Closes all in the order that libzmq needs: without a handler its handshakes would fail."""
        if self.monitor:
            self.monitor.close()
        close_socket()
        if self.handler:
            self.handler.close()


def _inode(endpoint: str) -> tuple[int, int] | None:
    if not endpoint.startswith("ipc://"):
        return None
    try:
        found = os.stat(endpoint.removeprefix("ipc://"))
    except OSError:
        return None
    return found.st_dev, found.st_ino
