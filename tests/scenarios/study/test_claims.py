"""Claims on tables whose verdict is known, both ways, and on tables that allow none."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_fed.errors import ConfigError
from scenarios.study.claims import Evidence, Verdict, judge, read_evidence
from scenarios.study.preregistration import Claim, Condition, Preregistration, Registered
from scenarios.study.results import Measurement, Results, as_csv
from scenarios.study.statistics import Difference, Summary, difference
from tests.scenarios.study.registered import CONFIG, planned

SEEDS = tuple(range(1000, 1040))
STUDY_ARMS = ("a", "b", "c", "x", "y", "z")
STUDY = planned("s", STUDY_ARMS)
DIGEST, FILE = STUDY.digest, "f" * 64


def spread(mean: float, sd: float = 0.2, n: int = len(SEEDS)) -> list[float]:
    """So many equally spaced values of exactly this mean and standard deviation."""
    x = np.arange(n) - (n - 1) / 2
    return list(mean + x * sd / x.std(ddof=1))


def table(arms: Mapping[str, Sequence[float]], seeds: Sequence[int] = SEEDS) -> Results:
    """One outcome of several arms at the last round, beside a better one of an earlier round."""
    rows = [
        Measurement(arm, seed, CONFIG, round_, "shared", 0, "meta_objective", value + (150 - round_))
        for arm, values in arms.items()
        for seed, value in zip(seeds, values, strict=True)
        for round_ in (75, 150)
    ]
    return Results("table.csv", tuple(rows))


def one_line_of(found: Results, **changed: object) -> Results:
    """The same table, its last line changed."""
    *rows, last = found.rows
    return Results(found.source, (*rows, msgspec.structs.replace(last, **changed)))


def claim(name: str, *conditions: Condition) -> Claim:
    """A claim about the outcome of `table`."""
    return Claim(name=name, text="in words", study="s", outcome="meta_objective", conditions=conditions)


def verdicts(arms: Mapping[str, Sequence[float]], *claims: Claim) -> tuple[Verdict, ...]:
    """Judged on results as they were registered."""
    return judge(registered(*claims), FILE, {"s": Evidence(table(arms), DIGEST, FILE, STUDY)})


def registered(*claims: Claim) -> Preregistration:
    """A preregistration of these claims about one study."""
    studies = (Registered(name="s", digest=DIGEST),)
    return Preregistration(tuning_seeds=(0, 1), confirmatory_seeds=SEEDS, studies=studies, claims=claims)


CURES = claim(
    "cures",
    Condition(kind="mean_above", arm="a", above=1.8),
    Condition(kind="fraction_above", arm="a", above=1.5, fraction=0.9),
)
PLACEBOS = claim("placebos", Condition(kind="difference", arm="a", against=("x", "y", "z"), sign="positive"))
EITHER = claim("either", Condition(kind="difference", arm="a", against=("b",)))


def test_a_mean_and_a_fraction_that_are_above_hold() -> None:
    """Mean 2.1 of sd 0.2: the bound is about 2.04, and every seed is above 1.5."""
    (found,) = verdicts({"a": spread(2.1)}, CURES)
    assert (found.name, found.text, found.verdict, found.reason) == ("cures", "in words", "holds", "")
    bound, fraction = found.conditions
    assert bound.found == pytest.approx(2.1 - 1.96 * 0.2 / math.sqrt(40), abs=0.01)
    assert isinstance(bound.figures, Summary) and bound.figures.mean == pytest.approx(2.1)
    assert (fraction.found, found.p, found.p_holm) == (1, None, None)


def test_a_mean_above_whose_bound_is_below_does_not_hold() -> None:
    """Mean 1.85 is above 1.8, its lower bound is not; the reason names what fails and what was found."""
    (found,) = verdicts({"a": spread(1.85)}, CURES)
    assert (found.verdict, [part.holds for part in found.conditions]) == ("not shown", [False, True])
    assert found.reason.startswith("not so: lower 95 % bound of the mean of a above 1.8 (found 1.7")


@pytest.mark.parametrize(("collapsed", "verdict"), [(4, "holds"), (5, "not shown")])
def test_at_least_ninety_percent_is_thirty_six_of_forty(collapsed: int, verdict: str) -> None:
    """The counted fraction may equal the registered one; a seed at the threshold is not above it."""
    (found,) = verdicts({"a": [1.5] * collapsed + [2.4] * (40 - collapsed)}, CURES)
    assert (found.verdict, found.conditions[0].holds) == (verdict, True)
    assert found.conditions[1].found == 1 - collapsed / 40


def test_each_placebo_must_be_beaten() -> None:
    """One of three that is not beaten is enough; the claim's p is that of the weakest difference."""
    arms = {"a": spread(2.1), "x": spread(1.8), "y": spread(1.9), "z": spread(1.7)}
    (found,) = verdicts(arms, PLACEBOS)
    assert (found.verdict, [part.holds for part in found.conditions]) == ("holds", [True] * 3)
    assert found.p == found.p_holm == difference(arms["a"], arms["y"]).p
    (found,) = verdicts({**arms, "y": spread(2.08)}, PLACEBOS)
    assert (found.verdict, [part.holds for part in found.conditions]) == (
        "not shown",
        [True, False, True],
    )
    assert "mean of a minus mean of y is positive (found 0.02)" in found.reason


@pytest.mark.parametrize(
    ("sign", "mean", "verdict"),
    [
        ("either", 2.3, "holds"),
        ("either", 1.9, "holds"),
        ("either", 2.1, "not shown"),
        ("positive", 2.3, "not shown"),
        ("positive", 1.9, "holds"),
        ("negative", 2.3, "holds"),
        ("negative", 1.9, "not shown"),
    ],
)
def test_a_difference_has_the_sign_that_was_claimed(sign: str, mean: float, verdict: str) -> None:
    """A stands at 2.1; a strong difference on the other side does not confirm."""
    part = Condition(kind="difference", arm="a", against=("b",), sign=sign)
    (found,) = verdicts({"a": spread(2.1), "b": spread(mean)}, claim("signed", part))
    assert found.verdict == verdict
    (judged,) = found.conditions
    assert isinstance(judged.figures, Difference)
    assert judged.figures.mean == judged.found == pytest.approx(2.1 - mean)


def test_an_interval_without_zero_is_not_enough() -> None:
    """Welch's p is 0.057 where the bootstrap interval, which is a little narrow, begins above zero."""
    (found,) = verdicts({"a": spread(2.1), "b": spread(2.1 - 0.0864)}, EITHER)
    figures = found.conditions[0].figures
    assert isinstance(figures, Difference)
    assert (figures.interval.low > 0, figures.p > 0.05) == (True, True)
    assert (found.verdict, found.conditions[0].holds) == ("not shown", False)


def test_differences_are_corrected_over_the_claims() -> None:
    """Alone p is 0.03; as the larger of two it stays, as one of two alike it doubles to 0.06."""
    weak = {"a": spread(2.1), "b": spread(2.1 - 0.099)}
    (alone,) = verdicts(weak, EITHER)
    assert alone.verdict == "holds"
    assert alone.p == alone.p_holm == pytest.approx(0.03, abs=0.002)
    strong = claim("strong", Condition(kind="difference", arm="a", against=("c",)))
    beside, _ = verdicts({**weak, "c": spread(1.0)}, EITHER, strong)
    assert (beside.verdict, beside.p_holm) == ("holds", alone.p)
    alike, _ = verdicts({**weak, "c": weak["b"]}, EITHER, strong)
    assert (alike.verdict, alike.p_holm) == ("not shown", pytest.approx(2 * (alone.p or 0)))
    assert alike.conditions[0].holds
    assert "over all claims 0.0595 after Holm" in alike.reason


def test_a_claim_that_cannot_be_judged_makes_the_others_no_easier() -> None:
    """It counts as p = 1 in the correction; claims without a difference do not count."""
    weak = {"a": spread(2.1), "b": spread(2.1 - 0.099)}
    open_, cures, other = verdicts(weak, EITHER, CURES, PLACEBOS)
    assert (other.verdict, other.p, other.p_holm) == ("cannot be judged", None, None)
    assert (open_.verdict, open_.p_holm) == ("not shown", pytest.approx(2 * (open_.p or 0)))
    assert cures.verdict == "holds"


GOOD = {"a": spread(2.1)}


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({}, "s: there are no results (run the study with --prereg)"),
        (
            Evidence(table(GOOD), "e" * 64, FILE, STUDY),
            "results are of another study than the registered one",
        ),
        (Evidence(table(GOOD), DIGEST, None, STUDY), "the results keep to no preregistration"),
        (Evidence(table(GOOD), DIGEST, "e" * 64, STUDY), "the results keep to another preregistration"),
        (
            Evidence(table({"a": spread(2.1, n=38)}, [*SEEDS[:3], *SEEDS[5:]]), DIGEST, FILE, STUDY),
            "a: seeds are missing: 1003-1004",
        ),
        (Evidence(table({"b": spread(2.1)}), DIGEST, FILE, STUDY), "there is no arm 'a'"),
        (
            Evidence(table({"a": [*spread(2.1)[1:], math.nan]}), DIGEST, FILE, STUDY),
            "1 of 40 values are not finite",
        ),
        (
            Evidence(table(GOOD), DIGEST, FILE, planned("s", ["a"])),
            "s: the study is another than the registered one now (restore its file",
        ),
        (
            Evidence(one_line_of(table(GOOD), config="decade"), DIGEST, FILE, STUDY),
            f"arm a: was made with configuration decade, the study has {CONFIG}",
        ),
        (
            Evidence(table(GOOD), DIGEST, FILE, planned("s", STUDY_ARMS, rounds=200)),
            "of arm 'a' was not measured at round 200 (measured: 75, 150)",
        ),
    ],
)
def test_what_was_not_run_as_registered_is_not_judged(
    evidence: Evidence | dict[str, Evidence], words: str
) -> None:
    """No verdict either way, and the reason says why: 38 good seeds are not 40."""
    given = evidence if isinstance(evidence, dict) else {"s": evidence}
    (found,) = judge(registered(CURES), FILE, given)
    assert (found.verdict, found.conditions) == ("cannot be judged", ())
    assert words in found.reason


def test_the_last_round_of_training_is_judged_and_not_the_newest_line() -> None:
    """Good values of a round that no training reached change no verdict."""
    bad = table({"a": spread(1.0)})
    beyond = [msgspec.structs.replace(row, round=999, value=9.0) for row in bad.rows if row.round == 150]
    more = Results("table.csv", (*bad.rows, *beyond))
    (found,) = judge(registered(CURES), FILE, {"s": Evidence(more, DIGEST, FILE, STUDY)})
    assert (found.verdict, found.conditions[1].found) == ("not shown", 0)


def test_only_confirmatory_seeds_count() -> None:
    """Ten better seeds from elsewhere in the same table change nothing."""
    more = table({"a": [*spread(1.7), *[9.0] * 10]}, [*SEEDS, *range(10)])
    (found,) = judge(registered(CURES), FILE, {"s": Evidence(more, DIGEST, FILE, STUDY)})
    assert found.verdict == "not shown"
    assert isinstance(found.conditions[0].figures, Summary) and found.conditions[0].figures.n == 40


def test_evidence_is_read_from_what_a_study_writes(tmp_path: Path) -> None:
    """The table, and beside it what it was made with; other keys do not matter."""
    results = table(GOOD)
    (tmp_path / "s.csv").write_text(as_csv(results.rows))
    made = {"schema": 1, "study": "s", "digest": DIGEST, "preregistration": None}
    (tmp_path / "s.json").write_text(json.dumps(made))
    found = read_evidence(tmp_path / "s.csv", STUDY)
    assert (found.results.rows, found.digest, found.preregistration) == (results.rows, DIGEST, None)


@pytest.mark.parametrize(
    ("text", "words"), [(None, "cannot be read: No such file"), ("{}", "`digest`"), ("{", "Input data")]
)
def test_a_table_without_its_origin_is_no_evidence(tmp_path: Path, text: str | None, words: str) -> None:
    """The message names the file that is missing or wrong."""
    (tmp_path / "s.csv").write_text(as_csv(table(GOOD).rows))
    if text is not None:
        (tmp_path / "s.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_evidence(tmp_path / "s.csv", STUDY)
    assert "s.json" in str(caught.value) and words in str(caught.value)
