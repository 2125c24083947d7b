"""The secret behind an agent's private noise: 32 random bytes in a file that only its owner can read.

One per run and agent, ``<folder>/<run id>/agent-<k>/noise-secret``, made when the first noise is needed. It
never leaves the agent: no message, no log line and no record has it. It is kept on disk because an agent that
dies with its update sent computes the same update again, and must add the same noise: with other noise the
server would see a conflict, and a second noisy copy of the same data. Whoever reads it subtracts the noise.
"""

import contextlib
import os
import stat
from pathlib import Path

from edge_fed.federated.privacy import SECRET_BYTES
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import sync_folder, write_all

FILE = "noise-secret"


def noise_secret(folder: Path) -> bytes:
    """The secret that is kept in ``folder``; made there, and forced to the disk, if there is none.

    Raises:
        ProgramError: It cannot be kept there, or was not kept well.
    """
    path = folder / FILE
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise ProgramError(
            ExitCode.USAGE,
            f"the secret of the private noise cannot be kept in {path}: {error.strerror or error}",
            "name another --state-dir, one that only you can write",
        ) from error


def _make(path: Path) -> None:
    """Writes a new secret, whole or not at all; one that another process has made meanwhile stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{FILE}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(descriptor, os.urandom(SECRET_BYTES))
        os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        os.close(descriptor)
        aside.unlink()
    sync_folder(path.parent)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        about, secret = os.fstat(descriptor), os.read(descriptor, SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(secret) != SECRET_BYTES or not stat.S_ISREG(about.st_mode):
        raise OSError(f"it is no file of {SECRET_BYTES} bytes; remove it, the agent makes a new one")
    if about.st_mode & 0o077:
        mode = stat.S_IMODE(about.st_mode)
        raise OSError(f"others can read it (mode {mode:04o}); remove it, the agent makes a new one")
    return secret
