"""``claims`` as a person types it: verdicts with their figures, exit codes, and what cannot be judged."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from scenarios.command_line import main
from scenarios.study import claims_command
from scenarios.study.preregistration import preregistration_sha256
from scenarios.study.statistics import difference, summarize
from tests.scenarios.study.registered import CURVATURE, GRID, SEEDS, register, run_as_registered, spread


@pytest.fixture
def prereg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The preregistration of the tests in place of the paper's."""
    return register(tmp_path, monkeypatch)


@pytest.fixture
def results(tmp_path: Path, prereg: Path) -> Path:
    """Both studies: one lies where it ran, one in the folder itself."""
    folder = tmp_path / "results"
    run_as_registered(folder / "curvature" / "curvature.csv", prereg, CURVATURE)
    run_as_registered(folder / "grid.csv", prereg, GRID)
    return folder


def judged(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the one object that --json prints."""
    code = main(["claims", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_every_claim_is_judged_on_the_tables(
    results: Path, prereg: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With all figures; a claim that is not shown is no failure of the command."""
    code, found = judged(capsys, "--results", str(results))
    assert (code, found["success"], found["preregistration"]) == (0, True, preregistration_sha256(prereg))
    verdicts = {claim["name"]: claim["verdict"] for claim in found["claims"]}
    assert verdicts == {"guard": "holds", "placebo": "holds", "pays": "not shown"}
    guard, placebo, _ = found["claims"]
    assert [(part["found"], part["limit"]) for part in guard["conditions"]] == [
        (summarize(CURVATURE["guarded"]).interval.low, 1.8),
        (1.0, 0.9),
    ]
    alone = difference(CURVATURE["guarded"], CURVATURE["placebo"]).p
    assert (placebo["p"], placebo["p_holm"]) == (alone, 2 * alone)
    assert set(found["sources"]) == {"curvature", "grid"}


def test_people_read_the_same(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, claim in words, found, limit, interval, n and both p values; the paths of the tables."""
    assert main(["claims", "--results", str(results)]) == 0
    said = capsys.readouterr().out
    guard, placebo, pays = (
        said.index(words) for words in ("guard: holds", "placebo: holds", "pays: not shown")
    )
    assert guard < placebo < pays
    low = f"{summarize(CURVATURE['guarded']).interval.low:.3f}"
    rows = [line.split() for line in said[guard:placebo].splitlines()]
    (bound,) = (row for row in rows if row[:1] == ["lower"])
    assert bound[bound.index(low) :][:2] == [low, "1.800"] and bound[-1] == "10"
    (fraction,) = (row for row in rows if row[:1] == ["at"])
    assert fraction[-3:] == ["1.000", "0.900", "10"]  # no interval: that of the mean is not its
    assert "claim: The guard cures the collapse." in said
    p = difference(CURVATURE["guarded"], CURVATURE["placebo"]).p
    assert f"{p:.3g}" in said and f"{2 * p:.3g}" in said
    assert "NOT: mean of exact minus mean of first_order differs from zero" in said[pays:]
    assert "(found 0.02)" in said[pays:] and f"grid: {results / 'grid.csv'}" in said[pays:]


def test_a_study_that_did_not_run_costs_its_claims_only(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1; the others are judged, and their correction is not made easier."""
    (results / "grid.csv").unlink()
    code, found = judged(capsys, "--results", str(results))
    assert (code, found["success"]) == (1, False)
    guard, placebo, pays = found["claims"]
    assert (guard["verdict"], placebo["verdict"], pays["verdict"]) == ("holds", "holds", "cannot be judged")
    assert placebo["p_holm"] == 2 * placebo["p"]
    assert main(["claims", "--results", str(results)]) == 1
    said = capsys.readouterr().out
    assert "pays: cannot be judged" in said
    assert "grid: there are no results (run the study with --prereg)" in said


def test_a_table_whose_origin_is_unknown_costs_its_claims_only(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a lost JSON file nor a broken table hides the other verdicts; the file is named."""
    (results / "grid.json").unlink()
    (results / "curvature" / "curvature.csv").write_text("nonsense\n")
    code, found = judged(capsys, "--results", str(results))
    assert code == 1
    assert {claim["verdict"] for claim in found["claims"]} == {"cannot be judged"}
    reasons = [claim["reason"] for claim in found["claims"]]
    assert reasons[0] == reasons[1] and "curvature.csv: line 1: is no header" in reasons[0]
    assert reasons[2] == f"{results / 'grid.json'}: cannot be read: No such file or directory"


def test_a_forged_table_is_not_judged(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another configuration, an early round in place of the last, the same seed twice, a lost end."""
    table = results / "curvature" / "curvature.csv"
    text = table.read_text()
    first = text.splitlines()[1]
    for forged, words in (
        (text.replace("c0ffee", "decade"), "arm guarded: was made with configuration decade"),
        (text.replace(",150,", ",149,"), "was not measured at round 150 (measured: 149)"),
        (f"{text}{first}\n", "line 22: measures shared/meta_objective/0 of arm 'guarded', seed 1000"),
        (text[:-1], "line 21: is cut off"),
        (text[:-20], "line 21: is cut off"),
    ):
        table.write_text(forged)
        code, found = judged(capsys, "--results", str(results))
        assert code == 1 and words in found["claims"][0]["reason"]
        assert found["claims"][1]["verdict"] == "cannot be judged"


def test_a_table_that_was_changed_since_is_not_judged(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that was changed by hand is told by the hash beside the table, where the run wrote one."""
    table, beside = results / "grid.csv", results / "grid.json"
    made = json.loads(beside.read_text())
    made["csv_sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
    beside.write_text(json.dumps(made))
    code, found = judged(capsys, "--results", str(results))
    assert (code, found["claims"][2]["verdict"]) == (0, "not shown")
    table.write_text(table.read_text().replace("meta_objective,0.", "meta_objective,1.", 1))
    code, found = judged(capsys, "--results", str(results))
    assert code == 1 and "grid.csv: is not as it was written, grid.json says" in found["claims"][2]["reason"]


def test_values_that_hardly_vary_are_judged_as_valid_json(
    results: Path, prereg: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The noncentrality of the power is about 8, where scipy's tail is NaN; power is 1 beyond 5e-6."""
    alike = {"exact": spread(0.92, 0.056), "first_order": spread(0.9, 0.056)}
    run_as_registered(results / "grid.csv", prereg, alike)
    main(["claims", "--json", "--results", str(results)])
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["claims"][2]["conditions"][0]["figures"]["power"] == pytest.approx(1, abs=1e-5)


def test_a_registered_study_that_edge_fed_lacks_is_named(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its configurations could not be checked; the other studies are judged."""
    monkeypatch.setattr(claims_command, "paper_studies", lambda: {"curvature": Path("curvature")})
    code, found = judged(capsys, "--results", str(results))
    assert code == 1 and "grid: is no study of the paper" in found["claims"][2]["reason"]
    assert found["claims"][0]["verdict"] == "holds"


def test_missing_seeds_are_named(results: Path, prereg: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine good seeds are not ten."""
    nine = {arm: values[1:] for arm, values in GRID.items()}
    run_as_registered(results / "grid.csv", prereg, nine, SEEDS[1:])
    code, found = judged(capsys, "--results", str(results))
    assert code == 1 and "exact: seeds are missing: 1000" in found["claims"][2]["reason"]


def test_the_default_is_what_comes_with_edge_fed(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The committed results; here those of the tests."""
    monkeypatch.setattr(claims_command, "committed", lambda: results)
    code, found = judged(capsys)
    assert code == 0 and found["sources"]["grid"] == str(results / "grid.csv")


def test_mistakes_are_exit_code_2(results: Path, prereg: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No such folder; a preregistration that is wrong; none."""
    assert main(["claims", "--results", str(results / "nowhere")]) == 2
    assert "nowhere is no folder" in capsys.readouterr().err
    prereg.write_text("tuning_seeds = 3\n")
    assert main(["claims", "--results", str(results)]) == 2
    assert "tuning_seeds" in capsys.readouterr().err
    prereg.unlink()
    assert main(["claims", "--results", str(results)]) == 2
    assert "PREREGISTERED.toml: no such file" in capsys.readouterr().err
