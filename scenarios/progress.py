"""The progress of a run on standard error: a bar with the time left on a terminal, lines elsewhere."""

import json
import sys
import time
from typing import Any, TextIO

from edge_fed.config import RunConfig
from edge_fed.errors import printable
from edge_fed.profiles import unavailable
from scenarios.watching import Line

PAUSE_S = 1.0  # between two lines about rounds; a round takes milliseconds
MOST = 12  # agents that are named in one line


class Lines:
    """One readable line per piece of news.

    Args:
        config: Of the run.
        out: Where they go.
    """

    def __init__(self, config: RunConfig, out: TextIO) -> None:
        self.rounds = config.algorithm.rounds
        self._config = config
        self._out = out
        self._first: tuple[int, float] | None = None  # round and time of the first line
        self._said = -PAUSE_S

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def say(self, level: str, text: str) -> None:
        """Writes one line."""
        mark = {"warning": "warning: ", "error": "error: "}.get(level, "")
        print(f"{time.strftime('%H:%M:%S')} {mark}{printable(text)}", file=self._out, flush=True)

    def note(self, level: str, text: str) -> None:
        """News."""
        self.say(level, text)

    def round(self, line: Line) -> None:
        """A round, if the last line is a while ago or it is the last one."""
        now, number = time.monotonic(), int(line["round"])
        self._first = self._first or (number, now)
        if now - self._said >= PAUSE_S or number == self.rounds:
            self._said = now
            self.say("info", f"{round_text(line, self._config)}{self._left(number, now)}")

    def evaluation(self, line: Line) -> None:
        """An evaluation."""
        self.say("info", evaluation_text(line))

    def report(self, goal: int, rows: list[dict[str, Any]]) -> None:
        """An onboarder's report."""
        self.say("info", report_text(goal, rows))

    def close(self) -> None:
        """Nothing is open."""

    def _left(self, number: int, now: float) -> str:
        first, since = self._first or (number, now)
        if number in (first, self.rounds):
            return ""
        return f", about {(now - since) / (number - first) * (self.rounds - number):.0f} s left"


class JsonLines(Lines):
    """One JSON object per piece of news."""

    def say(self, level: str, text: str) -> None:
        """Writes one object."""
        line = {"time": round(time.time(), 3), "level": level, "event": text}
        print(json.dumps(line), file=self._out, flush=True)


class Bar(Lines):
    """The same news above a bar with the time left. Imports rich only here."""

    def __init__(self, config: RunConfig, out: TextIO) -> None:
        super().__init__(config, out)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=Console(file=out),
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("starting", total=self.rounds)
        self._progress.start()

    def say(self, level: str, text: str) -> None:
        """Writes one line above the bar."""
        style = {"warning": "yellow", "error": "red"}.get(level, "")
        self._progress.console.print(printable(text), style=style, highlight=False, markup=False)

    def round(self, line: Line) -> None:
        """Moves the bar."""
        number = int(line["round"])
        words = "training" if number < self.rounds else "measuring"
        self._progress.update(self._task, completed=number, description=words)
        if line["outcome"] != "folded":
            self.say("warning", round_text(line, self._config))

    def close(self) -> None:
        """Leaves the bar as it is."""
        self._progress.stop()


def open_progress(config: RunConfig, log_format: str, out: TextIO = sys.stderr) -> Lines:
    """What fits where the output goes."""
    if log_format == "json":
        return JsonLines(config, out)
    return Bar(config, out) if out.isatty() else Lines(config, out)


def round_text(line: Line, config: RunConfig) -> str:
    """One round in words; agents that could not be asked are named."""
    number = int(line["round"])
    count = f"{len(line['contributors'])} of {len(line['cohort'])} updates"
    away = unavailable(config, number, line["eligible"])
    names = ", ".join(map(str, away[:MOST])) + (f" and {len(away) - MOST} more" if away[MOST:] else "")
    return (
        f"round {number}/{config.algorithm.rounds} {line['outcome']}, {count}"
        f"{', unavailable: ' if away else ''}{names}, params {line['params_sha256'][:8]}"
    )


def evaluation_text(line: Line) -> str:
    """One evaluation in words."""
    if not line["n"]:
        return f"evaluation after round {line['round']}: no agent reported"
    return (
        f"evaluation after round {line['round']}: return {line['expected_return']:.3f}, after one step "
        f"{line['meta_objective']:.3f} ({line['meta_objective_kind']}, {line['n']} agents)"
    )


def report_text(goal: int, rows: list[dict[str, Any]]) -> str:
    """One onboarder's rows in words: learned budgets only."""
    learned = [f"{row['m_adapt']}: {row['return']:.2f}" for row in rows if row["init"] == "learned"]
    return f"goal {goal} onboarded, return by adaptation trajectories {', '.join(learned)}"
