"""A study of four arms that runs in milliseconds per cell."""

from pathlib import Path

from tests.scenarios.tiny import HEAD, ONBOARDING

STUDY = """
name = "small"
scenario = "tiny.toml"
seeds = "0-1"
set = ["algorithm.rounds=3", "federation.evaluate_every=2"]
{more}

[[arms]]
name = "first_order"

[[arms]]
name = "exact"
set = ["algorithm.variant=exact", "algorithm.hessian_batch=3"]
grid = {{ "algorithm.inner_step_size" = [0, 0.5, 1] }}
{tail}
"""


def write_study(folder: Path, more: str = "", tail: str = "", scenario: str = ONBOARDING) -> Path:
    """Writes the study and the scenario beside it; returns the study's path."""
    (folder / "tiny.toml").write_text(HEAD + scenario)
    path = folder / "small.toml"
    path.write_text(STUDY.format(more=more, tail=tail))
    return path
