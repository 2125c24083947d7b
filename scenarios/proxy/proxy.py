"""A listening place for one agent; what connects to it is carried to the server, and the faults act on it."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable

from protocol.transport.addresses import Address, claim_ipc, explain, parse
from scenarios.proxy.armed import Armed, OpaqueStream
from scenarios.proxy.connection import READ_BYTES, Connection, Stream
from scenarios.proxy.rules import Rule
from scenarios.proxy.zmtp import NotZmtp

RECEIVE_BYTES = 128 * 1024  # kernel buffers that grow to megabytes would hide a stalled agent from the server
BACKLOG = 100
NOBODY = frozenset({errno.ECONNREFUSED, errno.ENOENT, errno.ECONNRESET, errno.EPIPE})


class Proxy:
    """Between one agent and the server; needs a running event loop. Survives the restart of either.

    Args:
        agent: Agent id.
        seed: Of the run: gives the draws of the faults.
        report: Called with a sentence when a connection had to be closed.

    Attributes:
        address: Where agents connect; empty before `listen`.
    """

    def __init__(self, agent: int, seed: int = 0, report: Callable[[str], None] = lambda _: None) -> None:
        self.address = ""
        self._agent = agent
        self._armed = Armed(seed, agent)
        self._report = report
        self._upstream: Address
        self._listener: socket.socket | None = None
        self._carried = 0  # connections that have ended
        self._open: dict[asyncio.Task[None], Connection | None] = {}

    @property
    def done(self) -> dict[str, int]:
        """What the faults did so far: ``drop up UPDATE`` -> how often."""
        return dict(self._armed.done)

    @property
    def connections(self) -> int:
        """How many were made so far in which the agent said more than a greeting."""
        return self._carried + sum(connection.up.spoke for connection in self._connections())

    async def listen(self, address: str, upstream: str) -> str:
        """Opens the listening place.

        Args:
            address: ``tcp://127.0.0.1:0`` or ``ipc://path``.
            upstream: The server's address, tcp or ipc; the server need not be there yet.

        Returns:
            The address with the real port.

        Raises:
            AddressError: It cannot be bound.
        """
        where, self._upstream = parse(address, bind=True), parse(upstream, bind=False)
        try:
            self._listener = _listener(where)
        except OSError as error:
            raise explain(address, error) from error
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
        self.address = address
        if where.scheme == "tcp":
            self.address = f"tcp://{where.host}:{self._listener.getsockname()[1]}"
        return self.address

    def arm(self, rule: Rule) -> None:
        """This fault is in force from now on; a half-open one catches the connections that there are.

        Raises:
            OpaqueStream: It acts on whole messages, and those of a connection are encrypted; not armed.
        """
        for connection in self._connections():
            connection.check(rule)
        self._armed.arm(rule)
        for connection in self._connections():
            for direction, lane in (("up", connection.up), ("down", connection.down)):
                if rule.kind == "half_open" and rule.direction in (direction, "both"):
                    lane.silence()
            connection.wake()

    def heal(self, rule: Rule | None = None) -> None:
        """Ends this fault, or all. What a half-open one caught stays dead; new connections work."""
        self._armed.heal(rule)
        for connection in self._connections():
            connection.wake()

    async def close(self) -> None:
        """Ends everything."""
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        if self.address.startswith("ipc://"):
            with contextlib.suppress(OSError):
                os.unlink(self.address.removeprefix("ipc://"))

    def _connections(self) -> list[Connection]:
        return [connection for connection in self._open.values() if connection]

    def _accept(self, listener: socket.socket) -> None:
        """Not by `asyncio.start_server`: what that has accepted when it is closed stays open for ever."""
        try:
            accepted, _ = listener.accept()
        except OSError:  # it was gone again
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(
            self._carry(accepted), name=f"proxy of agent {self._agent}"
        )
        self._open[task] = None

        def ended(task: asyncio.Task[None]) -> None:
            accepted.close()
            del self._open[task]

        task.add_done_callback(ended)

    async def _carry(self, accepted: socket.socket) -> None:
        try:
            far = await _connect(self._upstream)
        except OSError as error:  # the agent's is closed at once, as if the server itself had refused
            if error.errno not in NOBODY:
                self._report(f"the server cannot be reached for agent {self._agent}: {error}")
            return
        try:
            near = Stream(*await asyncio.open_connection(sock=accepted, limit=READ_BYTES))
        except BaseException:
            far.writer.transport.abort()
            raise
        for end in (near, far):
            end.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = connection = Connection(self._armed, near, far)
        try:
            await connection.run()
        except (NotZmtp, OpaqueStream) as error:
            self._report(f"the connection of agent {self._agent} was closed: {error}")
        finally:
            self._open[task] = None
            self._carried += connection.up.spoke


async def _connect(upstream: Address) -> Stream:
    if upstream.scheme == "ipc":
        return Stream(*await asyncio.open_unix_connection(upstream.host, limit=READ_BYTES))
    return Stream(*await asyncio.open_connection(upstream.host, upstream.port, limit=READ_BYTES))


def _listener(where: Address) -> socket.socket:
    if where.scheme == "tcp":
        family = socket.AF_INET6 if where.is_ipv6 else socket.AF_INET
        return socket.create_server((where.host, where.port), family=family, backlog=BACKLOG)
    claim_ipc(where.host)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(where.host)  # of one that is dead
        listener.bind(where.host)
        os.chmod(where.host, 0o600)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
