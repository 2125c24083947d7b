"""``reproduce`` as a person types it: what it draws, reports, refuses, and goes on with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scenarios import patience
from scenarios.command_line import main
from scenarios.paper import gathering, reproduce
from scenarios.paper.published import TARGETS
from scenarios.study.plan import Study, load_study
from scenarios.study.results import Measurement, Results, as_csv, read_results
from tests.scenarios.paper.synthetic import all_tables, personalization

pytest.importorskip("matplotlib")

TINY = """
name = "personalization"
scenario = "gridworld-exact"
seeds = "0-1"
set = ["federation.evaluate_every=5", "onboarding.eval_episodes=2", "algorithm.rounds=10",
       "algorithm.local_steps=1", "algorithm.inner_batch=2", "algorithm.outer_batch=2",
       "algorithm.hessian_batch=2"]
outcomes = ["meta_objective", "expected_return"]
[[arms]]
name = "exact"
[[arms]]
name = "first_order"
set = ["algorithm.variant=first_order"]
[[arms]]
name = "fedavg_pg"
set = ["algorithm.variant=fedavg_pg"]
"""

Change = Callable[[Measurement], Measurement]


def keep(results: Results, folder: Path, change: Change = lambda row: row) -> Path:
    """Writes a table with the hashes that its study has now."""
    name = Path(results.source).stem
    study = load_study(name)
    configs = {arm.name: arm.config for arm in study.arms}
    rows = [
        change(msgspec.structs.replace(row, config=configs[row.arm], seed=study.seeds[0] + row.seed))
        for row in results.rows
    ]
    path = folder / f"{name}.csv"
    path.write_text(as_csv(rows))
    return path


@pytest.fixture(scope="module", autouse=True)
def _fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opens matplotlib's fonts, which stay open as long as the process."""
    assert (
        main(["reproduce", "fig4", "--from-results", "--output", str(tmp_path_factory.mktemp("fonts"))]) == 0
    )


def typed(tmp_path: Path, *arguments: str) -> int:
    """The exit code, with results and output in the test's folder."""
    return main(["reproduce", *arguments, "--results", str(tmp_path), "--output", str(tmp_path / "figures")])


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one object that --json prints."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_results_become_figures_and_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every statement of two figures and no other, with values per seed; files are there."""
    for name in ("personalization", "few-shot"):
        keep(all_tables()[name], tmp_path)
    assert typed(tmp_path, "fig7", "fig1-left", "--from-results", "--json") == 0
    found = said(capsys)
    assert found["success"] and [made["name"] for made in found["figures"]] == ["fig1-left", "fig7"]
    assert all(Path(file).stat().st_size for made in found["figures"] for file in made["files"])
    about = [(target.figure, target.what) for target in TARGETS if target.figure in ("fig1-left", "fig7")]
    assert [(verdict["figure"], verdict["what"]) for verdict in found["verdicts"]] == about
    assert {verdict["verdict"] for verdict in found["verdicts"]} == {"reproduced"}
    assert len(found["verdicts"][0]["seeds"]["exact meta_objective"]) == 10
    assert json.loads((tmp_path / "figures" / "verdicts.json").read_text())["verdicts"] == found["verdicts"]


def test_misses_are_counted_and_named_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exact at half of its F misses its value and the order; the command did what was asked of it."""

    def _is_trained(row: Measurement) -> bool:
        return row.arm == "exact" and row.policy == "shared"

    def halved(row: Measurement) -> Measurement:
        return msgspec.structs.replace(row, value=row.value / 2) if _is_trained(row) else row

    keep(personalization(), tmp_path, halved)
    assert typed(tmp_path, "fig6", "fig1-left", "--from-results") == 0
    text = capsys.readouterr().out
    assert "fig6: MISS: F: exact > first_order > fedavg_pg at every checkpoint" in text
    assert "fig1-left: MISS: F, exact: by 0.365" in text
    last = text.splitlines()[-1]
    assert last == ("4 of 12 published statements reproduced, 8 missed, 0 with too few seeds, 0 without data")


def test_a_figure_without_results_is_named_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are drawn; its statements are without data and no misses."""
    keep(personalization(), tmp_path)
    assert typed(tmp_path, "fig6", "fig8", "fig1-right", "--from-results", "--json") == 1
    found = said(capsys)
    why = {made["name"]: made["why"] for made in found["figures"] if not made["files"]}
    assert set(why) == {"fig1-right", "fig8"}
    assert "study alpha-sweep" in why["fig1-right"] and "fig8.csv" in why["fig8"]
    kinds = {(verdict["figure"], verdict["verdict"]) for verdict in found["verdicts"]}
    assert kinds == {("fig6", "reproduced, not significant"), ("fig1-right", "missing")}


def test_a_table_without_an_arm_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half-done results: the arms that are there are judged."""
    path = keep(personalization(), tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("fedavg_pg")))
    assert typed(tmp_path, "fig1-left", "--from-results") == 1
    text = capsys.readouterr().out
    assert "personalization: no results yet of fedavg_pg" in text
    assert "NOT DRAWN" in text and "there is no arm 'fedavg_pg'" in text
    assert "fig1-left: missing: F, fedavg_pg" in text and "MISS: F, exact" not in text


def test_seeds_are_the_first_ones_of_the_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of ten, which are too few; one that begins elsewhere begins there; more go on counting."""
    keep(personalization(), tmp_path)
    assert typed(tmp_path, "fig6", "--seeds", "2", "--from-results", "--json") == 0
    (verdict,) = said(capsys)["verdicts"]
    assert (verdict["n"], verdict["verdict"]) == (2, "too few seeds")
    assert typed(tmp_path, "fig1-left", "--seeds", "2", "--from-results") == 0
    text = capsys.readouterr().out
    assert "too few seeds: reproduced on 2" in " ".join(text.split())
    assert text.splitlines()[-1].startswith("0 of 11 published statements reproduced, 0 missed, 11 with too")
    late = msgspec.structs.replace(load_study("control"), seeds=(1000, 1001))
    assert gathering.seeds_of(late, 3) == (1000, 1001, 1002)
    assert gathering.seeds_of(load_study("few-shot"), 12) == tuple(range(12))


def test_results_of_other_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The arm, both hashes, and what to do."""

    def stale(row: Measurement) -> Measurement:
        return msgspec.structs.replace(row, config="f" * 12) if row.arm == "first_order" else row

    keep(personalization(), tmp_path, stale)
    assert typed(tmp_path, "fig1-left", "--from-results") == 2
    error = capsys.readouterr().err
    now = load_study("personalization").arm("first_order").config
    assert "arm first_order" in error and "f" * 12 in error and now in error
    assert "without --from-results" in error and "arm exact" not in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fig1-lefft"], "did you mean 'fig1-left'?"),
        (["fig1"], "did you mean 'fig1-left' or 'fig1-right'?"),
        (["fig2-left-"], "did you mean 'fig2-left-beyond'?"),
        ([""], "there is no figure ''"),
        (["fig8", "--seeds", "99999999999"], "--seeds is 99999999999, it must be 1 to 10000"),
        (["fig8", "--jobs", "99999999999"], "--jobs is 99999999999, it must be 1 to 1000"),
        (["fig8", "--seeds", "0"], "--seeds is 0"),
        (["fig8", "--seeds", "-1"], "--seeds is -1"),
        (["fig8", "--jobs", "0"], "--jobs is 0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line of cause, and nothing is written."""
    assert typed(tmp_path, *arguments) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is a file."""
    (tmp_path / "figures").write_text("")
    assert typed(tmp_path, "fig4") == 2
    assert "choose another --output" in capsys.readouterr().err


def test_all_is_every_figure_and_the_table() -> None:
    """Each once, in the order of the paper, whatever else is named."""
    assert reproduce.wanted(["fig7", "all"]) == list(reproduce.NAMES)
    assert reproduce.wanted(["fig7", "fig1-left", "fig7"]) == ["fig1-left", "fig7"]


def test_table_2_is_written_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It needs no results."""
    assert typed(tmp_path, "table2", "--from-results") == 0
    text = capsys.readouterr().out
    assert text.splitlines()[-1].endswith("published settings reproduced, 0 missed")
    assert "as the studies' files have them, also their seeds\n" in text
    assert "| rounds | 80 | 80 | 150 | 150 |" in (tmp_path / "figures" / "table2.md").read_text()
    assert typed(tmp_path, "table2", "--seeds", "2", "--from-results") == 0
    assert "also their seeds; the 2 of --seeds are none" in capsys.readouterr().out


def test_what_is_done_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny study from nothing to figures; then one more seed, then the same from its results alone."""
    (tmp_path / "personalization.toml").write_text(TINY)

    def tiny(name: str) -> Study:
        return load_study(str(tmp_path / f"{name}.toml"))

    monkeypatch.setattr(gathering, "load_study", tiny)
    assert typed(tmp_path, "fig1-left", "fig6", "--seeds", "1", "--jobs", "1", "--json") == 0
    first = said(capsys)
    floor = next(verdict for verdict in first["verdicts"] if verdict["what"] == "f, uniform policy")
    assert (floor["verdict"], floor["n"]) == ("too few seeds", 1)
    assert floor["detail"] == "reproduced on 1 of 2 seeds"  # no training is needed for it
    cells = sorted((tmp_path / "personalization" / "cells").rglob("*.json"))
    written = [path.stat().st_mtime_ns for path in cells]
    assert len(cells) == 3
    assert typed(tmp_path, "fig1-left", "fig6", "--jobs", "1", "--json") == 0
    second = said(capsys)
    floor = next(verdict for verdict in second["verdicts"] if verdict["what"] == "f, uniform policy")
    assert (floor["verdict"], floor["n"]) == ("reproduced", 2)
    assert [path.stat().st_mtime_ns for path in cells] == written
    table = read_results(Path(second["sources"]["personalization"]))
    assert {row.seed for row in table.rows} == {0, 1}
    assert typed(tmp_path, "fig1-left", "fig6", "--from-results", "--json") == 0
    assert said(capsys) == second


def test_a_file_named_like_a_study_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Studies and scenarios of the paper are those that come with edge_fed, whatever lies in the folder."""
    keep(personalization(), tmp_path)
    names = ("fig4", "fig6", "table2", "--from-results", "--json")
    assert typed(tmp_path, *names) == 0
    before = said(capsys)
    monkeypatch.chdir(tmp_path)
    for name in ("personalization", "few-shot", "gridworld-exact", "curvature-batch", "alpha-sweep"):
        (tmp_path / name).write_text("seeds = 7")
    assert typed(tmp_path, *names) == 0
    assert said(capsys) == before


def test_what_is_not_a_number_is_null_and_drawn_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of NaN: no figure under a caption of ten seeds, only misses, and JSON that others can read."""

    def nothing(row: Measurement) -> Measurement:
        return msgspec.structs.replace(row, value=float("nan"))

    keep(personalization(), tmp_path, nothing)
    assert typed(tmp_path, "fig1-left", "fig6", "--from-results", "--json") == 1
    for text in (capsys.readouterr().out, (tmp_path / "figures" / "verdicts.json").read_text()):
        assert "NaN" not in text
        found = json.loads(text)
        assert [made["files"] for made in found["figures"]] == [[], []]
        assert "no mean is finite" in found["figures"][0]["why"]
        assert {verdict["verdict"] for verdict in found["verdicts"]} == {"MISS", "missing"}
        assert found["verdicts"][0]["seeds"]["exact meta_objective"]["0"] is None


@pytest.mark.parametrize("spent", [0.0, None])
def test_a_table_that_never_trained_is_named(
    spent: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No trajectories, or round 0 alone: no axis to draw on, and no division by zero."""

    def untrained(row: Measurement) -> Measurement:
        if row.outcome == "train_trajectories_per_agent" and spent is not None:
            return msgspec.structs.replace(row, value=spent)
        return row

    whole = personalization()
    start = tuple(msgspec.structs.replace(row, round=0) for row in whole.rows if row.round in (0, 80))
    first = tuple({(r.arm, r.seed, r.policy, r.outcome): r for r in start}.values())
    keep(whole if spent is not None else Results(whole.source, first), tmp_path, untrained)
    assert typed(tmp_path, "fig1-left", "--from-results", "--json") == 1
    found = said(capsys)
    assert "no axis to draw on" in found["figures"][0]["why"]
    kinds = {verdict["what"]: verdict["verdict"] for verdict in found["verdicts"]}
    assert kinds["F at 8000 trajectories, exact"] == "missing"


def test_slow_drawing_says_what_it_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, one line per figure if each takes longer than a moment, else none."""
    arguments = ("fig4", "fig5", "--from-results")
    monkeypatch.setattr(patience.time, "monotonic", iter(range(0, 1000, 2)).__next__)
    assert typed(tmp_path, *arguments) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["reproduce: drawing fig4, 1 of 2", "reproduce: drawing fig5, 2 of 2"]
    monkeypatch.setattr(patience.time, "monotonic", lambda: 0.0)
    assert typed(tmp_path, *arguments) == 0
    assert capsys.readouterr().err == ""
