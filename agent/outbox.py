"""What an agent has said and not yet seen arrive: kept, and sent again when it must have been lost.

A DEALER reconnects unseen and what was in its pipe is gone, so delivery is inferred. The pipe is first in
first out and the server answers every heartbeat: the answer to a heartbeat that went out AFTER a message
proves that the message was processed or lost. If its receipt has not come by then, it was lost. Heartbeats
and answers may be lost, too: one that is open for longer than a lease is no longer counted, or every loss
would make the next one be noticed later.
"""

from collections import deque
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
        before: Heartbeats that were unanswered when it was sent.
    """

    message: Message
    tensors: Mapping[str, F8] = {}
    round: int = 0
    key: object = None
    travelling: bool = False
    delivered: bool = False
    before: int = 0


class Outbox:
    """At most one parcel of each kind: an update, a report, an onboarder's request."""

    def __init__(self) -> None:
        self._parcels: dict[Kind, Parcel] = {}
        self._open_beats: deque[float] = deque()  # when those left that were not answered yet

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
            parcel.travelling, parcel.before = True, len(self._open_beats)
        return due

    def again(self, kind: Kind) -> None:
        """The server asks for a parcel that it should have: send it once more."""
        if parcel := self._parcels.get(kind):
            parcel.travelling = parcel.delivered = False

    def beat(self, now: float) -> None:
        """A heartbeat goes out."""
        self._open_beats.append(now)

    def beat_answered(self, now: float, lease_s: float) -> None:
        """An answer came; a parcel that it overtook without a receipt was lost."""
        while self._open_beats and now - self._open_beats[0] > lease_s:
            self._open_beats.popleft()
            for parcel in self._travelling():
                parcel.before = max(0, parcel.before - 1)
        if self._open_beats:
            self._open_beats.popleft()
        for parcel in self._travelling():
            if parcel.before > 0:
                parcel.before -= 1
            else:
                parcel.travelling = False

    def new_session(self) -> None:
        """Nothing that was sent before counts."""
        self._open_beats.clear()
        for parcel in self._parcels.values():
            parcel.travelling = parcel.delivered = False

    def _travelling(self) -> list[Parcel]:
        return [p for p in self._parcels.values() if p.travelling and not p.delivered]
