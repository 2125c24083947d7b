"""The study of the preregistered claims, which the command ``claims`` judges, and the one on the grid."""

from typing import TYPE_CHECKING

from scenarios.paper.figures.style import Material
from scenarios.study.arms_picture import Shown, draw_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = Shown("meta_objective")


def draw_curvature_claims(material: Material) -> "Figure":
    """Guard, exact against first-order at equal trajectories, placebos: neural navigation."""
    return draw_arms(material.tables["curvature-claims"], "Claims about curvature", SHOWN)


def draw_grid_claims(material: Material) -> "Figure":
    """Exact beside first-order at equal trajectories on the grid: no preregistered claim."""
    return draw_arms(material.tables["grid-claims"], "Where curvature may pay, the grid (exploratory)", SHOWN)
