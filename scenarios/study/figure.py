"""What every figure shares: colours for every kind of sight, its frame, and files that equal data repeat."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_fed.program.exit_codes import ExitCode, ProgramError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#777777"
)  # fmt: skip
"""Okabe and Ito's palette, which people with any colour vision tell apart."""

STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "edge_fed",  # the same ids in every file: equal data give equal bytes
}

METADATA: dict[str, dict[str, Any]] = {".png": {"Software": None}, ".svg": {"Date": None}}
"""The endings that can be written, and what is left out of such a file so that it is the same twice."""

SIZE_INCHES = (5.4, 3.9)

Values = Mapping[int, float]
"""Seed -> value."""


def require_matplotlib() -> None:
    """Says before a run that no figure could be drawn after it.

    Raises:
        ProgramError: It is not installed.
    """
    try:
        import matplotlib  # noqa: F401  only who draws pays for it
    except ImportError:
        raise ProgramError(
            ExitCode.USAGE, "figures need matplotlib, which is not installed", "pip install 'edge-fed[plot]'"
        ) from None


def write(draw: Callable[[], "Figure"], paths: Sequence[Path], hint: str) -> None:
    """Draws in the common style and writes every file; equal data give equal bytes.

    Args:
        draw: Makes the figure.
        paths: Each with an ending of `METADATA`.
        hint: What to do if one cannot be written.

    Raises:
        ProgramError: matplotlib is not installed, or a file cannot be written.
    """
    require_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = draw()
        for path in paths:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, metadata=METADATA[path.suffix.lower()])
            except OSError as error:
                message = f"cannot write the figure {error.filename}: {error.strerror}"
                raise ProgramError(ExitCode.USAGE, message, hint) from None


def new_figure(title: str, note: str, size: tuple[float, float] = SIZE_INCHES) -> "Figure":
    """An empty figure with a title above and a small note below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=10)
    figure.supxlabel(note, fontsize=7, color=GREY)
    return figure


def missing_in_words(what: Sequence[str]) -> str:
    """A line under the note for what the table lacks; empty if it lacks nothing."""
    return "\nno results yet: " + "; ".join(what) if what else ""
