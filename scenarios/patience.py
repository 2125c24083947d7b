"""Lines about what takes longer than a moment, and none about what does not."""

import sys
import time
from collections.abc import Callable

PATIENCE_S = 1.0  # before the first line, and between two


def only_if_slow(name: str) -> Callable[[str], None]:
    """Returns a report that writes to standard error, the first time once it has taken a while.

    Args:
        name: What is being done; stands before each line.
    """
    said = time.monotonic()

    def report(text: str) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= PATIENCE_S:
            said = now
            print(f"{name}: {text}", file=sys.stderr, flush=True)

    return report
