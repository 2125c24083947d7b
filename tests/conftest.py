"""For every test: BLAS threads are pinned before NumPy loads, and nothing may be left behind."""

import sys
from collections.abc import Iterator
from pathlib import Path

if "numpy" in sys.modules:
    raise RuntimeError(
        "NumPy was loaded before the tests could pin its threads; remove the plugin that loads it"
    )

from edge_fed.program.launch import pin_threads

pin_threads()

import hypothesis  # noqa: E402 (after the pinning)
import pytest  # noqa: E402

from edge_fed import user_code  # noqa: E402
from tests import leaks  # noqa: E402

# The same examples on every machine, and no deadline: the cores are shared and noisy.
hypothesis.settings.register_profile("edge_fed", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("edge_fed")


@pytest.fixture(scope="session", autouse=True)
def _processwide() -> None:
    """Starts what lives as long as the process, so that no test is blamed for it."""
    leaks.watch_tasks()
    leaks.warm_up()


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Fails a test that leaves a task, thread, descriptor or child process."""
    before = leaks.take()
    yield
    left = leaks.find(before)
    if left:
        pytest.fail("the test left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def _tests_are_user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments and networks of the tests are named as a user's; programs refuse the folder `tests`.

    Where a test goes, there it would have started a program.
    """
    monkeypatch.setattr(user_code, "OURS", user_code.OURS - {"tests"})
    monkeypatch.setattr(user_code, "started_in", Path.cwd)
