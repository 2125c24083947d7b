"""Runs one sequence with real programs, and keeps a diary of it in its run folder.

A sequence that is cut has two legs: all programs end, then the run is gone on with as a person would, with
every planned agent started again and no more faults.
"""

import asyncio
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.program.run_folder import RunFolder
from scenarios.campaign.draw import Cut, Sequence
from scenarios.cast import Happenings, make_folder
from scenarios.orders import Ended, Happening
from scenarios.outcome import Outcome
from scenarios.processes import Processes
from scenarios.runner import run_networked
from scenarios.watching import Line, Silent

DIARY = "campaign.jsonl"
SEQUENCE = "sequence.json"


def run_sequence(sequence: Sequence, path: Path) -> None:
    """Runs it in a run folder; what was there of an earlier time is removed."""
    if path.exists():
        shutil.rmtree(path)
    folder = make_folder(sequence.scenario, path, overwrite=False)
    (path / SEQUENCE).write_bytes(msgspec.json.format(msgspec.json.encode(sequence)))
    with Diary(path / DIARY) as diary:
        outcome = _leg(sequence, folder, diary, sequence.scenario.algorithm.rounds, sequence.cut)
        if sequence.cut and outcome.failure and diary.cut:
            quiet = msgspec.structs.replace(sequence.scenario, timeline=())
            calm = msgspec.structs.replace(sequence, scenario=quiet)
            _leg(calm, folder, diary, sequence.scenario.algorithm.rounds, None)


class Diary:
    """What the run folder does not tell: the ends of all programs, the runner's notes, and how legs ended.

    Attributes:
        cut: Everything was ended on purpose.
    """

    def __init__(self, path: Path) -> None:
        self.cut = False
        self._file = path.open("a", buffering=1, encoding="utf8")

    def __enter__(self) -> "Diary":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, what: str, **fields: Any) -> None:
        """One line."""
        self._file.write(json.dumps({"time": round(time.time(), 3), "what": what, **fields}) + "\n")


class Overheard(asyncio.Queue[Happening]):
    """A queue in front of the runner's that writes every program's end down."""

    def __init__(self, happenings: Happenings, diary: Diary) -> None:
        super().__init__()
        self._happenings = happenings
        self._diary = diary

    def put_nowait(self, item: Happening) -> None:
        """Passes it on."""
        if isinstance(item, Ended):
            self._diary.write("ended", child=item.child, code=item.code, why=item.why)
        self._happenings.put_nowait(item)


class Watcher(Silent):
    """Writes the runner's notes down, and cuts the run where it is to be cut."""

    def __init__(self, diary: Diary, cut: Cut | None) -> None:
        self._diary = diary
        self._cut = cut
        self.cast: Processes | None = None

    def note(self, level: str, text: str) -> None:
        """Is written down."""
        self._diary.write("note", level=level, text=text)

    def round(self, line: Line) -> None:
        """Ends everything once the round has come."""
        if self._cut is None or self.cast is None or self._diary.cut or line["round"] < self._cut.after_round:
            return
        self._diary.cut = True
        self._diary.write("cut", how=self._cut.how, round=line["round"])
        if self._cut.how == "KILL":
            self.cast.cut()
        else:
            os.kill(os.getpid(), signal.SIGTERM)


def _leg(sequence: Sequence, folder: RunFolder, diary: Diary, rounds: int, cut: Cut | None) -> Outcome:
    watcher = Watcher(diary, cut)

    def make(happenings: Happenings) -> Processes:
        queue = Overheard(happenings, diary)
        watcher.cast = Processes(sequence.scenario, folder, queue, sequence.transport, "json")
        return watcher.cast

    diary.write("begin", rounds=rounds)
    outcome = run_networked(sequence.scenario, "processes", folder, make, watcher)
    code, problem = (outcome.failure.code, outcome.failure.message) if outcome.failure else (0, "")
    diary.write("over", code=code, problem=problem)
    return outcome
