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


HOSTILE = "boo\n12:00:00 [error] lie \x1b[2J\x1b]0;x\x07 \u202e\u2066 \r \x9b1m"


def test_what_peers_say_commands_no_terminal_and_makes_no_line():
    """Control signs and marks of direction are written out, in the text, in values and in names."""
    stream = io.StringIO()
    logger = log.configure("text", "info", stream)
    logger.info(HOSTILE, reason=HOSTILE, several=[HOSTILE], **{HOSTILE: 1})
    line = stream.getvalue()
    assert line.count("\n") == 1 and line[:-1].isprintable()
    assert line.count("\\x1b[2J") == 4 and line.count("\\u202e") == 4


def test_json_lines_hold_the_same_signs_as_numbers():
    """Programs read what was said; a terminal that shows the file sees ASCII."""
    stream = io.StringIO()
    log.configure("json", "info", stream).info(HOSTILE)
    assert stream.getvalue().isascii() and stream.getvalue()[:-1].isprintable()
    assert json.loads(stream.getvalue())["event"] == HOSTILE


def test_a_trace_of_our_own_code_keeps_its_lines():
    """It is no peer's word."""
    stream = io.StringIO()
    logger = log.configure("text", "info", stream)
    try:
        raise ValueError("x")
    except ValueError:
        logger.exception("failed")
    assert "Traceback" in stream.getvalue() and stream.getvalue().count("\n") > 3
