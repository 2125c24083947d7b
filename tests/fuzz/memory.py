"""The most memory that a call allocates."""

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

BASE = 1024 * 1024  # what a first call caches
FACTOR = 400  # an empty map is one byte on the wire, and 64 bytes and its place in two lists as objects


def bounded(size: int, call: Callable[[], Result]) -> Result:
    """Calls, and checks that no more was allocated than a small multiple of the input.

    Args:
        size: Bytes of the input.
        call: What reads it.

    Raises:
        AssertionError: It took more.
    """
    tracemalloc.start()
    try:
        return call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= BASE + FACTOR * size, f"{peak} bytes were allocated for {size} bytes of input"
