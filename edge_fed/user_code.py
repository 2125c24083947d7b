"""Loads what a user wrote: ``module:name`` from a Python file in the folder where the program was started.

Settings travel: an agent receives them from its server. A server that could name any importable function, and
its arguments, could run anything on an agent (``os:system`` is a module and a name, too). So only files in or
below the working directory are imported, which are there because the agent's owner put them there; what is
installed on the machine is not reached by name. See SECURITY.md.
"""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from edge_fed.errors import EdgeFedError

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class UserCodeError(EdgeFedError, ValueError):
    """What a setting names cannot be loaded; the message says what to do."""


def is_user_code(name: str) -> bool:
    """Whether a setting is written as ``module:name``."""
    return NAME.fullmatch(name) is not None


def load(name: str, what: str, folder: Path | None = None) -> Any:
    """The attribute that ``module:name`` means.

    Args:
        name: E.g. ``plant:make`` for ``make`` in ``plant.py``; dots lead into packages.
        what: Of which setting, for the message, e.g. ``environment args id``.
        folder: In or below which the module must lie; None: the working directory.

    Raises:
        UserCodeError: It is not written so, lies elsewhere, is not there, or fails while it is imported.
    """
    if not is_user_code(name):
        raise UserCodeError(f"{what}: {name!r} is not of the form module:name, e.g. plant:make for plant.py")
    folder = (folder or Path.cwd()).resolve()
    module, _, attribute = name.partition(":")
    _insist_on_file(module, what, folder)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise UserCodeError(f"{what}: importing {module} failed: {type(error).__name__}: {error}") from error
    origin = Path(found.__file__ or "").resolve()
    if folder not in origin.parents:  # an installed module of that name was imported before
        raise UserCodeError(
            f"{what}: {module} is already imported from elsewhere; give your file another name"
        )
    if not hasattr(found, attribute):
        raise UserCodeError(f"{what}: {origin.name} has no {attribute!r}")
    return getattr(found, attribute)


def _insist_on_file(module: str, what: str, folder: Path) -> None:
    """Before anything is imported: the file is there, and it is no link out of this folder."""
    path = folder.joinpath(*module.split("."))
    candidates = [path.with_suffix(".py"), path / "__init__.py"]
    if not any(found.is_file() and folder in found.resolve().parents for found in candidates):
        wanted = f"{module.replace('.', '/')}.py"
        raise UserCodeError(
            f"{what}: there is no {wanted} in the folder where this program was started ({folder})"
        )
