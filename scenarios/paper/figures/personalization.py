"""Figures 1 (left) and 6: F of the three variants, against trajectories per agent and against rounds."""

from typing import TYPE_CHECKING

from edge_fed.errors import ConfigError, Fault
from scenarios.paper.figures.style import (
    ARMS,
    Material,
    curve,
    legend,
    mean_and_sd,
    means_in_words,
    published,
)
from scenarios.paper.published import VARIANTS, published_values
from scenarios.study.figure import GREY, new_figure
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
    of_round = {arm: _per_agent_and_round(table, arm) for arm in VARIANTS}
    spent = {arm: each * last for arm, (each, last) in of_round.items()}
    for arm, (each, _) in of_round.items():
        rounds = table.curve(arm, "meta_objective")
        curve(axes, [number * each for number in rounds], list(rounds.values()), ARMS[arm])
    _before(axes, table, of_round["exact"][0])
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
    for arm in VARIANTS:
        rounds = table.curve(arm, "meta_objective")
        curve(axes, list(rounds), list(rounds.values()), ARMS[arm])
    ends = [_per_agent_and_round(table, arm)[1] for arm in VARIANTS]
    known = published_values("fig1-left")
    last = {cell.arm: value for cell, value in known.items() if _is_last(cell.outcome, cell.trajectories)}
    published(axes, [(max(ends), last[arm], ARMS[arm]["color"]) for arm in VARIANTS])
    axes.set_xlabel("communication round")
    legend(axes, loc="lower right")
    return figure


def _is_last(outcome: str, trajectories: int | None) -> bool:
    return outcome == "meta_objective" and trajectories is None


def _frame(table: Results, title: str) -> tuple["Figure", "Axes"]:
    series = {arm: table.curve(arm, "meta_objective").values() for arm in VARIANTS}
    shown = means_in_words(series, table.source)
    figure = new_figure(title, f"{shown}, band: one standard deviation (n - 1); F by dynamic programming")
    axes = figure.subplots()
    axes.set_ylabel("return after one adaptation step, F")
    return figure, axes


def _per_agent_and_round(table: Results, arm: str) -> tuple[float, int]:
    """Trajectories, and the last round as the run counted it: evaluations may be missing at the end.

    Raises:
        ConfigError: There were none.
    """
    outcome = "train_trajectories_per_agent"
    last, spent = max(table.curve(arm, outcome, "run").items())
    means, _ = mean_and_sd([spent])
    if not (last > 0 and means[0] > 0):
        message = f"{arm} trained on {means[0]:g} trajectories in {last} rounds: no axis to draw on"
        raise ConfigError([Fault(outcome, message)], table.source)
    return float(means[0]) / last, last


def _before(axes: "Axes", table: Results, each: float) -> None:
    """The exact variant's initialization before its adaptation step: what the step is worth."""
    rounds = table.curve("exact", "expected_return")
    means, _ = mean_and_sd(rounds.values())
    axes.plot(
        [number * each for number in rounds],
        means,
        color=ARMS["exact"]["color"],
        linestyle="--",
        label="exact, before the step",
    )
