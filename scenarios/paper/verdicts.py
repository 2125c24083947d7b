"""Published statements against tables of results: reproduced, missed by how much, or no data.

Fewer seeds than the study has decide nothing, whatever they say. A comparison that holds, but whose 95 %
interval holds zero, is reproduced and not significant. A miss stays a miss: what is accepted stands in
`scenarios.paper.published`, nothing here can widen it.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.paper.measured import (
    Interval,
    Planned,
    Values,
    gap_interval,
    gap_of,
    statistic_of,
    values_of,
)
from scenarios.paper.targets import Cell, Gap, Number, Order, Spread, Target
from scenarios.study.results import Results

ROUNDING = 1e-12  # of bounds such as 0.79 - 0.03

Kind = Literal["reproduced", "reproduced, not significant", "MISS", "too few seeds", "missing"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One statement, judged.

    Attributes:
        figure: Where it is drawn.
        what: For people.
        published: The paper's number, if it gives one.
        accepted: For people, e.g. ``0.76 to 0.82``.
        ours: The statistic, or the difference that decides; None: no data, or not finite.
        interval: 95 %, of ``ours``; None: too few seeds.
        n: Seeds; of a comparison those of the smallest arm or checkpoint.
        verdict: ``missing``: there is no data; ``too few seeds``: fewer than the study has.
        detail: By how much it is missed and where, what too few seeds say, or why there is no data.
        source: Where the paper says it.
        seeds: The values behind it: cell -> seed -> value.
    """

    figure: str
    what: str
    published: float | None
    accepted: str
    ours: float | None
    interval: Interval
    n: int
    verdict: Kind
    detail: str
    source: str
    seeds: dict[str, Values]


class Finding(msgspec.Struct, frozen=True):
    """What the data say of one statement.

    Attributes:
        ours: The number that decides.
        interval: Of it.
        missed: Whether it is outside what is accepted.
        distance: How far.
        seeds: The values behind it.
        detail: Where, if that needs words.
        others: Values of other checkpoints that decide, too.
    """

    ours: float
    interval: Interval
    missed: bool
    distance: float
    seeds: Mapping[Cell, Values]
    detail: str = ""
    others: tuple[Values, ...] = ()

    @property
    def columns(self) -> tuple[Values, ...]:
        """All values that decide."""
        return *self.seeds.values(), *self.others


def judge(
    targets: Iterable[Target], results: Mapping[str, Results], plans: Mapping[str, Planned]
) -> list[Verdict]:
    """Judges every statement, in the given order.

    Args:
        targets: See `scenarios.paper.published`.
        results: Name of a study -> its table; studies, arms and seeds may be missing.
        plans: What the studies of these tables were to measure.
    """
    return [_judge(target, results.get(target.study), plans.get(target.study)) for target in targets]


def _judge(target: Target, results: Results | None, plan: Planned | None) -> Verdict:
    if results is None or plan is None:
        return _verdict(target, None, "missing", f"no results of the study {target.study}")
    try:
        found = FINDERS[type(target)](target, results, plan)
    except ConfigError as error:
        return _verdict(target, None, "missing", "; ".join(str(fault) for fault in error.faults))
    if bad := sum(not math.isfinite(value) for values in found.columns for value in values.values()):
        found = msgspec.structs.replace(found, ours=math.nan, interval=None)
        return _verdict(target, found, "MISS", f"values that are not finite: {bad}")
    kind = _kind(target, found)
    by = [f"by {found.distance:.3g}"] if found.missed else []
    detail = "; ".join([*by, *([found.detail] if found.detail else [])])
    there = min(len(set(plan.seeds) & set(values)) for values in found.columns)
    if there == len(plan.seeds):
        return _verdict(target, found, kind, detail)
    few = f"{kind} on {there} of {len(plan.seeds)} seeds"
    return _verdict(target, found, "too few seeds", f"{few}: {detail}" if detail else few)


def _kind(target: Target, found: Finding) -> Kind:
    """As if there were seeds enough. Without an interval a comparison is not significant."""
    if found.missed:
        return "MISS"
    low, high = found.interval or (-math.inf, math.inf)
    unsure = isinstance(target, Gap | Order) and low <= 0.0 <= high
    return "reproduced, not significant" if unsure else "reproduced"


def _verdict(target: Target, found: Finding | None, kind: Kind, detail: str) -> Verdict:
    return Verdict(
        figure=target.figure,
        what=target.what,
        published=getattr(target, "published", None),
        accepted=accepted(target),
        ours=found.ours if found and math.isfinite(found.ours) else None,
        interval=found.interval if found else None,
        n=min(map(len, found.columns)) if found else 0,
        verdict=kind,
        detail=detail,
        source=target.source,
        seeds={cell.label: values for cell, values in found.seeds.items()} if found else {},
    )


def _number(target: Number, results: Results, plan: Planned) -> Finding:
    values = values_of(results, target.cell, plan)
    ours, interval = statistic_of(target, list(values.values()))
    low, high = target.bounds
    inside = low - ROUNDING <= ours <= high + ROUNDING  # not of NaN
    return Finding(ours, interval, not inside, _distance(ours, low, high), {target.cell: values})


def _gap(target: Gap, results: Results, plan: Planned) -> Finding:
    above, below = (values_of(results, cell, plan) for cell in (target.above, target.below))
    ours = gap_of(above, below)
    low, high = target.more_than, target.less_than
    seeds = {target.above: above, target.below: below}
    missed = not low < ours < high
    return Finding(ours, gap_interval(above, below), missed, _distance(ours, low, high), seeds)


def _order(target: Order, results: Results, plan: Planned) -> Finding:
    """What decides is the smallest difference of two neighbours, over all checkpoints if those count."""
    rounds = _checkpoints(target, results, plan)
    gaps = [
        (gap_of(above, below), number, index)
        for number, cells in rounds.items()
        for index, (above, below) in enumerate(itertools.pairwise(cells))
    ]
    broken = [gap for gap in gaps if not gap[0] > 0]
    ours, number, index = min(broken or gaps)
    interval = gap_interval(rounds[number][index], rounds[number][index + 1])
    at = f", round {number}" if target.every_checkpoint else ""
    detail = f"{target.cells[index].label} over {target.cells[index + 1].label}{at}"
    detail += f"; {len(broken)} of {len(gaps)} comparisons fail" if broken else ""
    seeds = dict(zip(target.cells, rounds[number], strict=True))
    others = tuple(values for at, cells in rounds.items() if at != number for values in cells)
    return Finding(ours, interval, bool(broken), max(-ours, 0.0), seeds, detail, others)


def _checkpoints(target: Order, results: Results, plan: Planned) -> dict[int, list[Values]]:
    """Round -> the values of each cell; one entry, 0, if the cells name their own rounds."""
    if not target.every_checkpoint:
        return {0: [values_of(results, cell, plan) for cell in target.cells]}
    curves = [results.curve(cell.arm, cell.outcome, cell.policy, cell.m) for cell in target.cells]
    rounds = {number for curve in curves for number in curve}
    rounds |= {plan.rounds[cell.arm] for cell in target.cells}
    absent = [number for number in rounds if not all(number in curve for curve in curves)]
    if absent:
        message = f"round {max(absent)} was not measured in every arm"
        raise ConfigError([Fault("round", message)], results.source)
    return {number: [curve[number] for curve in curves] for number in sorted(rounds - {0})}


def _spread(target: Spread, results: Results, plan: Planned) -> Finding:
    found = {cell: values_of(results, cell, plan) for cell in target.cells}
    ours, largest, smallest = max(
        ((gap_of(found[a], found[b]), a, b) for a, b in itertools.permutations(target.cells, 2)),
        key=lambda pair: pair[0],
    )
    interval = gap_interval(found[largest], found[smallest])
    inside = ours <= target.limit + ROUNDING
    detail = f"{largest.arm} over {smallest.arm}"
    return Finding(ours, interval, not inside, _distance(ours, 0.0, target.limit), found, detail)


FINDERS: dict[type[Target], Callable[[Any, Results, Planned], Finding]] = {
    Number: _number,
    Gap: _gap,
    Order: _order,
    Spread: _spread,
}


def _distance(ours: float, low: float, high: float) -> float:
    return max(ours - high, low - ours, 0.0)


def accepted(target: Target) -> str:
    """What is accepted, for people."""
    match target:
        case Number():
            low, high = target.bounds
            return f"{low:.6g}" if high - low < 1e-6 else f"{low:.4g} to {high:.4g}"
        case Gap(more_than=low, less_than=high):
            return f"> {low:.3g}" if math.isinf(high) else f"{low:.3g} to {high:.3g}"
        case Spread(limit=limit):
            return f"<= {limit:g}"
        case _:
            return "> 0"
