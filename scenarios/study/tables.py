"""Where the tables of studies lie, and whether one belongs to a study as it stands now."""

from collections.abc import Collection
from importlib import resources
from pathlib import Path

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
        ConfigError: It is no table, or was made with another configuration.
    """
    path = find_table(folder, study.name)
    if path is None:
        return None
    results = read_results(path)
    require_config(study, results)
    rows = tuple(row for row in results.rows if seeds is None or row.seed in seeds)
    return Results(results.source, rows) if rows else None


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
