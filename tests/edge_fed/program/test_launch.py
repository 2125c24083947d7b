"""What every entry point does first."""

import subprocess
import sys

import pytest

from edge_fed.program.launch import PACKAGES, UNUSED

PREPARE = (
    "from edge_fed.program import launch; launch.prepare(); import os; print(os.environ['OMP_NUM_THREADS'])"
)


def test_threads_are_pinned_before_numpy_is_loaded():
    """Importing the launch module does not import NumPy, and prepare() sets one BLAS thread."""
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


@pytest.mark.parametrize("program", ["agent.__main__", "server.command_line"])
def test_a_program_loads_nothing_that_it_does_not_use(program):
    """Neither what libraries load because it is there nor the heavy extras; rich can be imported later."""
    loaded = "print(*{name.partition('.')[0] for name in sys.modules})"
    code = f"import sys; {PREPARE}; import {program}, agent.learner; {loaded}; import rich.progress, ssl"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert set(UNUSED) <= set(done.stdout.split())
    assert {*UNUSED.values(), "matplotlib", "scipy", "torch"}.isdisjoint(done.stdout.split())
