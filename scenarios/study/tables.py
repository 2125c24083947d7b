"""Where the tables of studies lie, and whether one belongs to a study as it stands now."""

import hashlib
from collections.abc import Collection, Iterable
from importlib import resources
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.study.plan import Study
from scenarios.study.results import Results, read_results


def committed() -> Path:
    """Where the results lie that come with edge_fed."""
    return Path(str(resources.files("scenarios.paper"))) / "results"


def find_table(folder: Path, study: str) -> Path | None:
    """The table of a study: in the folder itself, or in the one where the study was run below it."""
    places = (folder / f"{study}.csv", folder / study / f"{study}.csv")
    return next((place for place in places if place.is_file()), None)


def read_table(study: Study, folder: Path, seeds: Collection[int] | None) -> Results | None:
    """Reads the table of a study, if it is there.

    Args:
        study: As it stands now.
        folder: Where `find_table` looks.
        seeds: Those that count; None: all.

    Returns:
        None if there is no table, or nothing of these seeds in it.

    Raises:
        ConfigError: It is no table, was changed since it was written, or was made with another
            configuration.
    """
    path = find_table(folder, study.name)
    if path is None:
        return None
    require_as_written(path)
    results = read_results(path)
    require_config(study, results)
    rows = tuple(row for row in results.rows if seeds is None or row.seed in seeds)
    return Results(results.source, rows) if rows else None


def absent(study: Study, results: Results, seeds: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """Which of these seeds a table has not: arm -> seeds, for every arm that lacks some."""
    there = {(row.arm, row.seed) for row in results.rows}
    wanted = sorted(set(seeds))
    lacking = {
        arm.name: tuple(seed for seed in wanted if (arm.name, seed) not in there) for arm in study.arms
    }
    return {arm: missing for arm, missing in lacking.items() if missing}


class Made(msgspec.Struct, frozen=True):
    """Of what `scenarios.study.pool` writes beside a table, the keys that matter here.

    Attributes:
        digest: Of the study that was run.
        preregistration: Hash of the file that the run kept to; None: of none.
        csv_sha256: Of the table as it was written; None: the run is older than this key.
    """

    digest: str
    preregistration: str | None
    csv_sha256: str | None = None


def read_made(table: Path) -> Made:
    """Reads what a table was made with from the JSON file beside it.

    Raises:
        ConfigError: It is missing or wrong, or the table is not as it was written.
    """
    beside = table.with_suffix(".json")
    try:
        made = msgspec.json.decode(beside.read_bytes(), type=Made)
    except OSError as error:
        raise ConfigError([Fault("", f"cannot be read: {error.strerror}")], str(beside)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError([Fault("", f"does not say how it was made: {error}")], str(beside)) from None
    if made.csv_sha256 is not None and made.csv_sha256 != _sha256(table):
        hint = f"run the study again into {table.parent}: its finished cells are kept there"
        raise ConfigError([Fault("", f"is not as it was written, {beside.name} says", hint)], str(table))
    return made


def require_as_written(table: Path) -> None:
    """Refuses a table that was changed, as far as a JSON file beside it tells.

    Raises:
        ConfigError: As `read_made`.
    """
    if table.with_suffix(".json").exists():
        read_made(table)


def _sha256(table: Path) -> str:
    try:
        return hashlib.sha256(table.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError([Fault("", f"cannot be read: {error.strerror}")], str(table)) from None


def require_config(study: Study, results: Results) -> None:
    """Refuses results of other settings than the study has now.

    Raises:
        ConfigError: Names the arm and both hashes.
    """
    known = {arm.name: arm.config for arm in study.arms}
    hint = f"run it again (without --from-results), or restore the study {study.name} as it was"
    faults = []
    for arm, config in dict.fromkeys((row.arm, row.config) for row in results.rows):
        if arm not in known:
            faults.append(Fault(f"arm {arm}", f"is no arm of the study {study.name}", hint))
        elif config != known[arm]:
            message = f"was made with configuration {config}, the study has {known[arm]}"
            faults.append(Fault(f"arm {arm}", message, hint))
    if faults:
        raise ConfigError(faults, results.source)
