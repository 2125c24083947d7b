"""One program at a time holds a device, in whichever way it acts on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.command_line import main
from agent.device_lock import DeviceLock
from edge_fed.program.exit_codes import ExitCode, ProgramError

HOLDS = """
import sys
from pathlib import Path
from agent.device_lock import DeviceLock
with DeviceLock(Path(sys.argv[1]), 2):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_program_is_refused_with_the_process_of_the_first(tmp_path: Path) -> None:
    """Until that one has let the device go; the file that is left says nothing."""
    folder = tmp_path / "made" / "state"
    with DeviceLock(folder, 2), pytest.raises(ProgramError, match="goal 2 is in use by another") as refused:
        DeviceLock(folder, 2).__enter__()
    assert refused.value.code is ExitCode.USAGE and f"(process {os.getpid()})" in refused.value.message
    with DeviceLock(folder, 2):
        pass


def test_another_device_or_another_folder_is_another_plant(tmp_path: Path) -> None:
    """Each counts a day of its own, too."""
    with DeviceLock(tmp_path, 2), DeviceLock(tmp_path, 3), DeviceLock(tmp_path / "other", 2):
        pass


@pytest.mark.processes
def test_a_program_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    """The system lets go for it."""
    line = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline() == "held\n"
        with pytest.raises(ProgramError, match=rf"\(process {program.pid}\)"):
            DeviceLock(tmp_path, 2).__enter__()
        program.kill()
        program.wait()
        with DeviceLock(tmp_path, 2):
            pass


@pytest.mark.parametrize("found", ["", "x\x00\xff"])
def test_a_holder_that_does_not_say_who_it_is_holds_it_all_the_same(tmp_path: Path, found: str) -> None:
    """It may not have written its number yet, or the disk is full: nothing is guessed."""
    with DeviceLock(tmp_path, 2):
        (tmp_path / "agent-2-device.lock").write_text(found)
        with pytest.raises(ProgramError, match="in use by another program") as refused:
            DeviceLock(tmp_path, 2).__enter__()
    assert "process" not in refused.value.message


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ProgramError, match=r"cannot be locked: .*file") as refused:
        DeviceLock(tmp_path / "file", 2).__enter__()
    assert "--state-dir" in refused.value.hint


def test_an_agent_does_not_begin_beside_another_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before it looks for a server; an agent that simulates shares what it likes; both let go again."""
    (tmp_path / "device.toml").write_text('environment = "plant:make"\n')
    server = ["--server", f"ipc://{tmp_path}/nobody", "--give-up-after", "0"]
    simulates = ["--goal", "2", "--state-dir", str(tmp_path), *server]
    device = [*simulates, "--device", str(tmp_path / "device.toml")]
    with DeviceLock(tmp_path, 2):
        assert main(device) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert "the device of goal 2 is in use by another program" in said and "stop that one first" in said
        assert main(simulates) == ExitCode.SERVER_GONE
    assert main(device) == ExitCode.SERVER_GONE
    with DeviceLock(tmp_path, 2):
        pass
