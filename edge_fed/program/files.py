"""Files that are whole or absent: write aside, flush as asked, rename. And reading what may be no file."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Opens a file to read; what only looks like one (a folder, a pipe that nobody writes) blocks nobody.

    Raises:
        OSError: It is not there, cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    insist_on_file(descriptor, path)
    return open(descriptor, "rb")


def insist_on_file(descriptor: int, path: Path) -> None:
    """Closes what is no regular file.

    Raises:
        OSError: It is none.
    """
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
    except OSError:
        os.close(descriptor)
        raise


def read_regular(path: Path) -> bytes:
    """The content of a file.

    Raises:
        OSError: As `open_regular`.
    """
    with open_regular(path) as file:
        return file.read()


def write_atomic(path: Path, data: bytes, *, sync: bool) -> None:
    """Writes ``data`` to ``path`` so that a reader sees the old file or the new one, never a part.

    Args:
        path: Final name; its folder must exist.
        data: Whole content.
        sync: Also force it to the disk (power failure); the folder entry needs `sync_folder`.

    Raises:
        OSError: It cannot be written, or ``path`` is there and is no regular file (a device, a folder).
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        try:
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(aside, path)
    except OSError:  # a full disk must not be filled with parts
        aside.unlink(missing_ok=True)
        raise


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Writes every byte: one write call may take fewer (at most 2 GiB on Linux)."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Forces a folder's entries (renames) to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
