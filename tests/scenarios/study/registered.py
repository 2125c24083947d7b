"""A preregistration of two small studies, and tables that were run as it says."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from scenarios.study import claims_command
from scenarios.study.plan import Arm, Study
from scenarios.study.preregistration import preregistration_sha256
from scenarios.study.results import Measurement, as_csv
from scenarios.timeline import Scenario

SEEDS = range(1000, 1010)
ROUNDS = 150
CONFIG = "c0ffee"


def planned(name: str, arms: Sequence[str], rounds: int = ROUNDS) -> Study:
    """A study of these arms, all of the same configuration."""
    unset = Scenario()
    scenario = msgspec.structs.replace(
        unset, algorithm=msgspec.structs.replace(unset.algorithm, rounds=rounds)
    )
    made = tuple(Arm(arm, scenario, CONFIG) for arm in arms)
    return Study(name=name, description="", arms=made, seeds=(0, 1), outcomes=(), diagnose=False, tuning=None)


STUDIES = {
    "curvature": planned("curvature", ["guarded", "placebo"]),
    "grid": planned("grid", ["exact", "first_order"]),
}
DIGESTS = {name: study.digest for name, study in STUDIES.items()}
TEXT = f"""
tuning_seeds = "0-9"
confirmatory_seeds = "{SEEDS[0]}-{SEEDS[-1]}"

[[study]]
name = "curvature"
digest = "{DIGESTS["curvature"]}"

[[study]]
name = "grid"
digest = "{DIGESTS["grid"]}"

[[claim]]
name = "guard"
text = "The guard cures the collapse."
study = "curvature"
outcome = "meta_objective"

[[claim.condition]]
kind = "mean_above"
arm = "guarded"
above = 1.8

[[claim.condition]]
kind = "fraction_above"
arm = "guarded"
above = 1.5
fraction = 0.9

[[claim]]
name = "placebo"
text = "The direction matters."
study = "curvature"
outcome = "meta_objective"

[[claim.condition]]
kind = "difference"
arm = "guarded"
against = ["placebo"]
sign = "positive"

[[claim]]
name = "pays"
text = "Curvature pays on the grid."
study = "grid"
outcome = "meta_objective"

[[claim.condition]]
kind = "difference"
arm = "exact"
against = ["first_order"]
"""


def register(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes the preregistration, and puts it and its studies in the place of the paper's."""
    path = folder / "PREREGISTERED.toml"
    path.write_text(TEXT)
    monkeypatch.setattr(claims_command, "REGISTERED", path)
    monkeypatch.setattr(claims_command, "paper_studies", lambda: {name: Path(name) for name in STUDIES})
    monkeypatch.setattr(claims_command, "load_study", STUDIES.__getitem__)
    return path


def spread(mean: float, sd: float = 0.2) -> list[float]:
    """One value per confirmatory seed, of exactly this mean and standard deviation."""
    x = np.arange(len(SEEDS)) - (len(SEEDS) - 1) / 2
    return list(mean + x * sd / x.std(ddof=1))


CURVATURE = {"guarded": spread(2.1), "placebo": spread(1.0)}
GRID = {"exact": spread(0.92), "first_order": spread(0.9)}


def run_as_registered(
    path: Path, prereg: Path, arms: Mapping[str, Sequence[float]], seeds: Sequence[int] = SEEDS
) -> None:
    """Writes the table of a study, and beside it what it was made with."""
    rows = [
        Measurement(arm, seed, CONFIG, ROUNDS, "shared", 0, "meta_objective", value)
        for arm, values in arms.items()
        for seed, value in zip(seeds, values, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_csv(rows))
    made = {"digest": DIGESTS[path.stem], "preregistration": preregistration_sha256(prereg)}
    path.with_suffix(".json").write_text(json.dumps(made))
