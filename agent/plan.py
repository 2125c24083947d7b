"""What one agent process was started for."""

from typing import Any, Literal

import msgspec

from protocol.messages import Onboard, Register

DEFAULT_SERVER = "tcp://127.0.0.1:5555"


class Plan(msgspec.Struct, frozen=True):
    """The wishes of the person or program that started this agent; the rest is the server's.

    Attributes:
        agent: Agent id = goal.
        incarnation: Random per process, 16 bytes.
        address: Of the server, for messages to people.
        role: ``onboard`` on request, else what the server says.
        overrides: What this agent sets for itself, plain values.
        versions: For the run's record.
        give_up_after_s: Patience without a server.
        at: Which initialization an onboarder asks for.
        at_round: With ``at = "round"``.
        take_over: Displace a living agent of the same goal.
        public_key: Of this agent, for messages to people; empty: it has no keys.
        key_file: Where its keys come from, for messages to people.
    """

    agent: int
    incarnation: bytes
    address: str
    role: Literal["auto", "onboard"] = "auto"
    overrides: dict[str, Any] = {}
    versions: dict[str, str] = {}
    give_up_after_s: float = 60.0
    at: Literal["final", "now", "round"] = "final"
    at_round: int = 0
    take_over: bool = False
    public_key: str = ""
    key_file: str = ""

    @property
    def saves(self) -> bool:
        """This is a device that wants a policy of its own when the training is over."""
        return bool((self.overrides.get("device") or {}).get("saves"))

    def register(self, known_run: bytes) -> Register:
        """The registration; the same for the life of the process but for the run it was in."""
        return Register(
            agent=self.agent,
            incarnation=self.incarnation,
            role=self.role,
            overrides=self.overrides,
            versions=self.versions,
            known_run=known_run or None,
            take_over=self.take_over,
        )

    def request(self) -> Onboard:
        """What an onboarder asks for."""
        return Onboard(at=self.at, round=self.at_round)
