"""A study's folder: finished cells, one file each, and the table made of them.

``cells/<arm>/<seed>.json`` is written when its cell ends; from all of them ``<study>.csv``, the table, and
``<study>.json``, what it was made with.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError, Fault
from edge_fed.program.files import write_atomic
from edge_fed.program.run_folder import versions
from scenarios.study.cell import Cell
from scenarios.study.plan import Arm, Study
from scenarios.study.results import Results, as_csv

SCHEMA = 1
Key = tuple[str, int]
"""(name of the arm, seed)."""


class Store:
    """One study's folder.

    Args:
        study: Whose.
        folder: Made if it is not there.

    Raises:
        ConfigError: The folder cannot be written.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self.study = study
        self.folder = folder
        self.table = folder / f"{study.name}.csv"
        try:
            (folder / "cells").mkdir(parents=True, exist_ok=True)
            write_atomic(folder / "cells" / ".writable", b"", sync=False)
            (folder / "cells" / ".writable").unlink()
        except OSError as error:
            fault = Fault(
                "--results", f"{folder} cannot be written: {error.strerror}", "choose another folder"
            )
            raise ConfigError([fault], "command line") from None
        if self.table.exists() and not self.table.is_file():
            raise ConfigError([Fault(str(self.table), "is in the way", "move it")], "command line")

    def path(self, arm: Arm, seed: int) -> Path:
        """Where a finished cell lies."""
        return self.folder / "cells" / arm.name.replace("/", "--") / f"{seed}.json"

    def load(self, arm: Arm, seed: int, preregistration: str | None) -> Cell | None:
        """A finished cell, if it is there.

        Raises:
            ConfigError: It is no cell, or not this one, or kept to no such preregistration.
        """
        path = self.path(arm, seed)
        if not path.exists():
            return None
        try:
            cell = msgspec.json.decode(path.read_bytes(), type=Cell)
        except (msgspec.DecodeError, OSError) as error:
            raise self._wrong(path, f"is no finished cell: {error}") from None
        if cell.config != arm.config:
            raise self._wrong(path, f"is of configuration {cell.config}, arm {arm.name} has {arm.config}")
        if set(cell.outcomes) != set(self.study.outcomes):
            raise self._wrong(path, "keeps other outcomes than the study wants")
        if {(row.arm, row.seed) for row in cell.rows} != {(arm.name, seed)}:
            raise self._wrong(path, "holds the rows of another cell")
        if preregistration is not None and cell.preregistration != preregistration:
            what = "was run without this preregistration, and nothing makes it confirmatory afterwards"
            raise self._wrong(path, what)
        return cell

    def save(self, arm: Arm, seed: int, cell: Cell) -> None:
        """Keeps a finished cell."""
        path = self.path(arm, seed)
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, msgspec.json.encode(cell), sync=False)

    def write_table(self, cells: Mapping[Key, Cell]) -> Results:
        """The table, and beside it what it was made with."""
        rows = tuple(row for cell in cells.values() for row in cell.rows)
        text = as_csv(rows).encode()
        hashes: dict[str, dict[str, str]] = {}
        for (arm, seed), cell in cells.items():
            hashes.setdefault(arm, {})[str(seed)] = cell.params_sha256
        stamps = {cell.preregistration for cell in cells.values()}
        made = {
            "schema": SCHEMA,
            "study": self.study.name,
            "digest": self.study.digest,
            "csv_sha256": hashlib.sha256(text).hexdigest(),
            "preregistration": stamps.pop() if len(stamps) == 1 else None,
            "versions": versions(),
            "fingerprints": sorted({cell.fingerprint for cell in cells.values()}),
            "params_sha256": hashes,
        }
        write_atomic(self.table, text, sync=False)
        beside = self.table.with_suffix(".json")
        write_atomic(beside, msgspec.json.format(msgspec.json.encode(made), indent=1), sync=False)
        return Results(str(self.table), rows)

    def _wrong(self, path: Path, what: str) -> ConfigError:
        hint = f"choose another folder with --results, or delete {path}"
        return ConfigError([Fault(str(path), what, hint)], self.study.name)
