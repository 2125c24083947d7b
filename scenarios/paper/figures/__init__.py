"""The paper's figures, those that it lacks, and what each needs. One entry here is one figure."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from scenarios.paper.figures.alpha_sweep import draw_alpha_sweep
from scenarios.paper.figures.claims import draw_curvature_claims, draw_grid_claims
from scenarios.paper.figures.control import draw_control
from scenarios.paper.figures.curvature_batch import draw_beyond, draw_curvature_batch
from scenarios.paper.figures.few_shot import draw_returns, draw_success
from scenarios.paper.figures.goals import draw_gridworld, draw_navigation
from scenarios.paper.figures.newcomers import FAMILIES, draw_newcomers
from scenarios.paper.figures.personalization import draw_by_rounds, draw_by_trajectories
from scenarios.paper.figures.rollouts import draw_rollouts
from scenarios.paper.figures.style import Material
from scenarios.study.figure import write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[Material], "Figure"]


class Drawing(msgspec.Struct, frozen=True):
    """One figure.

    Attributes:
        title: For lists; the figure's own title may be shorter.
        draw: Makes it.
        studies: Whose tables it needs.
        rollouts: Whether it needs those of `scenarios.paper.rollouts`.
    """

    title: str
    draw: Draw
    studies: tuple[str, ...] = ()
    rollouts: bool = False


FIGURES: dict[str, Drawing] = {
    "fig1-left": Drawing(
        "F against trajectories, three variants", draw_by_trajectories, ("personalization",)
    ),
    "fig1-right": Drawing("F against the inner step size", draw_alpha_sweep, ("alpha-sweep",)),
    "fig2-left": Drawing("F against the curvature batch, seeds", draw_curvature_batch, ("curvature-batch",)),
    "fig2-left-beyond": Drawing(
        "the same with lower variance and the guard, beside first-order at equal trajectories",
        draw_beyond,
        ("curvature-batch", "curvature-batch-beyond"),
    ),
    "fig2-right": Drawing("return of agents that never trained", draw_returns, ("few-shot",)),
    "fig4": Drawing("goals of the gridworld", draw_gridworld),
    "fig5": Drawing("goals of navigation, training and held out", draw_navigation),
    "fig6": Drawing("F against rounds, three variants", draw_by_rounds, ("personalization",)),
    "fig7": Drawing("success of agents that never trained", draw_success, ("few-shot",)),
    "fig8": Drawing("rollouts on an unseen goal, before and after one step", draw_rollouts, rollouts=True),
    "control": Drawing("every initialization on the held-out goals", draw_control, ("control",)),
    "claims": Drawing(
        "every arm of the claims about curvature", draw_curvature_claims, ("curvature-claims",)
    ),
    "grid-claims": Drawing(
        "exact beside first-order on the grid, every arm", draw_grid_claims, ("grid-claims",)
    ),
    "newcomers": Drawing("what newcomers get on families of ours", draw_newcomers, FAMILIES),
}
"""In the order of the paper."""


def write_figure(name: str, material: Material, folder: Path) -> list[Path]:
    """Draws a figure and writes it as PNG and SVG; equal data give equal files.

    Raises:
        ConfigError: A table lacks what the figure cannot do without.
        ProgramError: matplotlib is not installed, or the folder cannot be written.
    """
    written = [folder / f"{name}.png", folder / f"{name}.svg"]
    write(lambda: FIGURES[name].draw(material), written, "choose another --output")
    return written
