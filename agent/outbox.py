"""What an agent has said and not yet seen arrive: kept, and sent again when it must have been lost.

A DEALER reconnects unseen and what was in its pipe is gone, so delivery is inferred. The pipe is first in
first out, and the server answers every heartbeat with the number of the last message that it has received,
behind the receipts that it owes: a parcel with a lower number and without a receipt was lost. Until such an
answer comes it may be on its way, however long that takes.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from edge_fed.params import F8
from protocol.messages import Message

Kind = Literal["update", "report", "request"]


class Parcel(msgspec.Struct):
    """One message that is kept until its fate is known.

    Attributes:
        message: What to send.
        tensors: Its tensors.
        round: Of the message.
        key: What it answers; an equal question gets it again instead of new work.
        travelling: It was sent in this session and is not known to be lost.
        delivered: The server has it, in this session.
        number: Of the message that carried it last, within the session.
    """

    message: Message
    tensors: Mapping[str, F8] = {}
    round: int = 0
    key: object = None
    travelling: bool = False
    delivered: bool = False
    number: int = 0


class Outbox:
    """At most one parcel of each kind: an update, a report, an onboarder's request."""

    def __init__(self) -> None:
        self._parcels: dict[Kind, Parcel] = {}

    def put(self, kind: Kind, parcel: Parcel) -> None:
        """Replaces the parcel of this kind."""
        self._parcels[kind] = parcel

    def get(self, kind: Kind) -> Parcel | None:
        """The parcel of this kind, if there is one."""
        return self._parcels.get(kind)

    def drop(self, *kinds: Kind) -> None:
        """Forgets parcels."""
        for kind in kinds:
            self._parcels.pop(kind, None)

    def confirm(self, kind: Kind) -> None:
        """The server has it: it stays (a restarted server may need it), but is not sent again here."""
        if parcel := self._parcels.get(kind):
            parcel.delivered = True

    def take(self, legal: Callable[[type[Message]], bool]) -> list[Parcel]:
        """The parcels to send now, as far as the order of messages allows; they count as travelling."""
        waiting = (p for p in self._parcels.values() if not p.travelling and not p.delivered)
        due = [p for p in waiting if legal(type(p.message))]
        for parcel in due:
            parcel.travelling = True
        return due

    def again(self, kind: Kind) -> None:
        """The server asks for a parcel that it should have: send it once more."""
        if parcel := self._parcels.get(kind):
            parcel.travelling = parcel.delivered = False

    def answered(self, heard: int) -> None:
        """A heartbeat's answer: a parcel that the server should have received by then was lost.

        Args:
            heard: Number of the last message that the server has received.
        """
        for parcel in self._parcels.values():
            if parcel.number <= heard:
                parcel.travelling = False

    def new_session(self) -> None:
        """Nothing that was sent before counts."""
        for parcel in self._parcels.values():
            parcel.travelling = parcel.delivered = False
