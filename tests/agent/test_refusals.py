"""What an agent says and exits with when the server refuses it."""

from pathlib import Path

import msgspec
import pytest

from agent import events as e
from agent.command_line import main
from agent.plan import Plan
from agent.refusals import explained, rejected
from agent.state_machine import Machine
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from tests.agent.scripted import ServerSide

PLAN = Plan(agent=3, incarnation=b"i" * 16, address="tcp://h:1", public_key="PUBLIC", key_file="a.key")


def exit_of(commands: list[e.Command]) -> e.Exit:
    """The last command."""
    found = commands[-1]
    assert isinstance(found, e.Exit)
    return found


@pytest.mark.parametrize(
    ("kind", "cause", "next_"),
    [
        ("unlisted", "does not list this agent's key PUBLIC", "PUBLIC 3"),
        ("server_key", "does not hold the key that a.key names for it", "server ="),
        ("plain_peer", "works without", "--keys DIR"),
        ("curve_peer", "wants keys, and this agent has none", "keygen DIR --agents 3"),
    ],
)
def test_each_cause_ends_the_agent_with_its_words(kind: str, cause: str, next_: str) -> None:
    """Exit code 8, the address, the cause and what to type next [complaints 69]."""
    machine = Machine(PLAN, 0.0, lambda _attempt: 0.5)
    end = exit_of(machine.handle(e.Refused(kind), 1.0))  # type: ignore[arg-type]
    assert end.code is ExitCode.AUTHENTICATION
    assert "tcp://h:1" in end.why and cause in end.why and next_ in end.hint
    assert (end.why, end.hint) == explained(kind, PLAN)  # type: ignore[arg-type]


def test_a_revoked_key_ends_a_working_agent() -> None:
    """REJECT(key) in the middle of a session: the same exit code."""
    machine, server = Machine(PLAN, 0.0, lambda _attempt: 0.5), ServerSide()
    server.hear(machine.handle(e.Tick(), 0.0))
    machine.handle(server.welcome(), 0.1)
    end = exit_of(machine.handle(server.say(m.Reject(reason="key", message="revoked")), 0.2))
    assert end.code is ExitCode.AUTHENTICATION and "revoked" in end.why


@pytest.mark.parametrize(
    ("mode", "text", "words"),
    [
        (0o644, "", "type: chmod 600"),
        (0o600, "", "has no line secret = KEY"),
        (0o600, "secret = short", "line 1: secret has 5 characters"),
        (None, "", "cannot be read: No such file"),
    ],
)
def test_a_key_file_that_cannot_be_used_ends_the_agent_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int | None, text: str, words: str
) -> None:
    """Exit code 8 and what to do, before anything is dialled."""
    path = tmp_path / "agent-0.key"
    if mode is not None:
        path.write_text(text)
        path.chmod(mode)
    assert main(["--goal", "0", "--keys", str(path)]) == ExitCode.AUTHENTICATION
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["dimension", "schema"])
def test_a_layout_that_differs_is_named_by_its_first_parameter(reason: str) -> None:
    """The server sends its layout; where it sends a hash, both values are told."""
    layout = "torch categorical 8; a.weight float32[32,2]; a.bias float32[32]"
    reject = {
        "t": "REJECT",
        "reason": reason,
        "message": "another layout",
        "expected": layout,
        "received": "B2",
    }
    why = rejected(msgspec.convert(reject, m.Reject), layout.replace("32,2", "31,2"))
    assert why.endswith(
        "another layout [the run has a.weight float32[32,2], this program a.weight float32[31,2]]"
    )
    short = msgspec.convert({**reject, "expected": "A1"}, m.Reject)
    assert rejected(short, layout).endswith("[expected A1, received B2]")
