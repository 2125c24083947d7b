"""The leak check itself: it must be able to fail."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import leaks

pytest_plugins = ["pytester"]

LEAKING = """
    import asyncio, os, subprocess, sys, threading
    import zmq

    kept = []

    async def test_task():
        kept.append(asyncio.create_task(asyncio.Event().wait()))

    def test_task_of_run():
        async def main():
            kept.append(asyncio.create_task(asyncio.Event().wait()))
        asyncio.run(main())

    def test_thread():
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    def test_descriptor():
        kept.append(os.open(os.devnull, os.O_RDONLY))

    def test_socket():
        context = zmq.Context()
        kept.append((context, context.socket(zmq.PAIR)))

    def test_child():
        reading, writing = os.pipe()  # the child ends when this process does
        kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=reading))
        os.close(reading)

    async def test_clean():
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await asyncio.wait([task])
"""


def test_each_kind_of_leak_fails_its_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that leaks a task, thread, descriptor, zmq socket or child errors; a clean one passes.

    [wire 40]
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest(
        "import tests.leaks; tests.leaks.GRACE_S = 0.05; tests.leaks.find.__defaults__ = (0.05,)\n"
        "from tests.conftest import _no_leaks, _processwide"
    )
    pytester.makepyfile(LEAKING)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=7, errors=6)
    for what in ("pending task", "thread 'Thread-", "descriptor ", "child processes ["):
        assert what in result.stdout.str()


def test_finds_a_descriptor_by_its_target() -> None:
    """An open file is named by its path until it is closed."""
    before = leaks.take()
    number = os.open(os.devnull, os.O_RDONLY)
    assert leaks.find(before, 0) == [f"descriptor {number}: /dev/null"]
    os.close(number)
    assert leaks.find(before, 0) == []


def test_finds_a_thread_by_its_name() -> None:
    """A thread counts until it has ended."""
    before = leaks.take()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="left")
    thread.start()
    assert leaks.find(before, 0) == ["thread 'left'"]
    stop.set()
    thread.join()
    assert leaks.find(before, 0) == []


def test_finds_a_child_until_it_is_reaped() -> None:
    """A child counts, also as a zombie."""
    before = leaks.take()
    with subprocess.Popen([sys.executable, "-c", "pass"]):
        assert leaks.find(before, 0)[0].startswith("child processes [")
    assert leaks.find(before, 0) == []


def test_finds_a_pending_task_when_its_loop_closes() -> None:
    """[wire 49] A task that nobody awaited is recorded, once."""

    async def leave_a_task() -> None:
        tasks.append(asyncio.create_task(asyncio.Event().wait(), name="left"))

    tasks: list[asyncio.Task[object]] = []
    before = leaks.take()
    asyncio.run(leave_a_task())
    assert len(leaks.pending_tasks) == 1 and "left" in leaks.pending_tasks[0]
    assert leaks.find(leaks.take(), 0) == [] == leaks.find(before, 0)
