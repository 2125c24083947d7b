"""Published statements against tables of results: reproduced, missed by how much, or no data.

A miss stays a miss: what is accepted stands in `scenarios.paper.published`, nothing here can widen it.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.paper.measured import Interval, Values, gap_interval, gap_of, statistic_of, values_of
from scenarios.paper.targets import Cell, Gap, Number, Order, Spread, Target
from scenarios.study.results import Results

ROUNDING = 1e-12  # of bounds such as 0.79 - 0.03

Kind = Literal["reproduced", "MISS", "missing"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One statement, judged.

    Attributes:
        figure: Where it is drawn.
        what: For people.
        published: The paper's number, if it gives one.
        accepted: For people, e.g. ``0.76 to 0.82``.
        ours: The statistic, or the difference that decides; None: no data, or not finite.
        interval: 95 %, of ``ours``; None: too few seeds.
        n: Seeds; of a comparison those of the smaller arm.
        verdict: ``missing``: there is no data.
        detail: By how much it is missed and where, or why there is no data.
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
    """

    ours: float
    interval: Interval
    missed: bool
    distance: float
    seeds: Mapping[Cell, Values]
    detail: str = ""


def judge(targets: Iterable[Target], results: Mapping[str, Results]) -> list[Verdict]:
    """Judges every statement, in the given order.

    Args:
        targets: See `scenarios.paper.published`.
        results: Name of a study -> its table; studies, arms and seeds may be missing.
    """
    return [_judge(target, results.get(target.study)) for target in targets]


def _judge(target: Target, results: Results | None) -> Verdict:
    if results is None:
        return _verdict(target, None, f"no results of the study {target.study}")
    try:
        found = FINDERS[type(target)](target, results)
    except ConfigError as error:
        return _verdict(target, None, "; ".join(str(fault) for fault in error.faults))
    if bad := sum(not math.isfinite(value) for values in found.seeds.values() for value in values.values()):
        found = msgspec.structs.replace(found, ours=math.nan, interval=None, missed=True)
        return _verdict(target, found, f"values that are not finite: {bad}")
    by = [f"by {found.distance:.3g}"] if found.missed else []
    return _verdict(target, found, "; ".join([*by, *([found.detail] if found.detail else [])]))


def _verdict(target: Target, found: Finding | None, detail: str) -> Verdict:
    kind: Kind = "missing" if found is None else "MISS" if found.missed else "reproduced"
    return Verdict(
        figure=target.figure,
        what=target.what,
        published=getattr(target, "published", None),
        accepted=accepted(target),
        ours=found.ours if found and math.isfinite(found.ours) else None,
        interval=found.interval if found else None,
        n=min(len(values) for values in found.seeds.values()) if found else 0,
        verdict=kind,
        detail=detail,
        source=target.source,
        seeds={cell.label: values for cell, values in found.seeds.items()} if found else {},
    )


def _number(target: Number, results: Results) -> Finding:
    values = values_of(results, target.cell)
    ours, interval = statistic_of(target, list(values.values()))
    low, high = target.bounds
    inside = low - ROUNDING <= ours <= high + ROUNDING  # not of NaN
    return Finding(ours, interval, not inside, _distance(ours, low, high), {target.cell: values})


def _gap(target: Gap, results: Results) -> Finding:
    above, below = values_of(results, target.above), values_of(results, target.below)
    ours = gap_of(above, below)
    low, high = target.more_than, target.less_than
    seeds = {target.above: above, target.below: below}
    missed = not low < ours < high
    return Finding(ours, gap_interval(above, below), missed, _distance(ours, low, high), seeds)


def _order(target: Order, results: Results) -> Finding:
    """What decides is the smallest difference of two neighbours, over all checkpoints if those count."""
    rounds = _checkpoints(target, results)
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
    return Finding(ours, interval, bool(broken), max(-ours, 0.0), seeds, detail)


def _checkpoints(target: Order, results: Results) -> dict[int, list[Values]]:
    """Round -> the values of each cell; one entry, 0, if the cells name their own rounds."""
    if not target.every_checkpoint:
        return {0: [values_of(results, cell) for cell in target.cells]}
    curves = [results.curve(cell.arm, cell.outcome, cell.policy, cell.m) for cell in target.cells]
    rounds = sorted(set.intersection(*map(set, curves)) - {0})
    if not rounds:
        raise ConfigError([Fault("round", "no round after 0 was measured in every arm")], results.source)
    return {number: [curve[number] for curve in curves] for number in rounds}


def _spread(target: Spread, results: Results) -> Finding:
    found = {cell: values_of(results, cell) for cell in target.cells}
    ours, largest, smallest = max(
        ((gap_of(found[a], found[b]), a, b) for a, b in itertools.permutations(target.cells, 2)),
        key=lambda pair: pair[0],
    )
    interval = gap_interval(found[largest], found[smallest])
    inside = ours <= target.limit + ROUNDING
    detail = f"{largest.arm} over {smallest.arm}"
    return Finding(ours, interval, not inside, _distance(ours, 0.0, target.limit), found, detail)


FINDERS: dict[type[Target], Callable[[Any, Results], Finding]] = {
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
