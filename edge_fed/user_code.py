"""Loads what a user wrote: ``module:name`` from a Python file in the folder where the program was started.

Settings travel: an agent receives them from its server. A server that could name any importable function,
and its arguments, could run anything on an agent (``os:system`` is a module and a name, too). So only files
in or below that folder are imported, which are there because the agent's owner put them there, and
of them only functions and classes that they define themselves: neither what is installed, nor what a file
imports, nor edge_fed's own packages, where a program is started in a clone of it, is reached by name. See
SECURITY.md.
"""

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from asyncio import CancelledError
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from edge_fed.errors import EdgeFedError

OURS = frozenset({"agent", "docs", "edge_fed", "protocol", "scenarios", "server", "tests"})
EXAMPLES = "scenarios.examples."  # written to be named, like a user's
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
USER_FAULTS = (Exception, SystemExit, GeneratorExit, CancelledError, BaseExceptionGroup)
"""What a user's code may raise: a program or a thread must not end because it calls ``sys.exit``.

All but KeyboardInterrupt, and exceptions made to pass, such as our own stops.
"""


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was removed; who needs none of its files need not know
        return Path("/", "removed")


_STARTED_IN = _working_directory()  # before any code of a user, which may call os.chdir, is imported


class UserCodeError(EdgeFedError, ValueError):
    """What a setting names cannot be loaded or failed; the message says what to do."""


def is_user_code(name: str) -> bool:
    """Whether a setting is written as ``module:name``."""
    return NAME.fullmatch(name) is not None


@contextlib.contextmanager
def blamed(*names: str) -> Iterator[None]:
    """Work that functions or classes of a user have a part in: what fails in it names them.

    Args:
        names: Settings that may be written as ``module:name``; if none is, nothing changes.

    Raises:
        UserCodeError: In place of what was raised, unless that is an error of ours, which says its own.
    """
    own = [name for name in names if is_user_code(name)]
    try:
        yield
    except USER_FAULTS as error:
        if not own or isinstance(error, EdgeFedError):
            raise
        what = f"{type(error).__name__}: {error} ({_place(error, own)})"
        raise UserCodeError(f"{' or '.join(own)} failed: {what}") from error


def _place(error: BaseException, own: list[str]) -> str:
    """The newest line of the user's files on the way to the error."""
    files = {f"{name.partition(':')[0].rpartition('.')[2]}.py" for name in own}
    frames = [
        (Path(frame.filename).name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
    ]
    found = [f"at {file}:{line}" for file, line in frames if file in files]
    file, line = frames[-1]
    return found[-1] if found else f"at {file}:{line}: how it is called, or what it returned, does not fit"


def started_in() -> Path:
    """The folder where this program was started, wherever a user's code has moved it since."""
    return _STARTED_IN


def return_to_start() -> None:
    """Back to that folder: before a program that may have run a user's code starts others, or writes."""
    with contextlib.suppress(OSError):  # it was removed
        os.chdir(started_in())


def load(name: str, what: str, folder: Path | None = None) -> Any:
    """The function or class that ``module:name`` means.

    Args:
        name: E.g. ``plant:make`` for ``make`` in ``plant.py``; dots lead into packages.
        what: Of which setting, for the message, e.g. ``environment args id``.
        folder: In or below which the module must lie; None: where the program was started.

    Raises:
        UserCodeError: It is not written so, is not there, or is no function or class of that file; or the
            file fails while it is imported.
    """
    if not is_user_code(name):
        raise UserCodeError(f"{what}: {name!r} is not of the form module:name, e.g. plant:make for plant.py")
    folder = (folder or started_in()).resolve()
    module, _, attribute = name.partition(":")
    _insist_on_file(module, what, folder)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(module)
    except USER_FAULTS as error:
        raise UserCodeError(f"{what}: importing {module} failed: {type(error).__name__}: {error}") from error
    origin = Path(found.__file__ or "").resolve()
    if folder not in origin.parents:  # an installed module of that name was imported before
        raise UserCodeError(
            f"{what}: {module} is already imported from elsewhere; give your file another name"
        )
    if not hasattr(found, attribute):
        raise UserCodeError(f"{what}: {origin.name} has no {attribute!r}")
    value = getattr(found, attribute)
    if not isinstance(value, type | FunctionType) or value.__module__ != module:
        raise UserCodeError(
            f"{what}: {attribute!r} is no function or class that {origin.name} itself defines"
        )
    return value


def _insist_on_file(module: str, what: str, folder: Path) -> None:
    """Before anything is imported: the file is there, and it is no link out of this folder."""
    if module.partition(".")[0] in OURS and not module.startswith(EXAMPLES):
        raise UserCodeError(f"{what}: {module} is a part of edge_fed; name a file of your own")
    path = folder.joinpath(*module.split("."))
    candidates = [path.with_suffix(".py"), path / "__init__.py"]
    if not any(found.is_file() and folder in found.resolve().parents for found in candidates):
        wanted = f"{module.replace('.', '/')}.py"
        raise UserCodeError(
            f"{what}: there is no {wanted} in the folder where this program was started ({folder})"
        )
