"""Decisions about messages: who is hit, how often, and that a seed gives them all."""

import pytest

from scenarios.proxy.armed import Armed, OpaqueStream
from scenarios.proxy.rules import Rule


def hits(armed: Armed, kinds: list[str]) -> list[bool]:
    """Which of these messages, upwards, a rule acts on."""
    return [armed.judge("up", kind) is not None for kind in kinds]


def test_a_seed_gives_the_sequence_whatever_comes_between() -> None:
    """Heartbeats between updates depend on the time; which updates are hit does not."""
    rule = Rule(kind="drop", chance=0.5)
    patterns = []
    for seed, beats in ((7, 0), (7, 3), (8, 0)):
        armed = Armed(seed, 2)
        armed.arm(rule)
        found = []
        for _ in range(40):
            hits(armed, ["HEARTBEAT"] * beats)
            found += hits(armed, ["UPDATE"])
        patterns.append(found)
    assert patterns[0] == patterns[1] != patterns[2]
    assert 10 < sum(patterns[0]) < 30


def test_type_direction_and_count_are_kept_to() -> None:
    """Two ACKs downwards and nothing else; then the rule waits for nothing any more."""
    armed = Armed(0, 0)
    armed.arm(Rule(kind="drop", direction="down", only="ACK", count=2))
    assert not armed.judges("up", "NULL") and armed.judges("down", "NULL")
    found = [armed.judge("down", kind) is not None for kind in ("THETA", "ACK", "ACK", "ACK")]
    assert found == [False, True, True, False]
    assert not armed.judges("down", "NULL")
    assert armed.done == {"drop down ACK": 2}


def test_the_first_rule_that_wants_a_message_has_it() -> None:
    """Two rules at a time; healing one leaves the other."""
    armed = Armed(0, 0)
    drop, delay = Rule(kind="drop", only="ACK"), Rule(kind="delay", seconds=1.0)
    armed.arm(drop)
    armed.arm(delay)
    assert armed.judge("down", "ACK") is drop and armed.judge("down", "THETA") is delay
    armed.heal(drop)
    assert armed.judge("down", "ACK") is delay
    armed.heal()
    assert armed.judge("down", "ACK") is None


def test_an_equal_rule_is_healed_once() -> None:
    """Two partitions that overlap: the end of one is not the end of the other."""
    armed = Armed(0, 0)
    for _ in range(2):
        armed.arm(Rule(kind="freeze"))
    armed.heal(Rule(kind="freeze"))
    assert armed.any("freeze", "up")
    armed.heal(Rule(kind="freeze"))
    assert not armed.any("freeze", "up")


def test_the_tightest_throttle_counts() -> None:
    """Per direction."""
    armed = Armed(0, 0)
    armed.arm(Rule(kind="throttle", bytes_per_s=100.0))
    armed.arm(Rule(kind="throttle", bytes_per_s=10.0, direction="up"))
    assert (armed.bytes_per_s("up"), armed.bytes_per_s("down")) == (10.0, 100.0)


@pytest.mark.parametrize("kind", ["drop", "delay", "duplicate", "reorder"])
def test_whole_messages_of_an_encrypted_stream_are_refused(kind: str) -> None:
    """The error names the mechanism and what works."""
    armed = Armed(0, 0)
    armed.arm(Rule(kind=kind))  # type: ignore[arg-type]
    with pytest.raises(
        OpaqueStream, match="CURVE hides them; choose one of cut, throttle, freeze, half_open"
    ):
        armed.judges("up", "CURVE")


def test_bytes_of_an_encrypted_stream_may_be_cut_but_not_by_type() -> None:
    """A cut works on frames; which message it is nobody can see."""
    armed = Armed(0, 0)
    armed.arm(Rule(kind="cut", count=1))
    assert armed.judges("up", "CURVE")
    armed.arm(Rule(kind="cut", only="UPDATE"))
    with pytest.raises(OpaqueStream):
        armed.judges("up", "CURVE")
