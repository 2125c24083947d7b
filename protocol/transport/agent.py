"""An agent's end: one DEALER socket that connects to the server and reconnects by itself."""

import asyncio
from collections.abc import Sequence
from typing import Self

import zmq

from protocol.errors import AddressError, NotConnected
from protocol.limits import Limits
from protocol.tensors import Buffer
from protocol.transport.addresses import explain, parse
from protocol.transport.context import Context
from protocol.transport.curve import AgentKeys, secure_agent
from protocol.transport.failures import Judge, Refusal, kind_by_greeting
from protocol.transport.greeting import mechanism_of
from protocol.transport.pump import Pump, configure

RECONNECT_MS = 20  # doubles: an agent that is up a moment before its server should not wait for it
RECONNECT_MAX_MS = 100  # as often as libzmq by default; a launch waits for the slowest retry
CONNECT_MS = 5_000  # a host that swallows packets is tried again before the kernel's two minutes
LINGER_MS = 500  # for the last BYE or REPORT
DIAL_AGAIN_S = 1.0  # pause before a peer that broke the protocol is tried again


class AgentSocket:
    """Talks to one server. While there is no connection nothing is accepted, so nothing grows stale.

    What was accepted when a connection breaks may still arrive over the next one.

    Attributes:
        address: The server's.
    """

    def __init__(self, pump: Pump, address: str, judge: Judge | None, *, keyed: bool) -> None:
        self.address = address
        self._pump = pump
        self._judge = judge
        self._keyed = keyed

    @classmethod
    def connect(
        cls,
        context: Context,
        address: str,
        limits: Limits | None = None,
        keys: AgentKeys | None = None,
    ) -> Self:
        """Starts to connect, for as long as it takes; needs a running event loop.

        Args:
            context: Of this program; for ``inproc://`` the server's.
            address: The server's address.
            limits: Largest frame and message.
            keys: Speak CURVE with these; None: in clear. Not for ``inproc://``.

        Raises:
            AddressError: The address is invalid or too long.
        """
        parts = parse(address, bind=False)
        inproc = parts.scheme == "inproc"
        if inproc and keys:
            raise AddressError(f"{address}: inproc has no keys; it never leaves the process")
        limits = limits or Limits()
        socket = context.raw.socket(zmq.DEALER)
        try:
            configure(socket, limits, parts.scheme)
            socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
            socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
            socket.setsockopt(zmq.IPV6, int(parts.is_ipv6))
            if keys:
                secure_agent(socket, keys)
            judge = None if inproc else Judge(keyed=keys is not None)
            pump = Pump(context, socket, limits, judge=judge)
        except BaseException:
            socket.close(0)
            raise
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            pump.close(0)
            raise explain(address, error) from error
        return cls(pump, address, judge, keyed=keys is not None)

    @property
    def bytes_sent(self) -> int:
        """Bytes of all frames handed over, without ZMTP framing."""
        return self._pump.bytes_sent

    @property
    def bytes_received(self) -> int:
        """Bytes of all frames received, without ZMTP framing."""
        return self._pump.bytes_received

    async def writable(self) -> None:
        """Waits until the server is connected and takes messages: the moment to REGISTER.

        Raises:
            Closed: The socket was closed.
        """
        await self._pump.writable()

    async def refused(self) -> Refusal:
        """Waits until it is known that this server and this agent's keys do not belong together.

        Run it as long as the socket lives: it also dials again where libzmq would not.
        """
        while True:
            news = await self._pump.news()
            if news == "ended":
                await asyncio.sleep(DIAL_AGAIN_S)
                if self._judge and self._judge.given_up:
                    self._judge.given_up = False
                    self._pump.dial_again(self.address)
            elif news != "broken_off":
                return news
            elif found := kind_by_greeting(await mechanism_of(self.address), keyed=self._keyed):
                return found

    async def receive(self) -> list[memoryview]:
        """Waits for a message of the server; one task at a time; cancelling it loses nothing.

        Raises:
            Closed: The socket was closed.
        """
        return await self._pump.receive()

    def send(self, frames: Sequence[Buffer]) -> None:
        """Sends at once, or not at all.

        Raises:
            NotConnected: There is no connection, or the server has stopped reading.
        """
        try:
            self._pump.send(frames)
        except zmq.Again:
            raise NotConnected(f"no server takes messages at {self.address}") from None

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Closes the socket; what was sent may leave for ``linger_ms``."""
        self._pump.close(linger_ms)
