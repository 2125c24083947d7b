"""Where every command starts: ``edge-fed`` and ``python -m scenarios``. Imports nothing heavy itself."""

import os
import sys
from collections.abc import Sequence

from edge_fed.program.launch import prepare


def main(arguments: Sequence[str] | None = None, program: str = "edge-fed") -> int:
    """Runs one command; returns its exit code.

    Args:
        arguments: Without the program's name; None: those of the process.
        program: How the person called it, for ``--help``.
    """
    prepare()  # threads are pinned before NumPy is loaded
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(given, program)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # e.g. `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(given: list[str], program: str) -> int:
    if program == "edge-fed" and given[:1] == ["server"]:
        from server.command_line import main as server

        return server(given[1:])
    if program == "edge-fed" and given[:1] == ["agent"]:
        from agent.__main__ import main as agent

        return agent(given[1:])
    from scenarios.command_line import main as scenarios

    return scenarios(given, program)
