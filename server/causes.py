"""Who brings it about that a run ends or goes on without an agent, and which time ran out. Pure.

It stands beside the reason in words: in ``exit``, ``lost`` and ``excused`` of ``events.jsonl``, and in
``summary.json``.
"""

from typing import Literal, NamedTuple

from edge_fed.program.exit_codes import ExitCode

Initiator = Literal["run", "server", "agent", "supervisor", "signal", "disk", "allow-list"]


class Cause(NamedTuple):
    """Why, for programs.

    Attributes:
        initiator: ``run``: its settings and what came of them; ``server``: it has lost patience.
        timer: The setting whose time ran out, or the server's own constant; empty: none did.
    """

    initiator: Initiator
    timer: str = ""


RUN = Cause("run")
NOBODY_CAME = Cause("server", "federation.join_deadline_s")

STOPS: dict[ExitCode, Cause] = {
    ExitCode.OK: Cause("supervisor"),  # by a program that holds the server: a benchmark
    ExitCode.FAILED: Cause("disk"),
    ExitCode.STOPPED: Cause("supervisor"),
    ExitCode.INTERRUPTED: Cause("signal"),
    ExitCode.TERMINATED: Cause("signal"),
}
"""Exit code of a stop -> who ordered it."""

GONE: dict[str, Cause] = {
    "lease": Cause("server", "federation.lease_s"),
    "deadline": Cause("server", "federation.round_deadline_s"),
    "never ready": Cause("server", "BUILD_S"),
    "refused": Cause("server"),
    "bye": Cause("agent"),
    "error": Cause("agent"),
    "crowded out": Cause("agent"),  # by another one
    "lost": Cause("supervisor"),
    "key revoked": Cause("allow-list"),
}
"""Reason why an agent is gone or excused, up to its colon -> its cause."""


def cause_of(reason: str) -> Cause:
    """The cause of a reason such as ``lease`` or ``error: round 3: ...``."""
    return GONE.get(reason.partition(":")[0], Cause("server"))
