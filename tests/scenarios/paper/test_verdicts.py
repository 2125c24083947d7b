"""Verdicts: what is accepted passes, what is not is a miss that says by how much."""

import itertools
import math

import pytest

from scenarios.paper.measured import Planned, median_interval, values_of
from scenarios.paper.published import TARGETS
from scenarios.paper.targets import Cell, Gap, Number, Order, Spread, Target
from scenarios.paper.verdicts import Verdict, judge
from scenarios.study.results import Results
from tests.scenarios.paper.synthetic import (
    SEEDS,
    all_tables,
    around,
    personalization,
    planned,
    table,
    without,
)

A, B, C = (Cell(name, "meta_objective") for name in "abc")
ABOUT = {"figure": "fig", "study": "s", "what": "w", "source": "here"}


def small(**arms: list[float]) -> Results:
    """One shared measurement per arm, at round 5."""
    return table("s", [(arm, "shared", 0, 5, "meta_objective", values) for arm, values in arms.items()])


def one(target: Target, results: Results, plan: Planned | None = None) -> Verdict:
    """The verdict of one statement; the plan is what the table has, unless another is given."""
    seeds = sorted({row.seed for row in results.rows})
    (verdict,) = judge([target], {"s": results}, {"s": plan or planned(results, seeds)})
    return verdict


def whole(tables: dict[str, Results]) -> dict[str, Planned]:
    """Plans of which these tables have everything."""
    return {name: planned(results) for name, results in tables.items()}


def test_tables_as_published_reproduce_everything() -> None:
    """Every statement of the paper holds of tables that are built from its values.

    At the first checkpoint first-order leads by 0.003 beside an sd of 0.006: not significant.
    """
    verdicts = judge(TARGETS, all_tables(), whole(all_tables()))
    (unsure,) = [verdict for verdict in verdicts if verdict.verdict != "reproduced"]
    assert (unsure.figure, unsure.verdict) == ("fig6", "reproduced, not significant")
    assert "first_order meta_objective over fedavg_pg meta_objective, round 5" in unsure.detail
    assert len(verdicts) == len(TARGETS)


def test_constant_tables_reproduce_nothing_but_equalities() -> None:
    """With every value 0.31, only what 0.31 is close to holds: no order, no gap, no published level."""
    flat = {
        name: Results(
            r.source, tuple(row.__class__(*(*_head(row), 0.31)) for row in r.rows if row.policy != "run")
        )
        for name, r in all_tables().items()
    }
    kinds = {v.what: v.verdict for v in judge(TARGETS, flat, whole(all_tables()))}
    assert not any(kinds[t.what] == "reproduced" for t in TARGETS if isinstance(t, Gap | Order))
    held = {what for what, kind in kinds.items() if kind == "reproduced"}
    expected = {f"median F, exact, m_h = {m}" for m in (10, 50, 100, 200, 500)}
    expected |= {f"seeds that train (F >= 1.5), exact, m_h = {m}" for m in (10, 50, 100, 200)}
    assert held == expected | {
        "F at alpha = 0: the three coincide",
        "seeds with F >= 1.73, exact, m_h = 1000",  # 0 of 10 is within 0.3 of 3 of 10
        "return, from scratch, 100 trajectories",
        "return, untrained policy",
        "success, from scratch, 500 trajectories",
    }


def _head(row: object) -> list[object]:
    return [getattr(row, name) for name in row.__struct_fields__[:-1]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mean", "kind", "by"), [(0.76, "reproduced", ""), (0.82, "reproduced", ""), (0.7, "MISS", "by 0.06"),
                             (0.85, "MISS", "by 0.03")]
)  # fmt: skip
def test_a_number_is_accepted_up_to_its_tolerance(mean: float, kind: str, by: str) -> None:
    """0.79 within 0.03, bounds included; a miss says how far beyond the bound it is."""
    target = Number(**ABOUT, cell=A, published=0.79, tolerance=0.03)
    verdict = one(target, small(a=around(mean)))
    assert (verdict.verdict, verdict.detail) == (kind, by)
    assert verdict.ours == pytest.approx(mean) and verdict.n == 10 and verdict.published == 0.79
    assert verdict.interval and verdict.interval[0] < mean < verdict.interval[1]
    assert verdict.accepted == "0.76 to 0.82"
    assert list(verdict.seeds["a meta_objective"]) == list(range(10))


def test_statistics_are_those_named() -> None:
    """Mean, median and the fractions of one bimodal arm differ."""
    results = small(a=[0.1] * 5 + [0.4] + [1.5] * 2 + [1.8] * 2)
    found = {}
    for statistic, threshold in (
        ("mean", 0),
        ("median", 0),
        ("fraction_at_least", 1.5),
        ("fraction_at_most", 0.1),
    ):
        target = Number(**ABOUT, cell=A, published=0, tolerance=9, statistic=statistic, threshold=threshold)  # type: ignore[arg-type]
        found[statistic] = one(target, results).ours
    assert found == pytest.approx(
        {"mean": 0.75, "median": 0.25, "fraction_at_least": 0.4, "fraction_at_most": 0.5}
    )


def test_the_interval_of_a_median_holds_it_often_enough() -> None:
    """Over all 2^n patterns of values below and above the median; one step narrower would be too rare."""
    for n in (6, 9, 10, 12):
        low, high = median_interval([float(i) for i in range(n)])  # type: ignore[misc]
        k = int(low) + 1
        assert high == n - k
        patterns = [sum(bits) for bits in itertools.product((0, 1), repeat=n)]
        held = [sum(k_ <= below <= n - k_ for below in patterns) / 2**n for k_ in (k, k + 1)]
        assert held[0] >= 0.95 > held[1]
    assert median_interval([0.0] * 5) is None


@pytest.mark.parametrize(("low", "kind"), [(0.4, "reproduced"), (0.5, "MISS"), (0.6, "MISS")])
def test_a_gap_is_strict(low: float, kind: str) -> None:
    """Equal means are no gap."""
    verdict = one(Gap(**ABOUT, above=A, below=B), small(a=[0.5] * 3, b=[low] * 3))
    assert verdict.verdict == kind and verdict.ours == pytest.approx(0.5 - low)


def test_a_gap_has_the_margin_it_names() -> None:
    """0.3 is more than 0 and not more than 0.4; 0.5 is not less than 0.45."""
    results = small(a=[0.8, 0.8], b=[0.5, 0.5])
    assert one(Gap(**ABOUT, above=A, below=B, more_than=0.4), results).detail == "by 0.1"
    assert one(Gap(**ABOUT, above=A, below=B, less_than=0.25), results).detail == "by 0.05"


def test_an_order_names_the_pair_that_breaks_it() -> None:
    """The smallest difference of neighbours decides."""
    target = Order(**ABOUT, cells=(A, B, C))
    held = one(target, small(a=[3.0, 3.1], b=[2.0, 2.1], c=[1.5, 1.6]))
    assert held.verdict == "reproduced" and held.ours == pytest.approx(0.5)
    broken = one(target, small(a=[3.0, 3.1], b=[2.0, 2.1], c=[2.5, 2.6]))
    assert broken.verdict == "MISS" and broken.ours == pytest.approx(-0.5)
    assert "b meta_objective over c meta_objective" in broken.detail and broken.detail.startswith("by 0.5")


def test_an_order_holds_at_every_checkpoint_but_round_0() -> None:
    """One crossing is a miss that names its round; round 0, where all are equal, is not asked."""
    cells = [
        (arm, "shared", 0, number, "meta_objective", [level * number, level * number])
        for arm, level in (("a", 3.0), ("b", 2.0))
        for number in (0, 5, 10)
    ]
    target = Order(**ABOUT, cells=(A, B), every_checkpoint=True)
    assert one(target, table("s", cells)).verdict == "reproduced"
    cells[1] = ("a", "shared", 0, 5, "meta_objective", [9.0, 9.0])
    verdict = one(target, table("s", cells))
    assert verdict.verdict == "MISS" and "round 5" in verdict.detail and "1 of 2" in verdict.detail
    at_start = one(target, table("s", [cells[0], cells[3]]), Planned((0, 1), {"a": 10, "b": 10}))
    assert at_start.verdict == "missing" and "round 10" in at_start.detail


def test_a_spread_is_of_the_two_farthest() -> None:
    """Up to the limit it holds."""
    results = small(a=[0.50, 0.50], b=[0.49, 0.49], c=[0.47, 0.47])
    assert one(Spread(**ABOUT, cells=(A, B, C), limit=0.03), results).verdict == "reproduced"
    missed = one(Spread(**ABOUT, cells=(A, B, C), limit=0.02), results)
    assert missed.verdict == "MISS" and missed.detail == "by 0.01; a over c"


def test_trajectories_between_checkpoints_are_interpolated() -> None:
    """8000 of 12000 trajectories are round 53.3: 2/3 of the way from checkpoint 50 to 55."""
    cell = Cell("exact", "meta_objective", trajectories=8000)
    results = personalization()
    curve = results.curve("exact", "meta_objective")
    for seed, value in values_of(results, cell, planned(results)).items():
        assert value == pytest.approx(curve[50][seed] / 3 + curve[55][seed] * 2 / 3)
    target = Number(
        **ABOUT, cell=Cell("first_order", "meta_objective", trajectories=9000), published=0, tolerance=9
    )
    late = one(target, results)
    assert late.verdict == "missing" and "ends at 8000" in late.detail


def test_what_is_not_there_is_missing_and_no_miss() -> None:
    """No study, no arm, no outcome: each says what there is not."""
    target = Number(**ABOUT, cell=A, published=0.79, tolerance=0.03)
    (absent,) = judge([target], {}, {})
    assert (absent.verdict, absent.ours, absent.n) == ("missing", None, 0)
    assert "no results of the study s" in absent.detail
    assert "no arm 'a'" in one(target, small(b=[1.0])).detail
    assert one(Gap(**ABOUT, above=A, below=B), without(small(a=[1.0], b=[0.0]), "b")).verdict == "missing"


def test_one_seed_is_judged_without_an_interval() -> None:
    """A study of one seed; of one seed no comparison is significant."""
    verdict = one(Number(**ABOUT, cell=A, published=0.79, tolerance=0.03), small(a=[0.8]))
    assert (verdict.verdict, verdict.interval, verdict.n) == ("reproduced", None, 1)
    gap = one(Gap(**ABOUT, above=A, below=B), small(a=[0.8], b=[0.1]))
    assert (gap.verdict, gap.interval) == ("reproduced, not significant", None)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_diverged_seed_is_a_miss(value: float) -> None:
    """Nothing that is not finite can be within a tolerance, whatever the kind of the statement."""
    results = small(a=[0.8, value, 0.8], b=[0.7, 0.7, 0.7])
    targets: list[Target] = [
        Number(**ABOUT, cell=A, published=0.8, tolerance=0.03),
        Number(**ABOUT, cell=A, published=0.8, tolerance=0.03, statistic="median"),
        Gap(**ABOUT, above=A, below=B),
        Order(**ABOUT, cells=(A, B)),
        Spread(**ABOUT, cells=(A, B), limit=1),
    ]
    for target in targets:
        verdict = one(target, results)
        assert (verdict.verdict, verdict.ours, verdict.interval) == ("MISS", None, None)
        assert verdict.detail == "values that are not finite: 1"


# ----------------------------------------------------------------------------------- fragments

TEN = Planned(tuple(SEEDS), {"a": 5, "b": 5})


def of_seeds(results: Results, *seeds: int, round_: int | None = None) -> Results:
    """The table as if only these seeds had run, or had come to one round."""
    rows = tuple(row for row in results.rows if row.seed in seeds or row.round != (round_ or row.round))
    return Results(results.source, rows)


def test_fewer_seeds_than_the_study_has_decide_nothing() -> None:
    """One seed of ten: neither a hit nor a miss; the detail says what it would be, and of how many."""
    target = Number(**ABOUT, cell=A, published=0.79, tolerance=0.03)
    hit = one(target, small(a=[0.8]), TEN)
    assert (hit.verdict, hit.n, hit.detail) == ("too few seeds", 1, "reproduced on 1 of 10 seeds")
    miss = one(target, small(a=[0.7] * 9), TEN)
    assert (miss.verdict, miss.detail) == ("too few seeds", "MISS on 9 of 10 seeds: by 0.06")
    assert one(target, small(a=[0.8] * 12), TEN).verdict == "reproduced"
    others = Planned(tuple(range(100, 110)), {"a": 5})
    assert one(target, small(a=[0.8] * 10), others).detail == "reproduced on 0 of 10 seeds"


def test_the_arm_with_the_fewest_seeds_counts() -> None:
    """A comparison of ten with three."""
    verdict = one(Gap(**ABOUT, above=A, below=B), small(a=around(0.9), b=[0.5, 0.5, 0.6]), TEN)
    assert (verdict.verdict, verdict.n) == ("too few seeds", 3)
    assert one(Order(**ABOUT, cells=(A, B)), small(a=[0.9], b=around(0.5)), TEN).n == 1


def test_one_published_table_cut_to_one_seed_reproduces_nothing() -> None:
    """All statements of the paper, each with too few seeds: not one counts."""
    cut = {name: of_seeds(results, 0) for name, results in all_tables().items()}
    verdicts = judge(TARGETS, cut, whole(all_tables()))
    assert {verdict.verdict for verdict in verdicts} == {"too few seeds"}
    assert {verdict.n for verdict in verdicts} == {1}


def test_a_ragged_table_counts_the_seeds_of_its_last_round() -> None:
    """Ten seeds up to round 75, one at round 80: statements about the end have one seed."""
    ragged = of_seeds(personalization(), 3, round_=80)
    plans = {"personalization": planned(personalization())}
    found = {v.what: v for v in judge(TARGETS, {"personalization": ragged}, plans)}
    assert (found["F, exact"].verdict, found["F, exact"].n) == ("too few seeds", 1)
    every = found["F: exact > first_order > fedavg_pg at every checkpoint"]
    assert (every.verdict, every.n) == ("too few seeds", 1)
    assert found["f, uniform policy"].verdict == "reproduced"


def test_without_the_last_round_the_end_is_missing() -> None:
    """Rounds up to 40 of 80: no value at the end, no order, and trajectories keep their place."""
    half = tuple(row for row in personalization().rows if row.round <= 40 or row.policy == "run")
    results, plan = Results("p.csv", half), planned(personalization())
    found = {
        v.what: v for v in judge(TARGETS, {"personalization": results}, {"personalization": plan})
        if v.figure in ("fig1-left", "fig6")
    }  # fmt: skip
    assert found.pop("f, uniform policy").verdict == "reproduced"
    kinds = {what: verdict.verdict for what, verdict in found.items() if what in
             [t.what for t in TARGETS if t.study == "personalization"]}  # fmt: skip
    assert set(kinds.values()) == {"missing"}
    assert "round 80" in found["F, exact"].detail
    assert "53.3 is not between measured ones, 0 to 40" in found["F at 8000 trajectories, exact"].detail
    early = Cell("exact", "meta_objective", trajectories=3000)  # round 20 of 80, whatever else is there
    whole_curve = personalization().curve("exact", "meta_objective")
    assert values_of(results, early, plan) == pytest.approx(whole_curve[20])


def test_a_seed_without_the_checkpoints_around_is_not_interpolated() -> None:
    """8000 of 12000 is between rounds 50 and 55: who lacks one of them does not count, others do."""
    ragged = of_seeds(personalization(), *range(4), round_=55)
    cell = Cell("exact", "meta_objective", trajectories=8000)
    assert list(values_of(ragged, cell, planned(personalization()))) == [0, 1, 2, 3]


@pytest.mark.parametrize("spent", [0.0, math.nan])
def test_no_trajectories_are_no_axis(spent: float) -> None:
    """Nothing is divided by zero."""
    cells = [("a", "shared", 0, 5, "meta_objective", [1.0]),
             ("a", "run", 0, 5, "train_trajectories_per_agent", [spent])]  # fmt: skip
    target = Number(**ABOUT, cell=Cell("a", "meta_objective", trajectories=10), published=1, tolerance=1)
    verdict = one(target, table("s", cells))
    assert verdict.verdict == "missing" and "before 10" in verdict.detail


def test_a_checkpoint_that_one_arm_lacks_is_no_every_checkpoint() -> None:
    """Round 5 of b is not there: the order at every checkpoint cannot be judged."""
    cells = [
        (arm, "shared", 0, number, "meta_objective", [level + number, level + number])
        for arm, level in (("a", 3.0), ("b", 2.0))
        for number in (0, 5, 10)
    ]
    verdict = one(Order(**ABOUT, cells=(A, B), every_checkpoint=True), table("s", cells[:4] + cells[5:]))
    assert (verdict.verdict, "round 5" in verdict.detail) == ("missing", True)


# --------------------------------------------------------------------------------- significance


@pytest.mark.parametrize(
    ("below", "kind"),
    [([0.4, 1.5, 0.1, 0.6], "reproduced, not significant"), ([0.1, 0.2, 0.1, 0.2], "reproduced")],
)
def test_a_difference_whose_interval_holds_zero_is_not_significant(below: list[float], kind: str) -> None:
    """Means 0.9 and 0.65 with an sd of 0.6 beside 0.9 and 0.15 with one of 0.06."""
    results = small(a=[0.9, 0.8, 1.0, 0.9], b=below)
    for target in (Gap(**ABOUT, above=A, below=B), Order(**ABOUT, cells=(A, B))):
        verdict = one(target, results)
        assert verdict.verdict == kind and verdict.interval
        assert (verdict.interval[0] <= 0) == (kind != "reproduced")


def test_a_level_is_no_comparison() -> None:
    """An interval of a number that holds zero says nothing against it."""
    verdict = one(Number(**ABOUT, cell=A, published=0.0, tolerance=0.1), small(a=[-0.1, 0.1, 0.05, -0.05]))
    assert verdict.verdict == "reproduced"
