"""Key files: made private, refused when others can read or change them.

A folder of keys holds ``server.key``, ``allowed.txt`` and ``agents/*.key``. A server needs the first two, an
agent its own ``.key`` file alone, which holds the server's public key as well.
"""

import os
import shlex
import stat
from pathlib import Path
from typing import NamedTuple

from edge_fed.program.allow_list import AllowList, check_key, parse_allow_list
from edge_fed.program.exit_codes import ExitCode, ProgramError

SERVER_KEY = "server.key"
ALLOW_LIST = "allowed.txt"
AGENTS = "agents"
MAX_BYTES = 16 * 1024 * 1024  # of any of these files: a wrong name must not fill the memory
Stamp = tuple[int, int, int] | None


class AgentKeyFile(NamedTuple):
    """What an agent's key file holds: its own secret key and the server's public key, in Z85."""

    secret: str
    server: str


def agent_key_name(agent: int) -> str:
    """Name of an agent's key file."""
    return f"agent-{agent}.key"


def find_agent_file(path: Path, goal: int) -> Path:
    """The agent's key file: the path itself, or where keygen puts it below a folder.

    Raises:
        ProgramError: There is none.
    """
    if not path.is_dir():
        return path
    name = agent_key_name(goal)
    for found in (path / name, path / AGENTS / name):
        if found.exists():
            return found
    raise ProgramError(
        ExitCode.AUTHENTICATION,
        f"{path} has no key file for goal {goal} (neither {name} nor {AGENTS}/{name})",
        f"make it where the server's keys are: python -m server keygen DIR --agents {goal}",
    )


def read_agent_file(path: Path) -> AgentKeyFile:
    """Reads an agent's key file.

    Raises:
        ProgramError: It cannot be read, is no key file, or other users can read it.
    """
    return AgentKeyFile(**_fields(path, AgentKeyFile._fields))


def read_server_secret(folder: Path) -> str:
    """Reads the server's secret key.

    Raises:
        ProgramError: It is missing, is no key file, or other users can read it.
    """
    check_private_folder(folder)
    if not (folder / SERVER_KEY).exists():
        raise ProgramError(
            ExitCode.AUTHENTICATION,
            f"{folder} has no {SERVER_KEY}",
            f"make the keys first: python -m server keygen {shlex.quote(str(folder))} --agents 0-8",
        )
    return _fields(folder / SERVER_KEY, ("secret",))["secret"]


class AllowFile:
    """The allow-list as a file that a person edits while the server runs.

    Attributes:
        path: Of the file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / ALLOW_LIST

    def read(self) -> AllowList:
        """Reads it anew.

        Raises:
            ProgramError: It cannot be read, other users can change it, or a line is wrong.
        """
        text = _read(self.path, writable_only=True)
        return parse_allow_list(text, str(self.path))

    def stamp(self) -> Stamp:
        """Another one when the file was written or replaced; None: it is not there."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def make_private_folder(folder: Path) -> None:
    """Makes a folder that this user alone can enter; one that is there must be private already.

    Raises:
        ProgramError: Others can enter it, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ProgramError(ExitCode.USAGE, f"{folder} cannot be made: {error.strerror}") from error
    check_private_folder(folder)


def check_private_folder(folder: Path) -> None:
    """Refuses a folder of keys that others can enter.

    Raises:
        ProgramError: They can, or it is not there.
    """
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
    except OSError as error:
        raise _bad(f"{folder} cannot be read: {error.strerror}") from error
    if not folder.is_dir():
        raise _bad(f"{folder} is no folder of keys")
    if mode & 0o077:
        raise _open_to_others(folder, mode, "entered", "700")


def write_new_secret(path: Path, text: str) -> None:
    """Writes a file that this user alone can read; never over an existing one.

    Raises:
        ProgramError: The file exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except FileExistsError:
        raise exists(path) from None
    except OSError as error:
        raise ProgramError(ExitCode.USAGE, f"{path} cannot be written: {error.strerror}") from error


def exists(path: Path) -> ProgramError:
    """The refusal to overwrite a secret."""
    return ProgramError(
        ExitCode.USAGE,
        f"{path} exists, and a secret is never overwritten; nothing was made",
        f"leave it out, or move it away first (and take its line out of {ALLOW_LIST}, if it is an agent's)",
    )


def _fields(path: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The ``name = KEY`` lines of a key file."""
    found: dict[str, str] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        where = f"{path}, line {number}"
        if not equals or name not in names or name in found:
            raise _bad(f"{where}: expected one line each of {' = KEY, '.join(names)} = KEY")
        try:
            found[name] = check_key(value)
        except ValueError as error:  # it may be a secret: say what is wrong, quote nothing
            raise _bad(f"{where}: {name} {str(error).partition('... ')[2]}") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise _bad(f"{path} has no line {missing[0]} = KEY")
    return found


def _read(path: Path, *, writable_only: bool = False) -> str:
    """Text of a file that others can neither change nor (unless ``writable_only``) read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # else a FIFO would block
        try:
            _check_file(path, os.fstat(descriptor).st_mode, writable_only=writable_only)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
        if len(data) > MAX_BYTES:
            raise _bad(f"{path} is larger than {MAX_BYTES >> 20} MiB: it is no file of keys")
        return data.decode("utf-8-sig")  # some editors begin a file with a byte-order mark
    except UnicodeDecodeError:
        raise _bad(f"{path} is no UTF-8 text") from None
    except OSError as error:
        raise _bad(f"{path} cannot be read: {error.strerror}") from error


def _check_file(path: Path, mode: int, *, writable_only: bool) -> None:
    if not stat.S_ISREG(mode):
        raise _bad(f"{path} is no regular file")
    rights = stat.S_IMODE(mode)
    if rights & (0o022 if writable_only else 0o077):
        raise _open_to_others(path, rights, "changed" if writable_only else "read", "600")


def _open_to_others(path: Path, mode: int, verb: str, right: str) -> ProgramError:
    return ProgramError(
        ExitCode.AUTHENTICATION,
        f"{path} can be {verb} by other users (mode {mode:04o})",
        f"type: chmod {right} {shlex.quote(str(path))}",
    )


def _bad(text: str) -> ProgramError:
    return ProgramError(ExitCode.AUTHENTICATION, text, "key files are made by: python -m server keygen DIR")
