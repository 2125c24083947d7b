"""`python -m scenarios bench soak`: does a long run hold more and more? Memory, descriptors, threads, tasks.

The real server and the real agents as processes over tcp, without training. ``empty`` and ``bulk`` are
rounds and nothing else; ``churn`` kills agents and the server, and starts them again, until its time is up.
"""

import argparse
import itertools
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edge_fed.program.files import write_atomic
from scenarios.bench.empty_fleet import Fleet
from scenarios.bench.rounds import BULK, SMALL
from scenarios.bench.soak_table import table
from scenarios.bench.trend import trend

AGENT_EVERY_S = 4.0  # between two deaths of agents
SERVER_EVERY_S = 240.0  # between two deaths of the server
LEAST_MINUTES = 1.0  # of churn: then agent 0 has seen rounds enough


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One soak.

    Attributes:
        meaning: For people.
        agents: How many.
        hidden: Hidden sizes of the network.
        rounds: How many; of ``churn``: more than there is time for.
        every: Rounds between two looks.
        bound: Bytes per round that the memory of a process may grow by.
        takes: How long it took on two busy cores.
        least: Rounds that tell (docs/soak.md): fewer are refused; in ``churn``, of each process.
        delay_s: How long an agent's work takes.
        churn: Whether programs are killed.
    """

    meaning: str
    agents: int
    hidden: tuple[int, ...]
    rounds: int
    every: int
    bound: float
    takes: str = ""
    least: int = 0
    delay_s: float = 0.0
    churn: bool = False


CASES = {
    "empty": Case(
        meaning="rounds without work, d = 360", agents=8, hidden=SMALL, rounds=2000, every=10, bound=1000.0,
        takes="48 s", least=400,
    ),
    "bulk": Case(
        meaning="rounds of 40 MB without work", agents=4, hidden=BULK, rounds=500, every=4, bound=1e6 / 100,
        takes="586 s", least=300,
    ),
    "churn": Case(
        meaning="agents and server are killed and started again, d = 360",
        agents=8, hidden=SMALL, rounds=10_000_000, every=10, bound=1000.0, delay_s=0.02, churn=True,
        takes="20 min: --minutes", least=400,
    ),
}  # fmt: skip


EPILOG = "\n".join(
    [
        "cases, and how long each took on two busy cores:",
        *(f"  {name:6} {case.meaning}; {case.takes}" for name, case in CASES.items()),
        "",
        "exit codes: 0 nothing grows, 1 something grows or there were too few rounds to tell, 2 usage",
    ]
)


def soak(case: Case, seconds: float, seed: int) -> dict[str, Any]:
    """Runs one case.

    Args:
        case: Which.
        seconds: How long, if programs are killed.
        seed: Of who is killed.

    Returns:
        Plain values: what was done, and the trend of every process that lived long enough.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        with Fleet(Path(scratch), case.agents, case.hidden, case.rounds, case.every, case.delay_s) as fleet:
            done = churn(fleet, case.agents, seconds, seed) if case.churn else {}
            fleet.finish(stop=case.churn)
        lived = {
            name: {process: list(told) for process, told in itertools.groupby(samples, lambda s: s.process)}
            for name, samples in fleet.samples().items()
        }
    judged = {
        f"{name}, process {number}" if number > 1 else name: told
        for name, processes in lived.items()
        if not case.churn or name in ("server", "agent-0")  # the others die young
        for number, told in enumerate(processes.values(), 1)
    }
    least = case.least if case.churn else 0
    trends = {name: trend(name, told, case.bound, least) for name, told in judged.items()}
    rounds = max((told[-1].round for told in lived["server"].values()), default=0)
    return {
        "meaning": case.meaning,
        "agents": case.agents,
        "rounds": rounds,
        "seconds": round(time.monotonic() - began, 1),
        **done,
        "processes": sum(len(processes) for processes in lived.values()),
        "too_short": [name for name, found in trends.items() if not found],
        "trends": [found for found in trends.values() if found],
    }


def churn(fleet: Fleet, agents: int, seconds: float, seed: int) -> dict[str, Any]:
    """Kills an agent and starts it again, now and then the server; agent 0 lives through everything.

    Nobody dies before the last one is back at work: a slow machine sees fewer deaths, not a dead run.
    """
    draw, counts = np.random.default_rng(seed), {"agents_killed": 0, "agents_stopped": 0, "servers_killed": 0}
    for goal in range(agents):
        fleet.wait_for(f"agent-{goal}")
    begin = time.monotonic()
    server_at = begin + min(SERVER_EVERY_S, seconds / 2)
    while time.monotonic() < begin + seconds:
        time.sleep(AGENT_EVERY_S)
        goal = int(draw.integers(1, agents))
        orderly = draw.random() < 0.25
        fleet.kill(f"agent-{goal}", orderly=orderly)
        fleet.start_agent(goal)
        fleet.wait_for(f"agent-{goal}")
        counts["agents_stopped" if orderly else "agents_killed"] += 1
        if time.monotonic() >= server_at:
            fleet.kill("server")
            fleet.start_server(resume=True)
            fleet.wait_for("server")
            counts["servers_killed"] += 1
            server_at = time.monotonic() + SERVER_EVERY_S
    return counts


def main(arguments: list[str] | None = None) -> int:
    """Runs soaks; returns the exit code, 1 if anything grows."""
    p = argparse.ArgumentParser(
        prog="python -m scenarios bench soak",
        description="Does a long run hold more and more memory, descriptors, threads, tasks?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--case", choices=tuple(CASES), action="append", help="may be given several times; default: all"
    )
    p.add_argument(
        "--rounds", type=int, metavar="N",
        help="of empty (default 2000, at least 400) and bulk (default 500, at least 300)",
    )  # fmt: skip
    p.add_argument(
        "--minutes", type=float, default=20.0, metavar="M", help="of churn (default 20, at least 1)"
    )
    p.add_argument("--seed", type=int, default=0, metavar="N", help="who is killed when")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    p.add_argument("--output", type=Path, metavar="FILE.json", help="keep the result")
    chosen = p.parse_args(arguments)
    if wrong := _wrong(chosen):
        p.error(wrong)
    results: dict[str, dict[str, Any]] = {}
    for name in chosen.case or CASES:
        case = CASES[name]
        if chosen.rounds is not None and not case.churn:
            every = min(case.every, max(1, chosen.rounds // 100))
            case = msgspec.structs.replace(case, rounds=chosen.rounds, every=every)
        print(f"soaking {name} ...", file=sys.stderr, flush=True)
        results[name] = soak(case, 60 * chosen.minutes, chosen.seed)
        if chosen.output:  # after each case: a long run that is stopped has not been for nothing
            write_atomic(chosen.output, msgspec.json.format(as_json(results)), sync=False)
    print(as_json(results).decode() if chosen.json else "\n".join(table(results)))
    return 0 if met(results) else 1


def _wrong(chosen: argparse.Namespace) -> str:
    """What nothing could be told from; empty: all is right."""
    names = chosen.case or CASES
    for name in names if chosen.rounds is not None else ():
        if not CASES[name].churn and chosen.rounds < (least := CASES[name].least):
            return f"--rounds {chosen.rounds}: at least {least} for {name}, fewer show how it warms up"
    if any(CASES[name].churn for name in names) and not chosen.minutes >= LEAST_MINUTES:
        return f"--minutes {chosen.minutes:g}: at least {LEAST_MINUTES:g}"
    return f"--seed {chosen.seed}: at least 0" if chosen.seed < 0 else ""


def as_json(results: dict[str, dict[str, Any]]) -> bytes:
    """The results with what they were measured on."""
    machine = {"python": platform.python_version(), "numpy": np.__version__, "cpus": os.cpu_count()}
    load = [round(load, 1) for load in os.getloadavg()]
    content = {"schema": 1, "machine": machine, "load": load, "met": met(results), "cases": results}
    return msgspec.json.encode(content)


def met(results: dict[str, dict[str, Any]]) -> bool:
    """Whether every case has trends, and nothing grows."""
    trends = [result["trends"] for result in results.values()]
    return all(trends) and not any(found.faults for several in trends for found in several)
