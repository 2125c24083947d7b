"""What the flags of ``python -m agent`` may say: numbers within bounds, files that can be written."""

import argparse
import os
import tempfile
from pathlib import Path


def count(text: str) -> int:
    """A whole number from 0 on, of 63 bits."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 0 on")
    if len(text) > 19 or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text[:40]} is too large")
    return int(text)


def seconds(text: str) -> float:
    """A length of time."""
    return _number(text, "number of seconds", 1e7)


def noise(text: str) -> float:
    """A noise multiplier."""
    return _number(text, "noise multiplier", 1e6)


def _number(text: str, what: str, most: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what} from 0 to {most:g}")
    return found


def at(text: str) -> str | int:
    """``final``, ``now``, or a round."""
    if text in ("final", "now"):
        return text
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither final, now nor a round")
    return count(text)


def place(text: str) -> Path:
    """Where something is now, absolute: a user's ``os.chdir`` moves this program, but not its files."""
    try:
        return Path(text).absolute()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: the working directory is gone") from error


def save(text: str) -> Path:
    """A file that can be written at the end of the work; found out before it."""
    path = place(text)
    folder = path.parent
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {folder}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise argparse.ArgumentTypeError(f"{text} is no regular file")
    _try_to_write(text, folder)
    return path


def folder(text: str) -> Path:
    """A folder that exists and can be written, or that can be made."""
    path = place(text)
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: {there} is no folder")
    _try_to_write(text, there)
    return path


def _try_to_write(text: str, folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = f"{text}: the folder {folder} cannot be written: {error.strerror}"
        raise argparse.ArgumentTypeError(why) from error
