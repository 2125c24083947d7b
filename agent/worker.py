"""The one thread that computes, so that the event loop stays free to answer.

A daemon: a step that cannot be interrupted must not keep the program from ending. Work is stopped between
local steps; the newest work stops the one before it, whose result nobody sees.
"""

import queue
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agent import events as e
from agent.daily_budget import BudgetSpent
from edge_fed.errors import MissingData, UpdateRefused
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.user_code import UserCodeError

Progress = Callable[[int], None]


class Performer(Protocol):
    """Who knows how to do the work; see `agent.learner.Learner`."""

    def perform(self, work: e.Work, progress: "Watched") -> e.Event:
        """Does one piece of work."""
        ...


class Stopped(BaseException):
    """Raised inside work that nobody wants any more; no fault that code may catch and try again."""


class Watched:
    """What work calls between its parts; each call may end it.

    Args:
        began: Called with the number of each local step.
        told: Called with what is done within a step, for people.
        stop: Set when nobody wants the work any more.
        delay_s: Local step -> seconds to wait before it.
    """

    def __init__(
        self,
        began: Progress,
        told: Callable[[str], None],
        stop: threading.Event,
        delay_s: Callable[[int], float],
    ) -> None:
        self.say = told
        self._began = began
        self._stop = stop
        self._delay_s = delay_s

    def __call__(self, step: int) -> None:
        """Local step number ``step`` begins.

        Raises:
            Stopped: Nobody wants the work any more.
        """
        self._began(step)
        self.pause(self._delay_s(step))

    def pause(self, seconds: float) -> None:
        """Waits so long, or 0 s.

        Raises:
            Stopped: Nobody wants the work any more.
        """
        if self._stop.is_set() or (seconds and self._stop.wait(seconds)):
            raise Stopped


class Worker:
    """Runs work in its thread and delivers what comes of it.

    Attributes:
        progress: Local steps done in the current work.
        says: What it does within a step, for people; empty: it does not say.
        delay_s: Added to each local step: this device is slower than it is.
        response_s: Round -> seconds before work on its update begins.

    Args:
        make: Makes the performer, in the thread: its imports take a while.
        deliver: Called in the thread with each event.
        ended: Called in the thread at its very end.
    """

    def __init__(
        self,
        make: Callable[[], Performer],
        deliver: Callable[[e.Event], None],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.progress = 0
        self.says = ""
        self.delay_s = 0.0
        self.response_s: Callable[[int], float] = lambda _round: 0.0
        self._make = make
        self._deliver = deliver
        self._ended = ended
        self._queue: queue.SimpleQueue[tuple[e.Work, threading.Event] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    @property
    def alive(self) -> bool:
        """The thread still runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, work: e.Work) -> None:
        """Stops the current work and does this one next."""
        self.stop()
        self._stop = threading.Event()
        self._queue.put((work, self._stop))

    def stop(self) -> None:
        """Stops the current work, and whatever waits."""
        self._stop.set()

    def close(self) -> None:
        """Ends the thread after the current local step; does not wait for it."""
        self.stop()
        self._queue.put(None)

    def join(self, timeout_s: float) -> bool:
        """Waits for the thread's end after `close`; False: it still runs."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            performer: Performer | BaseException
            try:
                performer = self._make()  # before there is work: its imports take as long as connecting
            except BaseException as error:
                performer = error
            while (item := self._queue.get()) is not None:
                work, stop = item
                if not stop.is_set():
                    self._perform(performer, work, stop)
        finally:
            self._ended()

    def _perform(self, performer: Performer | BaseException, work: e.Work, stop: threading.Event) -> None:
        try:
            if isinstance(performer, BaseException):
                raise performer
            event = performer.perform(work, self._watch(work, stop))
        except Stopped:
            return
        except BudgetSpent as error:
            event = e.Spent(work.number, str(error), error.for_s)
        except BaseException as error:  # also sys.exit in a user's code: a thread must not end in silence
            event = failure(work, error)
        if not stop.is_set():
            self._deliver(event)

    def _watch(self, work: e.Work, stop: threading.Event) -> Watched:
        response_s = self.response_s(work.round) if isinstance(work, e.Train) else 0.0
        self._began(0)
        self._told("")

        def delay_s(step: int) -> float:
            return self.delay_s + (response_s if step == 0 else 0.0) if isinstance(work, e.Train) else 0.0

        return Watched(self._began, self._told, stop, delay_s)

    def _began(self, step: int) -> None:
        self.progress = step

    def _told(self, text: str) -> None:
        self.says = text


def failure(work: e.Work, error: BaseException) -> e.Failed:
    """What an exception in work means for the agent; call it where the exception is handled."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, UpdateRefused):
        return e.Failed(work.number, f"{name}: {text}", refused=True)
    if isinstance(error, ProgramError):
        return e.Failed(work.number, error.message, error.code, hint=error.hint)
    where = traceback.extract_tb(error.__traceback__)[-1]
    why = f"{name}: {text} (at {Path(where.filename).name}:{where.lineno})"
    if isinstance(work, e.Build):
        if isinstance(error, MissingData):
            hint = "each agent has its own data: EDGE_FED_DATA, or --env-arg folder=PATH, says where"
            return e.Failed(work.number, text, ExitCode.REFUSED, hint=hint)
        hint = "install the same edge_fed on both sides"
        if isinstance(error, UserCodeError):
            hint = (
                "it is the run's own code: mend its file, and start this agent in the folder where that lies"
            )
            return e.Failed(work.number, f"{name}: {text}", ExitCode.REFUSED, hint=hint)
        return e.Failed(work.number, why, ExitCode.REFUSED, trace=traceback.format_exc(), hint=hint)
    if isinstance(error, UserCodeError):
        hint = "it is the run's own code: mend its file"
        return e.Failed(work.number, text, trace=traceback.format_exc(), hint=hint)
    return e.Failed(work.number, why, trace=traceback.format_exc())
