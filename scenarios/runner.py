"""Runs a scenario with a real server and real agents: the loop between director, cast and the person."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_fed.config import overrides_by_goal
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from edge_fed.program.stopping import Stopping
from scenarios.actions import SERVER
from scenarios.cast import Cast, Happenings
from scenarios.director import Director
from scenarios.orders import Finish, Happening, Note, Order, Spoke, Tick
from scenarios.outcome import Failure, Outcome
from scenarios.timeline import Scenario
from scenarios.watching import Watch

MakeCast = Callable[[Happenings], Cast]
SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
NAME_WAITS_S = 2.0  # no wait stays silent for longer
LATE_S = 0.5  # a wake-up later than this means that this process was stopped
GOODBYE_S = 5.0  # after the server's end: agents have its word and leave
STOP_S = 2.0  # after a failure or signal: then what is left is killed; gone within 3 s


def run_networked(
    scenario: Scenario, runtime: str, folder: RunFolder, make_cast: MakeCast, watch: Watch
) -> Outcome:
    """Runs a scenario and returns what it gave; SIGINT and SIGTERM end it in order.

    Args:
        scenario: Checked and resolved.
        runtime: Name of the runtime, for the outcome.
        folder: The run folder.
        make_cast: Makes who carries orders out, given where to report.
        watch: Who is told how it goes.
    """
    began = time.monotonic()
    finish = asyncio.run(_with_signals(scenario, make_cast, watch))
    return gather(scenario, runtime, folder, finish, time.monotonic() - began)


async def _with_signals(scenario: Scenario, make_cast: MakeCast, watch: Watch) -> Finish:
    """The first signal ends the run in order, the second one at once."""
    loop, stopping = asyncio.get_running_loop(), Stopping()
    run = asyncio.create_task(perform(Director(scenario), make_cast, watch), name="run")
    caught: list[signal.Signals] = []

    def received(number: signal.Signals) -> None:
        if stopping.order(loop.time()) != "echo":
            caught.append(number)
            run.cancel()

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        loop.add_signal_handler(number, received, number)
    try:
        return await run
    except asyncio.CancelledError:
        if not caught:
            raise
        return Finish(SIGNALS[caught[0]], f"stopped by {caught[0].name}")
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


async def perform(director: Director, make_cast: MakeCast, watch: Watch) -> Finish:
    """Passes happenings to the director and its orders to the cast, until the run is over.

    However it ends, every program has ended when it returns.
    """
    happenings: Happenings = asyncio.Queue()
    cast = make_cast(happenings)
    grace_s = 0.0
    try:
        finish = await _play(director, cast, happenings, watch)
        grace_s = GOODBYE_S if finish.code == 0 else STOP_S
        if finish.code != 0:
            await cast.stop()
        return finish
    except asyncio.CancelledError:
        grace_s = STOP_S
        await cast.stop()
        raise
    finally:
        await cast.close(grace_s)
        for step in director.unreached():
            watch.note("warning", f"the run ended before its time came: {step}")


async def _play(director: Director, cast: Cast, happenings: Happenings, watch: Watch) -> Finish:
    loop = asyncio.get_running_loop()
    orders: list[Order] = director.begin()
    moved = loop.time()
    while True:
        for order in orders:
            if isinstance(order, Finish):
                return order
            if isinstance(order, Note):
                watch.note(order.level, order.text)
            else:
                await cast.carry(order)
        named_at = moved + NAME_WAITS_S
        happening = await _next(happenings, director.next_due(), named_at)
        _show(happening, watch)
        orders = director.handle(happening, loop.time())
        stands = isinstance(happening, Tick) or (isinstance(happening, Spoke) and happening.event == "wait")
        if not stands or loop.time() >= named_at + LATE_S:  # or what is known is old
            moved = loop.time()
        elif loop.time() >= named_at:
            moved = loop.time()
            watch.note("info", director.waiting)


async def _next(happenings: Happenings, due: float | None, latest: float) -> Happening:
    """The next happening, or a tick at ``due`` or ``latest``."""
    try:
        # not wait_for: before Python 3.12 it may swallow a cancellation that comes with a result
        async with asyncio.timeout_at(latest if due is None else min(due, latest)):
            return await happenings.get()
    except TimeoutError:
        return Tick()


def _show(happening: Happening, watch: Watch) -> None:
    if not isinstance(happening, Spoke) or happening.child != SERVER:
        return
    fields = happening.fields
    match happening.event:
        case "round":
            watch.round(fields)
        case "evaluation":
            watch.evaluation(fields)
        case "report":
            watch.report(int(fields["agent"]), list(fields["rows"]))
        case "lost" if fields.get("why") not in ("bye", "lost"):  # "lost" is the runner's own word
            watch.note("warning", f"agent {fields['agent']} is gone: {fields.get('why', '')}")
        case "listening":
            watch.note("info", f"the server listens at {fields['address']}")


def gather(scenario: Scenario, runtime: str, folder: RunFolder, finish: Finish, wall_s: float) -> Outcome:
    """The outcome of a networked run, read from its run folder: the one artefact."""
    rounds, evaluations = list(folder.rows(folder.metrics)), list(folder.rows(folder.evaluations))
    summary = _summary(folder.summary)
    failure = None
    if finish.code != 0:
        go_on = f"go on with: python -m server --resume {folder.path}"
        if set(summary.get("quarantined", ())).issuperset(overrides_by_goal(scenario)):
            go_on = "a resume keeps the quarantine: correct what was refused, and start a new run"
        hint = f"read {folder.logs}; {go_on}"
        failure = Failure(finish.code, kind_of(finish.code), finish.problem, hint)
    return Outcome(
        scenario=scenario,
        runtime=runtime,
        run_dir=str(folder.path),
        rounds=rounds,
        evaluations=evaluations,
        params_sha256=rounds[-1]["params_sha256"] if rounds else summary.get("params_sha256"),
        wall_s=wall_s,
        bytes_sent=int(summary.get("bytes_sent", sum(line["bytes_sent"] for line in rounds))),
        bytes_received=int(summary.get("bytes_received", sum(line["bytes_received"] for line in rounds))),
        failure=failure,
        privacy=summary.get("privacy"),
    )


def kind_of(code: int) -> str:
    """The kind of a failure in one word, from its exit code."""
    known = {int(member): member.name.lower() for member in ExitCode}
    return known.get(code, "failed")


def _summary(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, dict):
            return found
    return {}
