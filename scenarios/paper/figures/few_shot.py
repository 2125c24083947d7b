"""Figures 2 (right) and 7: return and success of agents that never trained, against their trajectories."""

from typing import TYPE_CHECKING, Any

from scenarios.paper.figures.style import Material, curve, legend, mean_and_sd, means_in_words, published
from scenarios.paper.published import M_ADAPT, SCRATCH, published_values
from scenarios.study.figure import BLUE, GREY, RED, new_figure
from scenarios.study.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARM = "first_order"
BUDGETS = sorted({*M_ADAPT, *SCRATCH})
SERIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "learned": (M_ADAPT, {"color": BLUE, "marker": "o", "label": "learned initialization, one step"}),
    "scratch": (SCRATCH, {"color": RED, "marker": "s", "label": "from scratch, steps of 20"}),
}
RANDOM: dict[str, Any] = {"color": GREY, "linestyle": ":", "label": "untrained policy"}


def draw_returns(material: Material) -> "Figure":
    """Figure 2, right."""
    return _draw(
        material.tables["few-shot"], "return", "fig2-right", "Agents that never trained (Figure 2, right)"
    )


def draw_success(material: Material) -> "Figure":
    """Figure 7."""
    return _draw(
        material.tables["few-shot"], "success", "fig7", "Episodes that reach an unseen goal (Figure 7)"
    )


def _draw(table: Results, outcome: str, name: str, title: str) -> "Figure":
    series = {
        policy: [table.values(ARM, outcome, policy, m) for m in budgets]
        for policy, (budgets, _) in SERIES.items()
    }
    untrained = table.values(ARM, outcome, "random")
    shown = means_in_words({**series, "random": [untrained]}, table.source)
    figure = new_figure(
        title,
        f"{shown}, three held-out goals each; band: one standard deviation (n - 1)",
    )
    axes = figure.subplots()
    for policy, (budgets, style) in SERIES.items():
        curve(axes, [BUDGETS.index(m) for m in budgets], series[policy], style)
    means, _ = mean_and_sd([untrained])
    axes.axhline(float(means[0]), **RANDOM)
    colors = {policy: style["color"] for policy, (_, style) in SERIES.items()} | {"random": GREY}
    published(
        axes,
        [
            (BUDGETS.index(cell.m), value, colors[cell.policy])
            for cell, value in published_values(name).items()
            if cell.policy in colors
        ],
    )
    axes.set_xticks(range(len(BUDGETS)), [str(m) for m in BUDGETS])
    axes.set_xlabel("trajectories of the new agent")
    axes.set_ylabel("return" if outcome == "return" else "success")
    axes.set_ylim(bottom=0)
    legend(axes, loc="upper left")
    return figure
