"""Whatever a file of a run folder holds, or is: `verify` names it and its line, and blocks nowhere."""

import os
import shutil
from pathlib import Path

import pytest

from edge_fed.program.exit_codes import ProgramError
from scenarios.cast import make_folder
from scenarios.command_line import main
from scenarios.plain import run_plain
from scenarios.recorded import MOST_NAMED
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.doctored import edit_lines
from tests.scenarios.test_inproc import inproc
from tests.scenarios.tiny import tiny

JOURNALS = ("metrics.jsonl", "evaluations.jsonl")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A small run of the plain loop."""
    scenario = tiny("", "algorithm.rounds=2")
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    run_plain(scenario, Silent(), folder)
    return folder.path


@pytest.mark.parametrize("name", JOURNALS)
@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "5",
        "null",
        "",
        "garbage",
        "{}",
        '{"kind": "evaluation"}',
        '{"kind": "evaluation", "round": "much", "rows": []}',
        '{"kind": "evaluation", "round": 0, "rows": 5}',
        '{"kind": "evaluation", "round": 0, "rows": [5]}',
        '{"kind": "evaluation", "round": -1, "rows": []}',
        '{"kind": "foo", "round": 0, "rows": []}',
        '{"kind": "onboarding", "round": 0, "rows": []}',
        '{"kind": "onboarding", "round": 0, "agent": 1, "rows": [], "lie": 1}',
        '{"kind": "onboarding", "round": 0, "agent": 1, "rows": [], "overrides": {"lie": 1}}',
        '{"round": 3}',
        '{"round": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"a":' * 100_000,
        "\ufeff{}",
    ],
)
def test_a_line_that_says_nothing_is_named(run: Path, name: str, line: str) -> None:
    """The file and the number of the line; never a trace."""
    path = run / name
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join([whole[0], line + "\n", *whole[1:]]))
    with pytest.raises(ProgramError, match=f"^{name}, line 2, cannot be read: ") as caught:
        verify(run)
    assert len(caught.value.message) < 300


def test_every_wrong_line_is_named_up_to_a_number(run: Path) -> None:
    """One look at the folder says all of it, and a file of rubbish fills no screen."""
    for name in JOURNALS:
        with (run / name).open("a") as file:
            file.write("[]\n" * 1000)
    with pytest.raises(ProgramError) as caught:
        verify(run)
    assert caught.value.message.count("cannot be read") == MOST_NAMED
    assert caught.value.message.endswith("and 1980 more")


@pytest.mark.parametrize("name", [*JOURNALS, "summary.json", "run.json", "config.json"])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_named(run: Path, name: str, kind: str) -> None:
    """A folder or a pipe that nobody writes is not read."""
    (run / name).unlink(missing_ok=True)
    (run / name).mkdir() if kind == "folder" else os.mkfifo(run / name)
    with pytest.raises(ProgramError, match="is no regular file" if kind == "pipe" else "Is a directory"):
        verify(run)


@pytest.mark.parametrize("end", ["npz", "json"])
def test_a_checkpoint_that_is_no_file_is_named(tmp_path: Path, end: str) -> None:
    """Neither its array nor its sidecar."""
    inproc(tiny("", "algorithm.rounds=1"), tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / f"round-000001.{end}"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ProgramError, match=f"checkpoint {path.name} cannot be read: .*is no regular file"):
        verify(tmp_path / "run")


def test_checkpoints_that_are_no_folder_are_named(run: Path) -> None:
    """A file in the folder's place."""
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").write_text("x")
    with pytest.raises(ProgramError, match="checkpoints cannot be read: is no folder"):
        verify(run)


@pytest.mark.parametrize("content", ["{", "[]", "5", "[" * 100_000, ""])
def test_a_damaged_summary_is_no_difference(run: Path, content: str) -> None:
    """What cannot be read cannot be compared."""
    (run / "summary.json").write_text(content)
    with pytest.raises(ProgramError, match=r"^summary\.json cannot be read"):
        verify(run)


def test_a_torn_last_line_is_left_out(run: Path) -> None:
    """After kill -9, and blocks that a power failure left empty."""
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"round": 3' + bytes(500))
    assert verify(run).outcome == "equal"


def test_events_are_believed_where_they_can_be_read(run: Path) -> None:
    """The journal of events is no part of what is compared."""
    (run / "events.jsonl").write_text('[]\n5\n{"event": "exit"}\n' + "[" * 100_000 + "\n")
    assert verify(run).outcome == "equal"


def test_a_goal_beyond_the_family_is_a_difference(run: Path) -> None:
    """An agent that nobody can compute: the round and the agent, no trace."""
    with (run / "evaluations.jsonl").open("a") as file:
        file.write('{"kind": "onboarding", "round": 2, "agent": 500, "rows": []}\n')
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 2)
    assert "500" in found.differences[0]


def test_overrides_that_nobody_can_compute_with_are_a_difference(run: Path) -> None:
    """An argument that the family does not know."""
    overrides = {"0": {"args": {"lie": 1}}}
    edit_lines(run / "metrics.jsonl", lambda rows: rows[1].update(overrides=overrides))
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 2)
    assert found.differences[0].startswith("agent 0 cannot be computed again: ")


def test_the_command_says_it_in_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cause and hint on stderr, exit code 1."""
    (run / "evaluations.jsonl").write_text("5\n")
    assert main(["verify", str(run)]) == 1
    cause, hint = capsys.readouterr().err.splitlines()
    assert cause == "error: evaluations.jsonl, line 1, cannot be read: expected an object, found 5"
    assert hint.startswith("next: put back")


@pytest.mark.parametrize("name", ["\x1b[2J", "\u202eboo", "x\nerror: lie", "\ud800"])
def test_what_a_record_says_commands_no_terminal(
    run: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A value that somebody put there is shown with its signs written out."""
    edit_lines(run / "evaluations.jsonl", lambda rows: rows[0]["rows"][0].update(kind=name))
    assert main(["verify", str(run)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
    edit_lines(run / "evaluations.jsonl", lambda rows: rows[0].update(kind=name))
    assert main(["verify", str(run)]) == 1
    assert len(errors := capsys.readouterr().err.splitlines()) == 2
    assert all(line.isprintable() for line in errors)
