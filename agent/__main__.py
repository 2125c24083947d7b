"""``python -m agent --goal K``: one agent of a fleet; ``python -m agent live``: its life afterwards."""

import sys

INTERRUPTED = 130  # `ExitCode.INTERRUPTED`; its module may not have loaded yet


def main(arguments: list[str] | None = None) -> int:
    """Pins the threads before NumPy is loaded, then runs the command."""
    try:
        from edge_fed.program.launch import import_lightly, prepare, signals_end_at_once

        with signals_end_at_once():
            prepare()
            import_lightly()
            given = sys.argv[1:] if arguments is None else arguments
            if given[:1] == ["live"]:
                from agent.live import main as live

                return live(given[1:])
            from agent.command_line import main as command

            return command(arguments)
    except KeyboardInterrupt:  # while modules load
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
