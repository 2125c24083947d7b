"""The picture of a life: returns over episodes, with what happened. Needs the extra ``plot``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_fed.program.exit_codes import ExitCode, ProgramError

SIZE_INCHES = (10.0, 4.0)
MARKS: dict[str, dict[str, Any]] = {
    "change": {"color": "tab:gray", "linestyle": ":", "label": "the environment changes"},
    "alarm": {"color": "tab:red", "linestyle": "-", "label": "alarm"},
    "re-onboarding": {"color": "tab:green", "linestyle": "--", "label": "re-onboarding"},
    "step taken": {"color": "tab:blue", "linestyle": ":", "alpha": 0.4, "label": "learning step taken"},
}


def require_plot(path: Path) -> None:
    """Finds out before a life whether it can be drawn after it.

    Raises:
        ProgramError: There is no matplotlib, or ``path`` can be no picture, or its folder is not there.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        why = "--picture needs matplotlib, which is not installed"
        hint = "pip install 'edge-fed[plot]', or live without --picture"
        raise ProgramError(ExitCode.USAGE, why, hint) from None
    known = Figure().canvas.get_supported_filetypes()
    if path.is_dir() or path.suffix.removeprefix(".").lower() not in known:
        raise ProgramError(ExitCode.USAGE, f"--picture {path} is no name of a picture", "name a .png")
    if not path.parent.is_dir():
        why = f"--picture {path}: the folder {path.parent} is not there"
        raise ProgramError(ExitCode.USAGE, why, "make it, or name another")


def draw(lines: Sequence[dict[str, Any]], path: Path, goal: int) -> None:
    """Writes the picture.

    Args:
        lines: The journal.
        path: Ends as a picture.
        goal: For the title.

    Raises:
        ProgramError: It cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    batches = [line for line in lines if line["what"] == "batch"]
    episodes, returns = [line["episode"] for line in batches], [line["return"] for line in batches]
    axes.plot(episodes, returns, "o", markersize=3, color="tab:blue", label="mean return of a batch")
    told: set[str] = set()
    for line in lines:
        if line["what"] in MARKS:
            style: dict[str, Any] = {**MARKS[line["what"]]}
            if line["what"] in told:
                style.pop("label")
            told.add(line["what"])
            axes.axvline(line["episode"], **style)
    began = 0
    for line in lines:
        if line["what"] == "reference":
            began = line["episode"] - line["episodes"]
            axes.hlines(line["mean"], began, line["episode"], color="black", linewidth=2)
    axes.set_xlabel("episode")
    axes.set_ylabel("return")
    axes.set_title(f"the life of goal {goal}; black: references", fontsize="medium")
    axes.legend(fontsize="small")
    try:
        figure.savefig(path, dpi=120, metadata={"Software": None} if path.suffix == ".png" else None)
    except (OSError, ValueError) as error:
        raise ProgramError(ExitCode.FAILED, f"the picture {path} cannot be written: {error}") from error
