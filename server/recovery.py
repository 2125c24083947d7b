"""What an earlier server process left in the run folder, and how to go on from it.

The newest checkpoint whose array has the hash of its sidecar is where the run stands. ``metrics.jsonl`` is
cut to it, and lines that are missing are restored from sidecars. ``latest`` is never read.

Journals are read line by line, and rewritten only if a line is wrong: those of a long run are large.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edge_fed.config import overrides_by_goal
from edge_fed.federated.control_variate import ServerControl
from edge_fed.params import F8
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import open_regular, read_regular, write_atomic
from edge_fed.program.run_folder import RunFolder
from server.checkpoint import UNREADABLE, Sidecar, load_arrays, load_sidecar
from server.ledger import Ledger, Resume

GONE = ("lease", "bye", "lost", "not back")  # reasons after which nobody waits for an agent

TORN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # what reading half a line raises

Kind = TypeVar("Kind", bound=msgspec.Struct)


class Past(msgspec.Struct, frozen=True):
    """What is read of a line of ``metrics.jsonl``."""

    round: int
    bytes_sent: int = 0
    bytes_received: int = 0
    eligible: tuple[int, ...] = ()
    missing: dict[int, str] = {}


class Opened(msgspec.Struct, frozen=True):
    """What is read of a line of ``events.jsonl``."""

    event: str = ""
    round: int = 0
    eligible: tuple[int, ...] = ()
    cohort: tuple[int, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """What is read of a line of ``events.jsonl`` about private updates."""

    event: str = ""
    agent: int = 0
    seen: int = 0


class Started(msgspec.Struct, frozen=True):
    """What is read of a line of ``events.jsonl`` about a server process."""

    event: str = ""
    keys: bool = False


class EvaluationLine(msgspec.Struct, frozen=True, tag="evaluation", tag_field="kind"):
    """What must be in a line of ``evaluations.jsonl`` about training agents."""

    round: int
    rows: tuple[dict[str, Any], ...] = ()
    trajectories: int = 0


class OnboardingLine(msgspec.Struct, frozen=True, tag="onboarding", tag_field="kind"):
    """What must be in a line of ``evaluations.jsonl`` about an onboarder."""

    round: int
    agent: int
    incarnation: str
    trajectories: int
    rows: tuple[dict[str, Any], ...]


class Mended(msgspec.Struct, frozen=True):
    """Lines of a journal that could not be read, and are gone from it.

    Attributes:
        file: Its name.
        damaged: How many.
        first: The number of the first of them.
        lost: Of ``metrics.jsonl``, the rounds whose line no checkpoint restored.
    """

    file: str
    damaged: int
    first: int
    lost: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """For people."""
        more = f" and {self.damaged - 1} more" if self.damaged > 1 else ""
        found = f"line {self.first}{more} of {self.file} cannot be read: taken out"
        if self.file != "metrics.jsonl":
            return found
        return f"{found}; lost: rounds {list(self.lost)}" if self.lost else f"{found} and restored"


class Ended(msgspec.Struct, frozen=True):
    """What is read of ``summary.json``."""

    outcome: str = ""


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
        mended: Journals with damaged lines; a torn last line is what a kill leaves, and not named.
    """

    ledger: Ledger
    resume: Resume
    damaged: tuple[str, ...] = ()
    bytes_sent: int = 0
    bytes_received: int = 0
    evaluation_trajectories: int = 0
    latest_evaluation: dict[str, Any] = {}
    mended: tuple[Mended, ...] = ()


def recover(folder: RunFolder, initial: F8, control: ServerControl | None = None) -> Recovered:
    """Reads the folder and mends its journals; the caller holds its lock.

    Args:
        folder: Of the run.
        initial: The run's initial parameters, in case nothing was committed.
        control: The server's half of the run's correction before round 1; None: it has none.

    Raises:
        ProgramError: Checkpoints exist, but none is intact; or rounds are recorded without checkpoints; or
            more are committed than the settings have.
    """
    if not folder.committed_rounds() and any(_whole(folder.metrics, Past)):
        raise ProgramError(
            ExitCode.USAGE,
            f"{folder.path} has no checkpoints to go on from (a plain run keeps none)",
            "start a new run with a server",
        )
    damaged: list[str] = []
    sidecar, arrays = _newest(folder, damaged)
    committed, rounds = sidecar.round if sidecar else 0, folder.config.algorithm.rounds
    if committed > rounds:
        raise ProgramError(
            ExitCode.USAGE,
            f"config.json has algorithm.rounds = {rounds}, but round {committed} is committed",
            "put the run's own config.json back; another number of rounds is another run",
        )
    if sidecar is None:
        ledger = Ledger(initial, control=control)
    else:
        half = control and control.of(arrays["control"])
        ledger = Ledger(arrays["params"], sidecar.round, sidecar.book, half)
    _sweep(folder)
    mended: list[Mended] = []
    sent, received, there = _mend_metrics(folder, ledger.committed, mended)
    evaluations = _mend_evaluations(folder, ledger.committed, mended)
    opened = _mend_events(folder, mended)
    reopen = opened.round == ledger.committed + 1
    if folder.config.privacy.noisy:
        ledger.note_released(_released(folder))
        ledger.note_unseen(overrides_by_goal(folder.config), opened.round - max(0, ledger.committed))
    averages = [row for row in evaluations if row.get("kind") == "evaluation"]
    resume = Resume(
        expected=opened.eligible if reopen else there,
        round=opened.round if reopen else 0,
        eligible=opened.eligible if reopen else (),
        cohort=opened.cohort if reopen else (),
        evaluated=frozenset(row.get("round", 0) for row in averages),
        reports=tuple(_without_schema(row) for row in evaluations if row.get("kind") == "onboarding"),
        finished=_finished(folder),
    )
    return Recovered(
        ledger,
        resume,
        tuple(damaged),
        sent,
        received,
        sum(row.get("trajectories", 0) for row in averages),
        _without_schema(averages[-1]) if averages else {},
        tuple(mended),
    )


def had_keys(folder: RunFolder) -> bool:
    """Whether the run's newest server process let in only the holders of listed keys."""
    keyed = False
    for row, _line in _whole(folder.events, Started):
        keyed = row.keys if row.event == "started" else keyed
    return keyed


def _newest(folder: RunFolder, damaged: list[str]) -> tuple[Sidecar | None, dict[str, F8]]:
    rounds = folder.committed_rounds()
    for round_ in reversed(rounds):
        path = folder.checkpoint(round_)[1]
        try:
            sidecar = load_sidecar(folder, round_)
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


def _sweep(folder: RunFolder) -> None:
    """Removes what a kill left beside the checkpoints: arrays without a sidecar, files not yet renamed."""
    committed = {folder.checkpoint(round_)[0] for round_ in folder.committed_rounds()}
    lone = [path for path in folder.checkpoints.glob("round-*.npz") if path not in committed]
    for path in (*lone, *folder.checkpoints.glob(".*.part"), *folder.path.glob(".*.part")):
        path.unlink(missing_ok=True)


def _mend_metrics(
    folder: RunFolder, committed: int, mended: list[Mended]
) -> tuple[int, int, tuple[int, ...]]:
    """Cuts the lines to the committed rounds and restores missing ones from sidecars.

    Returns:
        Bytes sent, bytes received, and the agents that were there after the newest round.
    """
    if not _complete(folder.metrics, committed):
        found = {past.round: line for past, line in _whole(folder.metrics, Past)}
        rounds = range(1, committed + 1)
        wanted = {round_: found.get(round_) or _line_of(folder, round_) for round_ in rounds}
        lost = tuple(round_ for round_, line in wanted.items() if not line)
        _note_damage(folder.metrics, Past, mended, lost)
        _rewrite(folder.metrics, [line for line in wanted.values() if line])
    sent, received, newest = 0, 0, Past(0)
    for past, _line in _whole(folder.metrics, Past):
        sent, received, newest = sent + past.bytes_sent, received + past.bytes_received, past
    return sent, received, _still_there(newest)


def _complete(path: Path, committed: int) -> bool:
    """Whether every committed round has its line, in order, and nothing else is there."""
    expected = 1
    for past, _line in _lines(path, Past):
        if past is None or past.round != expected:
            return False
        expected += 1
    return expected == committed + 1


def _line_of(folder: RunFolder, round_: int) -> bytes:
    try:
        line = load_sidecar(folder, round_).line
    except UNREADABLE:
        return b""
    return msgspec.json.encode(line) + b"\n" if line else b""


def _note_damage(path: Path, kind: Any, mended: list[Mended], lost: tuple[int, ...] = ()) -> None:
    """Counts the lines that have an end and cannot be read, before they are taken out."""
    wrong = [
        number
        for number, (row, line) in enumerate(_lines(path, kind), start=1)
        if row is None and line.endswith(b"\n")
    ]
    if wrong:
        mended.append(Mended(path.name, len(wrong), wrong[0], lost))


def _mend_events(folder: RunFolder, mended: list[Mended]) -> Opened:
    """Drops torn lines; returns the round that was opened last (0: none)."""
    newest, torn = Opened(), False
    for event, _line in _lines(folder.events, Opened):
        torn |= event is None
        newest = event if event is not None and event.event == "round_opened" else newest
    if torn:
        _note_damage(folder.events, Opened, mended)
        _rewrite(folder.events, [line for _, line in _whole(folder.events, Opened)])
    return newest


def _released(folder: RunFolder) -> dict[int, int]:
    """Agent -> private updates that were seen, as far as the journal tells."""
    found: dict[int, int] = {}
    for row, _line in _whole(folder.events, Seen):
        if row.event == "released":
            found[row.agent] = max(row.seen, found.get(row.agent, 0))
    return found


def _mend_evaluations(folder: RunFolder, committed: int, mended: list[Mended]) -> list[dict[str, Any]]:
    """Drops torn lines, and evaluations of rounds that were not committed; returns the others."""
    everything = list(_lines(folder.evaluations, EvaluationLine | OnboardingLine))
    lines = [
        line
        for row, line in everything
        if row is not None and not (isinstance(row, EvaluationLine) and row.round > committed)
    ]
    if len(lines) < len(everything):
        _note_damage(folder.evaluations, EvaluationLine | OnboardingLine, mended)
        _rewrite(folder.evaluations, lines)
    return [json.loads(line) for line in lines]


def _whole(path: Path, kind: type[Kind]) -> Iterator[tuple[Kind, bytes]]:
    """The lines that are whole."""
    return ((row, line) for row, line in _lines(path, kind) if row is not None)


def _lines(path: Path, kind: Any) -> Iterator[tuple[Any, bytes]]:
    """Each line as it is, and what it says; None if it is torn (kill -9, power failure) or damaged."""
    if not path.exists():
        return
    with open_regular(path) as file:
        for line in file:
            row = None
            if line.endswith(b"\n"):
                with contextlib.suppress(*TORN):
                    row = msgspec.json.decode(line, type=kind)
            yield row, line


def _rewrite(path: Path, lines: list[bytes]) -> None:
    write_atomic(path, b"".join(lines), sync=True)


def _still_there(past: Past) -> tuple[int, ...]:
    """Agents of a round that did not leave in it."""
    gone = {agent for agent, why in past.missing.items() if why.startswith(GONE)}
    return tuple(agent for agent in past.eligible if agent not in gone)


def _finished(folder: RunFolder) -> bool:
    try:
        return msgspec.json.decode(read_regular(folder.summary), type=Ended).outcome == "finished"
    except (OSError, *TORN):
        return False


def _without_schema(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "schema"}
