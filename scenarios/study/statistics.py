"""What the values of many seeds say: one value per seed, seeds resampled, never agents of one seed.

Intervals are 95 % bootstrap intervals of a mean or of a difference of means, bias-corrected and accelerated
(BCa: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 14.3 and, for two samples, 15.4), from
10,000 resamples drawn the same way every time, so that a table is the same on every machine. Beside a
difference stands Welch's test (methods.md 5). Of ten normal values the interval is a little narrow: it covers
90 %, and not 95 %. Of fewer than six it would cover 53 to 84 %: there the interval is that of the t
distribution, of a difference with Welch's degrees of freedom, and its method says so.
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
FEWEST = 6
"""Seeds of an arm below which nothing is resampled."""
T_975 = (12.706204736432095, 4.302652729911275, 3.182446305284263, 2.7764451051977987)
"""97.5 % quantile of t with 1 to 4 degrees of freedom: the interval of a mean needs no scipy."""
LARGEST = 1e150
"""Values beyond it cannot be squared."""
POWER_NODES = 10_000
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
        method: ``percentile`` where BCa is not defined, e.g. when all values are equal; ``t`` of a mean,
            ``welch t`` of a difference with fewer than six seeds in an arm.
    """

    low: float
    high: float
    method: Literal["bca", "percentile", "t", "welch t"]


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
        ConfigError: Fewer than two values, or one is not finite or too large.
    """
    x = _checked(values)
    mean, sd = _moments(x)
    cut = x.size // 4
    return Summary(
        n=x.size,
        mean=mean,
        sd=sd,
        median=float(np.median(x)),
        iqm=float(x[cut : x.size - cut].mean()),
        min=float(x[0]),
        max=float(x[-1]),
        interval=_interval_of_mean(x),
        threshold=threshold,
        fraction_above=None if threshold is None else float((x > threshold).mean()),
        points=tuple(x.tolist()),
    )


def in_words(summary: Summary, digits: int = 2) -> str:
    """One cell of a table: mean and sd, but of a bimodal outcome what a mean would hide."""
    if summary.fraction_above is None:
        low, high = summary.interval.low, summary.interval.high
        kind = "t interval" if summary.interval.method == "t" else "interval"
        return (
            f"{summary.mean:.{digits}f} ± {summary.sd:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}] "
            f"(mean ± sd, 95 % {kind}, n = {summary.n})"
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
        ConfigError: Fewer than two values, or one is not finite or too large.
    """
    return _interval_of_mean(_checked(values))


def difference(a: Sequence[float], b: Sequence[float], reference: float = REFERENCE) -> Difference:
    """Compares two arms whose seeds are independent.

    Args:
        a: One value per seed of A.
        b: Of B; the numbers of seeds may differ.
        reference: For the power.

    Raises:
        ConfigError: Fewer than two values, or one is not finite or too large.
        ProgramError: scipy is not installed.
    """
    x, y = _checked(a), _checked(b)
    (mean_a, sd_a), (mean_b, sd_b) = _moments(x), _moments(y)
    mean, errors = mean_a - mean_b, (sd_a / math.sqrt(x.size), sd_b / math.sqrt(y.size))
    error = math.hypot(*errors)  # standard error of the difference
    statistic, df, p, power, half = None, None, float(mean == 0), 1.0, 0.0
    if error > 0:
        t = _scipy_stats().t
        # Shares of the variance, and not its square: that of 1e-90 would be zero.
        shares = [(part / error) ** 2 for part in errors]
        statistic = mean / error
        df = 1 / (shares[0] ** 2 / (x.size - 1) + shares[1] ** 2 / (y.size - 1))
        p = float(2 * t.sf(abs(statistic), df))
        power = _power(reference / error, df)
        half = float(t.ppf(TAILS[1], df)) * error
    few = min(x.size, y.size) < FEWEST
    interval = Interval(mean - half, mean + half, "welch t") if few else _bootstrap([x, y])
    return Difference(mean, interval, statistic, df, p, reference, power, x.size, y.size)


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
    hint = "find out why; a seed is never left out"
    if bad := int((~np.isfinite(x)).sum()):
        raise ConfigError([Fault("seeds", f"{bad} of {x.size} values are not finite", hint)], "values")
    if bad := int((np.abs(x) > LARGEST).sum()):
        message = f"{bad} of {x.size} values are beyond {LARGEST:g}, too large for statistics"
        raise ConfigError([Fault("seeds", message, hint)], "values")
    return x


def _moments(x: Values) -> tuple[float, float]:
    """Mean, and sd with n - 1; exact where all values are equal, though their sum is rounded."""
    if x[0] == x[-1]:
        return float(x[0]), 0.0
    mean = float(x.mean())
    scaled, unit = _scaled(x - mean)
    return mean, unit * math.sqrt(float((scaled**2).sum()) / (x.size - 1))


def _scaled(x: Values) -> tuple[Values, float]:
    """In units, a power of two, in which the largest is about 1, so that squares of 1e-160 are not zero."""
    unit = math.ldexp(1.0, math.frexp(float(np.abs(x).max()))[1])
    return x / unit, unit


def _interval_of_mean(x: Values) -> Interval:
    if x.size >= FEWEST:
        return _bootstrap([x])
    mean, sd = _moments(x)
    half = T_975[x.size - 2] * sd / math.sqrt(x.size)
    return Interval(mean - half, mean + half, "t")


def _bootstrap(samples: Sequence[Values]) -> Interval:
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
    influence, _ = _scaled(influence)
    below = float((resampled < observed).mean() + (resampled <= observed).mean()) / 2
    if not 0 < below < 1 or not influence.any():
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
    """P(|T| > critical) of the noncentral t distribution T = (Z + noncentrality) / V.

    The mean of the normal tails over V, sqrt(chi2 / df), at equally probable nodes: right to 5e-6. The
    noncentral t of scipy 1.17 gives NaN for tails that are nearly empty.
    """
    stats = _scipy_stats()
    nodes = (np.arange(POWER_NODES) + 0.5) / POWER_NODES
    bound = stats.t.ppf(TAILS[1], df) * np.sqrt(stats.chi2.ppf(nodes, df) / df)
    shift = abs(noncentrality)
    return float((stats.norm.sf(bound - shift) + stats.norm.cdf(-bound - shift)).mean())


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
