"""What libzmq reports about the connections of a socket: its own events, read in the event loop.

`IMMEDIATE`, libzmq's way to refuse messages while there is no connection, throws away what was received but
not yet read when the connection ends: a server's SHUTDOWN just before it closes was lost in 2 to 4 of 100
cases. So the agent's socket keeps its queue, and its sends are refused here.
"""

import asyncio
import itertools
import struct
from collections.abc import Callable

import zmq

from protocol.transport.failures import (
    AUTH,
    CONNECTED,
    DISCONNECTED,
    NO_DETAIL,
    PROTOCOL,
    RETRIED,
    SUCCEEDED,
    Judge,
    Kind,
    News,
    kind_of,
)

FAILURES = AUTH | NO_DETAIL | PROTOCOL
EVENTS = CONNECTED | RETRIED | SUCCEEDED | FAILURES | DISCONNECTED
EVENT = struct.Struct("=HI")  # number, value
_numbers = itertools.count()  # an address of a closed monitor may not be free yet


class Events:
    """Reads the events of one socket; not for ``inproc://``, which has none.

    Args:
        socket: Before it connects or binds.
        mask: Which events.
        happened: Called with event and value.
    """

    def __init__(self, socket: zmq.Socket[bytes], mask: int, happened: Callable[[int, int], None]) -> None:
        self._socket = socket
        self._happened = happened
        address = f"inproc://edge-fed-monitor-{next(_numbers)}"
        socket.monitor(address, mask)
        self._events = socket.context.socket(zmq.PAIR)
        self._events.setsockopt(zmq.LINGER, 0)
        self._events.setsockopt(zmq.RCVHWM, 0)  # with a bound, a flood of events stops libzmq's I/O thread
        self._events.connect(address)
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(self._events.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self.read)

    def close(self) -> None:
        """Ends the events; must come before the socket itself is closed."""
        if not self._events.closed:
            self._loop.remove_reader(self._descriptor)
            self._socket.disable_monitor()
            self._events.close(0)

    def read(self) -> None:
        """Reads what is there: the signal for what follows comes only after that."""
        while not self._events.closed:
            try:
                frames = self._events.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._happened(*EVENT.unpack(frames[0]))


class Monitor:
    """Follows the connection of an agent's socket.

    Args:
        socket: Before it connects.
        changed: Called after each change.
        judge: Tells what failures mean.

    Attributes:
        connected: Whether there is a connection whose handshake succeeded.
        news: What something has to be done about, in order.
    """

    def __init__(self, socket: zmq.Socket[bytes], changed: Callable[[], object], judge: Judge) -> None:
        self.connected = False
        self.news: asyncio.Queue[News] = asyncio.Queue()
        self._changed = changed
        self._judge = judge
        self._clock = asyncio.get_running_loop().time
        self._events = Events(socket, EVENTS, self._happened)
        self._events.read()

    def close(self) -> None:
        """Ends the events; must come before the socket itself is closed."""
        self._events.close()
        self.connected = False

    def _happened(self, event: int, value: int) -> None:
        news = self._judge.event(event, value, self._clock())
        if news is not None:
            self.news.put_nowait(news)
        before, self.connected = self.connected, event == SUCCEEDED
        if self.connected != before:
            self._changed()


class FailureMonitor:
    """Reports the failed handshakes of a server's socket that has keys.

    Args:
        socket: Before it binds.
        failed: Called with the kind of each.
    """

    def __init__(self, socket: zmq.Socket[bytes], failed: Callable[[Kind], object]) -> None:
        self._failed = failed
        self._events = Events(socket, FAILURES, self._happened)
        self._events.read()

    def close(self) -> None:
        """Ends the events; must come before the socket itself is closed."""
        self._events.close()

    def _happened(self, event: int, value: int) -> None:
        self._failed(kind_of(event, value, keyed=True))
