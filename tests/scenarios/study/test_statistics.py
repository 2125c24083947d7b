"""Statistics over seeds against worked cases, against scipy, and against their own promise."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ProgramError
from scenarios.study import statistics
from scenarios.study.statistics import (
    BOOTSTRAP_SEED,
    RESAMPLES,
    Interval,
    difference,
    holm,
    in_words,
    interval_of_mean,
    summarize,
)

UNEQUAL = [0.1, 0.7, 0.3, 4.0, 0.2, 0.9, 0.4]
OTHER = [1.0, -0.5, 0.25, 0.125, 2.0, 0.75]
ONE_STRAY = [0.2, *([2.1] * 9)]


def with_sd(n: int, sd: float) -> list[float]:
    """So many equally spaced values of this standard deviation around 0."""
    x = np.arange(n) - (n - 1) / 2
    return list(x * sd / x.std(ddof=1))


def scipy_bca(*samples: list[float]) -> tuple[float, float]:
    """The same resamples of the same order, by scipy's general code with its numerical jackknife."""
    data = [np.sort(sample) for sample in samples]
    statistic = (
        (lambda x, axis: x.mean(axis)) if len(data) == 1 else (lambda x, y, axis: x.mean(axis) - y.mean(axis))
    )
    found = stats.bootstrap(
        data, statistic, n_resamples=RESAMPLES, rng=np.random.default_rng(BOOTSTRAP_SEED), vectorized=True
    )
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("values", [UNEQUAL, OTHER, ONE_STRAY, [0.0, 1.0] * 3])
def test_the_interval_of_a_mean_is_scipy_s(values: list[float]) -> None:
    """The closed-form acceleration equals the jackknife's to the last digits."""
    found = interval_of_mean(values)
    assert (found.low, found.high) == pytest.approx(scipy_bca(values), rel=1e-12)
    assert found.method == "bca"


def test_the_interval_of_a_difference_is_scipy_s() -> None:
    """Two samples of different sizes; the second counts with a minus in the acceleration, too."""
    found = difference(UNEQUAL, OTHER).interval
    assert (found.low, found.high) == pytest.approx(scipy_bca(UNEQUAL, OTHER), rel=1e-12)


def test_the_interval_is_skewed_like_the_values() -> None:
    """One stray value below: BCa reaches further down than up, a plain t interval would not."""
    found, mean = interval_of_mean(ONE_STRAY), float(np.mean(ONE_STRAY))
    assert mean - found.low > 2 * (found.high - mean) > 0


@pytest.mark.parametrize(("n", "least", "most"), [(10, 0.86, 0.94), (40, 0.91, 0.98)])
def test_the_interval_covers_the_mean_about_as_often_as_it_says(
    n: int, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 samples of a normal distribution: about 90 % from ten values, about 95 % from forty."""
    monkeypatch.setattr(statistics, "RESAMPLES", 1000)
    random = np.random.default_rng(7)
    intervals = [interval_of_mean(random.normal(3.0, 2.0, n)) for _ in range(500)]
    assert least < np.mean([found.low <= 3 <= found.high for found in intervals]) < most


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_interval_of_few_values_is_that_of_t(n: int) -> None:
    """Values and labels are scipy's; 95 % of normal samples are covered, of two seeds, too."""
    values = UNEQUAL[:n]
    found, error = interval_of_mean(values), stats.sem(values)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, n - 1, np.mean(values), error))
    assert found.method == "t" and "95 % t interval" in in_words(summarize(values))
    x = np.random.default_rng(n).normal(3.0, 2.0, (12_000, n))
    half = statistics.T_975[n - 2] * x.std(axis=1, ddof=1) / math.sqrt(n)
    assert (abs(x.mean(axis=1) - 3) <= half).mean() == pytest.approx(0.95, abs=0.01)
    assert interval_of_mean(x[0]).high - x[0].mean() == pytest.approx(half[0])


@pytest.mark.parametrize(("n_a", "n_b"), [(2, 3), (5, 5), (5, 7), (7, 4)])
def test_the_interval_of_a_difference_with_few_values_is_welch_s(n_a: int, n_b: int) -> None:
    """One small arm is enough; it holds zero exactly where p is above 5 %."""
    a, b = [value + 1 for value in UNEQUAL[:n_a]], [*OTHER, 0.5][:n_b]
    found = difference(a, b)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))
    assert found.interval.method == "welch t"
    assert (found.interval.low <= 0 <= found.interval.high) == (found.p > 0.05)


def test_from_six_values_on_seeds_are_resampled() -> None:
    """As it was: nothing changes for tables of six seeds and more."""
    assert interval_of_mean(UNEQUAL[:6]).method == difference(UNEQUAL[:6], OTHER).interval.method == "bca"


@given(st.permutations(UNEQUAL))
def test_the_order_of_the_seeds_changes_no_bit(values: list[float]) -> None:
    """Results of seeds that end in another order give the same table."""
    assert summarize(values) == summarize(UNEQUAL)


def test_equal_values_have_the_percentile_interval_of_no_width() -> None:
    """BCa is undefined where nothing varies; six times 0.1 is 0.1 on average, though its sum is rounded."""
    found = summarize([0.1] * 6)
    assert (found.mean, found.sd) == (0.1, 0)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.1, 0.1))
    assert found.interval.method == "percentile"


def test_bca_undefined_by_its_denominator_is_percentile() -> None:
    """No quantile where a (z0 + z) >= 1 (Efron and Tibshirani, eq. 14.10), nor outside all resamples."""
    resampled = np.linspace(-1.0, 1.0, 100_001)
    skewed = np.array([1.0, -1e-3, -1e-3])  # acceleration 1/6
    assert statistics._bca_levels(resampled, 0.0, skewed) is not None
    assert statistics._bca_levels(resampled, 0.99999, skewed) is None  # z0 = 4.4: z reaches 6
    assert statistics._bca_levels(resampled, 2.0, skewed) is None


def test_a_summary_worked_by_hand() -> None:
    """Mean 3, sum of squares 28 over n - 1 = 6; the middle half of seven drops one value at each end."""
    found = summarize([5, 1, 2, 3, 4, 0, 6], threshold=4)
    assert (found.n, found.mean, found.median, found.iqm) == (7, 3, 3, 3)
    assert found.sd == pytest.approx(math.sqrt(28 / 6))
    assert (found.min, found.max, found.points) == (0, 6, (0, 1, 2, 3, 4, 5, 6))
    assert found.fraction_above == pytest.approx(2 / 7)  # 4 itself is not above 4
    eight = [*UNEQUAL, 9.0]
    assert summarize(eight).iqm == pytest.approx(stats.trim_mean(eight, 0.25)) != np.mean(eight)


def test_a_bimodal_outcome_is_told_by_median_and_fraction() -> None:
    """A mean between two modes describes no run; without a threshold it is mean, sd and interval."""
    assert in_words(summarize(ONE_STRAY, 1.5)) == "median 2.10, 9 of 10 above 1.5, from 0.20 to 2.10"
    assert "1.91 ± 0.60" in in_words(summarize(ONE_STRAY))


@pytest.mark.parametrize(("a", "b"), [(UNEQUAL, OTHER), (OTHER, ONE_STRAY)])
def test_welch_is_scipy_s(a: list[float], b: list[float]) -> None:
    """Statistic, degrees of freedom and p."""
    found, expected = difference(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert found.mean == pytest.approx(np.mean(a) - np.mean(b))
    assert (found.statistic, found.df, found.p) == pytest.approx(
        (expected.statistic, expected.df, expected.pvalue), rel=1e-12
    )
    assert (found.n_a, found.n_b) == (len(a), len(b))


def test_welch_by_hand_where_one_arm_is_constant() -> None:
    """Mean -2.5, standard error sqrt(0.5 / 2) = 0.5, one degree of freedom: a Cauchy variable beyond 5."""
    found = difference([1, 2], [4, 4])
    assert (found.mean, found.statistic, found.df) == pytest.approx((-2.5, -5, 1))
    assert found.p == pytest.approx(1 - 2 / math.pi * math.atan(5))


@pytest.mark.parametrize(("n", "effect", "power"), [(10, 1.0, 0.5620), (17, 1.0, 0.8070), (64, 0.5, 0.8015)])
def test_power_is_the_published_one(n: int, effect: float, power: float) -> None:
    """Two-sided t test at 5 % (G*Power; Cohen 1988, table 2.3: 17 and 64 per group give 80 %)."""
    sample = with_sd(n, 0.2)
    assert difference(sample, sample, 0.2 * effect).power == pytest.approx(power, abs=5e-4)


def test_power_is_the_rate_of_significant_experiments() -> None:
    """Two thousand simulated experiments with unequal sds find the difference as often as stated."""
    a, b = with_sd(8, 0.1), with_sd(12, 0.4)
    random = np.random.default_rng(11)
    x, y = random.normal(0.3, 0.1, (2000, 8)), random.normal(0, 0.4, (2000, 12))
    rate = (stats.ttest_ind(x, y, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert difference(a, b, 0.3).power == pytest.approx(rate, abs=0.04)


def test_power_has_its_limits() -> None:
    """5 % at no difference, 1 far away (where scipy's tails are NaN), either sign alike."""
    sample = with_sd(10, 0.2)
    assert difference(sample, sample, 0.0).power == pytest.approx(0.05, abs=5e-6)
    far_away = (-3.4, 3.0, 3.2, 3.4, 3.6, 50, 1e300)
    assert [difference(sample, sample, far).power for far in far_away] == pytest.approx([1] * 7)
    assert difference(sample, sample, -0.2).power == difference(sample, sample, 0.2).power


@pytest.mark.parametrize("df", [1.0, 1.7, 4.0, 18.0, 78.0])
def test_power_is_a_number_for_every_noncentrality(df: float) -> None:
    """No NaN, no step back, within 5e-6 of scipy's right tail plus its wrong one where that is right."""
    found = np.array([statistics._power(shift, df) for shift in np.arange(0, 15, 0.25)])
    assert np.isfinite(found).all() and (np.diff(found) >= -1e-12).all() and found.max() <= 1
    critical = stats.t.ppf(0.975, df)
    for shift in (0.0, 0.5, 2.0, 4.0):
        both = stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift)
        assert statistics._power(shift, df) == pytest.approx(both, abs=5e-6)
    assert [statistics._power(shift, df) for shift in (1e6, 1e300, math.inf)] == [1, 1, 1]


def test_power_of_forty_seeds_of_little_spread_is_a_number() -> None:
    """With sd 0.09 and a difference of 0.2 the noncentrality is 9.9; with 1e-12 it is 9e11."""
    for sd in (0.09, 0.1, 0.11, 1e-12):
        sample = with_sd(40, sd)
        assert difference(sample, sample, 0.2).power == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("unit", [2.0**-990, 2.0**-532, 2.0**-300, 2.0**465])  # 1e-298 to 1e140
@pytest.mark.parametrize("n", [4, 6])
def test_the_unit_of_the_values_changes_nothing(unit: float, n: int) -> None:
    """Squares and cubes of 1e-160 would be zero: every figure is that of the same values near 1, scaled."""
    a, b = UNEQUAL[:n], OTHER[:n]
    one, found = difference(a, b), difference([x * unit for x in a], [x * unit for x in b], 0.2 * unit)
    same = ("statistic", "df", "p", "power")
    assert [getattr(found, name) for name in same] == [getattr(one, name) for name in same]
    interval = one.interval
    assert found.interval == Interval(interval.low * unit, interval.high * unit, interval.method)
    assert summarize([x * unit for x in a]).sd == summarize(a).sd * unit


@given(st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=8))
def test_finite_values_give_finite_figures(values: list[float]) -> None:
    """Whatever the values are: no NaN, no traceback; the mean lies in its interval if that is t's."""
    found, apart = summarize(values), difference(values, OTHER)
    figures = (found.mean, found.sd, found.interval.low, found.interval.high, apart.p, apart.power)
    assert np.isfinite(figures).all()
    assert np.isfinite((apart.mean, apart.interval.low, apart.interval.high)).all()


def test_constant_arms_need_no_test() -> None:
    """The limits of p: 1 where they are equal to the bit (not to the rounding of a sum), else 0."""
    same, apart = difference([0.1] * 3, [0.1] * 40), difference([1.0, 1.0], [2.0, 2.0])
    assert (same.mean, same.p, same.statistic, same.df) == (0, 1, None, None)
    assert (apart.mean, apart.p, apart.power) == (-1, 0, 1)
    assert (apart.interval.low, apart.interval.high) == (-1, -1)


def test_holm_by_hand() -> None:
    """0.01 x 4, then 0.02 x 3, then 0.03 x 2 and 0.04 x 1, which may not fall below 0.06."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx((0.06, 0.04, 0.06, 0.06))
    assert holm([0.7, 0.6]) == (1, 1)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_decides_like_its_step_down_rule(p_values: list[float]) -> None:
    """Adjusted p <= 5 % exactly where stepping down from the smallest p has not stopped before."""
    m, found = len(p_values), holm(p_values)
    going = True
    for rank, index in enumerate(sorted(range(m), key=p_values.__getitem__)):
        going = going and p_values[index] * (m - rank) <= 0.05
        assert (found[index] <= 0.05) == going


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "0 value(s)"),
        ([1.0], "1 value(s)"),
        ([1.0, math.nan, math.inf], "2 of 3 values are not finite"),
        ([1.0, -1e151, 1e308], "2 of 3 values are beyond 1e+150, too large for statistics"),
    ],
)
def test_what_has_no_statistics_is_refused(values: list[float], words: str) -> None:
    """One seed has no spread, NaN is never left out in silence, 1e308 has no square."""
    for refused in (summarize, interval_of_mean, lambda v: difference(OTHER, v)):
        with pytest.raises(ConfigError) as caught:
            refused(values)
        assert words in str(caught.value)


def test_without_scipy_only_a_difference_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra; summaries need NumPy alone."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    summarize(OTHER)
    assert summarize(OTHER[:3]).interval.method == "t"
    with pytest.raises(ProgramError) as caught:
        difference(UNEQUAL, OTHER)
    assert "edge-fed[plot]" in caught.value.hint
