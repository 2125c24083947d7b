"""Whether a connecting socket has its peer: libzmq's own events, read in the event loop.

`IMMEDIATE`, libzmq's way to refuse messages while there is no connection, throws away what was received but
not yet read when the connection ends: a server's SHUTDOWN just before it closes was lost in 2 to 4 of 100
cases. So the agent's socket keeps its queue, and its sends are refused here.
"""

import asyncio
from collections.abc import Callable

import zmq
from zmq.utils.monitor import parse_monitor_message

EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED


class Monitor:
    """Follows the connection of one socket; not for ``inproc://``, which has no such events.

    Args:
        socket: Before it connects.
        changed: Called after each change.

    Attributes:
        connected: Whether there is a connection whose handshake succeeded.
    """

    def __init__(self, socket: zmq.Socket[bytes], changed: Callable[[], object]) -> None:
        self.connected = False
        self._socket = socket
        self._changed = changed
        self._events = socket.get_monitor_socket(int(EVENTS))
        self._events.setsockopt(zmq.LINGER, 0)
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(self._events.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._read)
        self._read()  # its signal for what follows comes only after what is there was read

    def close(self) -> None:
        """Ends the events; must come before the socket itself is closed."""
        self._loop.remove_reader(self._descriptor)
        self._socket.disable_monitor()
        self._events.close(0)
        self.connected = False

    def _read(self) -> None:
        before = self.connected
        while True:
            try:
                frames = self._events.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self.connected = parse_monitor_message(frames)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
        if self.connected != before:
            self._changed()
