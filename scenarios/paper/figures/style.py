"""What all figures share: material, colours for every kind of sight, bands, points, the paper's values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from edge_fed.params import F8
from scenarios.paper.rollouts import Rollouts
from scenarios.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#777777"
)  # fmt: skip
"""Okabe and Ito's palette, which people with any colour vision tell apart."""

ARMS: dict[str, dict[str, Any]] = {
    "exact": {"color": BLUE, "marker": "o", "label": "exact"},
    "first_order": {"color": ORANGE, "marker": "s", "label": "first-order"},
    "fedavg_pg": {"color": GREEN, "marker": "^", "label": "FedAvg-PG"},
}

STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "edge_fed",  # the same ids in every file: equal data give equal bytes
}

SIZE_INCHES = (5.4, 3.9)

Values = Mapping[int, float]
"""Seed -> value."""


class Material(msgspec.Struct, frozen=True):
    """What figures are drawn from.

    Attributes:
        tables: Name of a study -> its table.
        rollouts: Of Figure 8; None: not needed.
    """

    tables: Mapping[str, Results] = {}
    rollouts: Rollouts | None = None


def new_figure(title: str, note: str, size: tuple[float, float] = SIZE_INCHES) -> "Figure":
    """An empty figure with a title above and a small note below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=10)
    figure.supxlabel(note, fontsize=7, color=GREY)
    return figure


def mean_and_sd(columns: Iterable[Values]) -> tuple[F8, F8]:
    """Over the seeds of each column; sd with n - 1, 0 of one seed (the paper's has n: science.md A21)."""
    values = [np.array(list(column.values())) for column in columns]
    means = np.array([v.mean() for v in values])
    return means, np.array([v.std(ddof=1) if v.size > 1 else 0.0 for v in values])


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


def seeds_in_words(results: Results) -> str:
    """E.g. ``10 seeds``; a range where arms differ."""
    counts = {len({row.seed for row in results.rows if row.arm == arm}) for arm in results.arms}
    low, high = min(counts, default=0), max(counts, default=0)
    many = f"{low}" if low == high else f"{low} to {high}"
    return f"{many} seed" + ("" if many == "1" else "s")


def missing_in_words(what: Sequence[str]) -> str:
    """A line under the note for what the table lacks; empty if it lacks nothing."""
    return "\nno results yet: " + "; ".join(what) if what else ""
