"""The figure of the families: one panel each, every row in its place, the gate above it."""

import pytest

from scenarios.paper.figures.newcomers import FAMILIES, draw_newcomers
from scenarios.paper.figures.style import Material
from scenarios.study.figure import write
from tests.scenarios.paper.synthetic import newcomers

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True, scope="module")
def _fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opens matplotlib's fonts, which stay open as long as the process."""
    material = Material({name: newcomers(name) for name in FAMILIES})
    write(lambda: draw_newcomers(material), [tmp_path_factory.mktemp("fonts") / "newcomers.png"], "")


def test_each_family_has_a_panel_with_every_row_and_its_gate() -> None:
    """Fifteen rows from uniform to specialist; means where they are; (23 - 21) / (23 - 19) = 0.5 passes."""
    tables = {"thermostats": newcomers("thermostats"), "cartpole": newcomers("cartpole", 21.4)}
    tables["pendulum"] = newcomers("pendulum")
    figure = draw_newcomers(Material(tables))
    assert len(figure.axes) == len(FAMILIES)
    for axes, best in zip(figure.axes, (23, 21.4, 23), strict=True):
        labels = [text.get_text() for text in axes.get_yticklabels()]
        assert labels[0] == "uniform" and labels[-1] == "specialist, 9,000" and len(labels) == 15
        means = [float(mark.get_xdata()[0]) for mark in axes.get_lines() if mark.get_marker() == "D"]
        assert means == pytest.approx([19, 21, 21, 21, 21.5, *[22] * 9, best])
    first, second, _ = (axes.get_title(loc="left") for axes in figure.axes)
    assert first.startswith("thermostats: gate 0.500 (") and first.endswith("), passed")
    assert second.startswith("cartpole: gate 0.167 (") and second.endswith("), not passed (needs 0.2)")
