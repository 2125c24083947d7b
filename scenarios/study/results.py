"""The one table of a study: a tidy CSV, one measurement per line, every seed kept.

Columns: ``arm``, ``seed``, ``config`` (hash of what the arm runs, so that a table of another configuration
is noticed), ``round``, ``policy``, ``m``, ``outcome``, ``value``.

``policy`` says what was measured:

- ``shared``: the training agents, means over them; ``round`` is the training round. Outcomes:
  ``meta_objective`` (after adaptation), ``expected_return`` (before), ``success``, ``success_adapted``,
  ``worst_meta_objective``, ``fraction_hurt``; the diagnostics of `edge_fed.diagnostics`; and of the round's
  updates since the last measurement, over agents, what the variant reports: ``direction_norm``,
  ``inner_norm``, ``curvature_ratio`` (the median), ``guard_rate``, ``cosine``, ``correction_norm``,
  ``bootstrap`` (what V added to a return, `edge_fed.meta.bootstrap`).
- ``honest``: the same, means over the training agents that have no attack; only if others have one.
- ``learned``, ``careful``, ``tuned``, ``random``, ``scratch``: the held-out agents, means over them; ``m`` is
  the number of trajectories. ``learned`` adapts with the run's alpha, ``careful`` takes no step that was not
  tried (``fraction_kept`` of the agents took none), ``tuned`` adapts with the alpha that was best on the
  validation goals (outcome ``alpha`` says which). Outcomes: ``return``, ``success``, ``worst_return``,
  ``fraction_hurt``.
- ``adapt-train``, ``adapt-split``, ``adapt-test-LEAKS``: of supervised tasks, the outcomes of ``shared`` once
  more after the last round, for each ``adapt_from`` of `edge_fed.supervised`; ``success`` is accuracy.
- ``run``: counts of the whole run: ``train_trajectories`` (all agents), ``train_trajectories_per_agent``,
  ``adapt_trajectories``, ``eval_trajectories``, ``env_steps``, ``parameter_bytes`` (of the vectors that a
  networked run of it sends), ``wall_s``, ``cpu_s``.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from edge_fed.errors import ConfigError, Fault

COLUMNS = ("arm", "seed", "config", "round", "policy", "m", "outcome", "value")

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


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
    seed: Count
    config: str
    round: Count
    policy: str
    m: Count
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
            message = f"of arm {arm!r} was not measured at round {chosen}"
            measured = f"measured: {', '.join(map(str, found))}"
            raise ConfigError([Fault(outcome, message, measured)], self.source)
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
                [Fault("arm", f"there is no arm {arm!r}", f"arms: {', '.join(self.arms) or 'none'}")],
                self.source,
            )
        return rows


def read_results(path: Path) -> Results:
    """Reads a table.

    Raises:
        ConfigError: The file is missing, is no such table, is cut off, or has a measurement twice; the
            message names the line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError([Fault("", f"cannot be read: {error.strerror}")], str(path)) from None
    try:
        return Results(str(path), tuple(_once(_lines(data))))
    except _WrongLine as error:
        raise ConfigError([Fault(f"line {error.line}", error.message, error.hint)], str(path)) from None


def is_table(path: Path) -> bool:
    """Whether a file begins like a table of measurements."""
    with path.open("rb") as file:
        return file.readline().strip() == ",".join(COLUMNS).encode()


class _WrongLine(Exception):
    """Why a line is no measurement."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        self.line, self.message, self.hint = line, message, hint
        super().__init__(message)


def _once(lines: Iterable[tuple[int, Measurement]]) -> Iterator[Measurement]:
    """Nothing is measured twice: which of two values counts nobody could say."""
    seen: dict[tuple[object, ...], int] = {}
    for number, row in lines:
        key = (row.arm, row.seed, row.round, row.policy, row.m, row.outcome)
        first = seen.setdefault(key, number)
        if first != number:
            what = (
                f"{row.policy}/{row.outcome}/{row.m} of arm {row.arm!r}, seed {row.seed}, round {row.round}"
            )
            raise _WrongLine(number, f"measures {what} again, as line {first} does", "keep one of them")
        yield row


def _lines(data: bytes) -> Iterator[tuple[int, Measurement]]:
    """Every measurement with the line where it begins."""
    lines = csv.reader(io.StringIO(_text(data), newline=""), strict=True)
    number = 1
    try:
        if tuple(next(lines, ())) != COLUMNS:
            raise _WrongLine(1, "is no header of results", f"expected {','.join(COLUMNS)}")
        if not data.endswith(b"\n"):
            raise _WrongLine(data.count(b"\n") + 1, "is cut off: no end of line", "get the whole file again")
        number = lines.line_num + 1
        for line in lines:
            yield number, _measurement(line, number)
            number = lines.line_num + 1
    except csv.Error as error:
        raise _WrongLine(number, f"is no measurement: {error}") from None


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise _WrongLine(number, f"is no text in UTF-8 (byte {data[error.start]:#04x})") from None
    if (at := text.find("\0")) >= 0:
        raise _WrongLine(text.count("\n", 0, at) + 1, "holds a NUL byte, so this is no text")
    return text


def _measurement(line: list[str], number: int) -> Measurement:
    if len(line) != len(COLUMNS):
        message = f"is no measurement: {len(line)} fields, expected {len(COLUMNS)}"
        raise _WrongLine(number, message, f"expected {','.join(COLUMNS)}")
    try:
        return msgspec.convert(dict(zip(COLUMNS, line, strict=True)), Measurement, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise _WrongLine(number, f"is no measurement: {error}") from None


def as_csv(rows: Iterable[Measurement]) -> str:
    """The table as text; floats are written so that they read back equal."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    lines.writerows(msgspec.structs.astuple(row) for row in rows)
    return text.getvalue()
