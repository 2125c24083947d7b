"""Log lines: whole, on the stream they were given, and never a reason to die."""

import contextlib
import io
import json

from edge_fed.program import log


def test_json_lines_carry_level_context_and_fields(tmp_path):
    """One object per line."""
    with (tmp_path / "log").open("w", encoding="utf8") as stream:
        log.configure("json", "info", stream, agent=3).warning("late", round=7)
    line = json.loads((tmp_path / "log").read_text())
    assert (line["level"], line["event"], line["agent"], line["round"]) == ("warning", "late", 3, 7)


def test_a_line_is_in_the_file_at_once(tmp_path):
    """What was logged before a kill -9 can be read."""
    with (tmp_path / "log").open("w", encoding="utf8") as stream:
        log.configure("text", "info", stream).info("before the end")
        assert "before the end" in (tmp_path / "log").read_text()


def test_lower_levels_are_left_out():
    """The level of the call decides."""
    stream = io.StringIO()
    logger = log.configure("text", "warning", stream)
    logger.info("hidden")
    logger.warning("shown")
    assert stream.getvalue().count("\n") == 1


def test_a_line_that_cannot_be_written_is_lost_and_nothing_else():
    """A full disk or a closed stream does not end the program."""
    full = open("/dev/full", "w", encoding="utf8")  # noqa: SIM115  closing it must fail
    log.configure("text", "info", full).info("to a full disk")
    with contextlib.suppress(OSError):
        full.close()
    closed = io.StringIO()
    logger = log.configure("text", "info", closed)
    closed.close()
    logger.info("to a closed stream")
