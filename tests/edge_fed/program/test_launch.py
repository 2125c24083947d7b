"""What every entry point does first."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import edge_fed
from edge_fed.program.launch import PACKAGES, signals_end_at_once

PREPARE = (
    "from edge_fed.program import launch; launch.prepare(); import os; print(os.environ['OMP_NUM_THREADS'])"
)


def test_threads_are_pinned_before_numpy_is_loaded():
    """Importing the launch module does not import NumPy, and prepare() sets one BLAS thread.

    [complaints 50]
    """
    code = "import sys; " + PREPARE + "; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, env={}
    )
    assert done.stdout.split() == ["1", "False"]


def test_a_foreign_package_of_our_name_is_named_in_one_line(tmp_path):
    """A user's own server.py in the current folder ends in a readable error, not in a crash."""
    (tmp_path / "server.py").write_text("print('mine')")
    done = subprocess.run(
        [sys.executable, "-c", PREPARE], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "'server'" in done.stderr
    assert "server.py" in done.stderr
    assert "Traceback" not in done.stderr
    assert set(PACKAGES) == {"edge_fed", "protocol", "server", "agent", "scenarios"}


@pytest.mark.parametrize("program", ["agent", "server", "scenarios"])
def test_a_python_without_the_libraries_is_told_to_activate_the_environment(program):
    """-S leaves the installed libraries out: one line and exit 2, no traceback."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", program, "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(edge_fed.__file__).parents[1],
    )
    assert done.returncode == 2
    assert "msgspec" in done.stderr and "activate" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["agent", "server"])
def test_a_program_loads_nothing_that_it_does_not_use(program):
    """Neither what libraries load because it is there, nor the heavy extras."""
    command = [sys.executable, "-P", "-X", "importtime", "-m", program, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"asyncio.events", "structlog.dev", "numpy"} <= loaded
    # a refused import is listed too, but none of what would come with it
    assert {"_ssl", "rich.console", "matplotlib", "scipy", "torch"}.isdisjoint(loaded)


def test_what_was_out_of_sight_can_be_imported_later():
    """A bar on a terminal finds rich, a user's environment finds ssl."""
    code = "from edge_fed.program import launch; launch.import_lightly(); import ssl, rich.progress"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


LOADING = """
import sys
from edge_fed.program.launch import signals_end_at_once
with signals_end_at_once():
    print("loading", flush=True)
    try:
        sys.stdin.read()
    except BaseException:
        print("swallowed", flush=True)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_modules_load_ends_the_program_with_its_code(number, code):
    """No trace, no default action, nothing that an import could swallow."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", LOADING],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == b"loading\n"
    child.send_signal(number)
    out, error = child.communicate(timeout=60)
    assert (child.returncode, out, error) == (code, b"", b"")


def test_afterwards_signals_mean_what_they_meant():
    """A program has its own handlers then; a thread other than the main one can have none."""
    before = signal.getsignal(signal.SIGTERM)
    with signals_end_at_once():
        assert signal.getsignal(signal.SIGTERM) is not before
        thread = threading.Thread(target=_nothing)
        thread.start()
        thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def _nothing():
    with signals_end_at_once():
        pass
