"""Reads what a sequence left in its run folder. Nothing is judged here; what cannot be read says so."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.federated.record import RoundRecord
from edge_fed.program.run_folder import RunFolder
from scenarios.campaign.draw import Sequence
from scenarios.campaign.sequence import DIARY, SEQUENCE

Row = dict[str, Any]


class LogLine(msgspec.Struct, frozen=True):
    """One line of a program's log.

    Attributes:
        program: ``server``, ``agent-3``.
        time: Seconds of the wall clock; 0 if the line has none.
        text: What it says.
        fields: All else that it says.
        raw: No program of ours wrote it: a warning of Python's, a trace.
    """

    program: str
    time: float
    text: str
    fields: Row = {}
    raw: bool = False


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence's run folder, read.

    Attributes:
        sequence: What was to happen.
        folder: For arrays.
        metrics: The raw lines of ``metrics.jsonl``.
        events: Of ``events.jsonl``.
        diary: Of the campaign, see `scenarios.campaign.sequence`.
        logs: Every line of every log, by time.
        summary: Empty if there is none.
        sidecars: Of the checkpoints that are there, by round.
    """

    sequence: Sequence
    folder: RunFolder
    metrics: tuple[bytes, ...]
    events: tuple[Row, ...]
    diary: tuple[Row, ...]
    logs: tuple[LogLine, ...]
    summary: Row
    sidecars: dict[int, Row]

    @property
    def config(self) -> RunConfig:
        """As the server resolved it."""
        return self.folder.config

    @property
    def lines(self) -> list[Row]:
        """Lines of ``metrics.jsonl`` that can be read."""
        return [row for row in map(_parsed, self.metrics) if row is not None]

    @property
    def records(self) -> list[RoundRecord]:
        """The records of the committed rounds."""
        return [msgspec.convert(row, RoundRecord, strict=False) for row in self.lines]

    @property
    def end(self) -> tuple[int, str]:
        """Exit code of the last leg and its reason; (-1, "") if it never ended."""
        ends = [row for row in self.diary if row["what"] == "over"]
        return (int(ends[-1]["code"]), str(ends[-1]["problem"])) if ends else (-1, "")

    @property
    def cut(self) -> bool:
        """Whether all programs were ended on purpose."""
        return any(row["what"] == "cut" for row in self.diary)

    def lives(self) -> list[list[Row]]:
        """The events of each server process."""
        lives: list[list[Row]] = []
        for row in self.events:
            if row["event"] == "started":
                lives.append([])
            if lives:
                lives[-1].append(row)
        return lives

    def committing_life(self, round_: int) -> list[Row]:
        """The events of the server process that committed a round."""
        lives = self.lives()
        for life, following in zip(lives, [*lives[1:], []], strict=True):
            after = following[0]["resumed_after"] if following else len(self.lines)
            if life[0]["resumed_after"] < round_ <= after:
                return life
        return []


def read(path: Path) -> Evidence:
    """Reads a run folder that `run_sequence` has filled.

    Raises:
        ProgramError: It is no run folder.
        OSError, msgspec.MsgspecError: The sequence is not there.
    """
    folder = RunFolder.open(path)
    sequence = msgspec.json.decode((path / SEQUENCE).read_bytes(), type=Sequence)
    return Evidence(
        sequence=sequence,
        folder=folder,
        metrics=tuple(_raw(folder.metrics)),
        events=tuple(row for row in map(_parsed, _raw(folder.events)) if row is not None),
        diary=tuple(row for row in map(_parsed, _raw(path / DIARY)) if row is not None),
        logs=tuple(sorted(_logs(folder.logs), key=lambda line: line.time)),
        summary=_parsed(folder.summary.read_bytes()) or {} if folder.summary.exists() else {},
        sidecars=dict(_sidecars(folder)),
    )


def _raw(path: Path) -> list[bytes]:
    """Lines with their ends, so that a torn one can be told."""
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def _parsed(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _logs(folder: Path) -> Iterator[LogLine]:
    for path in sorted(folder.glob("*.log")):
        newest = 0.0
        for raw in _raw(path):
            row = _parsed(raw)
            if row is None or "timestamp" not in row:
                yield LogLine(path.stem, newest, raw.decode(errors="replace").rstrip(), raw=True)
                continue
            newest = datetime.datetime.fromisoformat(row.pop("timestamp")).timestamp()
            yield LogLine(path.stem, newest, str(row.pop("event", "")), row)


def _sidecars(folder: RunFolder) -> Iterator[tuple[int, Row]]:
    for round_ in folder.committed_rounds():
        yield round_, _parsed(folder.checkpoint(round_)[1].read_bytes()) or {}
