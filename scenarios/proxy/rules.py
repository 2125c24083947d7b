"""What can go wrong between an agent and the server: one visible table, and one record. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from protocol.codec import TYPES
from protocol.link import Direction

Kind = Literal["drop", "delay", "duplicate", "reorder", "cut", "throttle", "freeze", "half_open"]
SIDES = ("up", "down", "both")
MESSAGES = tuple(sorted(TYPES))


class KindOfFault(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        meaning: One sentence for people.
        needs: Arguments that must be given.
        takes: Arguments that may be given, besides ``direction`` and ``for_s``.
        whole: It acts on whole messages: impossible where they are encrypted.
    """

    meaning: str
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    whole: bool = False


_CHOOSE = ("only", "chance", "count")

KINDS: dict[str, KindOfFault] = {
    "drop": KindOfFault(meaning="messages vanish", takes=_CHOOSE, whole=True),
    "delay": KindOfFault(
        meaning="messages come so many seconds later, none overtakes another",
        needs=("seconds",),
        takes=_CHOOSE,
        whole=True,
    ),
    "duplicate": KindOfFault(meaning="messages come twice", takes=_CHOOSE, whole=True),
    "reorder": KindOfFault(
        meaning="a message comes after the next one, or after so many seconds (1)",
        takes=("seconds", *_CHOOSE),
        whole=True,
    ),
    "cut": KindOfFault(
        meaning="the connection breaks when this fraction of a message (0.5) has passed; count: 1",
        takes=("fraction", *_CHOOSE),
    ),
    "throttle": KindOfFault(meaning="so many bytes per second, each way", needs=("bytes_per_s",)),
    "freeze": KindOfFault(meaning="nothing passes and nothing is lost; it goes on when the fault ends"),
    "half_open": KindOfFault(meaning="what is sent is lost for ever, and neither end is told"),
}
"""Every kind of fault by name."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of one agent's way to the server.

    Attributes:
        kind: See `KINDS`.
        direction: ``up``: agent to server.
        only: Type of the messages it acts on, e.g. ``UPDATE``; empty: all.
        chance: That it acts on such a message.
        count: Messages it acts on at most; None: no bound.
        seconds: Of a delay, or how long a message waits at most to be overtaken.
        fraction: Of a message that passes before a cut.
        bytes_per_s: Of a throttle.
    """

    kind: Kind
    direction: Literal["up", "down", "both"] = "both"
    only: str = ""
    chance: float = 1.0
    count: int | None = None
    seconds: float = 1.0
    fraction: float = 0.5
    bytes_per_s: float = 0.0

    def goes(self, direction: Direction) -> bool:
        """Whether it acts in this direction."""
        return self.direction in (direction, "both")

    def __str__(self) -> str:
        """E.g. ``drop up UPDATE``."""
        return f"{self.kind} {self.direction} {self.only}".rstrip()

    @property
    def silences(self) -> bool:
        """Whether nothing at all passes in some direction while it lasts."""
        always = self.chance >= 1.0 and self.count is None and not self.only
        return self.kind in ("freeze", "half_open") or (self.kind == "drop" and always)


def rule_of(args: Mapping[str, Any]) -> Rule:
    """The rule that a timeline's arguments mean; they were checked before."""
    fields = {name: value for name, value in args.items() if name in Rule.__struct_fields__}
    if args["kind"] == "cut":
        fields.setdefault("count", 1)
    rule: Rule = msgspec.convert(fields, Rule, strict=False)
    return rule


def argument_faults(args: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Arguments that do not go together, as (name, what is wrong, what to do)."""
    kind = KINDS.get(str(args.get("kind")))
    if kind is None:
        return
    allowed = ("kind", "direction", "for_s", *kind.needs, *kind.takes)
    for name in args:
        if name not in allowed and name in ARGUMENTS:
            takes = ", ".join((*kind.needs, *kind.takes)) or "nothing but direction and for_s"
            yield name, f"a {args['kind']} has none", f"it takes {takes}"
    for name in kind.needs:
        if name not in args:
            yield name, f"is missing: a {args['kind']} needs it", kind.meaning


ARGUMENTS = frozenset({"for_s", *Rule.__struct_fields__})
