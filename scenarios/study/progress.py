"""The progress of many cells on standard error: a bar with the time left on a terminal, lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator

from scenarios.study.pool import Report

PAUSE_S = 2.0  # between two lines; a cell may take less
FEW = 3  # steps without which an estimate means nothing: the first ones end with the shortest work


class Estimate:
    """The time left, from the steps since the beginning; between two steps it counts down.

    Args:
        now: Monotonic seconds of the beginning.
    """

    def __init__(self, now: float) -> None:
        self._began = self._stepped = now
        self._first: float | None = None
        self._last = 0.0
        self._steps = 0

    def left_s(self, fraction: float, now: float) -> float | None:
        """Seconds until all is done; None: not known.

        Args:
            fraction: What is done. What the first call says was done before the beginning.
            now: Monotonic seconds.
        """
        if self._first is None:
            self._first = self._last = fraction
        elif fraction > self._last:
            self._last, self._stepped = fraction, now
            self._steps += 1
        if self._steps < FEW:
            return None
        each = (self._stepped - self._began) / (self._last - self._first)
        left = each * (1 - self._last) - (now - self._stepped)
        return left if left > 0 else None


@contextlib.contextmanager
def open_bar(name: str) -> Iterator[Report]:
    """Shows how much is done; leaves the bar as it is in the end."""
    if not sys.stderr.isatty():
        yield _lines(name)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(f"{name}: {{task.description}}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    estimate = Estimate(time.monotonic())
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task("starting", total=1.0, left="")

        def report(fraction: float, text: str) -> None:
            left = in_words(estimate.left_s(fraction, time.monotonic()))
            progress.update(task, completed=fraction, description=text, left=left)

        yield report


def in_words(left_s: float | None) -> str:
    """The time left for people; empty: not known."""
    return "" if left_s is None else f"about {left_s:.0f} s left"


def _lines(name: str) -> Report:
    said = time.monotonic()
    estimate = Estimate(said)
    before: float | None = None

    def report(fraction: float, text: str) -> None:
        nonlocal said, before
        now = time.monotonic()
        before = fraction if before is None else before
        left = in_words(estimate.left_s(fraction, now))
        if now - said < PAUSE_S and before != fraction < 1.0:
            return
        said = now
        print(f"{name}: {fraction:4.0%} {text}{left and ', '}{left}", file=sys.stderr, flush=True)

    return report
