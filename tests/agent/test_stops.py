"""Signals that end a life: the first is noted and ends waits, a second one soon after is its echo."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from agent.stops import Signalled, Stops


@pytest.fixture
def stops() -> Iterator[Stops]:
    """Within the block."""
    with Stops() as found:
        yield found


def test_without_a_signal_a_wait_is_one(stops: Stops) -> None:
    """It returns, of whatever length it is."""
    for seconds in (-1.0, 0.0, 1e-4):
        stops.pause(seconds)
    assert stops.number == 0


def test_a_signal_before_a_wait_ends_it_at_once(stops: Stops) -> None:
    """Also one of 0 s, and every later one; which signal it was is known."""
    os.kill(os.getpid(), signal.SIGTERM)
    for seconds in (0.0, 1e9):
        with pytest.raises(Signalled):
            stops.pause(seconds)
    assert stops.number == signal.SIGTERM


def test_a_signal_ends_a_wait_that_has_begun(stops: Stops) -> None:
    """A wait of a day ends when the signal comes."""
    main = threading.get_ident()
    other = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGINT))
    other.start()
    with pytest.raises(Signalled):
        stops.pause(86_400.0)
    other.join()
    assert stops.number == signal.SIGINT


def test_the_second_signal_of_timeout_is_no_second_order(stops: Stops) -> None:
    """`timeout` signals the program, then its group: the first order stands."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stops.number == signal.SIGTERM


def test_afterwards_signals_are_as_before() -> None:
    """Whoever comes next finds its own handlers, and no pipe is left."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    open_before = len(os.listdir("/proc/self/fd"))
    with Stops():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_signal_that_is_heeded_in_time_ends_nothing() -> None:
    """The thread that waits for that is gone afterwards, with its pipe; the next wake-up is nobody's."""
    threads, open_before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with Stops(heed_s=1e6) as stops:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Signalled):
                stops.pause(1e9)
    with Stops(heed_s=1e6):
        pass
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, open_before)
    assert signal.set_wakeup_fd(-1) == -1


HANGS = {
    "in Python": "threading.Event().wait()",
    "in foreign code": "lock = ctypes.CDLL(None).pthread_mutex_lock; it = bytes(64); lock(it); lock(it)",
}


@pytest.mark.processes
@pytest.mark.parametrize("where", HANGS)
def test_what_never_returns_is_ended_by_one_signal(where: str) -> None:
    """Of a plant; with the signal's code, and a line that says that nothing was closed."""
    code = (
        "import ctypes, os, signal, threading; from agent.stops import Stops\n"
        "with Stops(heed_s=0.01):\n"
        "    threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        f"    {HANGS[where]}\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 143
    assert (
        done.stderr == "error: the step did not return within 0.01 s of the signal: ended without close()\n"
    )


@pytest.mark.processes
def test_a_second_signal_ends_at_once() -> None:
    """With its code, although the program does something else than wait."""
    code = (
        "import os, signal, sys; from agent import stops; stops.time.monotonic = iter((0.0, 9.0)).__next__\n"
        "with stops.Stops():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    sys.exit(0)\n"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 143
