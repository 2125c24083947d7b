"""Where tables are looked for, and which of them are refused."""

from pathlib import Path

import pytest

from edge_fed.errors import ConfigError
from scenarios.study.plan import Arm, Study
from scenarios.study.results import Measurement, Results
from scenarios.study.tables import committed, find_table, require_config
from scenarios.timeline import Scenario

STUDY = Study(
    name="small",
    description="",
    arms=tuple(Arm(name, Scenario(), name * 6) for name in ("aa", "bb")),
    seeds=(0, 1),
    outcomes=(),
    diagnose=False,
    tuning=None,
)


def results(*arms: tuple[str, str]) -> Results:
    """Two seeds of each (arm, config)."""
    rows = [
        Measurement(arm, seed, config, 1, "shared", 0, "success", 1.0)
        for arm, config in arms
        for seed in (0, 1)
    ]
    return Results("small.csv", tuple(rows))


def test_a_table_lies_in_the_folder_or_where_its_study_ran(tmp_path: Path) -> None:
    """The folder itself comes first; a folder of the table's name is no table."""
    (tmp_path / "small.csv").mkdir()
    assert find_table(tmp_path, "small") is None
    (tmp_path / "small").mkdir()
    (below := tmp_path / "small" / "small.csv").touch()
    assert find_table(tmp_path, "small") == below
    (tmp_path / "small.csv").rmdir()
    (beside := tmp_path / "small.csv").touch()
    assert find_table(tmp_path, "small") == beside


def test_results_come_with_edge_fed() -> None:
    """The folder that is looked into is there."""
    assert committed().is_dir()


def test_a_table_of_the_study_is_let_through_also_half_done() -> None:
    """Whether arms are missing is for who draws or judges them."""
    require_config(STUDY, results(("aa", "aa" * 6), ("bb", "bb" * 6)))
    require_config(STUDY, results(("bb", "bb" * 6)))


def test_arms_of_other_settings_are_all_named() -> None:
    """One of another configuration, one that the study has not, and one arm of two configurations."""
    found = results(("aa", "f" * 12), ("cc", "cc" * 6), ("bb", "bb" * 6), ("bb", "e" * 12))
    with pytest.raises(ConfigError) as caught:
        require_config(STUDY, found)
    assert [(fault.path, fault.message) for fault in caught.value.faults] == [
        ("arm aa", f"was made with configuration {'f' * 12}, the study has {'aa' * 6}"),
        ("arm cc", "is no arm of the study small"),
        ("arm bb", f"was made with configuration {'e' * 12}, the study has {'bb' * 6}"),
    ]
    assert "small.csv" in str(caught.value) and "without --from-results" in str(caught.value)
