"""What the paper's figures share: material, the variants' colours, bands, points, published values."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from edge_fed.errors import ConfigError, Fault
from edge_fed.params import F8
from scenarios.paper.rollouts import Rollouts
from scenarios.study.figure import BLUE, GREEN, ORANGE, Values
from scenarios.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARMS: dict[str, dict[str, Any]] = {
    "exact": {"color": BLUE, "marker": "o", "label": "exact"},
    "first_order": {"color": ORANGE, "marker": "s", "label": "first-order"},
    "fedavg_pg": {"color": GREEN, "marker": "^", "label": "FedAvg-PG"},
}


class Material(msgspec.Struct, frozen=True):
    """What figures are drawn from.

    Attributes:
        tables: Name of a study -> its table.
        rollouts: Of Figure 8; None: not needed.
    """

    tables: Mapping[str, Results] = {}
    rollouts: Rollouts | None = None


def mean_and_sd(columns: Iterable[Values]) -> tuple[F8, F8]:
    """Over the seeds of each column; sd with n - 1, 0 of one seed (the paper's has n: science.md A21)."""
    values = [np.array(list(column.values())) for column in columns]
    means = np.array([v.mean() for v in values])
    return means, np.array([v.std(ddof=1) if v.size > 1 else 0.0 for v in values])


def means_in_words(series: Mapping[str, Iterable[Values]], source: str) -> str:
    """What a figure of means shows, e.g. ``mean of 1 to 10 seeds``, and what it cannot show.

    Args:
        series: Label -> the seeds behind each of its points.
        source: Of the values, for messages.

    Raises:
        ConfigError: No mean is finite, so that the figure would be empty.
    """
    columns = [
        (label, np.array(list(column.values()))) for label, found in series.items() for column in found
    ]
    counts = [column.size for _, column in columns if np.isfinite(column).all()]
    if not counts:
        raise ConfigError([Fault("value", "no mean is finite, there is nothing to draw")], source)
    low, high = min(counts), max(counts)
    many = f"{low}" if low == high else f"{low} to {high}"
    lost = Counter(label for label, column in columns if not np.isfinite(column).all())
    absent = ", ".join(f"{count} of {label}" for label, count in lost.items())
    note = f" (points that are not finite and not drawn: {absent})" if lost else ""
    return f"mean of {many} seed{'' if many == '1' else 's'}{note}"


def seeds_in_words(columns: Iterable[Values], source: str) -> str:
    """How many seeds a figure shows as points, e.g. ``10 seeds``; those that are not finite are named.

    Raises:
        ConfigError: None is finite.
    """
    values = [np.array(list(column.values())) for column in columns]
    counts = [int(np.isfinite(column).sum()) for column in values]
    if not any(counts):
        raise ConfigError([Fault("value", "none is finite, there is nothing to draw")], source)
    many = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    lost = sum(column.size for column in values) - sum(counts)
    note = f" ({lost} values are not finite and not drawn)" if lost else ""
    return f"{many} seed{'' if many == '1' else 's'}{note}"


def curve(axes: "Axes", x: Sequence[float], columns: Sequence[Values], style: Mapping[str, Any]) -> None:
    """Mean over seeds, and a band of one standard deviation to each side."""
    means, sd = mean_and_sd(columns)
    axes.fill_between(x, means - sd, means + sd, color=style["color"], alpha=0.18, linewidth=0)
    axes.plot(x, means, **style)


def seeds(axes: "Axes", x: float, values: Values, color: str, marker: str = "o") -> None:
    """Each seed as a faint point, spread sideways so that equal ones are seen; each has its place."""
    aside = 0.1 * np.sin(2.4 * np.arange(len(values)))
    places, heights = x + aside, list(values.values())
    axes.plot(places, heights, marker, color=color, alpha=0.45, markersize=3.5, markeredgewidth=0)


def published(axes: "Axes", points: Iterable[tuple[float, float, str]]) -> None:
    """The paper's values (x, y, colour) as hollow diamonds, with one entry in the legend."""
    marks: dict[str, Any] = {"marker": "D", "markersize": 7.5, "markerfacecolor": "none", "linestyle": "none"}
    for x, y, color in points:
        axes.plot([x], [y], color=color, markeredgewidth=1.5, zorder=5, **marks)
    axes.plot([], [], color="black", label="published", **marks)


def legend(axes: "Axes", **options: Any) -> None:
    """Of everything that has a label."""
    axes.legend(**{"loc": "best", **options})
