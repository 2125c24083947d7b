"""Which checkpoints a run folder keeps: the newest ones, the best ones, and those that are needed. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any


class Retention:
    """The checkpoints that are there, and what evaluations said about their rounds.

    Args:
        newest: How many of the newest rounds are kept; 0: all rounds.
        best: How many of the rounds with the highest meta objective are kept beside them.
        there: Rounds whose checkpoints are there, ascending.

    Attributes:
        best: (round, meta objective) of the best evaluated round so far; of equal ones the later. None: none.
    """

    def __init__(self, newest: int, best: int, there: Iterable[int] = ()) -> None:
        self.best: tuple[int, float] | None = None
        self._newest = newest
        self._best = best
        self._there = list(there) if newest else []
        self._scores: dict[int, float] = {}

    def evaluated(self, row: Mapping[str, Any]) -> None:
        """Takes over a line of ``evaluations.jsonl``; only those in training say how good a round is."""
        value = row.get("meta_objective")
        if row.get("kind") != "evaluation" or not isinstance(value, float):
            return
        round_ = int(row["round"])
        if self.best is None or (value, round_) > self.best[::-1]:
            self.best = (round_, value)
        if self._newest and self._best:
            self._scores[round_] = value

    def commit(self, round_: int, needed: Collection[int]) -> list[int]:
        """Takes a new checkpoint in.

        Args:
            round_: Its round. Checkpoints of later rounds were damaged; they are written again.
            needed: Rounds whose checkpoints must stay for now.

        Returns:
            Rounds whose checkpoints are to be removed, ascending.
        """
        if not self._newest:
            return []
        while self._there and self._there[-1] >= round_:
            self._there.pop()
        self._there.append(round_)
        old, new = self._there[: -self._newest], self._there[-self._newest :]
        if not old:
            return []
        stay = {*self._highest(), *needed}
        self._there = [r for r in old if r in stay] + new
        self._scores = {r: value for r, value in self._scores.items() if r in self._there}
        return [r for r in old if r not in stay]

    def _highest(self) -> list[int]:
        scored = [round_ for round_ in self._there if round_ in self._scores]
        scored.sort(key=lambda round_: (self._scores[round_], round_), reverse=True)
        return scored[: self._best]
