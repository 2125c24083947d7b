"""Figure 8: what one step changes in the behaviour on a goal that nobody trained on."""

from typing import TYPE_CHECKING

import numpy as np

from scenarios.paper.figures.goals import disc, navigation, square
from scenarios.paper.figures.style import Material
from scenarios.paper.rollouts import BUDGET, GOAL, SEED, rollout_arm
from scenarios.study.figure import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edge_fed.envs.navigation import Navigation
    from edge_fed.params import F8

TITLES = {
    "before": "learned initialization",
    "after": f"after one step ({BUDGET} trajectories)",
    "scratch": f"from scratch ({BUDGET} trajectories)",
}
SIZE_INCHES = (9.6, 3.9)
REACHED, FAILED = "#009E73", "#777777"


def draw_rollouts(material: Material) -> "Figure":
    """Three panels; the same starts and the same random numbers in each."""
    assert material.rollouts is not None
    family = navigation(rollout_arm().scenario.environment)
    figure = new_figure(
        f"Rollouts on the held-out goal {GOAL} (Figure 8)",
        f"seed {SEED}; circle: start, dot: end; green: enters the goal; the same starts in each panel",
        SIZE_INCHES,
    )
    panels = list(figure.subplots(1, len(TITLES)))
    for axes, (policy, title) in zip(panels, TITLES.items(), strict=True):
        paths = material.rollouts.paths[policy]
        reached = _paths(axes, family, paths)
        axes.set_title(f"{title}\n{reached} of {len(paths)} reach the goal", fontsize=9)
    return figure


def _paths(axes: "Axes", family: "Navigation", paths: "F8") -> int:
    """Draws them; returns how many enter the goal."""
    square(axes)
    disc(axes, family, GOAL)
    reached = family.make(GOAL).success(paths.swapaxes(0, 1))
    for path, good in zip(paths, reached, strict=True):
        color = REACHED if good else FAILED
        axes.plot(path[:, 0], path[:, 1], color=color, linewidth=1.1, alpha=0.8)
        axes.plot(*path[0], "o", color=color, markerfacecolor="white", markersize=4)
        axes.plot(*path[-1], "o", color=color, markersize=3.5)
    axes.grid(color=GREY, alpha=0.1)
    return int(np.count_nonzero(reached))
