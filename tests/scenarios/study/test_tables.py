"""Where tables are looked for, and which of them are refused."""

import hashlib
import json
from pathlib import Path

import pytest

from edge_fed.errors import ConfigError
from scenarios.study.plan import Arm, Study
from scenarios.study.results import Measurement, Results, as_csv
from scenarios.study.tables import absent, committed, find_table, read_made, read_table, require_config
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


def test_seeds_that_a_table_lacks_are_named_by_arm() -> None:
    """Of seeds 0 to 3 every arm that ran has two; an arm that did not run lacks all; none: nothing lacks."""
    half = results(("aa", "aa" * 6))
    assert absent(STUDY, half, range(4)) == {"aa": (2, 3), "bb": (0, 1, 2, 3)}
    assert absent(STUDY, results(("aa", "aa" * 6), ("bb", "bb" * 6)), (1, 0)) == {}


def written(folder: Path, **made: object) -> Path:
    """A table of the study, and beside it what it was made with."""
    table = folder / "small.csv"
    table.write_text(as_csv(results(("aa", "aa" * 6)).rows))
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    known = {"digest": "d", "preregistration": None, "csv_sha256": digest}
    table.with_suffix(".json").write_text(json.dumps(known | made))
    return table


def test_a_table_as_it_was_written_is_read(tmp_path: Path) -> None:
    """With its hash, without one as of an older run, and without a file beside it."""
    table = written(tmp_path)
    assert len(read_table(STUDY, tmp_path, None).rows) == 2
    assert len(read_table(STUDY, tmp_path, [1]).rows) == 1 and read_table(STUDY, tmp_path, [7]) is None
    table.with_suffix(".json").write_text(json.dumps({"digest": "d", "preregistration": "p"}))
    assert len(read_table(STUDY, tmp_path, None).rows) == 2
    assert read_made(table).preregistration == "p" and read_made(table).csv_sha256 is None
    table.with_suffix(".json").unlink()
    assert len(read_table(STUDY, tmp_path, None).rows) == 2


def test_a_table_that_was_changed_is_refused(tmp_path: Path) -> None:
    """One digit by hand: reading it for a picture and for a verdict names it alike."""
    table = written(tmp_path)
    table.write_text(table.read_text().replace(",1.0", ",1.5", 1))
    for read in (lambda: read_table(STUDY, tmp_path, None), lambda: read_made(table)):
        with pytest.raises(ConfigError, match=r"small.csv: .*is not as it was written, small.json says"):
            read()


@pytest.mark.parametrize("made", [{"csv_sha256": 7}, {"digest": None}])
def test_a_broken_file_beside_a_table_is_named(made: dict[str, object], tmp_path: Path) -> None:
    """It is not passed over: whether the table is as it was written nobody could say."""
    written(tmp_path, **made)
    with pytest.raises(ConfigError, match=r"small.json: .*does not say how it was made"):
        read_table(STUDY, tmp_path, None)
