"""Where an agent's files are: each agent owns its data, and a server needs none."""

import os
from pathlib import Path

from edge_fed.errors import MissingData

VARIABLE = "EDGE_FED_DATA"
"""Environment variable: the folder of all data sets."""


def folder_of(own: str, shared: str) -> str:
    """The folder that counts: the agent's own, else the environment's, else the run's; empty: none is named.

    The run's comes last because it was written on another machine.
    """
    return own or os.environ.get(VARIABLE, "") or shared


def locate(named: str, name: str) -> Path:
    """The folder of one data set: ``<root>/<name>``, or the root itself if there is none.

    Args:
        named: The root, as `folder_of` chose it.
        name: Of the data set's own folder.

    Raises:
        MissingData: No folder was named, or it is not there.
    """
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
