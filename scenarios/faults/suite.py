"""Runs scenarios of the suite, each as a real `python -m scenarios run`, and reads what they left."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.run_folder import RunFolder
from scenarios.faults.verdict import Evidence
from scenarios.plain import run_plain
from scenarios.processes import FAULTS
from scenarios.script import load_scenario
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent

STOP_S = 10.0  # a run ends within 3 s of its SIGTERM
PATIENCE_S = 5.0  # without a result; then a line says what runs
Report = Callable[[float, str], None]


def library() -> dict[str, Path]:
    """The suite: name -> file."""
    folder = Path(str(resources.files("scenarios.faults.library")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def chosen(names: Sequence[str]) -> list[str]:
    """The names to run; all if none is given.

    Raises:
        ConfigError: A name is not in the suite.
    """
    known = library()
    strangers = [name for name in names if name not in known]
    wrong = [Fault(name, "is no fault of the suite", nearest(name, known)) for name in strangers]
    if wrong:
        raise ConfigError(wrong, "command line")
    return list(dict.fromkeys(names)) or list(known)


def run_suite(
    names: Sequence[str], folder: Path, jobs: int, transport: str, report: Report
) -> Iterator[Evidence]:
    """Runs scenarios; each one's evidence in the order of the names, when all have ended.

    Args:
        names: Of the suite.
        folder: For their run folders.
        jobs: How many at a time.
        transport: ipc or tcp.
        report: Told (fraction that is done, what was done last).
    """
    ended = asyncio.run(_all(names, folder, jobs, transport, report))
    for name in names:
        yield gather(name, folder / name, ended[name])


class Ended(msgspec.Struct, frozen=True):
    """A run's process: exit code, its JSON object, the times of its news, seconds."""

    code: int
    found: dict[str, Any]
    news: tuple[float, ...]
    seconds: float


async def _all(
    names: Sequence[str], folder: Path, jobs: int, transport: str, report: Report
) -> dict[str, Ended]:
    free = asyncio.Semaphore(jobs)
    ended: dict[str, Ended] = {}
    running: list[str] = []

    async def one(name: str) -> None:
        async with free:
            running.append(name)
            ended[name] = await _run(name, folder / name, transport)
            running.remove(name)
            report(len(ended) / len(names), name)

    async def speak() -> None:
        while True:
            await asyncio.sleep(PATIENCE_S)
            report(len(ended) / len(names), f"running {', '.join(running)}")

    speaker = asyncio.create_task(speak())
    tasks = [asyncio.create_task(one(name)) for name in names]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in (speaker, *tasks):
            task.cancel()
        await asyncio.gather(speaker, *tasks, return_exceptions=True)
    return ended


async def _run(name: str, folder: Path, transport: str) -> Ended:
    command = [sys.executable, "-P", "-m", "scenarios", "run", str(library()[name]), "--json", "--overwrite"]
    command += ["--run-dir", str(folder), "--transport", transport, "--log-format", "json"]
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.communicate(), STOP_S)
        raise
    times = tuple(row["time"] for line in err.splitlines() if (row := parsed(line)) and "time" in row)
    found = parsed(out) or {"error": {"message": err.decode(errors="replace").strip()[-500:]}}
    return Ended(process.returncode or 0, found, times, time.monotonic() - began)


def gather(name: str, folder: Path, ended: Ended) -> Evidence:
    """What is known about a run that has ended."""
    scenario = load_scenario(str(library()[name]))
    error = ended.found.get("error") or {}
    expectations = ended.found.get("metrics", {}).get("expectations", ())
    unmet = [
        f"{e['metric']} {e['comparison']} {e['value']:g}: {e['found']}" for e in expectations if not e["met"]
    ]
    verified = "no run to verify"
    rounds: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    done: dict[str, Any] = {}
    with contextlib.suppress(ProgramError, OSError):
        run = RunFolder.open(folder)
        rounds = list(run.rows(run.metrics))
        done = parsed((folder / FAULTS).read_bytes()) or {}
        summary = parsed(run.summary.read_bytes()) or {}
        verified = verified_as(folder)
    return Evidence(
        name=name,
        scenario=scenario,
        code=ended.code,
        problem=str(error.get("message", "")),
        unmet=tuple(unmet),
        rounds=rounds,
        calm=run_plain(without_faults(scenario), Silent()).rounds,
        summary=summary,
        agents=done.get("agents", {}),
        problems=tuple(done.get("problems", ())),
        verified=verified,
        news=ended.news,
        seconds=ended.seconds,
    )


def verified_as(folder: Path) -> str:
    """What verify says of a run."""
    try:
        return verify(folder).outcome
    except ProgramError as error:
        return error.message


def without_faults(scenario: Scenario) -> Scenario:
    """The same scenario over a perfect network."""
    kept = tuple(action for action in scenario.timeline if action.do not in ("fault", "heal"))
    return msgspec.structs.replace(scenario, timeline=kept)


def parsed(line: bytes) -> dict[str, Any] | None:
    """A JSON object, or None."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
