"""Collects the commands of one event, and numbers what is sent within a session. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edge_fed.params import F8
from protocol.errors import LocalProtocolError
from protocol.messages import Header, Message
from protocol.session import Session
from server import events as e
from server.members import Member

LOUD = 100
MANY = 20_000
NOISY = dict.fromkeys(
    ("illegal", "lagging", "malformed", "rejected", "agent_error", "turned_away", "report_refused"), LOUD
)
NOISY |= dict.fromkeys(
    ("registered", "ready", "lost", "back", "challenged", "superseded", "unreachable", "state_lost",
     "mixed_fleet", "initialized", "report", "refused", "late", "conflict"), MANY
)  # fmt: skip
"""Notes that a stranger can cause as often as it likes: after so many of a kind, only every power of two.

Those of the second kind come of every agent of a large fleet as well, and from agents that come and go.
"""
SAID = 8  # lines for people of one kind about one agent; then only every power of two
MOST_SAID = 10_000  # kinds and agents that are told apart


class Outbox:
    """Commands in the order in which they are to be carried out.

    Args:
        run_id: The run's id, for messages outside sessions.
    """

    def __init__(self, run_id: bytes) -> None:
        self.run_id = run_id
        self.committed = 0
        self._commands: list[e.Command] = []
        self._noise = dict.fromkeys(NOISY, 0)
        self._said: Counter[tuple[str, Any]] = Counter()

    def take(self) -> list[e.Command]:
        """The commands collected since the last call."""
        commands, self._commands = self._commands, []
        return commands

    def put(self, command: e.Command) -> None:
        """Any command."""
        self._commands.append(command)

    def send(self, member: Member, message: Message, tensors: Mapping[str, F8] | None = None) -> None:
        """A message within a member's session; one that the order forbids now is dropped and logged."""
        self._send(member.session, member.peer, message, tensors or {})

    def outside(self, peer: bytes, message: Message) -> None:
        """A message to somebody without a session."""
        self.put(e.Send(peer, Header(run=self.run_id, committed=self.committed), message))

    def log(self, level: e.Level, text: str, **fields: Any) -> None:
        """One line for people."""
        self.put(e.Log(level, text, fields))

    def note(self, event: str, text: str, level: e.Level = "info", **fields: Any) -> None:
        """One line for people and one in ``events.jsonl``; a flood of one kind cannot fill log and disk."""
        if event in NOISY:
            count = self._noise[event] = self._noise[event] + 1
            if count > NOISY[event] and count & (count - 1):
                return
            text = f"{text} (number {count})" if count > NOISY[event] else text
        self.put(e.Journal(event, fields))
        said = self._count(event, fields.get("agent")) if event in NOISY else 0
        if said <= SAID or not said & (said - 1):
            self.put(e.Log(level, f"{text} (time {said})" if said > SAID else text))

    def _count(self, event: str, agent: Any) -> int:
        """How often this has been said of an agent."""
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said[event, agent] += 1
        return self._said[event, agent]

    def tell(self, name: str, **fields: Any) -> None:
        """One event for the supervisor."""
        self.put(e.Tell(name, fields))

    def _send(self, session: Session, peer: bytes, message: Message, tensors: Mapping[str, F8]) -> None:
        try:
            header = session.send(message, self.committed)
        except LocalProtocolError as error:
            self.log("debug", f"not sent: {error}")
            return
        self._commands.append(e.Send(peer, header, message, tensors))
