"""The picture of a life."""

from pathlib import Path

import pytest

from agent.life_picture import draw, require_plot
from edge_fed.program.exit_codes import ExitCode, ProgramError

pytest.importorskip("matplotlib")

LINES = [
    {"episode": 10, "what": "batch", "episodes": 10, "return": 2.0},
    {"episode": 20, "what": "batch", "episodes": 10, "return": 2.5},
    {"episode": 20, "what": "reference", "episodes": 20, "mean": 2.2},
    {"episode": 20, "what": "change", "change": "goal=3"},
    {"episode": 28, "what": "alarm"},
    {"episode": 80, "what": "re-onboarding"},
    {"episode": 90, "what": "alarm"},
]


@pytest.fixture(scope="module", autouse=True)
def _open_fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They stay open as long as the process."""
    draw(LINES, tmp_path_factory.mktemp("fonts") / "x.png", 7)


def test_returns_and_what_happened_are_drawn(tmp_path: Path) -> None:
    """A dot for each batch, a line for each event and reference, one name for each kind of them."""
    draw(LINES, tmp_path / "life.svg", 7)
    svg = (tmp_path / "life.svg").read_text()
    for name in ("mean return of a batch", "the environment changes", "alarm", "re-onboarding", "goal 7"):
        assert svg.count(f"<!-- {name}") + svg.count(f"of {name};") == 1, name
    draw(LINES, tmp_path / "again.png", 7)
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["life.txt", "life", "."])
def test_what_is_no_picture_is_refused_before_the_life(name: str, tmp_path: Path) -> None:
    """By its ending, or because it is a folder."""
    with pytest.raises(ProgramError, match="no name of a picture") as caught:
        require_plot(tmp_path / name)
    assert caught.value.code is ExitCode.USAGE


def test_a_folder_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    """Before the life by name; and nobody makes it after the life."""
    path = tmp_path / "below" / "life.png"
    with pytest.raises(ProgramError, match=r"the folder \S+below is not there") as caught:
        require_plot(path)
    assert caught.value.code is ExitCode.USAGE
    with pytest.raises(ProgramError, match="cannot be written"):
        draw(LINES, path, 7)
    assert list(tmp_path.iterdir()) == []
