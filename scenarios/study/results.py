"""The one table of a study: a tidy CSV, one measurement per line, every seed kept.

Columns: ``arm``, ``seed``, ``config`` (hash of what the arm runs, so that a table of another configuration
is noticed), ``round``, ``policy``, ``m``, ``outcome``, ``value``.

``policy`` says what was measured:

- ``shared``: the training agents, means over them; ``round`` is the training round. Outcomes:
  ``meta_objective`` (after adaptation), ``expected_return`` (before), ``success``, ``success_adapted``,
  ``worst_meta_objective``, ``fraction_hurt``; the diagnostics of `edge_fed.diagnostics`; and of the round's
  updates since the last measurement, over agents, what the variant reports: ``direction_norm``,
  ``inner_norm``, ``curvature_ratio`` (the median), ``guard_rate``, ``cosine``.
- ``learned``, ``tuned``, ``random``, ``scratch``: the held-out agents, means over them; ``m`` is the number
  of trajectories. ``learned`` adapts with the run's alpha, ``tuned`` with the alpha that was best on the
  validation goals (outcome ``alpha`` says which). Outcomes: ``return``, ``success``, ``worst_return``,
  ``fraction_hurt``.
- ``run``: counts of the whole run: ``train_trajectories`` (all agents), ``train_trajectories_per_agent``,
  ``adapt_trajectories``, ``eval_trajectories``, ``env_steps``, ``parameter_bytes`` (of the vectors that a
  networked run of it sends), ``wall_s``, ``cpu_s``.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from edge_fed.errors import ConfigError, Fault

COLUMNS = ("arm", "seed", "config", "round", "policy", "m", "outcome", "value")


class Measurement(msgspec.Struct, frozen=True):
    """One line of the table.

    Attributes:
        arm: Name of the arm.
        seed: Run seed.
        config: First 12 hexadecimal digits of the hash of the arm's configuration.
        round: Training round of the measured parameters.
        policy: What was measured, see the head of this file.
        m: Trajectories of the adaptation, or of training from scratch; 0 where there is none.
        outcome: Name of the number.
        value: The number.
    """

    arm: str
    seed: int
    config: str
    round: int
    policy: str
    m: int
    outcome: str
    value: float


class Results(msgspec.Struct, frozen=True):
    """The measurements of a study.

    Attributes:
        source: Where they come from, for messages.
        rows: All of them, by arm in the order of the study, then by seed.
    """

    source: str
    rows: tuple[Measurement, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms, in order."""
        return tuple(dict.fromkeys(row.arm for row in self.rows))

    def values(
        self, arm: str, outcome: str, policy: str = "shared", m: int = 0, round_: int | None = None
    ) -> dict[int, float]:
        """One value per seed.

        Args:
            arm: Name of the arm.
            outcome: Name of the number.
            policy: What was measured.
            m: Trajectories of the adaptation.
            round_: Training round; None: the newest that was measured.

        Raises:
            ConfigError: There is no such measurement; the message names what there is.
        """
        found = self.curve(arm, outcome, policy, m)
        chosen = max(found) if round_ is None else round_
        if chosen not in found:
            raise ConfigError([Fault(outcome, f"was not measured at round {chosen}")], self.source)
        return found[chosen]

    def curve(
        self, arm: str, outcome: str, policy: str = "shared", m: int = 0
    ) -> dict[int, dict[int, float]]:
        """Training round -> seed -> value, in ascending round.

        Raises:
            ConfigError: As for `values`.
        """
        found: dict[int, dict[int, float]] = {}
        for row in self._of(arm):
            if (row.outcome, row.policy, row.m) == (outcome, policy, m):
                found.setdefault(row.round, {})[row.seed] = row.value
        if not found:
            known = sorted({f"{row.policy}/{row.outcome}/{row.m}" for row in self._of(arm)})
            message = f"arm {arm!r} has no {policy}/{outcome}/{m}"
            raise ConfigError([Fault("outcome", message, "it has " + ", ".join(known[:40]))], self.source)
        return dict(sorted(found.items()))

    def _of(self, arm: str) -> list[Measurement]:
        rows = [row for row in self.rows if row.arm == arm]
        if not rows:
            raise ConfigError(
                [Fault("arm", f"there is no arm {arm!r}", f"arms: {', '.join(self.arms)}")], self.source
            )
        return rows


def read_results(path: Path) -> Results:
    """Reads a table.

    Raises:
        ConfigError: The file is missing, or is no such table; the message names the line.
    """
    try:
        with path.open(newline="", encoding="utf8") as file:
            return Results(str(path), tuple(_parsed(file, path)))
    except OSError as error:
        raise ConfigError([Fault("", f"cannot be read: {error.strerror}")], str(path)) from None


def _parsed(file: Iterable[str], path: Path) -> Iterator[Measurement]:
    lines = csv.reader(file)
    if tuple(next(lines, ())) != COLUMNS:
        raise ConfigError(
            [Fault("line 1", "is no header of results", f"expected {','.join(COLUMNS)}")], str(path)
        )
    for number, line in enumerate(lines, start=2):
        try:
            yield msgspec.convert(dict(zip(COLUMNS, line, strict=True)), Measurement, strict=False)
        except (ValueError, msgspec.ValidationError) as error:
            raise ConfigError([Fault(f"line {number}", f"is no measurement: {error}")], str(path)) from None


def as_csv(rows: Iterable[Measurement]) -> str:
    """The table as text; floats are written so that they read back equal."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows(msgspec.structs.astuple(row) for row in rows)
    return text.getvalue()
