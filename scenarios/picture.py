"""The picture of a run: what adaptation is worth, and how training went. Needs the extra ``plot``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.summaries import onboarding_summary
from scenarios.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES: dict[str, dict[str, Any]] = {
    "learned": {"label": "learned initialization, one step", "marker": "o", "color": "tab:blue"},
    "careful": {"label": "the same, tried before it is taken", "marker": "D", "color": "tab:green"},
    "scratch": {"label": "from scratch", "marker": "s", "color": "tab:orange"},
    "random": {"label": "untrained policy", "linestyle": ":", "color": "tab:gray"},
}
SIZE_INCHES = (12.0, 3.8)


def require_plot(path: Path) -> None:
    """Says before a run that the picture after it could not be drawn.

    Raises:
        ProgramError: matplotlib is not installed, or ``path`` names no picture.
    """
    try:
        import matplotlib  # noqa: F401  only who asks for a picture pays for it
        from matplotlib.figure import Figure
    except ImportError:
        raise ProgramError(
            ExitCode.USAGE,
            "--picture needs matplotlib, which is not installed",
            "pip install 'edge-fed[plot]', or leave --picture out",
        ) from None
    known = Figure().canvas.get_supported_filetypes()
    if path.is_dir() or path.suffix.removeprefix(".").lower() not in known:
        what = "a folder" if path.is_dir() else "no picture by its ending"
        raise ProgramError(ExitCode.USAGE, f"--picture {path} is {what}", "name a .png file")


def draw(outcome: Outcome, path: Path) -> None:
    """Writes the picture.

    Args:
        outcome: A run with evaluations; with onboarding rows there are two more panels.
        path: A PNG, or another format that matplotlib knows by its ending.

    Raises:
        ProgramError: It cannot be drawn or written.
    """
    require_plot(path)
    from matplotlib.figure import Figure

    rows = outcome.onboarding
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    panels = list(figure.subplots(1, 3)) if rows else [figure.subplots(1, 1)]
    if rows:
        _adaptation(panels[0], rows, "success", "episodes that reach the goal")
        _adaptation(panels[1], rows, "return", "return")
        panels[1].legend(fontsize="small", loc="upper left", framealpha=0.5)
    _learning(panels[-1], outcome)
    name = outcome.scenario.name if outcome.scenario else ""
    figure.suptitle(
        f"{name}: {outcome.runtime}, {len(outcome.rounds)} rounds, {sum(outcome.trajectories.values()):,} "
        "training trajectories",
        fontsize="medium",
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, metadata={"Software": None} if path.suffix == ".png" else None)
    except (OSError, ValueError) as error:
        raise ProgramError(
            ExitCode.USAGE, f"cannot write the picture {path}: {error}", "name a .png file"
        ) from error


def _adaptation(axes: "Axes", rows: list[dict[str, Any]], value: str, label: str) -> None:
    """Mean over the goals against trajectories (equally spaced), each goal as a faint point."""
    lines = onboarding_summary(rows)
    budgets = sorted({row["m_adapt"] for row in rows})
    for init, style in STYLES.items():
        mine = [line for line in lines if line["init"] == init and line[value] is not None]
        if not mine:
            continue
        if init == "random":
            axes.axhline(mine[0][value], **style)
            continue
        axes.plot([budgets.index(line["m_adapt"]) for line in mine], [line[value] for line in mine], **style)
        single = [row for row in rows if row["init"] == init and row[value] is not None]
        places = [budgets.index(row["m_adapt"]) for row in single]
        faint = {"color": style["color"], "alpha": 0.25, "markersize": 4}
        axes.plot(places, [row[value] for row in single], style["marker"], **faint)
    axes.set_xticks(range(len(budgets)), [str(budget) for budget in budgets])
    axes.set_xlabel("trajectories of the new agent")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def _learning(axes: "Axes", outcome: Outcome) -> None:
    """Return before and after one step against rounds, where it was evaluated."""
    found = sorted(
        (line for line in outcome.evaluations if line["kind"] == "evaluation" and line["n"]),
        key=lambda line: line["round"],
    )
    rounds = [line["round"] for line in found]
    for key, label, marker in (
        ("expected_return", "before adaptation", "o"),
        ("meta_objective", "after one step", "^"),
    ):
        axes.plot(rounds, [line[key] for line in found], marker + "-", label=label)
    axes.set_xlabel("round")
    axes.set_ylabel("return of the training agents")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
