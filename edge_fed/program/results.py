"""Results on standard output, where somebody may have stopped reading (``| head``, a closed pipe)."""

import contextlib
import os
import sys


def print_result(text: str) -> bool:
    """Prints at once; False: nobody reads any more. The program's exit code stays that of what it did."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):  # what is buffered must not raise again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
