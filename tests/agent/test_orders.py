"""What a supervisor may order, and what becomes of orders that are wrong."""

from typing import Any

import pytest

from agent import events as e
from agent.orders import obey
from edge_fed.program.exit_codes import ExitCode
from protocol.link import LinkProfile


class Obedient:
    """Remembers what it was told to do."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def tell(self, event: e.Event) -> None:
        """An event for the machine."""
        self.done.append(event)

    def slow(self, compute_delay_s: float) -> None:
        """A slower device."""
        self.done.append(compute_delay_s)

    def emulate(self, profile: LinkProfile) -> None:
        """A worse link."""
        self.done.append(profile)


@pytest.mark.parametrize(
    ("command", "done"),
    [
        ({"command": "leave"}, e.Stop("the supervisor lets this agent leave", ExitCode.OK)),
        ({"command": "stop"}, e.Stop("stopped by the supervisor", ExitCode.STOPPED)),
        ({"command": "orphaned"}, e.Stop("the supervisor is dead", ExitCode.STOPPED)),
        ({"command": "slow", "compute_delay_s": 0.5}, 0.5),
        ({"command": "link", "latency_s": 0.1, "loss": 0.2}, LinkProfile(latency_s=0.1, loss=0.2)),
        ({"command": "die", "point": "sent", "round": 4}, e.Arm("sent", 4)),
    ],
)
def test_each_order_is_carried_out(command: dict[str, Any], done: object) -> None:
    """One order, one deed."""
    program = Obedient()
    obey(program, command)
    assert program.done == [done]


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"command": "dance"},
        {"command": "slow", "compute_delay_s": "much"},
        {"command": "link", "latency": 1},
        {"command": "link", "loss": 7},
        {"command": "die", "point": "never", "round": 1},
        {"command": "die", "point": "sent"},
    ],
)
def test_a_wrong_order_changes_nothing(command: dict[str, Any]) -> None:
    """The error is a ValueError that the runtime logs; nothing is done by halves."""
    program = Obedient()
    with pytest.raises(ValueError, match=r"."):
        obey(program, command)
    assert program.done == []
