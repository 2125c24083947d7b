"""`python -m scenarios bench [--limits DIR]`: speed and memory, as ratios where a limit is given.

`python -m scenarios bench soak`: see `scenarios.bench.soak`.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from edge_fed.program.files import write_atomic
from scenarios.bench.local_steps import local_steps
from scenarios.bench.measure import Row, paired
from scenarios.bench.programs import Launched, floor, launch
from scenarios.bench.raw_round import raw_rounds
from scenarios.bench.rounds import BULK, SMALL, empty_rounds

AGENTS = 6
STEPS, ROUNDS = 4_500, 150  # of the first-order few-shot training
BULK_AGENTS, BULK_DIMENSION = 4, 5_000_000  # 40 MB of float64


def rounds(_limits: Path | None, repeats: int) -> Iterator[Row]:
    """Rounds without training, small and large, against bare ZeroMQ in the same run."""
    ours, raw = [], []
    for _ in range(repeats):
        ours.append(1e3 * statistics.median(empty_rounds(AGENTS, SMALL, 400)))
        raw.append(1e3 * statistics.median(raw_rounds(AGENTS, 360, 400)))
    note = "tcp, wall, checkpoint included; against one process per peer and a worker hop"
    yield paired(f"empty round, {AGENTS} agents, d = 360", "ms", ours, raw, 1.5, note)
    for checkpoint in (True, False):
        ours = empty_rounds(BULK_AGENTS, BULK, 6, checkpoint=checkpoint)
        raw = raw_rounds(BULK_AGENTS, BULK_DIMENSION, 6)
        case = f"round of 40 MB, {BULK_AGENTS} agents, {'with' if checkpoint else 'without'} checkpoint"
        yield paired(case, "s", ours, raw, None, "tcp, wall, zero-copy on both sides")


def start(limits: Path | None, repeats: int) -> Iterator[Row]:
    """Launch to the first round, and the memory of all programs, against bare interpreters."""
    ours: list[Launched] = []
    bare = []
    launch(AGENTS, 1)  # warms the disk cache
    for _ in range(repeats):
        ours.append(launch(AGENTS, 1))
        if limits:
            bare.append(floor(limits / "start_floor.py", AGENTS))
    wall = [float(run["first_round_s"]["median"]) for run in bare]
    memory = [float(run["pss_total_mib"]["median"]) for run in bare]
    case = f"server and {AGENTS} agents"
    yield paired(f"launch to first round, {case}", "s", [run.first_round_s for run in ours], wall, 2.0)
    yield paired(f"memory together, {case}", "MiB", [run.pss_mib for run in ours], memory, 1.25, "PSS")


def training(limits: Path | None, repeats: int) -> Iterator[Row]:
    """The whole few-shot training against the sum of its limits, all measured in this run."""
    ours, ideal = [], []
    for _ in range(repeats):
        ours.append(launch(AGENTS, ROUNDS).last_round_s)
        if limits:
            step = next(local_steps(limits, blocks=3)).limit
            assert step is not None
            raw = statistics.median(raw_rounds(AGENTS, 360, 200))
            begin = float(floor(limits / "start_floor.py", AGENTS)["first_round_s"]["median"])
            ideal.append(STEPS * step.median * 1e-6 / 2 + ROUNDS * raw + begin)
    note = f"wall; limit: {STEPS} tuned steps on two cores + {ROUNDS} raw rounds + bare start"
    yield paired("few-shot training as processes", "s", ours, ideal, 2.0, note)


def steps(limits: Path | None, repeats: int) -> Iterator[Row]:
    """A local step of each variant."""
    return local_steps(limits, blocks=3 * repeats)


CASES: dict[str, Callable[[Path | None, int], Iterator[Row]]] = {
    "steps": steps,
    "rounds": rounds,
    "start": start,
    "training": training,
}


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    head = "| case | product | limit | ratio, median (min .. max) | goal | verdict |"
    lines = [head, "|---|---|---|---|---|---|"]
    for row in rows:
        limit = f"{row.limit.median:.3g} {row.unit}" if row.limit else "-"
        ratio = f"{row.ratio.median:.2f} ({row.ratio.low:.2f} .. {row.ratio.high:.2f})" if row.ratio else "-"
        goal = f"{row.goal:g}" if row.goal else "-"
        cells = (row.case, f"{row.product.median:.3g} {row.unit}", limit, ratio, goal, row.verdict)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the benchmarks; returns the exit code."""
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments[:1] == ["soak"]:
        from scenarios.bench import soak

        return soak.main(arguments[1:])
    p = argparse.ArgumentParser(
        prog="python -m scenarios bench",
        description="Measures speed and memory. Takes about three minutes. "
        "Whether long runs hold more and more: bench soak --help",
    )
    p.add_argument(
        "--limits", type=Path, metavar="DIR", help="folder of the limit scripts; without: unpaired"
    )
    p.add_argument("--only", choices=tuple(CASES), action="append", help="may be given several times")
    p.add_argument("--repeats", type=int, default=5, metavar="N", help="paired repetitions (default 5)")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    p.add_argument("--output", type=Path, metavar="FILE.json", help="keep the result")
    chosen = p.parse_args(arguments)
    if chosen.limits and not (chosen.limits / "limit_floor.py").is_file():
        p.error(f"--limits {chosen.limits}: there is no limit_floor.py in it")
    before, rows = os.getloadavg(), []
    for name in chosen.only or CASES:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += list(CASES[name](chosen.limits, chosen.repeats))
    machine = {"python": platform.python_version(), "numpy": np.__version__, "cpus": os.cpu_count()}
    load = {"load_before": before, "load_after": os.getloadavg()}
    built = [{**msgspec.to_builtins(row), "verdict": row.verdict} for row in rows]
    result = {"schema": 1, "machine": machine, **load, "rows": built}
    if chosen.output:
        write_atomic(chosen.output, msgspec.json.format(msgspec.json.encode(result)), sync=False)
    print(json.dumps(result) if chosen.json else table(rows))
    return 0


if __name__ == "__main__":
    from edge_fed.program.launch import prepare

    prepare()
    raise SystemExit(main())
