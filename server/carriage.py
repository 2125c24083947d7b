"""Between the machine and the socket: frames become events, messages become frames."""

from collections.abc import Callable

from protocol import codec
from protocol.errors import Lagging, RemoteProtocolError, Unreachable, VersionMismatch
from protocol.limits import Limits
from protocol.messages import Header
from protocol.transport import ServerSocket
from server import events as e


class Carriage:
    """Carries messages both ways over one socket.

    Args:
        socket: Of this server; closed by whoever bound it.
        limits: Of the wire.
        undelivered: Called with what became of a message that did not leave.
        room: Header -> bytes of tensors that are copied for its sender.
        keyed: The socket knows the key of whoever sent a message.
    """

    def __init__(
        self,
        socket: ServerSocket,
        limits: Limits,
        undelivered: Callable[[e.Event], None],
        room: Callable[[Header], int],
        *,
        keyed: bool,
    ) -> None:
        self._socket = socket
        self._limits = limits
        self._undelivered = undelivered
        self._room = room
        self._keyed = keyed
        self._told = (0, 0)

    @property
    def counted(self) -> tuple[int, int]:
        """Bytes sent and received so far."""
        return self._socket.bytes_sent, self._socket.bytes_received

    def counted_since(self) -> tuple[int, int]:
        """Bytes sent and received since it was asked last."""
        before, self._told = self._told, self.counted
        return self._told[0] - before[0], self._told[1] - before[1]

    async def receive(self) -> e.Event:
        """The next message, or what came instead of one; a peer of another major version is answered here.

        Raises:
            Closed: The socket was closed.
        """
        peer, frames = await self._socket.receive()
        try:
            envelope = codec.decode(frames, self._limits, self._room)
        except VersionMismatch as error:
            self._transmit(peer, codec.encode(Header(), codec.reject_version(error)))
            return e.PeerVersion(peer, error.major, error.minor)
        except RemoteProtocolError as error:
            return e.Malformed(peer, error.code, str(error))
        key = self._socket.sender if self._keyed else ""
        return e.Received(peer, envelope.header, envelope.message, envelope.tensors, envelope.minor, key)

    def send(self, command: e.Send) -> None:
        """Sends a message; never waits."""
        frames = codec.encode(command.header, command.message, command.tensors, self._limits)
        self._transmit(command.peer, frames)

    def _transmit(self, peer: bytes, frames: codec.Frames) -> None:
        try:
            self._socket.send(peer, frames)
        except Unreachable:
            self._undelivered(e.Unreachable(peer))
        except Lagging:
            self._undelivered(e.Lagging(peer))
