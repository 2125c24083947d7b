"""``python -m server``: see ``--help``."""

import sys

INTERRUPTED = 130  # `ExitCode.INTERRUPTED`; its module may not have loaded yet


def main() -> int:
    """Pins the threads before NumPy is loaded, then runs the command."""
    try:
        from edge_fed.program.launch import import_lightly, prepare, signals_end_at_once

        with signals_end_at_once():
            prepare()
            import_lightly()
            from server.command_line import main as command

            return command()
    except KeyboardInterrupt:  # while modules load
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
