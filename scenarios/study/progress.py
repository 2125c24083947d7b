"""The progress of many cells on standard error: a bar with the time left on a terminal, lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator

from scenarios.study.pool import Report

PAUSE_S = 2.0  # between two lines; a cell may take less


@contextlib.contextmanager
def open_bar(name: str) -> Iterator[Report]:
    """Shows how much is done; leaves the bar as it is in the end."""
    if not sys.stderr.isatty():
        yield _lines(name)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"{name}: {{task.description}}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda fraction, text: progress.update(task, completed=fraction, description=text)


def _lines(name: str) -> Report:
    began = said = time.monotonic()
    before: float | None = None

    def report(fraction: float, text: str) -> None:
        nonlocal said, before
        now = time.monotonic()
        before = fraction if before is None else before
        if now - said < PAUSE_S and before != fraction < 1.0:
            return
        said = now
        left = (now - began) / (fraction - before) * (1 - fraction) if fraction > before else None
        rest = f", about {left:.0f} s left" if left else ""
        print(f"{name}: {fraction:4.0%} {text}{rest}", file=sys.stderr, flush=True)

    return report
