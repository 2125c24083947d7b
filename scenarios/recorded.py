"""Reads what a run folder records, for `verify`: every file that cannot be read is named, with its line."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from edge_fed.config import Overrides
from edge_fed.federated.record import RoundRecord
from edge_fed.params import F8
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import read_regular
from edge_fed.program.run_folder import SCHEMA, RunFolder
from server.checkpoint import UNREADABLE, Sidecar, load_arrays, load_sidecar

Line = dict[str, Any]
Count = Annotated[int, Meta(ge=0)]
Kind = TypeVar("Kind")
MOST_NAMED = 20  # damaged files and lines


class Played(RoundRecord, frozen=True, kw_only=True):
    """A line of ``metrics.jsonl``.

    Attributes:
        arrivals: See `server.events.Commit`; None: a plain run, which has none.
        metrics: A server's means, or those of each update by agent.
        line: The whole line as it is written.
    """

    arrivals: tuple[int, ...] | None = None
    metrics: Line = msgspec.field(default_factory=dict)
    line: Line = msgspec.field(default_factory=dict)


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, tag="evaluation", tag_field="kind"):
    """A line of ``evaluations.jsonl``: training agents measured the parameters of a round."""

    round: Count
    rows: tuple[Line, ...]
    missing: dict[int, str] = {}
    overrides: dict[int, Overrides] | None = None
    line: Line = {}


class Reported(
    msgspec.Struct, frozen=True, kw_only=True, tag="onboarding", tag_field="kind", forbid_unknown_fields=True
):
    """A line of ``evaluations.jsonl``: what an onboarder measured."""

    schema: int = SCHEMA

    round: Count
    agent: Count
    rows: tuple[Line, ...]
    trajectories: Count = 0
    incarnation: str = ""
    overrides: Overrides | None = None
    line: Line = {}


Measurement = Evaluated | Reported


class Ended(msgspec.Struct, frozen=True):
    """What ``events.jsonl`` says of the end of a server process."""

    code: int
    outcome: str
    why: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run folder records of its run.

    Attributes:
        rounds: Lines of ``metrics.jsonl``.
        measurements: Lines of ``evaluations.jsonl``.
        sidecars: Of the checkpoints that are kept, by round; their arrays have the hashes that they state.
        summary: None: there is none.
        ends: Of the server's processes that ended in order.
        mended: File -> damaged lines of it that resumes left out.
    """

    rounds: list[Played]
    measurements: list[Measurement]
    sidecars: dict[int, Sidecar]
    summary: Line | None
    ends: list[Ended]
    mended: dict[str, int]

    @property
    def served(self) -> bool:
        """Whether a server made it; the plain loop keeps neither checkpoints nor events."""
        return bool(self.sidecars or self.ends or self.summary is not None)


class Damaged(ProgramError):
    """Files of a run folder cannot be read.

    Attributes:
        rest: What can be read; None: a file that all rounds need is among the damaged ones.
        first: First round whose checkpoint is damaged.
    """

    def __init__(self, damaged: Sequence[str], rest: Record | None, first: int) -> None:
        more = [f"and {len(damaged) - MOST_NAMED} more"] if len(damaged) > MOST_NAMED else []
        super().__init__(
            ExitCode.FAILED,
            "; ".join([*damaged[:MOST_NAMED], *more]),
            "put back an undamaged copy; a checkpoint may also be moved away with its sidecar",
        )
        self.rest = rest
        self.first = first


def read(folder: RunFolder) -> Record:
    """Reads everything once.

    Raises:
        Damaged: Each file is named, and each line.
    """
    damaged: list[str] = []
    record = Record(
        rounds=_lines(folder.metrics, Played, damaged),
        measurements=_lines(folder.evaluations, Measurement, damaged),  # type: ignore[arg-type]
        sidecars=_sidecars(folder, damaged),
        summary=_summary(folder.summary, damaged),
        ends=_ends(folder.events),
        mended=_mended(folder.events),
    )
    lost = sorted(set(folder.committed_rounds()) - record.sidecars.keys())
    if damaged:
        raise Damaged(damaged, record if len(damaged) == len(lost) else None, min(lost, default=0))
    return record


def arrays_of(folder: RunFolder, sidecar: Sidecar) -> dict[str, F8]:
    """What a checkpoint keeps, ``[d]`` each: ``params``, perhaps ``control``; they were read before."""
    return load_arrays(folder, sidecar)


def _lines(path: Path, kind: type[Kind], damaged: list[str]) -> list[Kind]:
    """The lines of a journal; its last one may be torn (kill -9) and is left out then."""
    found: list[Kind] = []
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return found
    except OSError as error:
        damaged.append(f"{path.name} cannot be read: {error.strerror}")
        return found
    for number, text in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            line = json.loads(text)
            if not isinstance(line, dict):
                raise ValueError(f"expected an object, found {str(line)[:30]}")
            found.append(_converted({**line, "line": line}, kind))
        except RecursionError:
            damaged.append(
                f"{path.name}, line {number}, cannot be read: brackets within brackets without end"
            )
        except ValueError as error:
            damaged.append(f"{path.name}, line {number}, cannot be read: {error}")
    return found


def _converted(line: Line, kind: type[Kind]) -> Kind:
    return msgspec.convert(line, kind, str_keys=True)


def _sidecars(folder: RunFolder, damaged: list[str]) -> dict[int, Sidecar]:
    kept: dict[int, Sidecar] = {}
    if folder.checkpoints.exists() and not folder.checkpoints.is_dir():
        damaged.append(f"{folder.checkpoints.name} cannot be read: is no folder")
    for round_ in folder.committed_rounds():
        array, sidecar = folder.checkpoint(round_)
        reading = sidecar
        try:
            found = load_sidecar(folder, round_)
            reading = array
            load_arrays(folder, found)
            kept[round_] = found
        except UNREADABLE as error:
            damaged.append(f"checkpoint {reading.name} cannot be read: {error}")
    return kept


def _summary(path: Path, damaged: list[str]) -> Line | None:
    try:
        found = json.loads(read_regular(path))
        if not isinstance(found, dict):
            raise ValueError("expected an object")
        return found
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        damaged.append(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}")
        return None


def _events(path: Path, name: str) -> Iterator[Line]:
    """The events of this name that can be read: the journal proves nothing, and is believed where it fits."""
    with contextlib.suppress(OSError):
        for text in read_regular(path).split(b"\n")[:-1]:
            with contextlib.suppress(ValueError, RecursionError):
                line = json.loads(text)
                if isinstance(line, dict) and line.get("event") == name:
                    yield line


def _ends(path: Path) -> list[Ended]:
    found = []
    for row in _events(path, "exit"):
        with contextlib.suppress(ValueError):
            found.append(_converted(row, Ended))
    return found


def _mended(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in _events(path, "journal_mended"):
        file, lines = str(row.get("file")), row.get("damaged")
        found[file] = found.get(file, 0) + (lines if isinstance(lines, int) else 0)
    return found
