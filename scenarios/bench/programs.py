"""The real programs, started as a person starts them: time to the first and to the last round, memory."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec


class Launched(msgspec.Struct, frozen=True):
    """What one federation took.

    Attributes:
        first_round_s: From the first program's start to the commit of round 1.
        last_round_s: The same for the last round asked for.
        pss_mib: Memory of all programs together after round 1, shared pages counted once.
    """

    first_round_s: float
    last_round_s: float
    pss_mib: float


def launch(agents: int, rounds: int) -> Launched:
    """Starts a server and its agents, all at once, and stops them after ``rounds`` rounds of few-shot.

    Args:
        agents: Agents 0 .. agents-1, each a process.
        rounds: Rounds to play.
    """
    address = f"tcp://127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        settings = [f"algorithm.rounds={rounds}", f'agents.0.goals="0-{agents - 1}"', "onboarding.goals=[]"]
        server = ["server", "--bind", address, "--run-dir", str(folder / "run"), "--hold", "2"]
        server += [word for setting in settings for word in ("--set", setting)]
        began = time.perf_counter()
        programs = [_start(server)]
        for goal in range(agents):
            agent = ["agent", "--goal", str(goal), "--server", address, "--state-dir", str(folder)]
            programs.append(_start(agent))
        try:
            _await(programs[0], "round", 1)
            first = time.perf_counter() - began
            pss = sum(_pss_mib(program.pid) for program in programs)
            held = time.perf_counter()
            if rounds > 1:
                _await(programs[0], "held", 2)
                held = time.perf_counter()
                _tell(programs[0], {"command": "proceed", "round": 2})
                _await(programs[0], "round", rounds)
            last = first + time.perf_counter() - held
            for program in programs:
                program.communicate(timeout=30)
        finally:
            for program in programs:
                program.kill()
                program.wait()
    return Launched(first, last, pss)


def floor(script: Path, agents: int) -> dict[str, Any]:
    """One run of the limit script for the start: bare interpreters that import the same libraries."""
    command = [
        sys.executable,
        str(script),
        "--agents",
        str(agents),
        "--runs",
        "1",
        "--port",
        str(_free_port()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", *arguments, "--supervised", "--log-level", "error"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _tell(program: subprocess.Popen[str], command: dict[str, Any]) -> None:
    assert program.stdin is not None
    program.stdin.write(json.dumps(command) + "\n")
    program.stdin.flush()


def _await(program: subprocess.Popen[str], event: str, round_: int) -> None:
    """Reads events until the one that is waited for."""
    assert program.stdout is not None
    for line in program.stdout:
        told = json.loads(line)
        if told["event"] == event and told["round"] == round_:
            return
    raise RuntimeError(f"the server ended before its event {event!r} of round {round_}")


def _pss_mib(pid: int) -> float:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Pss:")) / 1024


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
