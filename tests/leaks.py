"""What a test may not leave behind: asyncio tasks, threads, descriptors (sockets, files), child processes."""

import asyncio
import gc
import os
import threading
import time
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

GRACE_S = 2.0
DESCRIPTORS = "/proc/self/fd"

pending_tasks: list[str] = []
"""Tasks that were still pending when their loop was closed since the last `take`."""


class Snapshot(NamedTuple):
    """What this process held at one moment."""

    descriptors: frozenset[int]
    threads: frozenset[threading.Thread]
    has_children: bool


def take() -> Snapshot:
    """Looks at the process, and forgets tasks found pending before."""
    pending_tasks.clear()
    return _look()


def find(before: Snapshot, grace_s: float = GRACE_S) -> list[str]:
    """Describes what was left since ``before``; what is on its way out gets ``grace_s``.

    A leaked zmq socket shows as its descriptors.
    """
    deadline = time.monotonic() + grace_s
    _stop_resource_tracker()
    while (left := _difference(before, _look())) and time.monotonic() < deadline:
        gc.collect()
        threading.Event().wait(0.005)
    return [*pending_tasks, *left]


def watch_tasks() -> None:
    """From now on, closing an `asyncio.Runner` records tasks that nobody awaited or cancelled.

    Otherwise the runner cancels them in silence. pytest-asyncio and `asyncio.run` both use it.
    """
    close = asyncio.Runner.close

    def recording_close(runner: asyncio.Runner) -> None:
        try:
            loop = runner.get_loop()
        except RuntimeError:  # closed before
            return
        pending_tasks.extend(f"pending task {task!r}" for task in asyncio.all_tasks(loop))
        close(runner)

    asyncio.Runner.close = recording_close  # type: ignore[method-assign]


def warm_up() -> None:
    """Starts what lives until the process ends: pyzmq's thread that frees buffers sent without a copy."""
    import zmq

    with zmq.Context() as context, context.socket(zmq.PAIR) as left, context.socket(zmq.PAIR) as right:
        left.bind("inproc://warm-up")
        right.connect("inproc://warm-up")
        left.send(bytes(zmq.COPY_THRESHOLD + 1), copy=False)
        right.recv()


def _stop_resource_tracker() -> None:
    """Multiprocessing keeps one helper process until the end; while it lives no other child is seen."""
    if resource_tracker._resource_tracker._pid is not None:
        resource_tracker._resource_tracker._stop()


def _look() -> Snapshot:
    found = frozenset(number for number in map(int, os.listdir(DESCRIPTORS)) if _is_open(number))
    return Snapshot(found, frozenset(threading.enumerate()), _has_children())


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:  # the descriptor of the listing itself
        return False
    return True


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _difference(before: Snapshot, after: Snapshot) -> list[str]:
    left = [f"descriptor {number}: {_target(number)}" for number in after.descriptors - before.descriptors]
    left += [f"thread {thread.name!r}" for thread in after.threads - before.threads if thread.is_alive()]
    if after.has_children and not before.has_children:
        left.append(f"child processes {_children()}")
    return left


def _target(number: int) -> str:
    try:
        return os.readlink(f"{DESCRIPTORS}/{number}")
    except OSError:
        return "closed by now"


def _children() -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text().rsplit(")", 1)
        except OSError:
            continue
        if int(fields.split()[1]) == os.getpid():
            found.append(name.replace("(", ""))
    return found
