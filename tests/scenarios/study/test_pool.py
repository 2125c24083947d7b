"""Running studies."""

import hashlib
import json

import msgspec
import pytest

from edge_fed.errors import ConfigError, EdgeFedError
from scenarios.study.cell import run_cell
from scenarios.study.plan import load_study
from scenarios.study.pool import run_study
from scenarios.study.results import read_results
from tests.scenarios.study.small import write_study

CLOCKS = ("wall_s", "cpu_s")


def numbers(results):
    """All rows but those that no two runs share."""
    return [row for row in results.rows if row.outcome not in CLOCKS]


@pytest.fixture
def study(tmp_path):
    """Without onboarders."""
    return load_study(str(write_study(tmp_path, scenario="")))


def test_parallel_processes_give_what_one_loop_gives(study, tmp_path):
    """Every seed of every arm, in the order of the study, equal to the bit; the table reads back equal."""
    results = run_study(study, tmp_path / "out", 2, lambda *_: None)
    alone = [row for arm in study.arms for seed in study.seeds for row in run_cell(study, arm, seed).rows]
    assert numbers(results) == [row for row in alone if row.outcome not in CLOCKS]
    assert read_results(tmp_path / "out" / "small.csv").rows == results.rows
    made = json.loads((tmp_path / "out" / "small.json").read_text())
    assert made["digest"] == study.digest
    assert made["csv_sha256"] == hashlib.sha256((tmp_path / "out" / "small.csv").read_bytes()).hexdigest()
    assert made["params_sha256"]["first_order"]["1"] == run_cell(study, study.arms[0], 1).params_sha256


def test_what_is_done_is_not_done_again(study, tmp_path):
    """Finished cells are left alone; a missing one is run; the table is whole again."""
    folder = tmp_path / "out"
    first = run_study(study, folder, 2, lambda *_: None)
    kept = folder / "cells" / "first_order" / "0.json"
    (folder / "cells" / "first_order" / "1.json").unlink()
    before = kept.stat().st_mtime_ns
    said = []
    again = run_study(study, folder, 2, lambda fraction, text: said.append((fraction, text)))
    assert kept.stat().st_mtime_ns == before
    assert numbers(again) == numbers(first)
    done = [text for _, text in said if "running" not in text]  # said where a cell takes long
    assert done == ["7 of 8 cells were there", "first_order, seed 1"]
    assert said[-1][0] == pytest.approx(1.0)


def test_a_result_of_another_configuration_is_refused(study, tmp_path):
    """With both hashes and what to do; so is a file that is no cell."""
    folder = tmp_path / "out"
    run_study(study, folder, 2, lambda *_: None, seeds=(0,))
    path = write_study(tmp_path, scenario="")
    path.write_text(path.read_text().replace("rounds=3", "rounds=4"))
    other = load_study(str(path))
    with pytest.raises(ConfigError, match=f"{study.arms[0].config}.*{other.arms[0].config}.*delete"):
        run_study(other, folder, 2, lambda *_: None, seeds=(0,))


def test_a_cell_that_is_not_the_wanted_one_is_refused(study, tmp_path):
    """No cell at all, one of other outcomes, or the copy of another seed's."""
    folder, silent = tmp_path / "out", lambda *_: None
    run_study(study, folder, 2, silent)
    cells = folder / "cells" / "first_order"
    whole = (cells / "0.json").read_bytes()
    (cells / "0.json").write_text("{")
    with pytest.raises(ConfigError, match=r"0\.json: is no finished cell"):
        run_study(study, folder, 2, silent)
    (cells / "0.json").write_bytes((cells / "1.json").read_bytes())
    with pytest.raises(ConfigError, match=r"0\.json: holds the rows of another cell"):
        run_study(study, folder, 2, silent)
    (cells / "0.json").write_bytes(whole)
    fewer = msgspec.structs.replace(study, outcomes=("success",))
    with pytest.raises(ConfigError, match=r"0\.json: keeps other outcomes"):
        run_study(fewer, folder, 2, silent)


def test_a_folder_that_cannot_be_written_is_found_before_anything_runs(study, tmp_path):
    """A file in its place, or a folder in the place of the table."""
    (tmp_path / "file").write_text("")
    (tmp_path / "out" / "small.csv").mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "out"):
        with pytest.raises(ConfigError, match=r"cannot be written|in the way"):
            run_study(study, folder, 2, lambda *_: pytest.fail("it ran"))


def test_a_cell_that_fails_says_which(study, tmp_path):
    """Whatever it fails with: here goals that its family does not have."""
    arm = study.arms[0]
    onboarding = msgspec.structs.replace(arm.scenario.onboarding, goals="99")
    broken = msgspec.structs.replace(
        arm, scenario=msgspec.structs.replace(arm.scenario, onboarding=onboarding)
    )
    with pytest.raises(EdgeFedError, match=r"arm first_order, seed 0: .*99"):
        run_study(msgspec.structs.replace(study, arms=(broken,)), tmp_path, 1, lambda *_: None, seeds=(0,))


def test_a_cell_says_what_it_kept_to(study, tmp_path):
    """The table is stamped if all cells are; none becomes confirmatory afterwards, or loses its stamp."""
    folder, silent = tmp_path / "out", lambda *_: None

    def stamp():
        return json.loads((folder / "small.json").read_text())["preregistration"]

    run_study(study, folder, 2, silent, seeds=(0,), preregistration="abc")
    assert stamp() == "abc"
    run_study(study, folder, 2, silent, seeds=(0,))
    assert stamp() == "abc"
    run_study(study, folder, 2, silent, seeds=(0, 1))
    assert stamp() is None
    with pytest.raises(ConfigError, match=r"1\.json.*without this preregistration"):
        run_study(study, folder, 2, silent, seeds=(0, 1), preregistration="abc")


def test_a_cell_that_ends_early_is_an_error_and_no_result(study, tmp_path):
    """Over a network the arm could not run either; the error names arm, seed, round and why."""
    arm = study.arms[0]
    federation = msgspec.structs.replace(
        arm.scenario.federation, max_update_norm=1e-6, quarantine_after="off"
    )
    starved = msgspec.structs.replace(
        arm, scenario=msgspec.structs.replace(arm.scenario, federation=federation)
    )
    why = "arm first_order, seed 0: its run ended after round 3 of 3: 3 rounds in a row had too few updates"
    with pytest.raises(EdgeFedError, match=f"^{why}$"):
        run_study(msgspec.structs.replace(study, arms=(starved,)), tmp_path, 1, lambda *_: None, seeds=(0,))
    assert not list(tmp_path.rglob("0.json"))
