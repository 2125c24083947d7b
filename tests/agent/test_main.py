"""The agent as a person starts it: exit codes, messages, signals, and what it never loads."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.__main__ import main as agent_main
from agent.command_line import main, parser
from agent.state_store import default_folder
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from protocol.transport import Context
from tests.agent.fake_server import FakeServer

FORBIDDEN = ("torch", "scipy", "matplotlib", "gymnasium", "multiprocessing")


def command(*arguments: str) -> list[str]:
    """The command line of one agent."""
    return [sys.executable, "-P", "-m", "agent", *arguments]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs one agent to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.processes
def test_no_server_ends_with_its_code_and_says_what_to_do(tmp_path: Path) -> None:
    """Nobody at the address: exit 5 within --give-up-after, address and next step named, no traceback.

    [complaints 11, 16]
    """
    address = f"ipc://{tmp_path}/nobody"
    ended = run("--goal", "0", "--server", address, "--give-up-after", "0.2")
    assert ended.returncode == ExitCode.SERVER_GONE
    assert address in ended.stderr and "python -m server" in ended.stderr
    assert "Traceback" not in ended.stderr and ended.stdout == ""


@pytest.mark.processes
def test_json_reports_the_end_as_one_object(tmp_path: Path) -> None:
    """--json prints exactly one object, also when nothing came of it."""
    ended = run(
        "--goal", "7", "--onboard", "--server", f"ipc://{tmp_path}/x", "--give-up-after", "0", "--json"
    )
    report = json.loads(ended.stdout)
    assert (report["goal"], report["code"], report["rows"]) == (7, ExitCode.SERVER_GONE, [])
    assert "--serve or --resume" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--goal"),
        (["--goal", "-1"], "whole number"),
        (["--goal", "x"], "'x'"),
        (["--goal", "0", "--give-up-after", "nan"], "--give-up-after"),
        (["--goal", "0", "--give-up-after", "-3"], "--give-up-after"),
        (["--goal", "0", "--at", "later"], "neither final, now nor a round"),
        (["--goal", "99999999999999999999"], "too large"),
        (["--goal", "9" * 5000], "too large"),
        (["--goal", str(2**63)], "too large"),
        (["--goal", "0", "--at", "99999999999999999999"], "too large"),
        (["--goal", "0", "--inner-batch", "99999999999999999999"], "--inner-batch"),
        (["--goal", "0", "--env-arg", "size=99999999999999999999"], "cannot be sent"),
        (["--goal", "0", "--env-arg", f"size={'[' * 40}1{']' * 40}"], "within each other"),
        (["--goal", "0", "--inner-batch", "0"], "--inner-batch"),
        (["--goal", "0", "--compute-delay", "20000"], "--compute-delay"),
        (["--goal", "0", "--link", "latency=1"], "latency_s"),
        (["--goal", "0", "--link", "latency_s"], "key=value"),
        (["--goal", "0", "--link", "loss=2"], "--link loss=2"),
        (["--goal", "0", "--link", "latency_s=3600"], "from 0 to 60"),
        (["--goal", "0", "--link", "bandwidth_bps=0"], "from 1 to 1e+12"),
        (["--goal", "0", "--link", "jitter_s=nan"], "from 0 to 60"),
        (["--goal", "0", "--link", f"jitter_s={'9' * 400}"], "--link jitter_s"),
        (["--goal", "0", "--profile", "lora-wan"], "'lora-wan'"),
        (["--goal", "0", "--completeness", "1.5"], "--completeness"),
        (["--goal", "0", "--completeness", "most"], "--completeness"),
        (
            ["--goal", "0", "--responsiveness", "median=1"],
            "--responsiveness has no 'median'; did you mean 'median_s'?",
        ),
        (["--goal", "0", "--link", "profile=lte"], "error: --link has no 'profile'; use --profile;"),
        (
            ["--goal", "0", "--link", "latency_s=x", "--link", "los=0.1"],
            "'x', expected a number; --link has no 'los'",
        ),
        (["--goal", "0", "--responsiveness", "spread=9"], "--responsiveness spread"),
        (["--goal", "0", "--env-arg", "=3"], "key=value"),
        (["--goal", "0", "--compute-delay", "inf"], "--compute-delay"),
        (["--goal", "0", "--save", "/no/such/folder/p.npz"], "no folder"),
        (["--goal", "0", "--save", "/tmp"], "a folder"),
        (["--goal", "0", "--save", "/dev/null"], "no regular file"),
        (["--goal", "0", "--save", "/proc/policy.npz"], "cannot be written"),
        (["--goal", "0", "--save", f"/tmp/{'x' * 300}/p.npz"], "no folder"),
        (["--goal", "0", "--state-dir", "/dev/null"], "no folder"),
        (["--goal", "0", "--state-dir", "/dev/null/below"], "no folder"),
        (["--goal", "0", "--state-dir", "/proc/state/below"], "cannot be written"),
        (["--goal", "0", "--nonsense"], "--nonsense"),
    ],
)
def test_bad_arguments_are_usage_errors(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """[complaints 56] Exit 2, and one line that names what was wrong and where to look."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == ExitCode.USAGE
    error = capsys.readouterr().err
    assert named in error and "--help" in error
    assert error.count("\n") == 1 and len(error) < 1000


def test_ctrl_c_while_modules_load_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal's code, no trace."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edge_fed.program.launch.import_lightly", interrupted)
    assert agent_main(["--goal", "0"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""


def test_a_bug_ends_with_1_and_its_trace_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whoever reads the log finds it; whoever reads the result finds the code."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("agent.runtime.Machine.handle", broken)
    arguments = ["--goal", "0", "--server", f"ipc://{tmp_path}/x", "--json"]
    assert main(arguments) == ExitCode.FAILED
    out, error = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["code"] == ExitCode.FAILED
    assert "Traceback" in error and "in broken" in error


@pytest.mark.processes
def test_an_address_that_is_none_has_its_own_code() -> None:
    """Exit 6, the address named, no traceback."""
    ended = run("--goal", "0", "--server", "localhost:5555")
    assert ended.returncode == ExitCode.ADDRESS
    assert "localhost:5555" in ended.stderr and "Traceback" not in ended.stderr


def test_goal_alone_is_enough() -> None:
    """Everything else has a default, or comes from the server."""
    chosen = parser().parse_args(["--goal", "3"])
    assert (chosen.server, chosen.at, chosen.give_up_after) == ("tcp://127.0.0.1:5555", "final", 60.0)


def test_what_it_keeps_lies_where_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's ``os.chdir`` moves the program, but neither what it saves nor its state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "home")
    flags = ["--goal", "3", "--save", "p.npz", "--state-dir", "state", "--secret-dir", "../secrets"]
    chosen = parser().parse_args(flags)
    places = [chosen.save, chosen.state_dir, chosen.secret_dir, default_folder()]
    wanted = ["p.npz", "state", "../secrets", "home/edge-fed"]
    assert list(map(str, places)) == [f"{tmp_path}/{name}" for name in wanted]


def test_a_folder_that_is_gone_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, where a relative name means nothing."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(SystemExit) as ended:
        main(["--goal", "0", "--save", "p.npz"])
    said = capsys.readouterr().err
    assert ended.value.code == ExitCode.USAGE and "p.npz: the working directory is gone" in said


async def start(server: FakeServer, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
    """Starts a real agent process at a scripted server."""
    return await asyncio.create_subprocess_exec(
        *command("--goal", "3", "--server", server.socket.endpoint, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, ExitCode.TERMINATED), (signal.SIGINT, ExitCode.INTERRUPTED)]
)
async def test_signals_say_bye_and_end_with_their_code(number: int, code: ExitCode, tmp_path: Path) -> None:
    """A signal in the middle of a session: BYE to the server, the code, a last line with the reason."""
    with Context() as context:
        server = FakeServer(context, "tcp://127.0.0.1:*")
        process = await start(server, XDG_STATE_HOME=str(tmp_path))
        await server.welcome()
        process.send_signal(number)
        bye = await server.hear(m.Bye)
        _, errors = await asyncio.wait_for(process.communicate(), 30)
        server.socket.close()
    assert process.returncode == code and signal.Signals(number).name in bye.reason
    assert signal.Signals(number).name in errors.decode().splitlines()[-1]


@pytest.mark.processes
async def test_a_closed_stdin_is_a_dead_supervisor(tmp_path: Path) -> None:
    """--supervised: events are JSON lines on stdout; end of file on stdin ends the agent with BYE."""
    with Context() as context:
        server = FakeServer(context, "tcp://127.0.0.1:*")
        process = await start(server, "--supervised", "--state-dir", str(tmp_path))
        await server.welcome()
        assert process.stdin
        process.stdin.close()
        await server.hear(m.Bye)
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        server.socket.close()
    events: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    assert [event["event"] for event in events] == ["registered", "ready", "exit"]
    assert process.returncode == events[-1]["code"] == ExitCode.STOPPED


@pytest.mark.processes
async def test_die_is_a_kill(tmp_path: Path) -> None:
    """The supervisor's kill point ends the process by SIGKILL: no BYE, no exit event."""
    with Context() as context:
        server = FakeServer(context, "tcp://127.0.0.1:*")
        process = await start(server, "--supervised", "--state-dir", str(tmp_path))
        await server.welcome()
        assert process.stdin and process.stdout
        process.stdin.write(b'{"command": "die", "point": "assigned", "round": 1}\n{"command": "slow"}\n')
        while b"'slow'" not in await process.stderr.readline():  # type: ignore[union-attr]
            pass  # the wrong order behind it is answered: the kill point is armed
        server.theta(1)
        output, _ = await asyncio.wait_for(process.communicate(), 30)
        server.socket.close()
    assert process.returncode == -signal.SIGKILL
    assert [json.loads(line)["event"] for line in output.splitlines()][-1] == "assigned"


@pytest.mark.processes
def test_an_agent_with_a_numpy_policy_loads_nothing_heavy(tmp_path: Path) -> None:
    """Building, training, evaluating and onboarding import neither torch nor plotting nor gymnasium."""
    script = f"""
import sys
import agent.command_line
from pathlib import Path
import msgspec
from agent import events as e
from agent.learner import Learner
from edge_fed.config import Onboarding, Overrides, RunConfig
from edge_fed.federated.task import initial_params
config = RunConfig(onboarding=Onboarding(m_adapt=(2,), eval_episodes=2, adapt_episodes=2, scratch=()))
learner = Learner(0, Overrides(), Path({str(tmp_path)!r}))
silent = lambda step: None
learner.perform(e.Build(1, msgspec.to_builtins(config), b"r" * 16), silent)
params = initial_params(config)
for work in (e.Train(2, 1, params), e.Evaluate(3, 1, params), e.Onboard(4, 1, params)):
    learner.perform(work, silent)
print([name for name in {FORBIDDEN!r} if name in sys.modules])
"""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.strip() == "[]", ended.stderr
