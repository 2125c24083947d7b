"""What a person at the terminal sees: one line per round; on a terminal also a bar with the time left."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from edge_fed.config import RunConfig
from edge_fed.profiles import unavailable
from edge_fed.program.log import Logger
from server.events import Wait

ROUND_LINE_S = 1.0  # rounds of milliseconds would fill the screen
LONGEST_NAME = 40
MOST_METRICS = 12
TAKEN = {
    "event", "exc_info", "exception", "level", "positional_args", "program", "self", "stack", "stack_info",
    "timestamp", "trajectories", "unavailable",
}  # fmt: skip
"""Names of metrics that a line cannot show: the logger's own, and what is shown already."""
Clock = Callable[[], float]


class Console(Protocol):
    """Shows how far the run is."""

    def round(self, line: Mapping[str, Any]) -> None:
        """A round is committed; ``line`` is its line in ``metrics.jsonl``."""
        ...

    def wait(self, wait: Wait) -> None:
        """Something is waited for."""
        ...

    def close(self) -> None:
        """The program ends."""
        ...


class Lines:
    """Log lines.

    Args:
        logger: Where they go.
        config: Of the run.
        clock: Monotonic seconds.
    """

    def __init__(self, logger: Logger, config: RunConfig, clock: Clock = time.monotonic) -> None:
        self._logger = logger
        self._config = config
        self._clock = clock
        self._say_at = -math.inf

    def round(self, line: Mapping[str, Any]) -> None:
        """One line per round, but one in `ROUND_LINE_S` of rounds that take milliseconds and went well.

        The first one and the last one are always shown.
        """
        now = self._clock()
        if (
            now < self._say_at
            and line["round"] < self._config.algorithm.rounds
            and line["outcome"] == "folded"
        ):
            return
        self._say_at = now + ROUND_LINE_S
        record = f"round {line['round']}/{self._config.algorithm.rounds} {line['outcome']}"
        count = f"{len(line['contributors'])} of {len(line['cohort'])} updates"
        text = f"{record}: {count} in {line['seconds']:.3f} s, params {line['params_sha256'][:8]}"
        away = unavailable(self._config, line["round"], line["eligible"])
        self._logger.info(text, **({"unavailable": list(away)} if away else {}), **_shown(line["metrics"]))

    def wait(self, wait: Wait) -> None:
        """What is waited for, who is missing, and the time left."""
        left = f"{wait.left_s:.0f} s left, then {wait.ends}"
        self._logger.info(f"waiting for {wait.what}: {left}", missing=list(wait.missing))

    def close(self) -> None:
        """Nothing is open."""


class Bar(Lines):
    """The same lines, above a bar with the time left. Imports rich only here.

    Make it before logging is configured: it takes standard error over, so that lines and bar do not mix.

    Args:
        config: Of the run.
        done: Rounds committed already.
    """

    def __init__(self, config: RunConfig, done: int = 0, clock: Clock = time.monotonic) -> None:
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        )
        self._progress = Progress(*columns, console=Terminal(stderr=True), refresh_per_second=4)
        self._task = self._progress.add_task("joining", total=config.algorithm.rounds, completed=done)
        self._progress.start()
        self._config, self._clock, self._say_at = config, clock, -math.inf

    def attach(self, logger: Logger) -> None:
        """Lines go to this logger, made after the bar."""
        self._logger = logger

    def round(self, line: Mapping[str, Any]) -> None:
        """Moves the bar."""
        self._progress.update(self._task, completed=line["round"], description="training")
        super().round(line)

    def wait(self, wait: Wait) -> None:
        """Names the wait beside the bar."""
        self._progress.update(self._task, description=f"waiting for {wait.what}")
        super().wait(wait)

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._progress.stop()


def is_terminal(stream: TextIO = sys.stderr) -> bool:
    """Whether a person watches this stream."""
    return stream.isatty()


def _shown(metrics: Mapping[str, float]) -> dict[str, str]:
    """Fields of a line: agents name their metrics as they like, also as what means something else."""
    shown = {
        name: f"{value:.4g}"
        for name, value in metrics.items()
        if name.isidentifier() and len(name) <= LONGEST_NAME and name not in TAKEN
    }
    return dict(list(shown.items())[:MOST_METRICS])
