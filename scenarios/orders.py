"""What a director is told and what it orders, besides the steps of actions. Frozen records; no behaviour."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scenarios.actions import Disturb, Kill, Mend, Pause, Resume, Start, Tell, Terminate


class Spoke(msgspec.Struct, frozen=True):
    """A child reported an event of its own, see `edge_fed.program.supervision`."""

    child: str
    event: str
    fields: Mapping[str, Any] = {}


class Ended(msgspec.Struct, frozen=True):
    """A child is gone and reaped; ``code`` is negative for a signal."""

    child: str
    code: int
    why: str = ""


class Tick(msgspec.Struct, frozen=True):
    """Time passed."""


Happening = Spoke | Ended | Tick


class StartServer(msgspec.Struct, frozen=True):
    """Start the server; it holds before these rounds."""

    holds: tuple[int, ...]
    resume: bool = False


class Note(msgspec.Struct, frozen=True):
    """One line for the person who watches."""

    level: Literal["info", "warning"]
    text: str


class Finish(msgspec.Struct, frozen=True):
    """The run is over; ``problem`` says why if it failed. Children that are left are to be ended."""

    code: int
    problem: str = ""


Order = StartServer | Start | Kill | Terminate | Pause | Resume | Disturb | Mend | Tell | Note | Finish
