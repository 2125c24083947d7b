"""The line between a program and the one that started it."""

import json
import subprocess
import sys

PROGRAM = """
import queue
from edge_fed.program.supervision import StdioSupervisor
commands = queue.SimpleQueue()
supervisor = StdioSupervisor()
supervisor.event("begun", answer=42)
supervisor.listen(commands.put)
while True:
    command = commands.get()
    supervisor.event("heard", command=dict(command))
    if command["command"] == "orphaned":
        break
"""


def converse(lines: str) -> list[dict[str, object]]:
    """The events of a program that gets these lines on stdin."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_events_are_json_lines_and_the_end_of_stdin_is_a_dead_supervisor():
    """Each event one object; end of file arrives as the command ``orphaned``."""
    assert converse("") == [
        {"event": "begun", "answer": 42},
        {"event": "heard", "command": {"command": "orphaned"}},
    ]


def test_commands_arrive_in_order_and_nonsense_is_ignored():
    """A line that is no JSON object disturbs nothing."""
    said = converse('{"command": "leave"}\nnot json\n[1, 2]\n\n{"command": "die", "round": 3}\n')
    assert [event["command"] for event in said[1:]] == [
        {"command": "leave"},
        {"command": "die", "round": 3},
        {"command": "orphaned"},
    ]


def test_a_supervisor_that_has_closed_its_ear_stops_nobody():
    """Writing to a closed pipe is no error: the end of stdin will tell."""
    code = "import os, sys; os.close(1)" + PROGRAM + "sys.stderr.write('reached the end')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], input="", capture_output=True, text=True, check=False
    )
    assert "reached the end" in done.stderr
