"""A preregistration of two small studies, and tables that were run as it says."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from scenarios.study.preregistration import preregistration_sha256
from scenarios.study.results import Measurement, as_csv

SEEDS = range(1000, 1010)
DIGESTS = {"curvature": "c" * 64, "grid": "e" * 64}
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


def register(folder: Path) -> Path:
    """Writes the preregistration."""
    path = folder / "PREREGISTERED.toml"
    path.write_text(TEXT)
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
        Measurement(arm, seed, "c0ffee", 150, "shared", 0, "meta_objective", value)
        for arm, values in arms.items()
        for seed, value in zip(seeds, values, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_csv(rows))
    made = {"digest": DIGESTS[path.stem], "preregistration": preregistration_sha256(prereg)}
    path.with_suffix(".json").write_text(json.dumps(made))
