"""Callbacks that may not fail in silence: asyncio logs their exceptions and goes on as if nothing were.

The one file of this package that knows asyncio: both runtimes need it, and they may not import each other.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

Failed = Callable[[Exception], None]


class GuardedLoop:
    """An event loop as one program uses it: a callback that raises ends that program, with its trace.

    Args:
        loop: The running loop; other programs may share it.
        failed: Called with the exception, in the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Failed) -> None:
        self._loop = loop
        self._failed = failed
        self.time = loop.time

    def call_at(self, when: float, callback: Callable[..., object], /, *args: Any) -> asyncio.TimerHandle:
        """Calls back at a time."""
        return self._loop.call_at(when, self._call, callback, *args)

    def call_soon(self, callback: Callable[..., object], /, *args: Any) -> asyncio.Handle:
        """Calls back in the next turn."""
        return self._loop.call_soon(self._call, callback, *args)

    def post(self, callback: Callable[..., object], /, *args: Any) -> None:
        """Calls back in the next turn; from any thread, also when the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._call, callback, *args)

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        try:
            callback(*args)
        except Exception as error:
            self._failed(error)


def end_on_failure(loop: asyncio.AbstractEventLoop, failed: Failed) -> None:
    """The same for whatever else runs in a loop that belongs to one program: sockets, signals, lost tasks.

    Args:
        loop: The program's own loop.
        failed: Called with the exception.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            failed(error)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
