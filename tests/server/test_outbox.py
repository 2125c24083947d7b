"""What strangers and agents can cause again and again fills neither the log nor the disk."""

import pytest

from server import events as e
from server.outbox import LOUD, MANY, NOISY, SAID, Outbox


def noted(out: Outbox) -> tuple[list[str], int]:
    """Lines for people, and how many stand in the journal."""
    commands = out.take()
    lines = [command.text for command in commands if isinstance(command, e.Log)]
    return lines, sum(isinstance(command, e.Journal) for command in commands)


def test_three_hundred_ends_of_one_agent_are_a_dozen_lines() -> None:
    """The first eight, then every power of two with its number; the journal has all."""
    out = Outbox(bytes(16))
    for _ in range(300):
        out.note("lost", "agent 5 is gone: bye", agent=5)
    lines, journal = noted(out)
    numbers = [16, 32, 64, 128, 256]
    assert lines == ["agent 5 is gone: bye"] * SAID + [
        f"agent 5 is gone: bye (time {number})" for number in numbers
    ]
    assert journal == 300


def test_other_agents_and_other_kinds_are_still_said() -> None:
    """One that comes and goes does not hide another's end."""
    out = Outbox(bytes(16))
    for _ in range(300):
        out.note("lost", "agent 5 is gone: bye", agent=5)
    noted(out)
    for agent in range(100):
        out.note("lost", f"agent {agent + 6} is gone: lease", agent=agent + 6)
    out.note("ready", "agent 5 joined", agent=5)
    assert len(noted(out)[0]) == 101


@pytest.mark.parametrize("event", sorted(NOISY))
def test_a_kind_that_a_peer_can_cause_is_bounded(event: str) -> None:
    """After so many, only every power of two stands in the journal."""
    out = Outbox(bytes(16))
    for agent in range(70_000):
        out.note(event, "text", agent=agent)
    _lines, journal = noted(out)
    assert journal == NOISY[event] + sum(NOISY[event] < 2**n <= 70_000 for n in range(17))
    assert NOISY[event] in (LOUD, MANY)


def test_what_the_run_itself_does_is_always_said() -> None:
    """A quarantine, an excuse: each of them."""
    out = Outbox(bytes(16))
    for _ in range(300):
        out.note("excused", "round 1 goes on without agent 1: lease", agent=1)
    assert noted(out) == (["round 1 goes on without agent 1: lease"] * 300, 300)
