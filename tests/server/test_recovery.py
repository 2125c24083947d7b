"""A resume takes damaged lines out of the journals, and says so: in the log, and in the record."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from edge_fed.config import Algorithm
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.run_folder import RunFolder
from scenarios.verify import verify
from server.recovery import Mended, recover
from server.runtime import ServerProgram
from tests.scenarios.test_inproc import inproc
from tests.scenarios.tiny import tiny
from tests.server.test_recording import INITIAL, lines, run

GOOD = '{"kind":"evaluation","round":1,"rows":[]}'


def put(file: Path, line: str, place: int = 1) -> None:
    """One more line in a journal."""
    found = file.read_text().splitlines() if file.exists() else []
    file.write_text("".join(text + "\n" for text in [*found[:place], line, *found[place:]]))


@pytest.mark.parametrize("line", ["garbage", "[]", "5", "", "{", "[" * 100_000, '{"round": "x"}'])
def test_a_damaged_line_of_the_rounds_is_named_and_restored(tmp_path: Path, line: str) -> None:
    """Its checkpoint has it."""
    folder = run(tmp_path, 3)
    before = folder.metrics.read_text()
    put(folder.metrics, line)
    (mended,) = recover(folder, INITIAL).mended
    assert mended == Mended("metrics.jsonl", 1, 2)
    assert mended.text == "line 2 of metrics.jsonl cannot be read: taken out and restored"
    assert folder.metrics.read_text() == before
    assert recover(folder, INITIAL).mended == ()


def test_a_line_that_no_checkpoint_restores_is_named_as_lost(tmp_path: Path) -> None:
    """Only the newest checkpoints are kept, and the line of another round was damaged."""
    folder = run(tmp_path, 5, keep_checkpoints=2)
    text = folder.metrics.read_text().splitlines()
    folder.metrics.write_text("\n".join([text[0], "garbage", *text[2:]]) + "\n")
    (mended,) = recover(folder, INITIAL).mended
    assert mended.lost == (2,)
    assert mended.text == "line 2 of metrics.jsonl cannot be read: taken out; lost: rounds [2]"


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "5",
        "{}",
        '{"kind":"foo","round":1,"rows":[]}',
        '{"kind":"evaluation","round":"x"}',
        '{"kind":"onboarding","round":1,"rows":[]}',
        '{"kind":"onboarding","round":1,"rows":[5],"agent":1,"incarnation":"","trajectories":1}',
    ],
)
def test_a_damaged_measurement_is_named(tmp_path: Path, line: str) -> None:
    """No checkpoint has it: it is gone, and the rest stands."""
    folder = run(tmp_path, 2)
    put(folder.evaluations, GOOD)
    for _ in range(3):
        put(folder.evaluations, line)
    recovered = recover(folder, INITIAL)
    assert recovered.mended == (Mended("evaluations.jsonl", 3, 2),)
    assert recovered.mended[0].text == "line 2 and 2 more of evaluations.jsonl cannot be read: taken out"
    assert folder.evaluations.read_text() == GOOD + "\n"


def test_a_damaged_event_is_named(tmp_path: Path) -> None:
    """The round that was opened last is still known."""
    folder = run(tmp_path, 2)
    put(folder.events, "garbage")
    recovered = recover(folder, INITIAL)
    assert recovered.mended == (Mended("events.jsonl", 1, 2),)
    assert len(lines(folder.events)) == 2


def test_a_torn_last_line_is_no_damage(tmp_path: Path) -> None:
    """After kill -9, in every journal."""
    folder = run(tmp_path, 2)
    for journal in (folder.metrics, folder.evaluations, folder.events):
        with journal.open("a") as file:
            file.write('{"round": 3, "kind')
    assert recover(folder, INITIAL).mended == ()


class Stopper:
    """A supervisor that stops the server once it serves."""

    def __init__(self) -> None:
        self.program: ServerProgram

    def event(self, name: str, /, **_fields: Any) -> None:
        """Waits for one."""
        if name == "serving":
            self.program.stop("the test is over", ExitCode.STOPPED)

    def listen(self, deliver: Any) -> None:
        """Gives no commands."""


def serve_again(folder: RunFolder) -> list[str]:
    """Resumes a finished run; returns the warnings."""
    said: list[str] = []

    def keep(_logger: Any, level: str, line: Any) -> Any:
        if level == "warning":
            said.append(line["event"])
        raise structlog.DropEvent

    logger: Any = structlog.wrap_logger(
        structlog.PrintLogger(), processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    stopper = Stopper()
    stopper.program = ServerProgram(
        folder.config, folder, "inproc://server", logger=logger, supervisor=stopper, resume=True
    )
    asyncio.run(stopper.program.run())
    return said


def test_a_resume_leaves_its_mending_in_the_record(tmp_path: Path) -> None:
    """`verify` names the file, and what is missing because of it."""
    path = tmp_path / "run"
    inproc(tiny("", "federation.evaluate_every=2"), path)
    folder = RunFolder.open(path)
    text = folder.evaluations.read_text().splitlines()
    folder.evaluations.write_text("\n".join([text[0], "garbage", *text[2:]]) + "\n")
    assert "line 2 of evaluations.jsonl cannot be read: taken out" in serve_again(folder)
    (event,) = [row for row in lines(folder.events) if row["event"] == "journal_mended"]
    assert (event["file"], event["damaged"], event["first"]) == ("evaluations.jsonl", 1, 2)
    found = verify(path)
    assert (found.outcome, found.round) == ("different", 2)
    assert found.differences[0] == "no evaluation of round 2 is recorded, and the run went on behind it"
    (note,) = found.notes
    assert note.startswith("damaged lines that resumes took out of evaluations.jsonl: 1; ")


def test_fewer_rounds_than_are_committed_are_refused(tmp_path: Path) -> None:
    """An edited configuration does not take rounds back; nothing in the folder is touched."""
    folder = run(tmp_path, 4)
    shorter = msgspec.structs.replace(folder.config, algorithm=Algorithm(rounds=3))
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    other = RunFolder(folder.path, folder.run_id, shorter)
    with pytest.raises(ProgramError, match=r"algorithm\.rounds = 3, but round 4 is committed") as caught:
        recover(other, INITIAL)
    assert caught.value.code == ExitCode.USAGE
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before
