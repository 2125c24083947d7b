"""What a runtime tells the person who watches, as it goes."""

from collections.abc import Mapping
from typing import Any, Protocol

Line = Mapping[str, Any]


class Watch(Protocol):
    """Shows the progress of a run."""

    def note(self, level: str, text: str) -> None:
        """One line of news: ``info`` or ``warning``."""
        ...

    def round(self, line: Line) -> None:
        """A round is committed; ``line`` is its record and metrics."""
        ...

    def evaluation(self, line: Line) -> None:
        """The training agents were evaluated."""
        ...

    def report(self, goal: int, rows: list[dict[str, Any]]) -> None:
        """An onboarder has measured."""
        ...


class Silent:
    """Nobody watches."""

    def note(self, level: str, text: str) -> None:
        """Drops it."""

    def round(self, line: Line) -> None:
        """Drops it."""

    def evaluation(self, line: Line) -> None:
        """Drops it."""

    def report(self, goal: int, rows: list[dict[str, Any]]) -> None:
        """Drops it."""
