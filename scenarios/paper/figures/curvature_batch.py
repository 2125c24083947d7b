"""Figure 2 (left): F against the curvature batch, every seed; and the same with what the paper lacks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scenarios.paper.figures.style import ARMS, Material, legend, published, seeds, seeds_in_words
from scenarios.paper.published import CURVATURE_BATCHES, TRAINS, published_values
from scenarios.study.figure import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    Values,
    missing_in_words,
    new_figure,
)
from scenarios.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REFERENCE = "fedavg_pg"
INNER_BATCH = 10  # first-order beside m_h has the outer batch 10 + m_h: as many trajectories in all
BEYOND: dict[str, dict[str, Any]] = {
    "causal": {"color": SKY, "marker": "v", "label": "exact, causal"},
    "baseline": {"color": PURPLE, "marker": "D", "label": "exact, causal, value baseline"},
    "guarded": {"color": RED, "marker": "P", "label": "the same, guard 1/2"},
    "first_order": {
        "color": ORANGE,
        "marker": "s",
        "label": "first-order, value baseline, equal trajectories",
    },
}
NAIVE = {"color": BLUE, "marker": "o", "label": "exact, naive (the paper's)"}


def draw_curvature_batch(material: Material) -> "Figure":
    """Points are seeds, the line joins medians: the outcome is bimodal."""
    table = material.tables["curvature-batch"]
    exact = _by_batch(table, "exact")
    shown = seeds_in_words(exact.values(), table.source)
    figure = new_figure(
        "The curvature bottleneck (Figure 2, left)",
        f"{shown} as points; line: median; return of the six training goals after one step",
    )
    axes = _axes(figure)
    style = ARMS["exact"] | {"label": "exact, median"}
    _medians(axes, exact, style, 0.0)
    _reference(axes, table)
    known = {cell.arm: value for cell, value in published_values("fig2-left", "median").items()}
    names = [f"exact/hessian_batch={m}" for m in CURVATURE_BATCHES]
    points = [(float(i), known[name], BLUE) for i, name in enumerate(names) if name in known]
    level = published_values("fig2-left")
    points += [(len(names) - 0.6, value, ARMS[REFERENCE]["color"]) for value in level.values()]
    published(axes, points)
    legend(axes, loc="upper left", bbox_to_anchor=(0.0, 0.8))
    return figure


def draw_beyond(material: Material) -> "Figure":
    """The published estimator beside lower variance, the guard, and first-order; side by side at each m_h."""
    table, naive = material.tables["curvature-batch-beyond"], material.tables["curvature-batch"]
    series = {"naive": _by_batch(naive, "exact")} | {arm: _by_batch(table, arm) for arm in BEYOND}
    columns = [column for found in series.values() for column in found.values()]
    shown = seeds_in_words(columns, table.source)
    figure = new_figure(
        "Beyond Figure 2 (left): lower variance, the guard, and first-order at equal trajectories",
        f"{shown} as points; lines: medians; return of the six training goals after one step"
        + missing_in_words(_lacking(series)),
        size=(7.6, 4.6),
    )
    axes = _axes(figure)
    axes.grid(visible=False, axis="x")
    for edge in range(1, len(CURVATURE_BATCHES)):
        axes.axvline(edge - 0.5, color="#e6e6e6", linewidth=0.8)
    for place, (name, found) in zip(np.linspace(-0.3, 0.3, len(series)), series.items(), strict=True):
        _medians(axes, found, BEYOND.get(name, NAIVE), float(place))
    _reference(axes, naive)
    axes.set_ylim(bottom=0)
    legend(axes, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return figure


def _by_batch(table: Results, arm: str) -> dict[int, Values]:
    """Curvature batch -> seed -> F, of the arms ``<arm>/<batch>=<m>`` that the table has."""
    found: dict[int, Values] = {}
    for name in table.arms:
        head, _, tail = name.partition("/")
        key, _, number = tail.partition("=")
        if head == arm and number.isdecimal():
            m = int(number) - (INNER_BATCH if key == "outer_batch" else 0)
            found[m] = table.values(name, "meta_objective")
    return dict(sorted(found.items()))


def _lacking(series: Mapping[str, Mapping[int, Values]]) -> list[str]:
    """E.g. ``causal, guarded at m_h = 500, 1000``."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, found in series.items():
        groups.setdefault(tuple(m for m in CURVATURE_BATCHES if m not in found), []).append(name)
    return [
        f"{', '.join(names)} at m_h = {', '.join(map(str, batches))}"
        for batches, names in groups.items()
        if batches
    ]


def _axes(figure: "Figure") -> "Axes":
    axes = figure.subplots()
    axes.set_xticks(range(len(CURVATURE_BATCHES)), [str(m) for m in CURVATURE_BATCHES])
    axes.set_xlabel(r"curvature batch $m_h$, trajectories")
    axes.set_ylabel("return after one adaptation step")
    axes.axhline(TRAINS, color=GREY, linewidth=0.7, linestyle=":", label=f"{TRAINS}: a seed trains")
    return axes


def _medians(axes: "Axes", found: Mapping[int, Values], style: Mapping[str, Any], aside: float) -> None:
    """Seeds as points, medians joined; batches outside the axis are left out."""
    batches: Sequence[int] = [m for m in CURVATURE_BATCHES if m in found]
    x = [CURVATURE_BATCHES.index(m) + aside for m in batches]
    for place, m in zip(x, batches, strict=True):
        seeds(axes, place, found[m], style["color"])
    axes.plot(
        x, [float(np.median(list(found[m].values()))) for m in batches], markersize=7, **_outlined(style)
    )


def _outlined(style: Mapping[str, Any]) -> dict[str, Any]:
    return {**style, "markeredgecolor": "white", "markeredgewidth": 0.8}


def _reference(axes: "Axes", table: Results) -> None:
    """FedAvg-PG at 30 trajectories per step, whatever stands beside it (science.md A8)."""
    if REFERENCE not in table.arms:
        return
    mean = float(np.mean(list(table.values(REFERENCE, "meta_objective").values())))
    color = ARMS[REFERENCE]["color"]
    axes.axhline(mean, color=color, linestyle="--", label="FedAvg-PG, mean, 30 trajectories per step")
