"""``python -m scenarios``: see ``--help``."""

import sys

from scenarios.console import main

if __name__ == "__main__":
    sys.exit(main(program="python -m scenarios"))
