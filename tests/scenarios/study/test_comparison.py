"""``compare`` as a person types it: on small tables, in words, as JSON, and what it refuses."""

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from scenarios.command_line import main
from scenarios.study import comparison
from scenarios.study.results import Measurement, as_csv
from scenarios.study.statistics import difference, summarize

A = [2.0, 2.2, 2.1, 1.9, 2.4]
B = [1.2, 1.5, 1.1, 1.6]
SPENT = {
    "train_trajectories_per_agent": 15_000,
    "env_steps": 1_000_000,
    "parameter_bytes": 5_000,
    "wall_s": 4,
}


def rows(arm: str, values: Iterable[float], round_: int = 150, **spent: float) -> list[Measurement]:
    """One arm: the outcome at one round, and what the whole run of 150 rounds consumed."""
    found = []
    for seed, value in enumerate(values):
        found.append(Measurement(arm, seed, "c0ffee", round_, "shared", 0, "meta_objective", value))
        for name, count in {**SPENT, **spent}.items():
            found.append(Measurement(arm, seed, "c0ffee", 150, "run", 0, name, count))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two arms of matched budgets."""
    return write(tmp_path, rows("exact/k=0.5", A), rows("first_order", B))


def write(folder: Path, *parts: list[Measurement]) -> Path:
    """A table of these arms."""
    path = folder / "small.csv"
    path.write_text(as_csv(row for part in parts for row in part))
    return path


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """The one object that --json prints."""
    assert main(["compare", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # NaN is no JSON


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a person reads."""
    assert main(["compare", *arguments]) == 0
    return capsys.readouterr().out


def test_both_arms_and_their_difference(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures are those of the statistics on the values of the table, A first."""
    found = compared(capsys, f"{file}:exact/k=0.5", f"{file}:first_order")
    assert found["success"] and found["outcome"] == "meta_objective"
    assert found["a"]["values"] == {str(seed): value for seed, value in enumerate(A)}
    assert found["summary_a"]["mean"] == pytest.approx(2.12)
    assert found["summary_b"]["interval"]["low"] == summarize(B).interval.low
    assert found["difference"]["mean"] == pytest.approx(2.12 - 1.35)
    assert found["difference"]["p"] == difference(A, B).p
    assert (found["difference"]["n_a"], found["difference"]["n_b"]) == (5, 4)


def test_people_read_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Means, interval, test, power, budgets and whether they are matched."""
    said = told(capsys, "exact/k=0.5", "first_order", "--results", str(file))
    for words in ("A: exact/k=0.5", "B: first_order", "2.12", "1.35", "0.1924", "trajectories per agent"):
        assert words in said
    for words in ("mean of A - mean of B = 0.77, 95 % interval 0.", "Welch t = ", "15,000", "4.0"):
        assert words in said
    assert "power for a difference of 0.2" in said
    assert "budgets are matched within 1%" in said
    assert "exploratory: 5 and 4 seeds are too few" in said
    assert "holds zero" not in said


def test_arms_of_two_tables(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each argument may name its own; --results is for the one that names none."""
    other = tmp_path / "other"
    other.mkdir()
    write(other, rows("first_order", A))
    found = compared(capsys, "first_order", f"{other / 'small.csv'}:first_order", "--results", str(file))
    assert found["difference"]["mean"] == pytest.approx(1.35 - 2.12)


def test_the_results_of_the_paper_go_by_their_name(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is no file is a table that comes with edge_fed; a near miss is answered with it."""
    (tmp_path / "results").mkdir()
    file.rename(tmp_path / "results" / "collapse.csv")
    monkeypatch.setattr(comparison, "committed", lambda: tmp_path / "results")
    assert compared(capsys, "collapse:first_order", "exact/k=0.5", "--results", "collapse")["success"]
    (tmp_path / "results" / "fig8.csv").write_text("config,x\nc,1\n")  # no table of measurements
    assert main(["compare", "nothing:a", "collapse:first_order"]) == 2
    said = capsys.readouterr().err
    assert "known: collapse" in said and "fig8" not in said
    assert main(["compare", "colapse:first_order", "collapse:first_order"]) == 2
    assert "did you mean 'collapse'?" in capsys.readouterr().err


def test_budgets_that_differ_are_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One percent of the larger is matched, two are not; wall time is no budget."""
    more = {"env_steps": 1_010_050, "parameter_bytes": 5_101, "wall_s": 400}
    file = write(tmp_path, rows("a", A), rows("b", B, **more))
    found = compared(capsys, f"{file}:a", f"{file}:b")
    assert found["matched"] == {
        "train_trajectories_per_agent": True,
        "env_steps": True,
        "parameter_bytes": False,
    }
    assert "budgets are NOT matched: parameter bytes 5,000 and 5,101" in found["notes"]
    assert found["b"]["spent"]["wall_s"] == 400


def test_budgets_that_were_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said to be matched that nobody knows."""
    bare = [row for row in rows("b", B) if row.outcome != "env_steps"]
    file = write(tmp_path, rows("a", A), bare)
    said = told(capsys, f"{file}:a", f"{file}:b")
    assert "not recorded for both: environment steps" in said
    assert "matched within" not in said


def test_a_difference_around_zero_is_said_to_show_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forty seeds are enough to conclude, if it was preregistered; the interval decides what."""
    values = [2 + 0.01 * seed for seed in range(40)]
    file = write(tmp_path, rows("a", values), rows("b", [value + 0.001 for value in values]))
    said = told(capsys, f"{file}:a", f"{file}:b")
    assert "the interval holds zero: neither arm is shown to be larger" in said
    assert "exploratory, unless claim, arms and seeds were preregistered" in said


def test_a_bimodal_outcome_shows_every_seed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a threshold: median, fraction above and points, and no mean that lies between the modes."""
    said = told(capsys, f"{file}:exact/k=0.5", f"{file}:first_order", "--above", "1.55")
    assert "25%" in said and "1.1 1.2 1.5 1.6" in said
    assert "sd " not in said
    found = compared(capsys, f"{file}:exact/k=0.5", f"{file}:first_order", "--above", "1.55")
    assert (found["summary_a"]["fraction_above"], found["summary_b"]["fraction_above"]) == (1, 0.25)


def test_the_round_is_the_last_measured_or_the_named_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A seed that lacks the last round is named, and that budgets are of the whole run."""
    early = rows("a", [1, 2, 3], round_=75)
    late = [row for row in rows("a", [5, 6]) if row.policy == "shared"]
    file = write(tmp_path, early, late, rows("b", B), rows("early", B, round_=75))
    found = compared(capsys, f"{file}:a", f"{file}:b")
    assert (found["a"]["round"], found["summary_a"]["mean"]) == (150, 5.5)
    assert "a: not measured at round 150 for seeds 2" in found["notes"]
    found = compared(capsys, f"{file}:a", f"{file}:early", "--round", "75")
    assert (found["a"]["round"], found["summary_a"]["mean"]) == (75, 2)
    assert "a: budgets are of all 150 rounds, values of round 75" in found["notes"]
    assert main(["compare", f"{file}:a", f"{file}:b", "--round", "75"]) == 2
    assert "was not measured at round 75 (measured: 150)" in capsys.readouterr().err


def test_tables_that_were_mixed_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seeds of one arm that ran another configuration, and arms that stopped at other rounds."""
    other = [Measurement("a", 9, "decade", 150, "shared", 0, "meta_objective", 2.0)]
    file = write(tmp_path, rows("a", A), other, rows("b", B, round_=75))
    found = compared(capsys, f"{file}:a", f"{file}:b")
    assert "a: seeds of different configurations are mixed: c0ffee, decade" in found["notes"]
    assert "A is measured after 150 rounds, B after 75" in found["notes"]


def test_held_out_policies_and_the_reference_of_the_power(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--policy, --m and --outcome name the number; --reference what would matter."""
    held = [Measurement(a, s, "c", 150, "learned", 100, "return", 2 + s) for a in "ab" for s in range(3)]
    file = write(tmp_path, rows("a", A), held)
    flags = ("--policy", "learned", "--m", "100", "--outcome", "return", "--reference", "5")
    found = compared(capsys, f"{file}:a", f"{file}:b", *flags)
    assert found["summary_a"]["points"] == [2, 3, 4]
    assert found["difference"]["power"] == difference([2, 3, 4], [2, 3, 4], 5).power


def test_constant_arms_are_still_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No t is no infinity."""
    file = write(tmp_path, rows("a", [1.0, 1.0]), rows("b", [0.0, 0.0]))
    assert compared(capsys, f"{file}:a", f"{file}:b")["difference"]["statistic"] is None
    assert "both arms are constant" in told(capsys, f"{file}:a", f"{file}:b")


def forty(tmp_path: Path, sd: float) -> tuple[str, str]:
    """Two arms of forty seeds 0.2 apart, of this standard deviation."""
    spread = [((seed - 19.5) / 11.690452) * sd for seed in range(40)]
    file = write(tmp_path, rows("a", (2.2 + x for x in spread)), rows("b", (2 + x for x in spread)))
    return f"{file}:a", f"{file}:b"


@pytest.mark.parametrize(
    ("sd", "flags", "power"),
    [(0.09, (), 1), (0.1, (), 1), (1e-12, (), 1), (0.09, ("--reference", "1e300"), 1), (0.32, (), 0.788)],
)
def test_power_is_a_number_wherever_the_noncentrality_lies(
    sd: float, flags: tuple[str, ...], power: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With forty seeds and sd 0.09 it is 9.9; in words and as JSON without NaN."""
    arms = forty(tmp_path, sd)
    assert compared(capsys, *arms, *flags)["difference"]["power"] == pytest.approx(power, abs=1e-3)
    assert f"at these standard deviations: {power:.0%}" in told(capsys, *arms, *flags)


@pytest.mark.parametrize("count", [math.nan, math.inf, -math.inf])
def test_a_count_that_is_no_number_is_as_if_not_recorded(
    count: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One such seed is enough: a mean over the others would hide it; JSON stays valid."""
    bad = [
        msgspec.structs.replace(row, value=count) if row.outcome == "env_steps" and row.seed == 1 else row
        for row in rows("b", B)
    ]
    file = write(tmp_path, rows("a", A), bad)
    found = compared(capsys, f"{file}:a", f"{file}:b")
    assert "env_steps" not in found["b"]["spent"] and found["matched"]["env_steps"] is None
    assert "not recorded for both: environment steps" in told(capsys, f"{file}:a", f"{file}:b")


def test_few_seeds_have_t_intervals_and_say_so(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five and four seeds: of A 2.12 +- 2.776 sd / sqrt 5; with six of each arm BCa."""
    said = told(capsys, f"{file}:exact/k=0.5", f"{file}:first_order")
    assert "1.881 to 2.359 (t)" in said and "(welch t)" in said
    six = write(tmp_path, rows("a", [*A, 2.0]), rows("b", [*B, 1.3, 1.4]))
    said = told(capsys, f"{six}:a", f"{six}:b")
    assert "(bca)" in said and "(t)" not in said and "welch t" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["FILE:exact", "FILE:first_order"], "there is no arm 'exact' (arms: exact/k=0.5, first_order)"),
        (["FILE:first_order", "first_order"], "first_order: names no table (write "),
        (["FILE:first_order", "nowhere.csv:a"], "nowhere.csv: no such file"),
        (["FILE:first_order", ".:a"], ".: is a folder (write FOLDER/STUDY.csv:ARM)"),
        (["FILE:first_order", "FILE:first_order", "--outcome", "sucess"], "it has run/env_steps/0"),
        (["FILE:first_order", "FILE:first_order", "--m", "20"], "no shared/meta_objective/20"),
        (["FILE:first_order", "FILE:first_order"], "FILE:first_order: is the same arm as FILE:first_order"),
        (["first_order", "FILE:first_order", "--results", "FILE"], "is the same arm as first_order"),
        (["FILE:first_order", "FILE:first_order", "--above", "nan"], "--above: is nan"),
        (["FILE:first_order", "FILE:first_order", "--reference", "inf"], "--reference: is inf"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: list[str], words: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, what there is instead, and with --json still one object."""
    assert main(["compare", "--json", *(text.replace("FILE", str(file)) for text in arguments)]) == 2
    captured, words = capsys.readouterr(), words.replace("FILE", str(file))
    assert words in captured.err and "run check" not in captured.err
    assert words in json.loads(captured.out)["error"]["message"]


@pytest.mark.parametrize(
    ("values", "words"),
    [([1.0], "1 value(s), statistics need two"), ([1.0, math.nan], "1 of 2 values are not")],
)
def test_an_arm_without_statistics_is_named(
    values: list[float], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One seed, or a value that is no number."""
    file = write(tmp_path, rows("a", A), rows("b", values))
    assert main(["compare", f"{file}:a", f"{file}:b"]) == 2
    said = capsys.readouterr().err
    assert "small.csv:b has 1 fault" in said and words in said


def test_a_file_that_is_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line that is wrong is named."""
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    assert main(["compare", f"{tmp_path / 'bad.csv'}:a", f"{tmp_path / 'bad.csv'}:b"]) == 2
    assert "line 1: is no header of results" in capsys.readouterr().err


def test_without_scipy_the_extra_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and how to install it."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert main(["compare", f"{file}:first_order", f"{file}:exact/k=0.5"]) == 2
    assert "next: pip install 'edge-fed[plot]'" in capsys.readouterr().err
