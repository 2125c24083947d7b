"""What a newcomer gets on families of ours: each initialization before and after one step, and the ends."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from scenarios.paper.figures.style import ARMS, Material
from scenarios.study.arms_picture import draw_row, summary_of
from scenarios.study.figure import new_figure
from scenarios.study.gate import SPECIALIST, THRESHOLD, UNIFORM, gate_of
from scenarios.study.results import Results
from scenarios.study.statistics import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAMILIES = ("thermostats", "cartpole", "pendulum")
BUDGET = 100
SIZE = (8.6, 12.4)
METHODS = ("fedavg_pg", "first_order", "exact")
STEPS = {"learned": "one step", "careful": "careful step", "tuned": "step, tuned alpha"}


class Row(NamedTuple):
    """Which values stand in one row, and what it is called."""

    label: str
    arm: str
    policy: str
    m: int


def draw_newcomers(material: Material) -> "Figure":
    """One panel per family; the gate stands above it."""
    note = f"held-out agents, points: seeds; bar: mean, 95 % interval; steps of {BUDGET} trajectories"
    figure = new_figure("What a newcomer gets", note, SIZE)
    for axes, family in zip(figure.subplots(len(FAMILIES), 1), FAMILIES, strict=True):
        _panel(axes, family, material.tables[family])
    return figure


def _panel(axes: "Axes", family: str, results: Results) -> None:
    rows = list(_rows(results))
    for place, row in enumerate(rows):
        values = results.values(row.arm, "return", row.policy, row.m)
        draw_row(axes, place, values, summary_of(results, row.arm, values))
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("return", fontsize=8)
    axes.set_title(f"{family}{_gate(results)}", fontsize=9, loc="left")


def _gate(results: Results) -> str:
    gate = gate_of(results)
    if gate is None:
        return ""
    interval = gate.share.interval
    words = f"{number(gate.share.mean)} ({number(interval.low)} to {number(interval.high)})"
    return f": gate {words}, {'passed' if gate.passed else f'not passed (needs {THRESHOLD})'}"


def _rows(results: Results) -> Iterator[Row]:
    yield Row("uniform", UNIFORM, "learned", 0)
    for arm in METHODS:
        yield Row(f"{ARMS[arm]['label']}, zero-shot", arm, "learned", 0)
    yield Row(f"from scratch, {BUDGET}", "scratch", "scratch", BUDGET)
    for policy, words in STEPS.items():
        for arm in METHODS:
            yield Row(f"{ARMS[arm]['label']}, {words}", arm, policy, BUDGET)
    budget = max(row.m for row in results.rows if (row.arm, row.policy) == (SPECIALIST, "scratch"))
    yield Row(f"specialist, {budget:,}", SPECIALIST, "scratch", budget)
