"""Figures: each is drawn from tables alone, shows their numbers, and is the same file twice."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ProgramError
from scenarios.paper.figures import FIGURES, write_figure
from scenarios.paper.figures.style import ARMS, Material
from scenarios.paper.published import CURVATURE_BATCHES, VARIANTS
from scenarios.paper.rollouts import EPISODES, POLICIES, Rollouts
from scenarios.study.results import Measurement, Results
from tests.scenarios.paper.synthetic import (
    all_tables,
    alpha_sweep,
    around,
    beyond,
    claims,
    control,
    curvature_batch,
    few_shot,
    personalization,
    without,
)

pytest.importorskip("matplotlib")


def paths() -> Rollouts:
    """Straight lines to the left, through no goal; the first of them ends in goal 8."""
    line = np.linspace([0.7, -0.9], [-0.9, -0.9], 21)
    start = np.linspace([0.0, 0.0], [0.737, 0.312], 21)
    return Rollouts("0" * 12, {policy: np.stack([start, *[line] * (EPISODES - 1)]) for policy in POLICIES})


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Tables as published; also opens matplotlib's fonts, which stay open as long as the process."""
    made = Material(all_tables(), paths())
    write_figure("fig1-right", made, tmp_path_factory.mktemp("fonts"))
    return made


@pytest.fixture(autouse=True)
def _fonts(material: Material) -> None:
    """Before the test's leaks are counted."""


def drawn(name: str, **tables: Any) -> Any:
    """A figure of some tables."""
    made = {table.replace("_", "-"): found for table, found in tables.items()}
    return FIGURES[name].draw(Material(made, paths()))


def line(axes: Any, label: str) -> Any:
    """The line of one legend entry."""
    return {found.get_label(): found for found in axes.get_lines()}[label]


def hollow(axes: Any) -> set[tuple[float, float]]:
    """Where the paper's values are marked."""
    marks = [mark for mark in axes.get_lines() if mark.get_markerfacecolor() == "none"]
    found = [mark.get_xydata() for mark in marks]
    return {(round(float(x), 3), round(float(y), 3)) for points in found for x, y in points}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_written_twice_the_same(name: str, material: Material, tmp_path: Path) -> None:
    """A PNG and an SVG without date; equal data give equal bytes."""
    first, second = (write_figure(name, material, tmp_path / part) for part in "ab")
    assert [path.name for path in first] == [f"{name}.png", f"{name}.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert b"</svg>" in first[1].read_bytes() and b"<dc:date>" not in first[1].read_bytes()


@pytest.mark.parametrize("name", [name for name, drawing in FIGURES.items() if drawing.studies])
def test_a_figure_needs_the_studies_that_it_names_and_no_other(name: str, material: Material) -> None:
    """Left with exactly these it is drawn."""
    studies = FIGURES[name].studies
    FIGURES[name].draw(Material({study: material.tables[study] for study in studies}))
    with pytest.raises(KeyError):
        FIGURES[name].draw(Material({study: material.tables[study] for study in studies[1:]}))


def test_trajectories_and_rounds_are_the_same_data() -> None:
    """Exact ends at 12000, first-order at 8000 trajectories, both at round 80; the means are the table's."""
    table = personalization()
    (by_trajectories,) = drawn("fig1-left", personalization=table).axes
    (by_rounds,) = drawn("fig6", personalization=table).axes
    for arm, end in zip(VARIANTS, (12_000, 8_000, 12_000), strict=True):
        left, right = (line(axes, ARMS[arm]["label"]) for axes in (by_trajectories, by_rounds))
        assert (left.get_xdata()[-1], right.get_xdata()[-1]) == (end, 80)
        expected = [np.mean(list(column.values())) for column in table.curve(arm, "meta_objective").values()]
        assert list(left.get_ydata()) == list(right.get_ydata()) == pytest.approx(expected)
    marked = {(12000, 0.79), (8000, 0.73), (12000, 0.68), (8000, 0.71), (0, 0.24), (12000, 0.51)}
    assert hollow(by_trajectories) == marked
    assert hollow(by_rounds) == {(80, 0.79), (80, 0.73), (80, 0.68)}


def test_the_curvature_figure_shows_every_seed_and_medians() -> None:
    """Ten points at each batch; the line is the median, which a mean of two modes would hide."""
    (axes,) = drawn("fig2-left", curvature_batch=curvature_batch()).axes
    medians = line(axes, "exact, median")
    assert list(medians.get_ydata()) == pytest.approx([0.2] * 4 + [0.4, 1.55])
    dots = [found for found in axes.get_lines() if found.get_alpha() == 0.45]
    assert [len(found.get_ydata()) for found in dots] == [10] * len(CURVATURE_BATCHES)
    assert {(4.0, 0.39), (5.0, 1.51)} < hollow(axes)


def test_beyond_draws_what_is_there_and_names_what_is_not() -> None:
    """First-order beside m_h = 100 is the arm of outer batch 110."""
    figure = drawn(
        "fig2-left-beyond", curvature_batch=curvature_batch(), curvature_batch_beyond=beyond((10, 100))
    )
    (axes,) = figure.axes
    first_order = line(axes, "first-order, value baseline, equal trajectories")
    assert list(np.round(first_order.get_xdata())) == [0, 2]
    assert list(first_order.get_ydata()) == pytest.approx([2.2, 2.2])
    assert "causal, baseline, guarded, first_order at m_h = 50, 200, 500, 1000" in figure.get_supxlabel()
    whole = drawn(
        "fig2-left-beyond",
        curvature_batch=curvature_batch(),
        curvature_batch_beyond=beyond(CURVATURE_BATCHES),
    )
    assert "no results yet" not in whole.get_supxlabel()


def test_new_agents_are_drawn_against_their_trajectories() -> None:
    """Budgets stand equally spaced: 200 is the fifth; the paper's value stands beside ours."""
    (axes,) = drawn("fig2-right", few_shot=few_shot()).axes
    learned = line(axes, "learned initialization, one step")
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert ticks == ["0", "20", "50", "100", "200", "500", "2000", "4000"]
    assert learned.get_ydata()[ticks.index("200")] == pytest.approx(1.94)
    assert {(0, 1.53), (3, 1.52), (4, 1.94), (3, 0.25), (0, 0.27)} == hollow(axes)
    (success,) = drawn("fig7", few_shot=few_shot()).axes
    assert (7, 0.9) in hollow(success)


def test_the_control_draws_any_arm_of_the_table() -> None:
    """Also one that nobody named a colour for, and one without tuned rows."""
    arms = ("first_order", "something-new")
    table = control(arms)
    figure = drawn("control", control=table)
    assert len(figure.axes) == 2
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "first-order" in labels and "something-new" in labels
    untuned = type(table)("t", tuple(row for row in table.rows if row.policy == "learned"))
    drawn("control", control=untuned)


def test_claims_are_drawn_arm_by_arm_in_the_order_of_the_table() -> None:
    """F after training, every seed of every arm."""
    for name, study in (("claims", "curvature-claims"), ("grid-claims", "grid-claims")):
        means = {"zeta": 2.0, "alpha_1": 1.0}
        figure = FIGURES[name].draw(Material({study: claims(study, means)}))
        (axes,) = figure.axes
        assert [text.get_text() for text in axes.get_yticklabels()] == ["zeta", "alpha-1"]
        dots = [found for found in axes.get_lines() if found.get_alpha() == 0.45]
        assert [list(found.get_xdata()) for found in dots] == [around(mean, 0.3) for mean in means.values()]
        assert "meta objective, round 150" in figure.get_suptitle()


def test_goals_are_those_of_the_families() -> None:
    """Eight cells on the edge of the grid; discs on the arc, held-out ones at -0.4, 0 and 0.4 rad."""
    (grid,) = drawn("fig4").axes
    cells = {(patch.get_x(), patch.get_y()) for patch in grid.patches}
    assert cells == {(x, y) for x in (0, 2, 4) for y in (0, 2, 4)} - {(2, 2)}
    (arc,) = drawn("fig5").axes
    discs = [patch.get_center() for patch in arc.patches if hasattr(patch, "get_center")]
    angles = [float(np.arctan2(y, x)) for x, y in discs]
    assert angles == pytest.approx([*np.linspace(-0.5, 0.5, 6), -0.4, 0.0, 0.4])


def test_rollouts_that_enter_the_goal_are_counted() -> None:
    """One of eight, by the environment's own rule."""
    panels = drawn("fig8").axes
    assert [axes.get_title().splitlines()[1] for axes in panels] == ["1 of 8 reach the goal"] * 3


def test_a_table_without_an_arm_is_refused_by_name() -> None:
    """A figure of the paper is drawn whole or not at all."""
    with pytest.raises(ConfigError, match="fedavg_pg"):
        drawn("fig1-left", personalization=without(personalization(), "fedavg_pg"))


def changed(results: Results, change: Callable[[Measurement], Measurement | None]) -> Results:
    """The table with other rows; None leaves one out."""
    return Results(results.source, tuple(row for old in results.rows if (row := change(old)) is not None))


def only_one_at(last: int) -> Callable[[Measurement], Measurement | None]:
    """One seed in a round, all of them in the others."""
    return lambda row: row if row.seed == 0 or row.round != last or row.policy == "run" else None


def test_the_caption_counts_the_seeds_behind_the_points() -> None:
    """Ten seeds up to the last round, which one seed has: a range, not ten."""
    ragged = changed(personalization(), only_one_at(80))
    for name in ("fig1-left", "fig6"):
        assert drawn(name, personalization=personalization()).get_supxlabel().startswith("mean of 10 seeds,")
        assert drawn(name, personalization=ragged).get_supxlabel().startswith("mean of 1 to 10 seeds,")
    few = changed(few_shot(), lambda row: row if row.m != 500 or row.seed < 4 else None)
    assert drawn("fig2-right", few_shot=few).get_supxlabel().startswith("mean of 4 to 10 seeds,")
    sweep = changed(alpha_sweep(), lambda row: row if row.seed < 1 else None)
    assert drawn("fig1-right", alpha_sweep=sweep).get_supxlabel().startswith("mean of 1 seed,")
    held = changed(control(), lambda row: row if row.policy != "tuned" or row.seed < 2 else None)
    assert drawn("control", control=held).get_supxlabel().startswith("mean of 2 to 10 seeds,")
    batches = changed(curvature_batch(), lambda row: row if "=500" not in row.arm or row.seed < 3 else None)
    assert drawn("fig2-left", curvature_batch=batches).get_supxlabel().startswith("3 to 10 seeds as points")


def test_a_table_that_stops_early_keeps_its_axis() -> None:
    """Rounds up to 40 of 80: exact ends at 6000 of its 12000 trajectories, the paper's marks stay."""
    half = changed(personalization(), lambda row: row if row.round <= 40 or row.policy == "run" else None)
    (axes,) = drawn("fig1-left", personalization=half).axes
    assert line(axes, ARMS["exact"]["label"]).get_xdata()[-1] == pytest.approx(6000)
    assert (12000, 0.79) in hollow(axes)
    (axes,) = drawn("fig6", personalization=half).axes
    assert (80, 0.79) in hollow(axes)


def test_what_is_not_finite_is_named_in_the_caption() -> None:
    """One diverged seed of one point: its mean is not drawn, which the caption says."""

    def diverged(row: Measurement) -> Measurement:
        there = (row.arm, row.seed, row.round) == ("exact", 3, 80)
        return msgspec.structs.replace(row, value=float("nan")) if there and row.policy == "shared" else row

    note = drawn("fig6", personalization=changed(personalization(), diverged)).get_supxlabel()
    assert note.startswith("mean of 10 seeds (points that are not finite and not drawn: 1 of exact)")


@pytest.mark.parametrize("name", [name for name, drawing in FIGURES.items() if drawing.studies])
def test_nothing_finite_is_no_figure(name: str, material: Material) -> None:
    """An empty frame under a caption would say that there was something."""
    lost = {
        study: changed(results, lambda row: msgspec.structs.replace(row, value=float("nan")))
        for study, results in material.tables.items()
    }
    with pytest.raises(ConfigError, match="finite"):
        FIGURES[name].draw(Material(lost))


def test_without_matplotlib_the_extra_is_named(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading verdicts needs no figures."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ProgramError) as caught:
        write_figure("fig4", material, tmp_path)
    assert "edge-fed[plot]" in caught.value.hint
