"""What a supervisor may order an agent to do (``--supervised``, `edge_fed.program.supervision`)."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from agent import events as e
from edge_fed.program.exit_codes import ExitCode
from protocol.link import LinkProfile


class Ordered(Protocol):
    """Who obeys; see `agent.runtime.AgentProgram`."""

    def tell(self, event: e.Event) -> None:
        """Passes an event to the machine."""

    def slow(self, compute_delay_s: float) -> None:
        """Adds so many seconds to each local step from now on."""

    def emulate(self, profile: LinkProfile) -> None:
        """Messages travel over such a link from now on."""


def obey(program: Ordered, command: Mapping[str, Any]) -> None:
    """Carries out one command ``{"command": name, ...}``.

    Raises:
        ValueError: The command is unknown, or its arguments are wrong.
    """
    name, arguments = command.get("command"), {k: v for k, v in command.items() if k != "command"}
    if name not in ORDERS:
        raise ValueError(f"unknown command {name!r}; known: {', '.join(ORDERS)}")
    ORDERS[name](program, arguments)


def _stop(why: str, code: ExitCode) -> Callable[[Ordered, Mapping[str, Any]], None]:
    return lambda program, _arguments: program.tell(e.Stop(why, code))


def _slow(program: Ordered, arguments: Mapping[str, Any]) -> None:
    program.slow(max(0.0, msgspec.convert(arguments, dict[str, float])["compute_delay_s"]))


def _link(program: Ordered, arguments: Mapping[str, Any]) -> None:
    program.emulate(msgspec.convert(arguments, LinkProfile))


def _die(program: Ordered, arguments: Mapping[str, Any]) -> None:
    program.tell(msgspec.convert(arguments, e.Arm))


ORDERS: dict[str, Callable[[Ordered, Mapping[str, Any]], None]] = {
    "leave": _stop("the supervisor lets this agent leave", ExitCode.OK),
    "stop": _stop("stopped by the supervisor", ExitCode.STOPPED),
    "orphaned": _stop("the supervisor is dead", ExitCode.STOPPED),
    "slow": _slow,
    "link": _link,
    "die": _die,
}
