"""The supervisor's commands as events of the state machine."""

import typing
from collections.abc import Mapping
from typing import Any

from edge_fed.program.exit_codes import ExitCode
from server import events as e

POINTS = typing.get_args(e.KillPoint)


def order(command: Mapping[str, Any]) -> e.Event | None:
    """Turns ``{"command": ...}`` into an event; None: not understood.

    proceed{round}: open this round. lost{agent}: its process is dead. die{point, round}: kill yourself
    there. stop and orphaned (the supervisor is dead): end in order.
    """
    name, round_, agent = command.get("command"), command.get("round"), command.get("agent")
    if name == "proceed" and isinstance(round_, int):
        return e.Proceed(round_)
    if name == "lost" and isinstance(agent, int):
        return e.DeclaredLost(agent)
    if name == "die" and command.get("point") in POINTS and isinstance(round_, int):
        return e.Arm(command["point"], round_)
    if name == "stop":
        return e.Stop("stopped by its supervisor", ExitCode.STOPPED)
    if name == "orphaned":
        return e.Stop("its supervisor is gone", ExitCode.STOPPED)
    return None
