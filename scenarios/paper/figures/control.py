"""The control that the paper lacks: every initialization on the held-out goals, before and after one step."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scenarios.paper.figures.style import ARMS, Material, means_in_words
from scenarios.paper.measured import mean_interval
from scenarios.paper.published import M_ADAPT
from scenarios.study.figure import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Values, new_figure
from scenarios.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNOWN: dict[str, dict[str, Any]] = {
    **ARMS,
    "first_order-value": {"color": RED, "marker": "D", "label": "first-order, value baseline"},
    "fedavg_pg-value": {"color": SKY, "marker": "v", "label": "FedAvg-PG, value baseline"},
    "exact-value": {"color": PURPLE, "marker": "P", "label": "exact, guard 1/2, value baseline"},
}
OTHERS = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)
OUTCOMES = ("return", "success")
LINES = {"learned": "-", "tuned": "--"}


def draw_control(material: Material) -> "Figure":
    """Two panels, one line per arm; dashed: alpha chosen per run and budget on validation goals."""
    table = material.tables["control"]
    series = {
        arm: [
            column
            for policy in LINES
            for outcome in OUTCOMES
            for column in _measured(table, arm, outcome, policy).values()
        ]
        for arm in table.arms
    }
    figure = new_figure(
        "The control that the paper lacks: held-out goals, before and after one step",
        f"{means_in_words(series, table.source)}, bars: 95 % bootstrap interval; hollow: step size "
        "tuned per run and budget on validation goals",
        size=(9.6, 4.6),
    )
    panels = list(figure.subplots(1, 2))
    for axes, outcome in zip(panels, OUTCOMES, strict=True):
        for index, arm in enumerate(table.arms):
            style = KNOWN.get(arm, {"color": OTHERS[index % len(OTHERS)], "marker": "x", "label": arm})
            _lines(axes, table, arm, outcome, style, aside=0.06 * (index - (len(table.arms) - 1) / 2))
        axes.set_xticks(range(len(M_ADAPT)), [str(m) for m in M_ADAPT])
        axes.set_xlabel("trajectories of the one step (0: before it)")
        axes.set_ylabel(outcome)
    for line, label in (("-", "the run's step size"), ("--", "tuned on validation goals")):
        panels[0].plot([], [], line, color="black", label=label)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return figure


def _lines(
    axes: "Axes", table: Results, arm: str, outcome: str, style: Mapping[str, Any], *, aside: float
) -> None:
    for policy, line in LINES.items():
        found = _measured(table, arm, outcome, policy)
        if not found:
            continue
        values = [list(column.values()) for column in found.values()]
        means = [float(np.mean(column)) for column in values]
        bounds = [mean_interval(column) or (mean, mean) for column, mean in zip(values, means, strict=True)]
        below = [mean - low for mean, (low, _) in zip(means, bounds, strict=True)]
        above = [high - mean for mean, (_, high) in zip(means, bounds, strict=True)]
        x = [M_ADAPT.index(m) + aside for m in found]
        extra = {} if policy == "learned" else {"label": None, "markerfacecolor": "white"}
        axes.errorbar(x, means, (below, above), linestyle=line, elinewidth=1, **{**style, **extra})


def _measured(table: Results, arm: str, outcome: str, policy: str) -> dict[int, Values]:
    """Budget -> seed -> value, for the budgets that were measured."""
    there = {row.m for row in table.rows if (row.arm, row.policy, row.outcome) == (arm, policy, outcome)}
    return {m: table.values(arm, outcome, policy, m) for m in M_ADAPT if m in there}
