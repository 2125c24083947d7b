"""The only package that imports zmq: contexts, addresses, and one socket per side."""

from protocol.transport.addresses import is_loopback
from protocol.transport.agent import AgentSocket
from protocol.transport.context import Context
from protocol.transport.server import ServerSocket

__all__ = ["AgentSocket", "Context", "ServerSocket", "is_loopback"]
