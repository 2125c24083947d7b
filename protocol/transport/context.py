"""One ZeroMQ context per program object, ended in bounded time."""

import threading
from types import TracebackType
from typing import Protocol, Self

import zmq

from protocol.errors import LibraryTooOld

TERM_S = 2.0
OLDEST_LIBZMQ = (4, 3, 5)  # before 4.3.3 a stranger stalls a CURVE server (CVE-2020-15166)


def require_libzmq(version: tuple[int, int, int]) -> None:
    """Refuses a libzmq with known holes.

    Raises:
        LibraryTooOld: It is older than `OLDEST_LIBZMQ`.
    """
    if version < OLDEST_LIBZMQ:
        have, need = (".".join(map(str, numbers)) for numbers in (version, OLDEST_LIBZMQ))
        raise LibraryTooOld(f"libzmq {have} is too old, {need} is needed; type: pip install -U pyzmq")


class Closable(Protocol):
    """What a context closes before it ends."""

    def close(self, linger_ms: int) -> None:
        """Closes it."""


class Context:
    """Owns the I/O thread of one program object.

    Pass the same one to server and agents to use ``inproc://``; another context sees nothing there. Make it
    after any fork, use it in one event loop, and close every socket before it.

    Attributes:
        raw: The zmq context.
        open: The sockets that are open in it.
    """

    def __init__(self) -> None:
        require_libzmq(zmq.zmq_version_info())
        self.raw: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.open: set[Closable] = set()

    def close(self, timeout_s: float = TERM_S) -> bool:
        """Ends the context; sockets left open are closed and lose what they still hold.

        ``term`` blocks until closed sockets have sent what their linger allows, so a thread calls it: a hang
        costs the program at most ``timeout_s`` at its end.

        Returns:
            Whether the context ended within ``timeout_s``; if not, its daemon thread dies with the process.
        """
        if self.raw.closed:
            return True
        for socket in tuple(self.open):
            socket.close(0)
        thread = threading.Thread(target=self.raw.term, name="zmq-term", daemon=True)
        thread.start()
        thread.join(timeout_s)
        return not thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
