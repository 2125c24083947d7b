"""What an earlier server process left in the run folder, and how to go on from it.

The newest checkpoint whose array has the hash of its sidecar is where the run stands. ``metrics.jsonl`` is
cut to it, and lines that are missing are restored from sidecars. ``latest`` is never read.
"""

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.federated.control_variate import ServerControl
from edge_fed.params import F8
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import write_atomic
from edge_fed.program.run_folder import RunFolder
from server.ledger import Ledger, Resume
from server.recording import Sidecar, load_arrays

GONE = ("lease", "bye", "lost", "not back")  # reasons after which nobody waits for an agent
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, msgspec.MsgspecError)


class Recovered(msgspec.Struct, frozen=True):
    """Where the run stands.

    Attributes:
        ledger: The newest intact checkpoint.
        resume: What else is known.
        damaged: Checkpoints that could not be used, newest first.
        bytes_sent: By earlier processes, as far as the committed lines tell.
        bytes_received: The same.
        evaluation_trajectories: Sampled in recorded evaluations.
        latest_evaluation: The newest recorded one.
    """

    ledger: Ledger
    resume: Resume
    damaged: tuple[str, ...] = ()
    bytes_sent: int = 0
    bytes_received: int = 0
    evaluation_trajectories: int = 0
    latest_evaluation: dict[str, Any] = {}


def recover(folder: RunFolder, initial: F8, control: ServerControl | None = None) -> Recovered:
    """Reads the folder and mends its journals; the caller holds its lock.

    Args:
        folder: Of the run.
        initial: The run's initial parameters, in case nothing was committed.
        control: The server's half of the run's correction before round 1; None: it has none.

    Raises:
        ProgramError: Checkpoints exist, but none is intact; or rounds are recorded without checkpoints.
    """
    if not folder.committed_rounds() and any(_whole_lines(folder.metrics)):
        raise ProgramError(
            ExitCode.USAGE,
            f"{folder.path} has no checkpoints to go on from (a plain run keeps none)",
            "start a new run with a server",
        )
    damaged: list[str] = []
    sidecar, arrays = _newest(folder, damaged)
    if sidecar is None:
        ledger = Ledger(initial, control=control)
    else:
        half = control and control.of(arrays["control"])
        ledger = Ledger(arrays["params"], sidecar.round, sidecar.book, half)
    lines = _mend_metrics(folder, ledger.committed)
    evaluations = _mend(folder.evaluations, lambda row: _evaluated(row) <= ledger.committed)
    events = _mend(folder.events, lambda _row: True)
    opened = next((row for row in reversed(events) if row.get("event") == "round_opened"), None)
    reopen = opened is not None and opened["round"] == ledger.committed + 1
    averages = [row for row in evaluations if row.get("kind") == "evaluation"]
    resume = Resume(
        expected=tuple(opened["eligible"]) if opened and reopen else _still_there(lines),
        round=opened["round"] if opened and reopen else 0,
        eligible=tuple(opened["eligible"]) if opened and reopen else (),
        cohort=tuple(opened["cohort"]) if opened and reopen else (),
        evaluated=frozenset(row["round"] for row in averages),
        reports=tuple(_without_schema(row) for row in evaluations if row.get("kind") == "onboarding"),
        finished=_finished(folder),
    )
    return Recovered(
        ledger,
        resume,
        tuple(damaged),
        sum(line.get("bytes_sent", 0) for line in lines),
        sum(line.get("bytes_received", 0) for line in lines),
        sum(row.get("trajectories", 0) for row in averages),
        _without_schema(averages[-1]) if averages else {},
    )


def _newest(folder: RunFolder, damaged: list[str]) -> tuple[Sidecar | None, dict[str, F8]]:
    rounds = folder.committed_rounds()
    for round_ in reversed(rounds):
        path = folder.checkpoint(round_)[1]
        try:
            sidecar = msgspec.json.decode(path.read_bytes(), type=Sidecar)
            if sidecar.run_id != folder.run_id.hex():
                raise ValueError("belongs to another run")
            if sidecar.round != round_:  # a recycled file whose new content a power failure swallowed
                raise ValueError(f"is that of round {sidecar.round}")
            return sidecar, load_arrays(folder, sidecar)
        except UNREADABLE as error:
            damaged.append(f"{path.name}: {error}")
    if rounds:
        raise ProgramError(
            ExitCode.FAILED,
            f"no checkpoint in {folder.checkpoints} is intact: {damaged[0]}",
            "start a new run, or restore the folder from a copy",
        )
    return None, {}


def _mend_metrics(folder: RunFolder, committed: int) -> list[dict[str, Any]]:
    """Cuts the lines to the committed rounds and restores missing ones from sidecars."""
    found = {row["round"]: row for row in _whole_lines(folder.metrics)}
    lines = []
    for round_ in range(1, committed + 1):
        line = found.get(round_) or _line_of(folder, round_)
        if line is not None:
            lines.append(line)
    _rewrite(folder.metrics, lines)
    return lines


def _line_of(folder: RunFolder, round_: int) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(folder.checkpoint(round_)[1].read_bytes(), type=Sidecar).line
    except UNREADABLE:
        return None


def _mend(path: Path, keep: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Drops a torn last line, and lines that do not count."""
    rows = [row for row in _whole_lines(path) if keep(row)]
    _rewrite(path, rows)
    return rows


def _whole_lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:  # torn by a power failure, or the rest of a kill -9
            continue
        if isinstance(row, dict):
            yield row


def _rewrite(path: Path, rows: list[dict[str, Any]]) -> None:
    data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    if not path.exists() or path.read_bytes() != data:
        write_atomic(path, data, sync=True)


def _evaluated(row: dict[str, Any]) -> int:
    return int(row.get("round", 0)) if row.get("kind") == "evaluation" else -1


def _still_there(lines: list[dict[str, Any]]) -> tuple[int, ...]:
    """Agents of the newest round that did not leave in it."""
    if not lines:
        return ()
    gone = {int(agent) for agent, why in lines[-1]["missing"].items() if why.startswith(GONE)}
    return tuple(agent for agent in lines[-1]["eligible"] if agent not in gone)


def _finished(folder: RunFolder) -> bool:
    try:
        return bool(json.loads(folder.summary.read_bytes()).get("outcome") == "finished")
    except (OSError, ValueError):
        return False


def _without_schema(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "schema"}
