"""Where an agent's files are: each agent owns its data, and a server needs none."""

import os
from pathlib import Path

from edge_fed.errors import MissingData

VARIABLE = "EDGE_FED_DATA"
"""Environment variable: the folder of all data sets. It goes before the run's ``folder``, which comes from
the server's machine."""


def locate(folder: str, name: str) -> Path:
    """The folder of one data set: ``<root>/<name>``, or the root itself if there is none.

    Args:
        folder: From ``[dataset] args``; empty: only the environment says.
        name: Of the data set's own folder.

    Raises:
        MissingData: No folder was named, or it is not there.
    """
    named = os.environ.get(VARIABLE) or folder
    if not named:
        raise MissingData(
            f"no folder of data was named: set {VARIABLE}, or folder in [dataset] args, to one with {name}/"
        )
    root = Path(named)
    found = root / name if (root / name).is_dir() else root
    if not found.is_dir():
        raise MissingData(f"the folder of data {named} is not there: set {VARIABLE} to one with {name}/")
    return found


def find(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of these files that is there.

    Raises:
        MissingData: None is.
    """
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise MissingData(f"{folder} holds no {' or '.join(names)}")
