"""A result that nobody reads is lost, and nothing else."""

import subprocess
import sys

from edge_fed.program.results import print_result

PROGRAM = """
import sys
from edge_fed.program.results import print_result
sys.stdin.read()
print(print_result("x" * 100_000), print_result("again"), file=sys.stderr)
sys.exit(7)
"""


def test_a_closed_pipe_changes_no_exit_code():
    """No trace, neither at once nor when the interpreter ends."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdin and child.stdout and child.stderr
    child.stdout.close()
    child.stdin.close()
    assert child.stderr.read() == "False True\n"
    child.stderr.close()
    assert child.wait(timeout=60) == 7


def test_a_result_is_printed_whole(capsys):
    """One line, at once."""
    assert print_result("value")
    assert capsys.readouterr().out == "value\n"
