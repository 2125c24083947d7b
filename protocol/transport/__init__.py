"""The only package that imports zmq: contexts, addresses, and one socket per side."""

from protocol.transport.addresses import is_loopback
from protocol.transport.agent import AgentSocket
from protocol.transport.context import Context
from protocol.transport.curve import AgentKeys, Guard, make_pair, public_of
from protocol.transport.failures import KINDS, Kind, Refusal
from protocol.transport.server import ServerSocket

__all__ = [
    "KINDS",
    "AgentKeys",
    "AgentSocket",
    "Context",
    "Guard",
    "Kind",
    "Refusal",
    "ServerSocket",
    "is_loopback",
    "make_pair",
    "public_of",
]
