"""What a person sees: one line per round, the wait by name, a bar on a terminal."""

import io

import pytest
import structlog

from edge_fed.config import Agents, Algorithm, RunConfig
from edge_fed.profiles import available
from server.console import MOST_METRICS, TAKEN, Bar, Lines, is_terminal
from server.events import Wait

LINE = {
    "round": 3,
    "outcome": "folded",
    "contributors": [1, 2],
    "cohort": [0, 1, 2],
    "eligible": [0, 1, 2],
    "seconds": 0.1234,
    "params_sha256": "abcdef0123456789",
    "metrics": {"inner_norm": 1.23456, "trajectories": 100.0},
}
HUNDRED = RunConfig(algorithm=Algorithm(rounds=100))


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
    Lines(logger(out), RunConfig()).round(LINE)
    assert out.getvalue().count("\n") == 1
    assert "round 3/150 folded: 2 of 3 updates in 0.123 s, params abcdef01" in out.getvalue()
    assert "inner_norm='1.235'" in out.getvalue()


def test_a_round_names_who_could_not_be_asked() -> None:
    """Drawn from the seed as the cohort was; nobody is named when all could be."""
    config = RunConfig(agents=(Agents(goals="0-5", availability=0.5),))
    here = available(config, 3, range(6))
    assert 0 < len(here) < 6
    out = io.StringIO()
    Lines(logger(out), config).round({**LINE, "eligible": list(range(6)), "cohort": list(here)})
    assert f"unavailable={[agent for agent in range(6) if agent not in here]}" in out.getvalue()
    Lines(logger(out), RunConfig()).round(LINE)
    assert out.getvalue().count("unavailable") == 1


def test_rounds_of_milliseconds_are_a_line_a_second() -> None:
    """The first and the last are shown, and any that was skipped; between them one per second."""
    out, now = io.StringIO(), [0.0]
    lines = Lines(logger(out), HUNDRED, lambda: now[0])
    for number in range(1, 101):
        lines.round({**LINE, "round": number, "outcome": "skipped" if number == 7 else "folded"})
        now[0] += 1 / 32
    shown = [int(line.split("/")[0].rsplit(" ", 1)[1]) for line in out.getvalue().splitlines()]
    assert shown == [1, 7, 39, 71, 100]


def test_a_wait_names_who_is_missing_and_the_time_left() -> None:
    """And what happens then."""
    out = io.StringIO()
    Lines(logger(out), RunConfig()).wait(
        Wait("updates of round 7", (1, 4), 12.0, "the round goes on without them")
    )
    assert "waiting for updates of round 7: 12 s left, then the round goes on without them" in out.getvalue()
    assert "missing=[1, 4]" in out.getvalue()


def test_the_bar_shows_rounds_and_time_left_beside_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal; here rich writes to a captured stream."""
    out = io.StringIO()
    bar = Bar(RunConfig(), done=2)
    bar.attach(logger(out))
    bar.round(LINE)
    bar.wait(Wait("updates of round 4", (), 60.0, "it goes on"))
    bar.close()
    assert out.getvalue().count("\n") == 2
    assert "3/150" in capsys.readouterr().err


def test_only_a_terminal_is_one() -> None:
    """A file gets plain lines."""
    assert not is_terminal(io.StringIO())


@pytest.mark.parametrize("name", sorted(TAKEN | {"a b", "x" * 100, "\x1b[2J", "", "\u202e"}))
def test_a_metric_of_any_name_ends_no_server(name: str) -> None:
    """Agents choose names: those that the logger uses itself are recorded, and not shown."""
    out = io.StringIO()
    metrics = {name: 1.0, "inner_norm": 2.0}
    Lines(logger(out), RunConfig(agents=(Agents(goals="0-5", availability=0.5),))).round(
        {**LINE, "metrics": metrics}
    )
    assert out.getvalue().count("\n") == 1 and "inner_norm='2'" in out.getvalue()


def test_a_line_shows_a_dozen_metrics() -> None:
    """However many an agent makes up."""
    out = io.StringIO()
    Lines(logger(out), RunConfig()).round({**LINE, "metrics": {f"m{number}": 1.0 for number in range(1000)}})
    assert out.getvalue().count("='1'") == MOST_METRICS
