"""Findings: what an input breaks, told apart by the exception and the place that raised it."""

import hashlib
import traceback
from collections.abc import Callable

Target = Callable[[bytes], None]


def finding(target: Target, data: bytes) -> str | None:
    """Which property the input breaks, as ``Type at file:function``; None if it breaks none."""
    try:
        target(data)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [
            frame for frame in frames if ".venv" not in frame.filename and "/lib/python" not in frame.filename
        ]
        place = ours[-1]
        return f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.name}:{place.lineno}"
    return None


def minimise(target: Target, data: bytes, tries: int = 3000) -> bytes:
    """A shorter input that breaks the same property at the same place.

    Halves, quarters and so on are left out while the finding stays (delta debugging, Zeller 2002).
    """
    wanted, size = finding(target, data), len(data) // 2
    while size and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + size :]
            tries -= 1
            if finding(target, shorter) == wanted:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def digest(data: bytes) -> str:
    """A short name for an input."""
    return hashlib.sha256(data).hexdigest()[:12]
