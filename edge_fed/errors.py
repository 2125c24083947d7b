"""What can go wrong in the mathematics, as one tree.

EdgeFedError
├── ConfigError        a setting is wrong; lists every fault found
├── UnknownGoal        the family has no such goal
├── UnknownName        a table (families, policies, variants, ...) has no such entry
├── ShapeError         an array has the wrong size
├── BadEnvironment     an environment breaks its interface; lists every breach found
├── MissingData        examples that a task needs are not there, or not what they should be
└── UpdateRefused      an update that must not be averaged
    ├── NonFinite      it holds NaN or infinity
    ├── TooLarge       its norm is above what the run accepts
    ├── BadWeight      its weight is missing, not finite or not positive
    └── OutOfOrder     it came before an agent with a smaller id, or twice
"""

import difflib
from collections.abc import Iterable

import msgspec

MOST_COMPARED = 100  # signs of an unknown name: looking for its nearest must not take long


class EdgeFedError(Exception):
    """Parent of every error that edge_fed raises on purpose."""


class Fault(msgspec.Struct, frozen=True):
    """One wrong setting.

    Attributes:
        path: Dotted path of the key, e.g. ``algorithm.inner_batch`` or ``agents.0.goals``.
        message: What is wrong, with the value that was found.
        hint: What to do next; may be empty.
        line: Line of the file where the key stands, if a search finds it.
    """

    path: str
    message: str
    hint: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return printable(f"{where}{self.path}: {self.message}" + (f" ({self.hint})" if self.hint else ""))


class ConfigError(EdgeFedError):
    """One or more settings are wrong. ``faults`` lists all of them, ``source`` names the file."""

    def __init__(self, faults: Iterable[Fault], source: str = "configuration") -> None:
        self.faults = tuple(faults)
        self.source = source
        super().__init__(f"{printable(source)}: " + "; ".join(str(fault) for fault in self.faults))


class UnknownGoal(EdgeFedError):
    """The family has no goal of this number; the message names the valid range."""


class UnknownName(EdgeFedError):
    """A table has no entry of this name; the message names the nearest one."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {what} {name!r}; {nearest(name, known)}")


class ShapeError(EdgeFedError):
    """An array has the wrong shape; the message names both."""


class BadEnvironment(EdgeFedError):
    """An environment breaks the interface of `edge_fed.envs.base`; the message lists how."""


class MissingData(EdgeFedError):
    """Files or examples of a data set are missing, damaged or too few; the message says where and which."""


class UpdateRefused(EdgeFedError):
    """Parent of the reasons why an update is not averaged."""


class NonFinite(UpdateRefused):
    """The update holds NaN or infinity."""


class TooLarge(UpdateRefused):
    """The update's norm is above ``federation.max_update_norm``."""


class BadWeight(UpdateRefused):
    """The weight is not a positive finite number."""


class OutOfOrder(UpdateRefused):
    """Updates are folded in ascending agent id, each agent once."""


def printable(text: str) -> str:
    """The text with control signs written out: what a file holds must not command the terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def nearest(name: str, known: Iterable[str]) -> str:
    """Says "did you mean ..." when a known name is close, else lists all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name[:MOST_COMPARED], names, n=1)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(names)
