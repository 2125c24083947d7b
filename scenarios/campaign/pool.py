"""Runs many sequences, each in a process of its own, a few at a time.

A sequence's process is the very command that replays it, so that a sequence that hangs can be ended and is a
finding like any other.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from scenarios.campaign.checks import Finding
from scenarios.campaign.verdict import Verdict

LIMIT_S = 300.0  # the longest wait of a drawn scenario is 90 s; the rest is the machine's
GONE_S = 10.0  # after SIGTERM; a runner takes three seconds
LOOK_S = 0.1

Report = Callable[[float, str], None]
"""(fraction of the sequences that is done, what was done last)."""


class Running(msgspec.Struct):
    """One sequence's process."""

    seed: int
    process: subprocess.Popen[bytes]
    began: float


def run_all(
    seeds: Sequence[int], folder: Path, jobs: int, report: Report, limit_s: float = LIMIT_S
) -> list[Verdict]:
    """Runs every seed's sequence; returns their verdicts by seed.

    Args:
        seeds: Of the sequences.
        folder: Where each leaves its run folder, ``seed-7``.
        jobs: Sequences at a time.
        report: Told as they end.
        limit_s: A sequence that takes longer is ended.
    """
    queue, running = list(seeds), list[Running]()
    done: dict[int, Verdict] = {}
    try:
        while queue or running:
            while queue and len(running) < jobs:
                running.append(_start(queue.pop(0), folder))
            for one in [one for one in running if _over(one, limit_s)]:
                running.remove(one)
                done[one.seed] = verdict = _verdict(one, folder, limit_s)
                bad = sum(bool(other.findings) for other in done.values())
                text = f"seed {one.seed}: {_in_words(verdict)}" + (f" ({bad} with findings)" if bad else "")
                report(len(done) / len(seeds), text)
            time.sleep(LOOK_S)
    finally:
        for one in running:  # all at once: each takes a few seconds to end its programs
            one.process.terminate()
        for one in running:
            _end(one)
    return [done[seed] for seed in sorted(done)]


def _start(seed: int, folder: Path) -> Running:
    command = [sys.executable, "-P", "-m", "scenarios", "campaign", "--seed", str(seed)]
    command += ["--keep", str(folder), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return Running(seed, process, time.monotonic())


def _over(one: Running, limit_s: float) -> bool:
    return one.process.poll() is not None or time.monotonic() > one.began + limit_s


def _verdict(one: Running, folder: Path, limit_s: float) -> Verdict:
    """What the sequence's process has found, or what its own end shows."""
    seconds, path = time.monotonic() - one.began, folder / f"seed-{one.seed}" / "verdict.json"
    hangs = one.process.poll() is None
    said = _end(one)
    if hangs:
        text = f"did not end within {limit_s:g} s"
    else:
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Verdict)
            return msgspec.structs.replace(found, seconds=seconds)
        except (OSError, msgspec.MsgspecError):
            text = f"its process ended with code {one.process.returncode}: {said[-1000:]}"
    finding = Finding("the sequence ends", text)
    return Verdict(seed=one.seed, seconds=seconds, end="no verdict", findings=(finding,))


def _end(one: Running) -> str:
    """Ends the process, whose runner ends its programs; returns what it said."""
    if one.process.poll() is None:
        one.process.terminate()
    try:
        _, said = one.process.communicate(timeout=GONE_S)
    except subprocess.TimeoutExpired:
        one.process.kill()
        _, said = one.process.communicate()
    return said.decode(errors="replace").strip()


def _in_words(verdict: Verdict) -> str:
    if not verdict.findings:
        return f"{verdict.end}, {verdict.seconds:.1f} s"
    return "; ".join(f"{finding.check}: {finding.text}" for finding in verdict.findings[:3])
