"""What a person sees: one line per round, the wait by name, a bar on a terminal."""

import io

import pytest
import structlog

from server.console import Bar, Lines, is_terminal
from server.events import Wait

LINE = {
    "round": 3,
    "outcome": "folded",
    "contributors": [1, 2],
    "cohort": [0, 1, 2],
    "seconds": 0.1234,
    "params_sha256": "abcdef0123456789",
    "metrics": {"inner_norm": 1.23456, "trajectories": 100.0},
}


def logger(out: io.StringIO) -> structlog.typing.FilteringBoundLogger:
    """Writes key=value lines."""
    render = structlog.processors.KeyValueRenderer(key_order=["event"])
    found: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=[render],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return found


def test_a_round_is_one_line() -> None:
    """Number, outcome, updates, time, hash and metrics."""
    out = io.StringIO()
    Lines(logger(out), 150).round(LINE)
    assert out.getvalue().count("\n") == 1
    assert "round 3/150 folded: 2 of 3 updates in 0.123 s, params abcdef01" in out.getvalue()
    assert "inner_norm='1.235'" in out.getvalue()


def test_rounds_of_milliseconds_are_a_line_a_second() -> None:
    """The first and the last are shown, and any that was skipped; between them one per second."""
    out, now = io.StringIO(), [0.0]
    lines = Lines(logger(out), 100, lambda: now[0])
    for number in range(1, 101):
        lines.round({**LINE, "round": number, "outcome": "skipped" if number == 7 else "folded"})
        now[0] += 1 / 32
    shown = [int(line.split("/")[0].rsplit(" ", 1)[1]) for line in out.getvalue().splitlines()]
    assert shown == [1, 7, 39, 71, 100]


def test_a_wait_names_who_is_missing_and_the_time_left() -> None:
    """And what happens then."""
    out = io.StringIO()
    Lines(logger(out), 150).wait(Wait("updates of round 7", (1, 4), 12.0, "the round goes on without them"))
    assert "waiting for updates of round 7: 12 s left, then the round goes on without them" in out.getvalue()
    assert "missing=[1, 4]" in out.getvalue()


def test_the_bar_shows_rounds_and_time_left_beside_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal; here rich writes to a captured stream."""
    out = io.StringIO()
    bar = Bar(150, done=2)
    bar.attach(logger(out))
    bar.round(LINE)
    bar.wait(Wait("updates of round 4", (), 60.0, "it goes on"))
    bar.close()
    assert out.getvalue().count("\n") == 2
    assert "3/150" in capsys.readouterr().err


def test_only_a_terminal_is_one() -> None:
    """A file gets plain lines."""
    assert not is_terminal(io.StringIO())
