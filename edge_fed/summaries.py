"""Rows of many agents as one: means in agent order, the worst agent, and who is hurt (methods.md 4).

Pure functions of the rows that `edge_fed.evaluation` makes; the server and the reports use them, so that
every number is averaged in one place and in one order.
"""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def evaluation_summary(rows: Iterable[Row]) -> Row:
    """Averages evaluation rows, summed in ascending agent.

    Returns:
        ``n`` agents; ``meta_objective_kind``, ``dp`` only if all are; the means ``expected_return``,
        ``meta_objective``, ``success``, ``success_adapted`` (None if any agent has none);
        ``m_adapt`` (None for dp, or where agents differ); ``worst_agent`` and its
        ``worst_meta_objective``; ``fraction_hurt``, the agents whose return adaptation lowers; the sums
        ``trajectories`` and ``env_steps``.

    Raises:
        ValueError: There are no rows.
    """
    ordered = sorted(rows, key=lambda row: row["agent"])
    if not ordered:
        raise ValueError("no evaluation rows to average")
    worst = min(ordered, key=lambda row: row["meta_objective"])
    budgets = {row["m_adapt"] for row in ordered}
    return {
        "n": len(ordered),
        "meta_objective_kind": "dp" if all(row["kind"] == "dp" for row in ordered) else "mc",
        "m_adapt": budgets.pop() if len(budgets) == 1 else None,
        "expected_return": _mean(ordered, "expected_return"),
        "meta_objective": _mean(ordered, "meta_objective"),
        "success": _mean(ordered, "success"),
        "success_adapted": _mean(ordered, "success_adapted"),
        "worst_agent": worst["agent"],
        "worst_meta_objective": worst["meta_objective"],
        "fraction_hurt": _fraction(row["meta_objective"] < row["expected_return"] for row in ordered),
        "trajectories": sum(row["trajectories"] for row in ordered),
        "env_steps": sum(row["env_steps"] for row in ordered),
    }


def onboarding_summary(rows: Iterable[Row]) -> list[Row]:
    """Averages onboarding rows over goals, one line per initialization and budget.

    Returns:
        Lines in the order in which initialization and budget first occur: ``init``, ``m_adapt``, ``n``
        rows, the means ``return`` and ``success`` (None if any row has none), ``worst_goal`` and its
        ``worst_return``, ``fraction_hurt``: of the learned and careful rows with a budget, those below the
        zero-shot return of their goal (None where no zero-shot row says), and ``fraction_kept``: of the
        careful rows, those that kept the initialization (None for others).
    """
    ordered = sorted(rows, key=lambda row: row["goal"])
    zero_shot = {row["goal"]: row["return"] for row in ordered if _key(row) == ("learned", 0)}
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in ordered:
        groups.setdefault(_key(row), []).append(row)
    return [_line(init, m, group, zero_shot) for (init, m), group in groups.items()]


def _line(init: str, m: int, group: list[Row], zero_shot: dict[int, float]) -> Row:
    worst = min(group, key=lambda row: row["return"])
    comparable = init in ("learned", "careful") and m > 0 and all(row["goal"] in zero_shot for row in group)
    hurt = _fraction(row["return"] < zero_shot[row["goal"]] for row in group) if comparable else None
    return {
        "init": init,
        "m_adapt": m,
        "n": len(group),
        "return": _mean(group, "return"),
        "success": _mean(group, "success"),
        "worst_goal": worst["goal"],
        "worst_return": worst["return"],
        "fraction_hurt": hurt,
        "fraction_kept": _fraction(row["factor"] == 0 for row in group) if init == "careful" else None,
    }


def _key(row: Row) -> tuple[str, int]:
    return row["init"], row["m_adapt"]


def _mean(rows: list[Row], name: str) -> float | None:
    values = [row[name] for row in rows]
    return None if None in values else float(sum(values) / len(values))


def _fraction(facts: Iterable[bool]) -> float:
    found = list(facts)
    return sum(found) / len(found)
