"""What can go wrong on the wire, as one tree.

ProtocolError
├── LocalProtocolError     we tried to send something illegal; nothing was sent
├── RemoteProtocolError    the peer sent something illegal; ``code`` is the code of the ERROR that answers it
│   └── VersionMismatch    the peer speaks another major version
├── LibraryTooOld          the installed libzmq has known holes
└── TransportError
    ├── AddressError       the address is busy, invalid, too long, or not a server's to take
    ├── NotConnected       an agent's send: no connection to the server, or the server has stopped reading
    ├── Unreachable        a server's send: this peer's connection is gone
    ├── Lagging            a server's send: this peer has stopped reading
    └── Closed             the socket was closed while somebody waited for a message
"""

from protocol.limits import MAJOR, MINOR


class ProtocolError(Exception):
    """Parent of every error of the wire."""


class LocalProtocolError(ProtocolError):
    """We tried to send something illegal; the message names the field. Nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal; it was dropped and changed nothing.

    Attributes:
        code: One of the codes of ``protocol.messages.Error``.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message[:500])  # it may quote the peer, and must fit into an ERROR


class VersionMismatch(RemoteProtocolError):
    """The peer speaks another major version; answered by REJECT(version), see `codec.reject_version`.

    Attributes:
        major: The peer's.
        minor: The peer's.
    """

    def __init__(self, major: int, minor: int) -> None:
        self.major = major
        self.minor = minor
        super().__init__(
            "malformed",
            f"the peer speaks protocol {major}.{minor}, this program {MAJOR}.{MINOR}; "
            "install the same major version of edge-fed on both sides",
        )


class LibraryTooOld(ProtocolError):
    """The installed libzmq is not safe to use; the message says what to type."""


class TransportError(ProtocolError):
    """Parent of what a socket reports."""


class AddressError(TransportError):
    """The address cannot be used; the message names it, the cause and what to do next."""


class NotConnected(TransportError):
    """Nothing was sent: no connection to the server, or the server has stopped reading."""


class Unreachable(TransportError):
    """Nothing was sent: this peer's connection is gone."""


class Lagging(TransportError):
    """Nothing was sent: this peer has stopped reading and its pipe is full."""


class Closed(TransportError):
    """The socket was closed."""
