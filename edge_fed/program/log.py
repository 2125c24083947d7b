"""Log set-up shared by the programs: structlog on stderr, one readable line or one JSON object per event."""

import contextlib
import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog

from edge_fed.errors import printable

Logger = structlog.typing.FilteringBoundLogger
Format = Literal["text", "json"]
TRACE = "exception"  # of our own code: its lines are meant
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(
    form: Format = "text", level: str = "info", stream: TextIO | None = None, **context: Any
) -> Logger:
    """Configures structlog for this process and returns its logger.

    Args:
        form: ``text`` for people, ``json`` for machines.
        level: One of `LEVELS`.
        stream: Where lines go; default stderr, so that stdout stays for results.
        **context: Bound to every line, e.g. ``program="agent", agent=3``.
    """
    out = stream or sys.stderr
    render: list[Any] = [structlog.processors.JSONRenderer()]  # it writes nothing but ASCII
    if form == "text":
        render = [readable, _text(out.isatty())]
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso" if form == "json" else "%H:%M:%S"),
            structlog.processors.format_exc_info,
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: Writer(out),
        cache_logger_on_first_use=False,
    )
    logger: Logger = structlog.get_logger(**context).bind()  # bound now, not anew for every line
    return logger


def readable(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """What peers say must not command the terminal, or look like another line: it is written out."""
    return {
        printable(str(name)): printable(value) if isinstance(value, str) and name != TRACE else value
        for name, value in line.items()
    }


class Writer:
    """Writes lines; a full disk or a closed terminal loses lines, not the program."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        """Writes one line at once."""
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream was closed
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = exception = msg


def _text(colors: bool) -> Any:
    return structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
