"""How a program talks with the one that started it (``--supervised``): JSON lines, one per event.

Events go to stdout, commands come on stdin, logs stay on stderr. End of file on stdin means that the
supervisor is dead; it is delivered as the command ``{"command": "orphaned"}``.
"""

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Command = Mapping[str, Any]
"""``{"command": name, ...}``."""


class Supervisor(Protocol):
    """Where a program reports events and gets commands from."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Reports one event; never blocks for long, never raises."""
        ...

    def listen(self, deliver: Callable[[Command], None]) -> None:
        """Starts delivery of commands; ``deliver`` may be called in any thread."""
        ...


class NoSupervisor:
    """A program that a person started: nobody listens, nobody commands."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Drops the event."""

    def listen(self, deliver: Callable[[Command], None]) -> None:
        """Delivers nothing, ever."""


class StdioSupervisor:
    """The supervisor is the parent process, at the other end of stdin and stdout."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Writes one JSON line to stdout; a vanished reader is noticed on stdin instead."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(json.dumps({"event": name, **fields}) + "\n")
            sys.stdout.flush()

    def listen(self, deliver: Callable[[Command], None]) -> None:
        """Reads stdin in a daemon thread; a line that is no JSON object is ignored."""

        def read() -> None:
            for line in sys.stdin:
                with contextlib.suppress(ValueError):
                    command = json.loads(line)
                    if isinstance(command, dict):
                        deliver(command)
            deliver({"command": "orphaned"})

        threading.Thread(target=read, name="supervisor", daemon=True).start()
