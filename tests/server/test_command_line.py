"""Flags, faults and exit codes of the command; the program itself runs in `test_runtime`."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_fed.config import RunConfig
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from server import command_line
from server import events as e
from server.__main__ import main as server_main
from server.command_line import DEFAULT_BIND, main, parser
from server.orders import order
from tests.edge_fed.program.test_run_folder import edited


def test_without_flags_the_few_shot_configuration_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m server` alone: the defaults of RunConfig on the default address, in a new run folder."""
    monkeypatch.chdir(tmp_path)
    seen: dict[str, Any] = {}

    class Program:
        """Stands for the server."""

        def __init__(self, config: RunConfig, folder: RunFolder, address: str, **options: Any) -> None:
            seen.update(config=config, folder=folder, address=address, **options)
            self.summary = {"why": ""}

        async def run(self) -> ExitCode:
            """Ends at once."""
            return ExitCode.OK

        def fail(self, error: Exception) -> None:
            """Nothing fails."""

    monkeypatch.setattr(command_line, "ServerProgram", Program)
    assert main([]) == 0
    assert seen["config"] == RunConfig()
    assert seen["address"] == DEFAULT_BIND
    assert seen["folder"].path.parent == Path("runs")
    assert not (seen["serve"] or seen["resume"] or seen["insecure"])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--config", "missing.toml"], ["missing.toml", "no such file"]),
        (["--set", "algorithm.inner_batch=-1"], ["algorithm.inner_batch", "-1"]),
        (["--set", "algorithm.inner_bach=1"], ["inner_bach", "inner_batch"]),
        (["--resume", "nowhere"], ["nowhere", "no run folder"]),
        (["--resume", "nowhere", "--seed", "3"], ["--resume", "--seed"]),
        (["--hold", "5,x", "--supervised"], ["--hold", "x"]),
        (["--hold", "0", "--supervised"], ["--hold", "'0' is no round"]),
        (["--hold", "9" * 5000, "--supervised"], ["--hold", "is no round"]),
        (["--hold", "5"], ["--hold 5", "--supervised"]),
        (["--seed", "-1"], ["seed", "-1"]),
        (["--seed", "99999999999999999999999"], ["seed"]),
    ],
)
def test_bad_input_names_cause_and_place_and_exits_2(
    arguments: list[str],
    parts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A short message, no traceback, the usage code."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert all(part in error for part in parts)
    assert "Traceback" not in error and "fault(s)" not in error
    assert not (tmp_path / "runs").exists()


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """No list with one entry."""
    assert main(["--config", "missing.toml"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("error: missing.toml: no such file") and error.count("\n") == 1


def test_an_unknown_flag_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The cause and where to look; not the usage of every flag."""
    with pytest.raises(SystemExit) as ended:
        main(["--sed", "x"])
    assert ended.value.code == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and "--help" in error


BAD_ADDRESSES = [
    *("tcp://nonsense", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:abc"),
    *("tcp://127.0.0.1:-1", "tcp://:5605", "TCP://127.0.0.1:0", "udp://127.0.0.1:1", "http://x", "foo"),
    *("", "ipc://", f"ipc:///tmp/{'x' * 200}", "inproc://x", "tcp://192.0.2.1:0", "ipc:///no/such/folder/x"),
]


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_that_cannot_be_bound_leaves_nothing_behind(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two short lines, the address code, no run folder."""
    monkeypatch.chdir(tmp_path)
    insecure = ["--insecure"] if "192.0.2.1" in address else []
    assert main(["--bind", address, *insecure]) == ExitCode.ADDRESS
    error = capsys.readouterr().err
    assert "Traceback" not in error and error.count("\n") == 2 and address in error
    assert list(tmp_path.glob("runs/*")) == []


def test_a_busy_address_leaves_the_run_dir_as_it_was(tmp_path: Path) -> None:
    """The same command works once the address is free: a folder that was there is still there, and empty."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "socket").write_text("no socket")
    busy = ["--bind", f"ipc://{tmp_path}/socket", "--log-level", "error"]
    assert main([*busy, "--run-dir", str(tmp_path / "mine")]) == ExitCode.ADDRESS
    assert main([*busy, "--run-dir", str(tmp_path / "new")]) == ExitCode.ADDRESS
    assert list((tmp_path / "mine").iterdir()) == [] and not (tmp_path / "new").exists()
    run = ["--run-dir", str(tmp_path / "mine"), "--set", "federation.join_deadline_s=0.01"]
    free = ["--bind", f"ipc://{tmp_path}/free", "--log-level", "error"]
    assert main([*free, *run]) == ExitCode.QUORUM
    assert main([*busy, "--resume", str(tmp_path / "mine")]) == ExitCode.ADDRESS
    assert (tmp_path / "mine/summary.json").is_file()  # a run that has begun is never taken back


def test_an_early_end_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line holds the command; lines for people do not name the program that they come from."""
    folder = tmp_path / "my run"
    arguments = ["--bind", f"ipc://{tmp_path}/s", "--set", "federation.join_deadline_s=0.01"]
    assert main([*arguments, "--run-dir", str(folder)]) == ExitCode.QUORUM
    error = capsys.readouterr().err
    assert f"python -m server --resume '{folder}'" in error.splitlines()[-1]
    assert "program=" not in error


def test_ctrl_c_while_modules_load_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal's code, no trace."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edge_fed.program.launch.import_lightly", interrupted)
    assert server_main() == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""


def test_an_open_address_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address code, and the word that would allow it."""
    arguments = ["--bind", "tcp://0.0.0.0:0", "--run-dir", str(tmp_path / "run"), "--log-level", "error"]
    assert main(arguments) == ExitCode.ADDRESS
    assert "--insecure" in capsys.readouterr().err


def test_every_exit_code_is_in_the_help() -> None:
    """Documented where a person looks."""
    text = parser().format_help()
    assert all(code.name.lower() in text for code in ExitCode)


@pytest.mark.parametrize(
    ("command", "event"),
    [
        ({"command": "proceed", "round": 5}, e.Proceed(5)),
        ({"command": "lost", "agent": 3}, e.DeclaredLost(3)),
        ({"command": "die", "point": "array", "round": 2}, e.Arm("array", 2)),
        ({"command": "stop"}, e.Stop("stopped by its supervisor", ExitCode.STOPPED)),
        ({"command": "orphaned"}, e.Stop("its supervisor is gone", ExitCode.STOPPED)),
        ({"command": "die", "point": "lunch", "round": 2}, None),
        ({"command": "proceed", "round": "five"}, None),
        ({}, None),
    ],
)
def test_the_supervisor_s_commands(command: dict[str, Any], event: e.Event | None) -> None:
    """Known ones become events; anything else is not understood."""
    assert order(command) == event


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_real_program_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """[complaints 27] Exit code 128 + n, a summary that says stopped, and JSON on stdout."""
    command = [sys.executable, "-P", "-m", "server", "--bind", "tcp://127.0.0.1:0", "--json"]
    command += ["--run-dir", str(tmp_path / "run"), "--log-format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "is served at tcp://127.0.0.1:" in process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert json.loads(out)["outcome"] == "stopped"
    assert f"stopped by {number.name}" in err.splitlines()[-1]
    assert json.loads((tmp_path / "run/summary.json").read_text())["exit_code"] == 128 + number


@pytest.mark.processes
def test_the_server_never_imports_what_an_edge_device_lacks(tmp_path: Path) -> None:
    """No torch, scipy, matplotlib, gymnasium; rich only on a terminal."""
    code = (
        "import sys; from server.__main__ import main\n"
        f"sys.argv = ['server', '--bind', 'tcp://127.0.0.1:0', '--run-dir', {str(tmp_path / 'run')!r},"
        " '--set', 'federation.join_deadline_s=0.01', '--log-level', 'error']\n"
        "assert main() == 3\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'gymnasium', 'rich.progress'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_resume_checks_the_stored_settings_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were edited with their hash: every fault by its key, exit code 2, before anything is bound."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    edited(folder, '"variant": "first_order"', '"variant": "best"')
    assert main(["--resume", str(folder.path)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "config.json has 1 fault" in error and "algorithm.variant" in error
