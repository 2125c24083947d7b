"""What the values of many seeds say: one value per seed, seeds resampled, never agents of one seed.

Intervals are 95 % bootstrap intervals of a mean or of a difference of means, bias-corrected and accelerated
(BCa: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 14.3 and, for two samples, 15.4), from
10,000 resamples drawn the same way every time, so that a table is the same on every machine. Beside a
difference stands Welch's test (methods.md 5). Of ten normal values the interval is a little narrow: it covers
90 %, and not 95 %.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from types import ModuleType
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_fed.errors import ConfigError, Fault
from edge_fed.program.exit_codes import ExitCode, ProgramError

TAILS = (0.025, 0.975)
RESAMPLES = 10_000
BOOTSTRAP_SEED = 0
REFERENCE = 0.2
"""The difference whose power is stated unless another is named: that of the paper's return."""

Values = NDArray[np.float64]


class Interval(msgspec.Struct, frozen=True):
    """A 95 % interval.

    Attributes:
        low: Lower bound.
        high: Upper bound.
        method: ``percentile`` where BCa is not defined, e.g. when all values are equal.
    """

    low: float
    high: float
    method: Literal["bca", "percentile"]


class Summary(msgspec.Struct, frozen=True):
    """The values of one arm.

    Attributes:
        n: Number of seeds.
        mean: Mean.
        sd: Standard deviation with n - 1.
        median: Median.
        iqm: Interquartile mean: of the middle half, n // 4 values cut at each end.
        min: Smallest.
        max: Largest.
        interval: Of the mean.
        threshold: Of a bimodal outcome, fixed before the values were seen; else None.
        fraction_above: Fraction of the seeds above the threshold, if there is one.
        points: All values, ascending.
    """

    n: int
    mean: float
    sd: float
    median: float
    iqm: float
    min: float
    max: float
    interval: Interval
    threshold: float | None
    fraction_above: float | None
    points: tuple[float, ...]


class Difference(msgspec.Struct, frozen=True):
    """Mean of A minus mean of B.

    Attributes:
        mean: The difference.
        interval: Seeds of A and of B resampled independently.
        statistic: Welch's t; None if both arms are constant.
        df: Its degrees of freedom (Welch-Satterthwaite); None if both arms are constant.
        p: Two-sided. Of two constant arms it is the limit: 1 if they are equal, else 0.
        reference: A difference that would matter.
        power: Probability that Welch's test at 5 % would find ``reference``, were the sds those observed.
        n_a: Seeds of A.
        n_b: Seeds of B.
    """

    mean: float
    interval: Interval
    statistic: float | None
    df: float | None
    p: float
    reference: float
    power: float
    n_a: int
    n_b: int


def summarize(values: Sequence[float], threshold: float | None = None) -> Summary:
    """Describes one arm.

    Args:
        values: One per seed.
        threshold: Fixed in advance; marks the outcome as bimodal.

    Raises:
        ConfigError: Fewer than two values, or one is not finite.
    """
    x = _checked(values)
    mean, variance = _moments(x)
    cut = x.size // 4
    return Summary(
        n=x.size,
        mean=mean,
        sd=math.sqrt(variance),
        median=float(np.median(x)),
        iqm=float(x[cut : x.size - cut].mean()),
        min=float(x[0]),
        max=float(x[-1]),
        interval=_interval([x]),
        threshold=threshold,
        fraction_above=None if threshold is None else float((x > threshold).mean()),
        points=tuple(x.tolist()),
    )


def in_words(summary: Summary, digits: int = 2) -> str:
    """One cell of a table: mean and sd, but of a bimodal outcome what a mean would hide."""
    if summary.fraction_above is None:
        low, high = summary.interval.low, summary.interval.high
        return (
            f"{summary.mean:.{digits}f} ± {summary.sd:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] "
            f"(mean ± sd, 95 % interval, n = {summary.n})"
        )
    above = round(summary.fraction_above * summary.n)
    return (
        f"median {summary.median:.{digits}f}, {above} of {summary.n} above {summary.threshold:g}, "
        f"from {summary.min:.{digits}f} to {summary.max:.{digits}f}"
    )


def number(value: float) -> str:
    """Three decimals; counts without."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def interval_of_mean(values: Sequence[float]) -> Interval:
    """The interval of the mean over seeds.

    Raises:
        ConfigError: Fewer than two values, or one is not finite.
    """
    return _interval([_checked(values)])


def difference(a: Sequence[float], b: Sequence[float], reference: float = REFERENCE) -> Difference:
    """Compares two arms whose seeds are independent.

    Args:
        a: One value per seed of A.
        b: Of B; the numbers of seeds may differ.
        reference: For the power.

    Raises:
        ConfigError: Fewer than two values, or one is not finite.
        ProgramError: scipy is not installed.
    """
    x, y = _checked(a), _checked(b)
    (mean_a, variance_a), (mean_b, variance_b) = _moments(x), _moments(y)
    mean, parts = mean_a - mean_b, (variance_a / x.size, variance_b / y.size)
    error = math.sqrt(sum(parts))  # standard error of the difference
    statistic, df, p, power = None, None, float(mean == 0), 1.0
    if error > 0:
        t = _scipy_stats().t
        statistic = mean / error
        df = sum(parts) ** 2 / (parts[0] ** 2 / (x.size - 1) + parts[1] ** 2 / (y.size - 1))
        p = float(2 * t.sf(abs(statistic), df))
        power = _power(reference / error, df)
    return Difference(mean, _interval([x, y]), statistic, df, p, reference, power, x.size, y.size)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p values, in the given order (Holm, Scand. J. Statist. 6, 1979).

    The k-th smallest of m is multiplied by m - k + 1; none is smaller than one before it, none above 1.
    """
    m = len(p_values)
    order = sorted(range(m), key=p_values.__getitem__)
    adjusted, largest = [0.0] * m, 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (m - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def _checked(values: Sequence[float]) -> Values:
    """Ascending, so that the order of the seeds changes no bit."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    if x.size < 2:
        raise ConfigError(
            [Fault("seeds", f"{x.size} value(s), statistics need two", "run more seeds")], "values"
        )
    if bad := int((~np.isfinite(x)).sum()):
        hint = "find out why; a seed is never left out"
        raise ConfigError([Fault("seeds", f"{bad} of {x.size} values are not finite", hint)], "values")
    return x


def _moments(x: Values) -> tuple[float, float]:
    """Mean, and variance with n - 1; exact where all values are equal, though their sum is rounded."""
    return (float(x.mean()), float(x.var(ddof=1))) if x[0] < x[-1] else (float(x[0]), 0.0)


def _interval(samples: Sequence[Values]) -> Interval:
    """Of the mean of one sample, or of the mean of the first minus that of the second."""
    random = np.random.default_rng(BOOTSTRAP_SEED)
    signed = [sign * x for sign, x in zip((1.0, -1.0), samples, strict=False)]
    means = [x[random.integers(0, x.size, (RESAMPLES, x.size))].mean(axis=-1) for x in signed]
    resampled: Values = np.sum(means, axis=0)
    levels = None
    if any(x[0] < x[-1] for x in samples):
        observed = sum(float(x.mean()) for x in signed)
        # A value's influence on the statistic: for a mean the jackknife gives (x - mean) / n.
        influence = np.concatenate([(x - x.mean()) / x.size for x in signed])
        levels = _bca_levels(resampled, observed, influence)
    low, high = np.quantile(resampled, levels or TAILS)
    return Interval(float(low), float(high), "bca" if levels else "percentile")


def _bca_levels(resampled: Values, observed: float, influence: Values) -> tuple[float, float] | None:
    """Which two quantiles of the resampled statistic bound the interval; None: BCa is undefined.

    Efron and Tibshirani, eq. 14.10, with the bias correction 14.14 and the acceleration 14.15.
    """
    normal, levels = NormalDist(), []
    below = float((resampled < observed).mean() + (resampled <= observed).mean()) / 2
    if not 0 < below < 1:
        return None
    bias = normal.inv_cdf(below)
    acceleration = float((influence**3).sum() / (6 * (influence**2).sum() ** 1.5))
    for tail in TAILS:
        z = bias + normal.inv_cdf(tail)
        if acceleration * z >= 1:
            return None
        levels.append(normal.cdf(bias + z / (1 - acceleration * z)))
    return levels[0], levels[1]


def _power(noncentrality: float, df: float) -> float:
    """P(|T| > critical) of the noncentral t distribution."""
    stats = _scipy_stats()
    critical = float(stats.t.ppf(TAILS[1], df))
    # Far from zero the wrong tail holds nothing, and scipy gives NaN for it.
    wrong = float(stats.nct.cdf(-critical, df, noncentrality)) if noncentrality < 10 else 0.0
    return float(stats.nct.sf(critical, df, noncentrality)) + wrong


def _scipy_stats() -> ModuleType:
    try:
        from scipy import stats  # only who compares arms pays for it
    except ImportError:
        raise ProgramError(
            ExitCode.USAGE,
            "Welch's test needs scipy, which is not installed",
            "pip install 'edge-fed[plot]'",
        ) from None
    found: ModuleType = stats
    return found
