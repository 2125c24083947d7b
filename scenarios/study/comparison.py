"""``python -m scenarios compare A B``: two arms side by side, their difference, and what each consumed."""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from edge_fed.errors import ConfigError, Fault, nearest
from scenarios.report import output, table_of
from scenarios.study.preregistration import as_ranges
from scenarios.study.results import Results, is_table, read_results
from scenarios.study.statistics import REFERENCE, Difference, Summary, difference, summarize
from scenarios.study.tables import committed

BUDGETS = {
    "train_trajectories_per_agent": "trajectories per agent",
    "env_steps": "environment steps, with evaluation",
    "parameter_bytes": "parameter bytes",
}
"""What a fair comparison gives both arms alike; wall time is shown beside it, it is no budget."""
WALL = "wall_s"
TOLERANCE = 0.01
ENOUGH = 40
"""Seeds per arm below which a comparison only explores (methods.md 5)."""


class Side(msgspec.Struct, frozen=True):
    """One of the two arms.

    Attributes:
        source: Where its table lies.
        arm: Its name.
        round: Training round of the values.
        rounds: Of the whole training, which the budgets are of.
        values: Seed -> value of the outcome.
        missing: Seeds of the arm for which the outcome was not measured at that round.
        configs: Hashes of its configuration: one, unless tables were mixed.
        spent: Means over seeds of the budgets and of the wall time, where they are recorded.
    """

    source: str
    arm: str
    round: int
    rounds: int
    values: dict[int, float]
    missing: tuple[int, ...]
    configs: tuple[str, ...]
    spent: dict[str, float]


class Comparison(msgspec.Struct, frozen=True):
    """Everything that is printed; ``matched`` says of each budget whether it is, None: not recorded."""

    outcome: str
    policy: str
    m: int
    a: Side
    b: Side
    summary_a: Summary
    summary_b: Summary
    difference: Difference
    matched: dict[str, bool | None]
    notes: tuple[str, ...]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    for name in ("a", "b"):
        command.add_argument(name, metavar=name.upper(), help="FILE.csv:ARM, or STUDY:ARM of the paper")
    command.add_argument(
        "--results", metavar="FILE.csv|STUDY", help="where A and B lie if they name only arms"
    )
    command.add_argument("--outcome", default="meta_objective", metavar="NAME", help="default meta_objective")
    command.add_argument("--policy", default="shared", metavar="NAME",
                         help="shared (default), honest, learned, tuned, random, scratch or run")  # fmt: skip
    command.add_argument(
        "--m", type=int, default=0, metavar="N", help="trajectories of the policy; default 0"
    )
    command.add_argument("--round", type=int, metavar="K", help="training round; default: the last measured")
    command.add_argument("--above", type=float, metavar="X",
                         help="of a bimodal outcome: a threshold that was fixed in advance")  # fmt: skip
    command.add_argument("--reference", type=float, default=REFERENCE, metavar="X",
                         help=f"the difference whose power is stated; default {REFERENCE}")  # fmt: skip


def compare(options: argparse.Namespace) -> int:
    """Prints the comparison; returns the exit code.

    Raises:
        ConfigError: There is no such table, arm or measurement; names what there is.
        ProgramError: scipy is not installed.
    """
    found = comparison(options)
    if options.json:
        # What is no number, JSON has not: msgspec writes null.
        plain = msgspec.json.decode(msgspec.json.encode(found))
        print(json.dumps({"success": True, **plain}, allow_nan=False))
    else:
        _print(found, output())
    return 0


def comparison(options: argparse.Namespace) -> Comparison:
    """Reads both arms and computes all figures; raises as `compare`."""
    for flag, value in (("--above", options.above), ("--reference", options.reference)):
        if value is not None and not math.isfinite(value):
            raise ConfigError([Fault(flag, f"is {value}, expected a finite number")], "command line")
    a, b = _side(options.a, options), _side(options.b, options)
    if a.arm == b.arm and Path(a.source).samefile(b.source):
        hint = "name another arm, or another table"
        raise ConfigError([Fault(options.b, f"is the same arm as {options.a}", hint)], "command line")
    matched = {name: _matched(a.spent.get(name), b.spent.get(name)) for name in BUDGETS}
    return Comparison(
        outcome=options.outcome,
        policy=options.policy,
        m=options.m,
        a=a,
        b=b,
        summary_a=_summary(a, options.above),
        summary_b=_summary(b, options.above),
        difference=difference([*a.values.values()], [*b.values.values()], options.reference),
        matched=matched,
        notes=tuple(_notes(a, b, matched)),
    )


def _side(text: str, options: argparse.Namespace) -> Side:
    """Finds what ``SOURCE:ARM`` names, or an arm of ``--results``."""
    source, _, arm = text.rpartition(":")
    source = source or options.results
    if not source:
        hint = "write FILE.csv:ARM, or name the table with --results FILE.csv"
        raise ConfigError([Fault(text, "names no table", hint)], "command line")
    results = read_results(_table(source))
    curve = results.curve(arm, options.outcome, options.policy, options.m)
    chosen = max(curve) if options.round is None else options.round
    if chosen not in curve:
        message = f"{options.outcome} of {arm} was not measured at round {chosen}"
        raise ConfigError([Fault("--round", message, f"measured: {as_ranges(curve)}")], results.source)
    rows = [row for row in results.rows if row.arm == arm]
    return Side(
        source=results.source,
        arm=arm,
        round=chosen,
        rounds=max(row.round for row in rows),
        values=curve[chosen],
        missing=tuple(sorted({row.seed for row in rows} - set(curve[chosen]))),
        configs=tuple(dict.fromkeys(row.config for row in rows)),
        spent=_spent(results, arm),
    )


def _table(name: str) -> Path:
    """A file, or the table of a study of the paper."""
    known = {path.stem: path for path in sorted(committed().glob("*.csv")) if is_table(path)}
    if name in known and not Path(name).is_file():
        return known[name]
    if Path(name).is_dir():
        raise ConfigError([Fault(name, "is a folder", "write FOLDER/STUDY.csv:ARM")], "command line")
    if not Path(name).is_file():
        hint = nearest(name, known) if known else "write FILE.csv:ARM"
        raise ConfigError([Fault(name, "no such file, and no results of the paper", hint)], "command line")
    return Path(name)


def _spent(results: Results, arm: str) -> dict[str, float]:
    """Means over seeds; what the table does not hold, or not as a finite number, is left out."""
    rows = [row for row in results.rows if row.arm == arm and row.policy == "run"]
    found = {name: [row.value for row in rows if row.outcome == name] for name in (*BUDGETS, WALL)}
    return {
        name: math.fsum(value / len(values) for value in values)
        for name, values in found.items()
        if values and all(map(math.isfinite, values))
    }


def _summary(side: Side, threshold: float | None) -> Summary:
    try:
        return summarize([*side.values.values()], threshold)
    except ConfigError as error:
        raise ConfigError(error.faults, f"{side.source}:{side.arm}") from None


def _matched(x: float | None, y: float | None) -> bool | None:
    return None if x is None or y is None else abs(x - y) <= TOLERANCE * max(x, y)


def _notes(a: Side, b: Side, matched: dict[str, bool | None]) -> Iterator[str]:
    """What a reader must know before believing the difference."""
    for side in (a, b):
        if side.missing:
            yield f"{side.arm}: not measured at round {side.round} for seeds {as_ranges(side.missing)}"
        if len(side.configs) > 1:
            yield f"{side.arm}: seeds of different configurations are mixed: {', '.join(side.configs)}"
        if side.round < side.rounds:
            yield f"{side.arm}: budgets are of all {side.rounds} rounds, values of round {side.round}"
    if a.round != b.round:
        yield f"A is measured after {a.round} rounds, B after {b.round}"
    yield from _budget_notes(a, b, matched)
    if min(len(a.values), len(b.values)) < ENOUGH:
        seeds = f"{len(a.values)} and {len(b.values)} seeds"
        yield f"exploratory: {seeds} are too few for a conclusion, which needs {ENOUGH} per arm"
    else:
        yield "exploratory, unless claim, arms and seeds were preregistered"


def _budget_notes(a: Side, b: Side, matched: dict[str, bool | None]) -> Iterator[str]:
    if unknown := [BUDGETS[name] for name, met in matched.items() if met is None]:
        yield f"whether budgets are matched is not known; not recorded for both: {', '.join(unknown)}"
    if apart := [name for name, met in matched.items() if met is False]:
        pairs = [f"{BUDGETS[name]} {a.spent[name]:,.0f} and {b.spent[name]:,.0f}" for name in apart]
        yield f"budgets are NOT matched: {'; '.join(pairs)}"
    if all(matched.values()):
        yield f"budgets are matched within {TOLERANCE:.0%}"


def _print(found: Comparison, console: Console) -> None:
    measured = f"{found.policy}/{found.outcome}" + (f", m = {found.m}" if found.m else "")
    rounds = dict.fromkeys((found.a.round, found.b.round))
    title = f"{measured}, round {' and '.join(map(str, rounds))}"
    heads = ("arm", f"A: {escape(found.a.arm)}", f"B: {escape(found.b.arm)}")
    console.print(table_of(title, heads, _rows(found)))
    for line in _lines(found):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _rows(found: Comparison) -> Iterator[tuple[str, str, str]]:
    a, b = found.summary_a, found.summary_b
    yield "seeds", str(a.n), str(b.n)
    # Between two modes lies no run: there a mean and an sd would describe none (methods.md 5).
    for name in ("mean", "sd", "median", "iqm") if a.threshold is None else ("median", "iqm"):
        yield name, _number(getattr(a, name)), _number(getattr(b, name))
    if a.threshold is None:
        yield "95 % interval of the mean", _marked(a), _marked(b)
    else:
        yield f"above {a.threshold:g}", f"{a.fraction_above:.0%}", f"{b.fraction_above:.0%}"
        yield "every seed", _points(a), _points(b)
    for name, words in {**BUDGETS, WALL: "wall seconds per seed"}.items():
        spent = [side.spent.get(name) for side in (found.a, found.b)]
        x, y = ("not recorded" if value is None else _budget(name, value) for value in spent)
        yield words, x, y


def _lines(found: Comparison) -> Iterator[str]:
    d, interval = found.difference, _interval(found.difference)
    p = f"Welch t = {d.statistic:.3g}, df = {d.df:.3g}, p = {d.p:.3g}" if d.df else "both arms are constant"
    yield f"mean of A - mean of B = {_number(d.mean)}, 95 % interval {interval} ({d.interval.method}); {p}"
    yield f"power for a difference of {d.reference:g} at these standard deviations: {d.power:.0%}"
    if d.interval.low <= 0 <= d.interval.high:
        yield "the interval holds zero: neither arm is shown to be larger"
    yield from found.notes


def _interval(found: Summary | Difference) -> str:
    return f"{_number(found.interval.low)} to {_number(found.interval.high)}"


def _marked(found: Summary) -> str:
    return f"{_interval(found)} ({found.interval.method})"


def _points(found: Summary) -> str:
    return " ".join(_number(value) for value in found.points)


def _budget(name: str, value: float) -> str:
    return f"{value:.1f}" if name == WALL else f"{value:,.0f}"


def _number(value: float) -> str:
    return f"{value:.4g}"
