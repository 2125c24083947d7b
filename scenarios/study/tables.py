"""Where the tables of studies lie, and whether one belongs to a study as it stands now."""

from importlib import resources
from pathlib import Path

from edge_fed.errors import ConfigError, Fault
from scenarios.study.plan import Study
from scenarios.study.results import Results


def committed() -> Path:
    """Where the results lie that come with edge_fed."""
    return Path(str(resources.files("scenarios.paper"))) / "results"


def find_table(folder: Path, study: str) -> Path | None:
    """The table of a study: in the folder itself, or in the one where the study was run below it."""
    places = (folder / f"{study}.csv", folder / study / f"{study}.csv")
    return next((place for place in places if place.is_file()), None)


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
