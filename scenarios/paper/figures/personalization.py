"""Figures 1 (left) and 6: F of the three variants, against trajectories per agent and against rounds."""

from typing import TYPE_CHECKING

from scenarios.paper.figures.style import ARMS, Material, curve, legend, mean_and_sd, published
from scenarios.paper.published import VARIANTS, published_values
from scenarios.study.figure import GREY, new_figure, seeds_in_words
from scenarios.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STUDY = "personalization"
MATCHED = 8000  # trajectories per agent at which the paper compares exact and first-order


def draw_by_trajectories(material: Material) -> "Figure":
    """Figure 1, left."""
    table = material.tables[STUDY]
    figure, axes = _frame(table, "Personalization within federation (Figure 1, left)")
    spent = {arm: _per_agent(table, arm) for arm in VARIANTS}
    for arm in VARIANTS:
        rounds = table.curve(arm, "meta_objective")
        x = [number / max(rounds) * spent[arm] for number in rounds]
        curve(axes, x, list(rounds.values()), ARMS[arm])
    _before(axes, table, spent["exact"])
    axes.axvline(MATCHED, color=GREY, linewidth=0.8, linestyle=":")
    known = published_values("fig1-left")
    points = [
        (cell.trajectories or spent[cell.arm], value, ARMS[cell.arm]["color"])
        for cell, value in known.items()
        if cell.outcome == "meta_objective"
    ]
    started = [(0.0, value, GREY) for cell, value in known.items() if cell.round == 0]
    ended = [
        (spent[cell.arm], value, ARMS[cell.arm]["color"])
        for cell, value in known.items()
        if cell.outcome == "expected_return" and cell.round is None
    ]
    published(axes, points + started + ended)
    axes.set_xlabel("training trajectories per agent")
    legend(axes, loc="lower right")
    return figure


def draw_by_rounds(material: Material) -> "Figure":
    """Figure 6: the same data."""
    table = material.tables[STUDY]
    figure, axes = _frame(table, "The same by communication rounds (Figure 6)")
    ends = []
    for arm in VARIANTS:
        rounds = table.curve(arm, "meta_objective")
        curve(axes, list(rounds), list(rounds.values()), ARMS[arm])
        ends.append(max(rounds))
    known = published_values("fig1-left")
    last = {cell.arm: value for cell, value in known.items() if _is_last(cell.outcome, cell.trajectories)}
    published(axes, [(max(ends), last[arm], ARMS[arm]["color"]) for arm in VARIANTS])
    axes.set_xlabel("communication round")
    legend(axes, loc="lower right")
    return figure


def _is_last(outcome: str, trajectories: int | None) -> bool:
    return outcome == "meta_objective" and trajectories is None


def _frame(table: Results, title: str) -> tuple["Figure", "Axes"]:
    figure = new_figure(
        title,
        f"mean of {seeds_in_words(table)}, band: one standard deviation (n - 1); F by dynamic programming",
    )
    axes = figure.subplots()
    axes.set_ylabel("return after one adaptation step, F")
    return figure, axes


def _per_agent(table: Results, arm: str) -> float:
    means, _ = mean_and_sd([table.values(arm, "train_trajectories_per_agent", "run")])
    return float(means[0])


def _before(axes: "Axes", table: Results, spent: float) -> None:
    """The exact variant's initialization before its adaptation step: what the step is worth."""
    rounds = table.curve("exact", "expected_return")
    means, _ = mean_and_sd(rounds.values())
    x = [number / max(rounds) * spent for number in rounds]
    axes.plot(x, means, color=ARMS["exact"]["color"], linestyle="--", label="exact, before the step")
