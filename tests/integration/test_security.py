"""Real programs with keys: the same bits, clear refusals, revocation, and strangers that get nothing."""

import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_fed.program.exit_codes import ExitCode
from scenarios.cast import make_folder
from scenarios.command_line import main as scenarios
from scenarios.plain import run_plain
from scenarios.processes import Processes
from scenarios.runner import run_networked
from scenarios.verify import verify
from scenarios.watching import Silent
from server.keygen import keygen
from tests.scenarios.test_script import action
from tests.scenarios.tiny import HEAD, ONBOARDING, tiny

pytestmark = pytest.mark.processes

GONE_S = 30.0  # only catches a hang
RESTARTS = (
    action("restart", "0", "at_round = 2")
    + action("restart", "0", "at_round = 3")
    + action("kill", "server", "at_round = 4", 'point = "array"')
    + action("restart", "0", "at_round = 5")
)


def test_with_keys_a_restarted_agent_takes_part_each_time_and_the_bits_are_the_same(tmp_path: Path) -> None:
    """Three restarts, a server that dies, an onboarder: all as without keys [complaints 22]."""
    scenario = tiny(ONBOARDING + RESTARTS, "algorithm.baseline=value")
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    found = run_networked(
        scenario, "processes", folder, lambda q: Processes(scenario, folder, q, "tcp", curve=True), Silent()
    )
    expected = run_plain(scenario, Silent())
    assert found.failure is None
    assert [line["params_sha256"] for line in found.rounds] == [
        line["params_sha256"] for line in expected.rounds
    ]
    assert all(not line["missing"] for line in found.rounds)
    assert found.onboarding == expected.onboarding
    assert verify(tmp_path / "run").outcome == "equal"


class Program:
    """A real program under supervision: events on stdout, a log file."""

    def __init__(self, folder: Path, name: str, program: str, *arguments: str) -> None:
        self.file = folder / f"{name}.log"
        command = [sys.executable, "-P", "-m", program, *arguments, "--supervised"]
        with self.file.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read)  # a supervisor that does not read stops its server
        self.reader.start()

    def event(self, name: str, **fields: object) -> dict[str, Any]:
        """Waits for an event of this name with these fields; fails if the program ends before."""
        while (event := self.events.get(timeout=GONE_S)) is not None:
            if event["event"] == name and fields.items() <= event.items():
                return event
        raise AssertionError(f"no {name} {fields}: {self.log}")

    @property
    def log(self) -> str:
        """What it has said."""
        return self.file.read_text()

    def ended(self) -> int:
        """Its exit code; its stdin stays open, as the end of that means a dead supervisor."""
        return self.process.wait(GONE_S)

    def close(self) -> None:
        """Kills it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)


class Fleet:
    """A server with keys and agents, as a person starts them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = folder / "keys"
        self.run = folder / "run"
        self.programs: list[Program] = []
        keygen(self.keys, frozenset({0, 1, 2}))

    def serve(self, *arguments: str, rounds: int = 1_000_000, agents: str = "0-2") -> Program:
        """The server; listens when this returns."""
        text = HEAD.replace("rounds = 6", f"rounds = {rounds}").replace(
            'goals = "0-3"', f'goals = "{agents}"'
        )
        (self.folder / "config.toml").write_text(text.replace('name = "tiny"', 'name = "secure"'))
        what = arguments or ("--config", str(self.folder / "config.toml"), "--run-dir", str(self.run))
        server = self._start("server", *what, "--keys", str(self.keys), "--bind", "tcp://127.0.0.1:0")
        self.address = str(server.event("listening")["address"])
        return server

    def agent(self, goal: int, keys: Path | None, *, address: str = "") -> Program:
        """An agent."""
        given = ["--keys", str(keys)] if keys else []
        where = ["--server", address or self.address, "--state-dir", str(self.folder / "state")]
        return self._start("agent", "--goal", str(goal), *where, *given)

    def _start(self, program: str, *arguments: str) -> Program:
        name = f"{program}-{len(self.programs)}"
        self.programs.append(Program(self.folder, name, program, *arguments))
        return self.programs[-1]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Nothing of it outlives the test."""
    fleet = Fleet(tmp_path)
    yield fleet
    for program in fleet.programs:
        program.close()


def test_every_mismatch_of_keys_ends_the_agent_with_its_cause(fleet: Fleet, tmp_path: Path) -> None:
    """Unlisted, wrong server key, no keys, another agent's key [complaints 69] [wire 43]."""
    keygen(tmp_path / "foreign", frozenset({0}))
    stranger = tmp_path / "stranger.key"
    server_line = (fleet.keys / "agents/agent-0.key").read_text().splitlines()[-1]
    foreign = (tmp_path / "foreign/agents/agent-0.key").read_text().splitlines()
    stranger.write_text("\n".join([*foreign[:-1], server_line]))
    stranger.chmod(0o600)
    server = fleet.serve()
    agents = {
        "does not list this agent's key": fleet.agent(0, stranger),
        "does not hold the key that": fleet.agent(0, tmp_path / "foreign"),
        "wants keys, and this agent has none": fleet.agent(0, None),
        "may not train as agent 0": fleet.agent(0, fleet.keys / "agents/agent-1.key"),
    }
    for words, agent in agents.items():
        assert agent.ended() == ExitCode.AUTHENTICATION
        assert words in agent.log
    server.process.send_signal(signal.SIGTERM)
    assert server.ended() == ExitCode.TERMINATED
    for words in ("is not listed", "has another public key of this server"):
        assert server.log.count(words) == 1


def test_an_agent_with_keys_refuses_a_server_without(fleet: Fleet, tmp_path: Path) -> None:
    """It must not talk in clear to whoever has taken the address."""
    plain = Program(
        tmp_path, "plain", "server", "--bind", "tcp://127.0.0.1:0", "--run-dir", str(tmp_path / "p")
    )
    fleet.programs.append(plain)
    agent = fleet.agent(0, fleet.keys, address=str(plain.event("listening")["address"]))
    assert agent.ended() == ExitCode.AUTHENTICATION
    assert "works without" in agent.log


def test_a_key_is_revoked_and_another_listed_while_the_server_runs(fleet: Fleet) -> None:
    """The revoked agent ends with its cause, the rounds go on without it, a new key comes in at once."""
    server = fleet.serve()
    agents = {goal: fleet.agent(goal, fleet.keys) for goal in range(3)}
    server.event("round")
    allowed = fleet.keys / "allowed.txt"
    lines = [line for line in allowed.read_text().splitlines() if "agent-1.key" not in line]
    allowed.write_text("\n".join(lines) + "\n")
    server.process.send_signal(signal.SIGHUP)
    assert agents[1].ended() == ExitCode.AUTHENTICATION
    assert "was revoked" in agents[1].log
    server.event("lost", agent=1, why="key revoked")
    server.event("round")
    assert fleet.agent(1, fleet.keys).ended() == ExitCode.AUTHENTICATION
    (fleet.keys / "agents/agent-1.key").unlink()
    keygen(fleet.keys, frozenset({1}))
    fleet.agent(1, fleet.keys)
    server.event("ready", agent=1)
    assert agents[0].process.poll() is None and agents[2].process.poll() is None


def test_a_run_with_keys_is_not_gone_on_with_in_clear(fleet: Fleet) -> None:
    """Resumed without --keys the server ends at once and says what is missing."""
    server = fleet.serve(agents="0")
    server.process.send_signal(signal.SIGTERM)
    server.ended()
    again = subprocess.run(
        [sys.executable, "-P", "-m", "server", "--resume", str(fleet.run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == ExitCode.USAGE
    assert "had keys" in again.stderr and "--keys" in again.stderr


def test_a_new_server_key_loses_nothing(fleet: Fleet) -> None:
    """The server dies, gets another key, resumes; an agent with its new public key goes on."""
    server = fleet.serve(rounds=60, agents="0")
    agent = fleet.agent(0, fleet.keys)
    server.event("round")
    server.process.kill()
    server.ended()
    agent.close()
    (fleet.keys / "server.key").rename(fleet.keys / "old.key")
    lines = keygen(fleet.keys, frozenset())
    public = next(line for line in lines if "public key: " in line).partition("public key: ")[2]
    path = fleet.keys / "agents/agent-0.key"
    path.write_text("\n".join([*path.read_text().splitlines()[:-1], f"server = {public}"]) + "\n")
    server = fleet.serve("--resume", str(fleet.run))
    agent = fleet.agent(0, fleet.keys)
    server.event("finished")
    assert agent.ended() == ExitCode.OK
    assert verify(fleet.run).outcome == "equal"


def test_an_unfinished_multipart_of_a_stranger_takes_no_memory(fleet: Fleet) -> None:
    """Frames without end, behind greetings of both mechanisms: the server hangs up [wire 42]."""
    server = fleet.serve(agents="0")
    host, port = fleet.address.removeprefix("tcp://").split(":")
    before = resident(server)
    for mechanism in (b"CURVE", b"NULL") * 3:
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(
                b"\xff" + bytes(7) + b"\x01\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)
            )
            frame = b"\x03" + (1_000_000).to_bytes(8, "big") + bytes(1_000_000)  # more frames follow
            sent = 0
            try:
                while sent < 100_000_000:
                    stranger.sendall(frame)
                    sent += len(frame)
            except OSError:
                pass
            assert sent < 10_000_000
    assert resident(server) - before < 5_000_000
    fleet.agent(0, fleet.keys)
    server.event("round")


def resident(program: Program) -> int:
    """Bytes of memory that a program holds."""
    lines = Path(f"/proc/{program.process.pid}/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def test_an_old_libzmq_is_refused(tmp_path: Path) -> None:
    """By both programs, with what to type, before anything is bound or dialled [wire 44]."""
    code = (
        "import sys, zmq; zmq.zmq_version_info = lambda: (4, 3, 4)\n"
        "program = sys.argv.pop(1)\n"
        "from {0}.__main__ import main; sys.exit(main())"
    )
    for program, arguments in (("server", ["--run-dir", str(tmp_path / "r")]), ("agent", ["--goal", "0"])):
        command = [sys.executable, "-c", code.format(program), program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GONE_S)
        assert done.returncode == ExitCode.USAGE
        assert "libzmq 4.3.4 is too old, 4.3.5 is needed; type: pip install -U pyzmq" in done.stderr


@pytest.mark.parametrize("runtime", ["inproc", "plain"])
def test_curve_belongs_to_processes(runtime: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing leaves the process there is nothing to encrypt: refused, not ignored."""
    code = scenarios(["run", "gridworld-first-order", "--runtime", runtime, "--curve"])
    assert code == ExitCode.USAGE
    assert f"--curve does not belong to --runtime {runtime}" in capsys.readouterr().err
