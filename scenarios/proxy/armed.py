"""The faults in force for one agent, what they decide about each message, and what they have done. Pure.

Draws are keyed by (seed, agent, rule, direction, type, how many of that type came): they do not depend on the
time, nor on heartbeats in between, so that a sequence of faults is given by its seed.
"""

from collections import Counter

import msgspec

from protocol.link import Direction, draws
from scenarios.proxy.rules import KINDS, Kind, Rule

BYTEWISE: frozenset[Kind] = frozenset({"throttle", "freeze", "half_open"})


class OpaqueStream(Exception):
    """Whole messages are asked for where they are encrypted."""

    def __init__(self, kind: str, mechanism: str) -> None:
        able = ", ".join(name for name, other in KINDS.items() if not other.whole)
        super().__init__(
            f"{kind} acts on whole messages, and {mechanism} hides them; choose one of {able} (without only)"
        )


class _Active(msgspec.Struct):
    """A rule in force. ``number`` counts the rules of the agent, ``met`` messages by direction and type."""

    number: int
    rule: Rule
    acted: int = 0
    met: Counter[str] = msgspec.field(default_factory=Counter)


class Armed:
    """All faults of one agent.

    Args:
        seed: Of the run.
        agent: Agent id.

    Attributes:
        done: How often each fault acted, e.g. ``drop up UPDATE``.
    """

    def __init__(self, seed: int, agent: int) -> None:
        self.done: Counter[str] = Counter()
        self._draws = draws(seed, agent)
        self._active: list[_Active] = []
        self._count = 0

    def arm(self, rule: Rule) -> None:
        """This fault is in force from now on."""
        self._count += 1
        self._active.append(_Active(self._count, rule))
        if rule.kind in BYTEWISE:
            self.done[f"{rule.kind} {rule.direction}"] += 1

    def heal(self, rule: Rule | None = None) -> None:
        """Ends this fault, or all."""
        gone = [one for one in self._active if rule in (None, one.rule)]
        for one in gone[:1] if rule else gone:
            self._active.remove(one)

    def any(self, kind: Kind, direction: Direction) -> bool:
        """Whether a fault of this kind is in force."""
        return any(one.rule.kind == kind and one.rule.goes(direction) for one in self._active)

    def bytes_per_s(self, direction: Direction) -> float | None:
        """The lowest rate that is in force."""
        throttles = (one.rule for one in self._active if one.rule.kind == "throttle")
        return min((rule.bytes_per_s for rule in throttles if rule.goes(direction)), default=None)

    def judges(self, direction: Direction, mechanism: str) -> bool:
        """Whether messages must be held until they are whole, for `judge` to decide.

        Raises:
            OpaqueStream: The mechanism hides them.
        """
        waiting = [one.rule for one in self._active if self._waits(one, direction)]
        for rule in waiting:
            check(rule, mechanism)
        return bool(waiting)

    def judge(self, direction: Direction, kind: str) -> Rule | None:
        """What happens to the next message of this type: the first rule that wants it; it is counted."""
        for one in self._active:
            rule = one.rule
            if not self._waits(one, direction) or rule.only not in ("", kind):
                continue
            key = f"{direction} {kind}"
            one.met[key] += 1
            luck, _ = self._draws(f"fault {one.number} {key} {one.met[key]}")
            if luck < rule.chance:
                one.acted += 1
                self.done[f"{rule.kind} {key}".rstrip()] += 1
                return rule
        return None

    def _waits(self, one: _Active, direction: Direction) -> bool:
        """Whether the rule may act on a message of this direction."""
        left = one.rule.count is None or one.acted < one.rule.count
        return one.rule.kind not in BYTEWISE and one.rule.goes(direction) and left


def check(rule: Rule, mechanism: str) -> None:
    """Whether a fault can act on a stream of this mechanism.

    Raises:
        OpaqueStream: It cannot.
    """
    if mechanism != "NULL" and (KINDS[rule.kind].whole or rule.only):
        raise OpaqueStream(rule.kind, mechanism)
