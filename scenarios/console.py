"""Where every command starts: ``edge-fed`` and ``python -m scenarios``. Imports nothing heavy itself."""

import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from edge_fed.program.launch import prepare, signals_end_at_once

INTERRUPTED = 130  # `ExitCode.INTERRUPTED`; its module may not have loaded yet


def main(arguments: Sequence[str] | None = None, program: str = "edge-fed") -> int:
    """Runs one command; returns its exit code.

    Args:
        arguments: Without the program's name; None: those of the process.
        program: How the person called it, for ``--help``.
    """
    prepare()  # threads are pinned before NumPy is loaded
    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(given, program)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # e.g. `| head`: nobody reads on
        _to_nowhere(sys.stdout)
        return 1
    except KeyboardInterrupt:  # e.g. while modules load, or in `verify`
        print("error: stopped by SIGINT", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"error: the result cannot be written: {error.strerror}\nnext: make room", file=sys.stderr)
        _to_nowhere(sys.stdout)
        return 1


def _open_closed_streams() -> None:
    """``>&-`` leaves None where every print expects a stream."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf8"))  # noqa: SIM115  open until the end


def _to_nowhere(stream: TextIO) -> None:
    """What is still buffered must not raise again when the interpreter closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(given: list[str], program: str) -> int:
    if program == "edge-fed" and given[:1] == ["server"]:
        from server.command_line import main as server

        return server(given[1:])
    if program == "edge-fed" and given[:1] == ["agent"]:
        from agent.__main__ import main as agent

        return agent(given[1:])
    with signals_end_at_once():
        from scenarios.command_line import main as scenarios
    return scenarios(given, program)
