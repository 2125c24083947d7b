"""``study`` as a person types it, on cells that are done: pictures, tables that are only read, claims."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scenarios.command_line import main
from scenarios.study import claims_command, command
from scenarios.study.cell import Cell
from scenarios.study.figure import new_figure, write
from scenarios.study.plan import Study, load_study
from scenarios.study.results import Measurement, as_csv, read_results
from tests.scenarios.study.repository import commit
from tests.scenarios.study.small import write_study

PREREGISTERED = """
tuning_seeds = "7-9"
confirmatory_seeds = "0-1"
[[study]]
name = "small"
digest = "{digest}"
[[claim]]
name = "better"
text = "Exact is better."
study = "small"
outcome = "meta_objective"
[[claim.condition]]
kind = "difference"
arm = "exact/inner_step_size=1"
against = ["first_order"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A study of four arms and two seeds."""
    return write_study(tmp_path, scenario="")


@pytest.fixture(scope="module")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opens matplotlib's fonts, which stay open as long as the process."""
    pytest.importorskip("matplotlib")
    write(lambda: new_figure("title", "note"), [tmp_path_factory.mktemp("fonts") / "x.png"], "")


def rows(study: Study, arm: int, seed: int) -> tuple[Measurement, ...]:
    """One measurement, far apart between arms."""
    of = study.arms[arm]
    value = arm + seed / 100
    return (Measurement(of.name, seed, of.config, 3, "shared", 0, "meta_objective", value),)


def do(file: Path, folder: Path, preregistration: str | None = None) -> None:
    """Leaves every cell as a run does."""
    study = load_study(str(file))
    for index, arm in enumerate(study.arms):
        for seed in study.seeds:
            path = folder / "cells" / arm.name.replace("/", "--") / f"{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            cell = Cell(arm.config, "0" * 64, rows(study, index, seed), study.outcomes, "", preregistration)
            path.write_bytes(msgspec.json.encode(cell))


def keep(file: Path, folder: Path) -> Path:
    """Writes the table alone."""
    study = load_study(str(file))
    folder.mkdir(exist_ok=True)
    path = folder / "small.csv"
    found = [row for i in range(len(study.arms)) for seed in study.seeds for row in rows(study, i, seed)]
    path.write_text(as_csv(found))
    return path


def said(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> dict[str, Any]:
    """The one object that --json prints."""
    assert main(["study", *arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_run_is_drawn_when_it_is_done(
    fonts: None, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The picture is written beside the table, and named."""
    do(file, tmp_path / "out")
    picture = tmp_path / "out" / "arms.svg"
    found = said(capsys, 0, str(file), "--results", str(tmp_path / "out"), "--picture", str(picture))
    assert (found["success"], found["rows"], found["picture"]) == (True, 8, str(picture))
    assert "</svg>" in picture.read_text()
    assert "claims" not in found


def test_what_could_not_be_drawn_is_refused_before_the_run(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the folder is made."""
    for picture in ("x.pdf", "x"):
        assert main(["study", str(file), "--results", str(tmp_path / "out"), "--picture", picture]) == 2
    assert "name a .png or .svg file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("below", ["", "small"])
def test_results_are_read_and_nothing_runs(
    below: str,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From the folder, or from where a reproduction left them; the chosen seeds alone."""
    monkeypatch.setattr(command, "run_study", None)
    (tmp_path / "there").mkdir()
    table = keep(file, tmp_path / "there" / below)
    read = ("--from-results", "--results", str(tmp_path / "there"))
    found = said(capsys, 0, str(file), *read)
    assert (found["results"], found["rows"], found["picture"]) == (str(table), 8, None)
    assert said(capsys, 0, str(file), *read, "--seeds", "1-5")["rows"] == 4


def test_committed_results_are_the_default(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --results they are those that come with edge_fed; arms that are not there are named."""
    table = keep(file, tmp_path / "committed")
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if not line.startswith("first_order")))
    monkeypatch.setattr(command, "committed", lambda: tmp_path / "committed")
    assert main(["study", str(file), "--from-results"]) == 0
    told = capsys.readouterr().out
    assert f"6 measurements of 3 arms in {table}" in told and "no results yet of first_order" in told


def test_results_of_other_settings_or_none_are_refused(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As reproduce refuses them; a claim is about a run."""
    read = ["study", str(file), "--from-results", "--results", str(tmp_path / "there")]
    assert main(read) == 2
    assert "small: no results in" in capsys.readouterr().err
    keep(file, tmp_path / "there")
    assert main([*read, "--seeds", "5-6"]) == 2
    assert "small: no results of these seeds in" in capsys.readouterr().err
    assert main([*read, "--prereg"]) == 2
    assert "python -m scenarios claims" in capsys.readouterr().err
    file.write_text(file.read_text().replace("rounds=3", "rounds=4"))
    assert main(read) == 2
    assert "was made with configuration" in capsys.readouterr().err


def test_a_registered_run_ends_with_its_claims(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two seeds of one difference: p is the one of the table, in words and as JSON."""
    path = tmp_path / "PREREGISTERED.toml"
    path.write_text(PREREGISTERED.format(digest=load_study(str(file)).digest))
    commit(path)
    monkeypatch.setattr(command, "registration_of", lambda _study: path)
    do(file, tmp_path / "out", claims_command.preregistration_sha256(path))
    run = (str(file), "--prereg", "--results", str(tmp_path / "out"))
    (claim,) = said(capsys, 0, *run)["claims"]["claims"]
    assert (claim["name"], claim["verdict"]) == ("better", "holds")
    assert claim["conditions"][0]["found"] == pytest.approx(3)
    assert main(["study", *run]) == 0
    told = capsys.readouterr().out
    assert told.index("better: holds") < told.index("8 measurements of 4 arms")
    made = json.loads((tmp_path / "out" / "small.json").read_text())
    assert made["preregistration"] == claims_command.preregistration_sha256(path)
    assert {row.seed for row in read_results(tmp_path / "out" / "small.csv").rows} == {0, 1}
