"""Figure 1 (right): F after training against the inner step size alpha."""

from typing import TYPE_CHECKING

from scenarios.paper.figures.style import ARMS, Material, curve, legend, published
from scenarios.paper.published import ALPHAS, VARIANTS, published_values, swept
from scenarios.study.figure import new_figure, seeds_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_alpha_sweep(material: Material) -> "Figure":
    """Mean and standard deviation of every variant at every alpha."""
    table = material.tables["alpha-sweep"]
    figure = new_figure(
        "The inner step size as a personalization parameter (Figure 1, right)",
        f"mean of {seeds_in_words(table)}, band: one standard deviation (n - 1); F by dynamic programming",
    )
    axes = figure.subplots()
    known = published_values("fig1-right")
    points = []
    for variant in VARIANTS:
        cells = {alpha: swept(variant, alpha) for alpha in ALPHAS}
        columns = [table.values(cell.arm, cell.outcome) for cell in cells.values()]
        curve(axes, ALPHAS, columns, ARMS[variant])
        color = ARMS[variant]["color"]
        points += [(alpha, known[cell], color) for alpha, cell in cells.items() if cell in known]
    published(axes, points)
    axes.set_xlabel(r"inner step size $\alpha$")
    axes.set_ylabel("return after one adaptation step, F")
    legend(axes, loc="upper left")
    return figure
