"""CURVE keys (ZeroMQ RFC 26) as text in Z85, and how they are put on a socket."""

from collections.abc import Callable
from typing import NamedTuple

import zmq

from protocol.transport.failures import Kind

ZAP_DOMAIN = "edge_fed"
HANDSHAKE_MS = 5_000  # an exchange of four small messages, and one look at a list


class AgentKeys(NamedTuple):
    """What an agent needs: its own secret key and the server's public key."""

    secret: str
    server: str


class Guard(NamedTuple):
    """What a server needs to let in none but those it knows.

    Attributes:
        secret: Its secret key.
        admits: Public key and IP address of a peer -> whether it may connect; called in the loop's thread.
        failed: Told the kind of each handshake that failed, one of `protocol.transport.failures.KINDS`.
    """

    secret: str
    admits: Callable[[str, str], bool]
    failed: Callable[[Kind], object] = lambda _kind: None


def make_pair() -> tuple[str, str]:
    """A new public and secret key.

    The public one holds no ``#``, so that a list of keys may have comments.
    """
    while True:
        public, secret = (key.decode("ascii") for key in zmq.curve_keypair())
        if "#" not in public:
            return public, secret


def public_of(secret: str) -> str:
    """The public key that belongs to a secret one.

    Raises:
        ValueError: It is no key in Z85.
    """
    return zmq.curve_public(secret.encode("ascii")).decode("ascii")


def secure_server(socket: zmq.Socket[bytes], secret: str) -> None:
    """Makes a socket that is not bound yet take CURVE peers alone, and none that no ZAP handler admits."""
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret.encode("ascii"))
    socket.setsockopt_string(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a handler: nobody, instead of everybody
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)


def secure_agent(socket: zmq.Socket[bytes], keys: AgentKeys) -> None:
    """Makes a socket that is not connected yet speak CURVE to the holder of one key alone."""
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode("ascii"))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public_of(keys.secret).encode("ascii"))
    socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server.encode("ascii"))
