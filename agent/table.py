"""Onboarding rows as a table for people, without a library: an agent must start fast."""

from collections.abc import Sequence
from typing import Any

TITLES = ("start", "trajectories", "return", "success")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line per row: where it started from, its budget, its mean return and success rate.

    Args:
        rows: As `edge_fed.evaluation.onboard` makes them; not empty.
    """
    lines = [TITLES, *((_start(row), str(row["m_adapt"]), _return(row), _success(row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(TITLES))]
    text = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join([f"goal {rows[0]['goal']}", text[0], "  ".join("-" * w for w in widths), *text[1:]])


def _start(row: dict[str, Any]) -> str:
    if row["init"] == "careful":
        part = "the whole" if row["factor"] == 1 else f"{row['factor']:g} of the"
        return f"careful, {part} step" if row["factor"] else "careful, no step"
    adapted = ", one step" if row["m_adapt"] else ", not adapted"
    return f"learned{adapted}" if row["init"] == "learned" else f"from {row['init']}"


def _return(row: dict[str, Any]) -> str:
    return f"{row['return']:.3f}"


def _success(row: dict[str, Any]) -> str:
    return "-" if row["success"] is None else f"{100 * row['success']:.1f} %"
