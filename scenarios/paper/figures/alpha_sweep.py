"""Figure 1 (right): F after training against the inner step size alpha."""

from typing import TYPE_CHECKING

from scenarios.paper.figures.style import ARMS, Material, curve, legend, means_in_words, published
from scenarios.paper.published import ALPHAS, VARIANTS, published_values, swept
from scenarios.study.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_alpha_sweep(material: Material) -> "Figure":
    """Mean and standard deviation of every variant at every alpha."""
    table = material.tables["alpha-sweep"]
    cells = {variant: {alpha: swept(variant, alpha) for alpha in ALPHAS} for variant in VARIANTS}
    series = {
        variant: [table.values(cell.arm, cell.outcome) for cell in found.values()]
        for variant, found in cells.items()
    }
    shown = means_in_words(series, table.source)
    figure = new_figure(
        "The inner step size as a personalization parameter (Figure 1, right)",
        f"{shown}, band: one standard deviation (n - 1); F by dynamic programming",
    )
    axes = figure.subplots()
    known = published_values("fig1-right")
    points = []
    for variant in VARIANTS:
        curve(axes, ALPHAS, series[variant], ARMS[variant])
        color = ARMS[variant]["color"]
        points += [(alpha, known[cell], color) for alpha, cell in cells[variant].items() if cell in known]
    published(axes, points)
    axes.set_xlabel(r"inner step size $\alpha$")
    axes.set_ylabel("return after one adaptation step, F")
    legend(axes, loc="upper left")
    return figure
