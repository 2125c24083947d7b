"""``python -m agent --goal K``: one agent of a fleet."""

import sys

INTERRUPTED = 130  # `ExitCode.INTERRUPTED`; its module may not have loaded yet


def main(arguments: list[str] | None = None) -> int:
    """Pins the threads before NumPy is loaded, then runs the command."""
    try:
        from edge_fed.program.launch import import_lightly, prepare

        prepare()
        import_lightly()
        from agent.command_line import main as command

        return command(arguments)
    except KeyboardInterrupt:  # while modules load
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
