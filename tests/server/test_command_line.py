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
from server.command_line import DEFAULT_BIND, main, parser
from server.orders import order


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
        (["--hold", "5,x"], ["--hold", "x"]),
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
    assert "Traceback" not in error


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
    """Exit code 128 + n, a summary that says stopped, and JSON on stdout."""
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
