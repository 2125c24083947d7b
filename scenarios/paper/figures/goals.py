"""Figures 4 and 5: where the goals of the two families are, asked from the families themselves."""

from typing import TYPE_CHECKING

import numpy as np

from edge_fed.config import EnvironmentConfig
from edge_fed.envs.gridworld import Gridworld
from edge_fed.envs.navigation import NUM_ACTIONS, Navigation
from scenarios.paper.figures.style import Material
from scenarios.script import library, load_scenario
from scenarios.study.figure import BLUE, GREY, RED, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (4.4, 4.8)


def draw_gridworld(_material: Material) -> "Figure":
    """Figure 4."""
    from matplotlib.patches import Rectangle

    settings = _packaged("gridworld-exact")
    family = Gridworld(settings.horizon, settings.discount, settings.args)
    figure = new_figure(
        "Goals of the gridworld (Figure 4)",
        f"{family.num_train} agents, one goal each; every episode starts in any other cell",
        SIZE_INCHES,
    )
    axes = figure.subplots()
    size = family.size
    for goal in range(family.num_train):
        row, column = divmod(family.make(goal).goal_cell, size)
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=BLUE, alpha=0.75))
        axes.text(column + 0.5, row + 0.5, str(goal), ha="center", va="center", color="white", fontsize=14)
    axes.set_xlim(0, size)
    axes.set_ylim(size, 0)  # row 0 is at the top
    axes.set_xticks(range(size + 1), [])
    axes.set_yticks(range(size + 1), [])
    axes.tick_params(length=0)
    axes.grid(color=GREY, linewidth=0.8)
    for side in axes.spines.values():
        side.set_visible(True)
    axes.set_aspect("equal")
    return figure


def draw_navigation(_material: Material) -> "Figure":
    """Figure 5."""
    figure = new_figure(
        "Goals of navigation (Figure 5)",
        "discs: where the reward is 1; arrows: the moves, to scale\nepisodes start anywhere in the square",
        SIZE_INCHES,
    )
    axes = figure.subplots()
    family = navigation(_packaged("few-shot"))
    square(axes)
    for goal in range(family.num_train + family.num_held_out):
        disc(axes, family, goal)
    reach = np.linspace(family.angles.min() - 0.12, family.angles.max() + 0.12, 50)
    radius = float(np.hypot(*family.make(0).centre))
    axes.plot(radius * np.cos(reach), radius * np.sin(reach), color=GREY, linewidth=1, linestyle=":")
    _moves(axes, family)
    axes.plot([], [], "o", markersize=10, color=BLUE, alpha=0.4, label="training")
    axes.plot([], [], "o", markersize=10, color=RED, markerfacecolor="none", label="held out")
    axes.legend(loc="lower left", bbox_to_anchor=(0.03, 0.03))
    return figure


def _packaged(scenario: str) -> EnvironmentConfig:
    """By its file: one of the same name in the current folder is not meant."""
    return load_scenario(str(library()[scenario])).environment


def navigation(settings: EnvironmentConfig) -> Navigation:
    """The family of the few-shot experiment, as its scenario has it."""
    return Navigation(settings.horizon, settings.discount, settings.args)


def square(axes: "Axes") -> None:
    """The room of the navigation family."""
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(-1.05, 1.05)
    axes.set_aspect("equal")
    axes.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=GREY, linewidth=0.8)


def disc(axes: "Axes", family: Navigation, goal: int) -> None:
    """One goal, with its number."""
    from matplotlib.patches import Circle

    place, trained = family.make(goal), goal < family.num_train
    color = BLUE if trained else RED
    x, y = place.centre
    axes.add_patch(Circle((x, y), place.radius, fill=trained, facecolor=color, alpha=0.2 if trained else 1,
                          edgecolor=color, linestyle="-" if trained else "--"))  # fmt: skip
    axes.plot([x], [y], ".", color=color)
    outward = 1.06 if trained else 0.94  # numbers of neighbours stand on both sides of the arc
    axes.text(x * outward, y * outward, str(goal), color=color, ha="center", va="center", fontsize=8)


def _moves(axes: "Axes", family: Navigation) -> None:
    """What one action does, from the origin."""
    environment = family.make(0)
    here = np.zeros((NUM_ACTIONS, 2))
    there = np.empty_like(here)
    environment.step(here, np.arange(len(here)), there)
    for x, y in there:
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 1})
