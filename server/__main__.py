"""``python -m server``: see ``--help``."""

import sys

from edge_fed.program.launch import import_lightly, prepare


def main() -> int:
    """Pins the threads before NumPy is loaded, then runs the command."""
    prepare()
    import_lightly()
    from server.command_line import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
