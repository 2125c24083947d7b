"""Running studies."""

import json

import pytest

from edge_fed.errors import ConfigError
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
    assert [text for _, text in said] == ["7 of 8 cells were there", "first_order, seed 1"]
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
    (folder / "cells" / "first_order" / "0.json").write_text("{")
    with pytest.raises(ConfigError, match=r"0\.json: is no finished cell"):
        run_study(study, folder, 2, lambda *_: None, seeds=(0,))


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
