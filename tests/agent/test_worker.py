"""The worker thread: newest work wins, stops between steps, and says what went wrong."""

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from agent import events as e
from agent.daily_budget import BudgetSpent
from agent.worker import Performer, Stopped, Watched, Worker
from edge_fed.errors import MissingData, NonFinite, UnknownGoal
from edge_fed.program.exit_codes import ExitCode
from edge_fed.user_code import UserCodeError


class Steps:
    """Trains for as many steps as the round's number, and tells when it begins each."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self.go_on = threading.Semaphore(0)
        self.error: BaseException | None = None

    def perform(self, work: e.Work, progress: Any) -> e.Event:
        """Steps; each waits for the test's permission."""
        if self.error:
            raise self.error
        assert isinstance(work, e.Train)
        for step in range(work.round):
            progress(step)
            self.begun.put((work.number, step))
            self.go_on.acquire(timeout=10)
        return e.Trained(work.number, work.params, 0, 1, 1, {})


class Bench:
    """A worker, its steps, and what it delivered."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.delivered: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
        self.ended = threading.Event()
        self.worker = Worker(lambda: self.steps, self.delivered.put, self.ended.set)
        self.worker.start()

    def train(self, number: int, steps: int) -> None:
        """Submits work of so many steps."""
        self.worker.submit(e.Train(number, steps, np.zeros(1)))


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A running worker that is closed afterwards."""
    made = Bench()
    yield made
    made.worker.close()
    made.steps.go_on.release(100)
    assert made.worker.join(10)


def test_results_are_delivered_with_their_number(bench: Bench) -> None:
    """Work in, its event out; progress counts the steps."""
    bench.train(1, 2)
    bench.steps.go_on.release(2)
    event = bench.delivered.get(timeout=10)
    assert isinstance(event, e.Trained) and event.number == 1
    assert bench.worker.progress == 1


def test_newer_work_stops_older_work_between_steps(bench: Bench) -> None:
    """The replaced work ends at its next step and delivers nothing."""
    bench.train(1, 1000)
    assert bench.steps.begun.get(timeout=10) == (1, 0)
    bench.train(2, 1)
    bench.steps.go_on.release(2)
    event = bench.delivered.get(timeout=10)
    assert isinstance(event, e.Trained) and event.number == 2
    assert bench.steps.begun.get(timeout=10) == (2, 0) and bench.steps.begun.empty()


def test_work_that_was_replaced_before_it_began_is_skipped(bench: Bench) -> None:
    """Of work that piles up only the newest is done."""
    bench.train(1, 1)
    assert bench.steps.begun.get(timeout=10) == (1, 0)
    bench.train(2, 1)
    bench.train(3, 1)
    bench.steps.go_on.release(3)
    assert bench.steps.begun.get(timeout=10) == (3, 0)
    event = bench.delivered.get(timeout=10)
    assert isinstance(event, e.Trained) and event.number == 3


def test_the_delay_of_a_slow_device_is_interruptible(bench: Bench) -> None:
    """A step that is delayed by an hour ends at once when it is stopped."""
    bench.worker.delay_s = 3600.0
    bench.train(1, 5)
    bench.worker.close()
    assert bench.worker.join(10) and bench.ended.is_set() and bench.delivered.empty()


@pytest.mark.parametrize(
    ("work", "error", "code", "refused"),
    [
        (e.Train(1, 1, np.zeros(1)), NonFinite("step 2"), ExitCode.FAILED, True),
        (e.Train(1, 1, np.zeros(1)), KeyError("x"), ExitCode.FAILED, False),
        (e.Train(1, 1, np.zeros(1)), SystemExit(0), ExitCode.FAILED, False),
        (e.Train(1, 1, np.zeros(1)), KeyboardInterrupt("a plant's own"), ExitCode.FAILED, False),
        (e.Build(1, {}, b""), UnknownGoal("goals 0 to 8"), ExitCode.REFUSED, False),
    ],
)
def test_errors_become_events(
    work: e.Work, error: BaseException, code: ExitCode, refused: bool, bench: Bench
) -> None:
    """A refused step is no defect; a bug comes with place and trace; a build that fails is a refusal."""
    bench.steps.error = error
    bench.worker.submit(work)
    event = bench.delivered.get(timeout=10)
    assert isinstance(event, e.Failed)
    assert (event.number, event.code, event.refused) == (1, code, refused)
    assert type(error).__name__ in event.why and str(error) in event.why
    assert ("Traceback" in event.trace) is not refused and ("test_worker.py:" in event.why) is not refused


def test_a_fault_in_the_runs_own_code_points_to_its_file(bench: Bench) -> None:
    """No place in edge_fed, and no advice to install it: the user's file is to be mended."""
    bench.steps.error = UserCodeError("there is no mynet.py in the folder where this program was started")
    bench.worker.submit(e.Build(1, {}, b""))
    event = bench.delivered.get(timeout=10)
    assert isinstance(event, e.Failed) and event.code is ExitCode.REFUSED
    assert event.why == "UserCodeError: there is no mynet.py in the folder where this program was started"
    assert "mend its file" in event.hint


def test_data_that_are_not_there_are_the_agent_s_to_name(bench: Bench) -> None:
    """No other version of edge_fed would help: the hint says where a folder is named."""
    bench.steps.error = MissingData("no folder")
    bench.worker.submit(e.Build(1, {}, b""))
    event = bench.delivered.get(timeout=10)
    assert isinstance(event, e.Failed) and event.why == "no folder" and event.code is ExitCode.REFUSED
    assert "EDGE_FED_DATA" in event.hint and not event.trace


@pytest.mark.parametrize("kind", [ImportError, SystemExit])
def test_a_performer_that_cannot_be_made_fails_the_first_work(kind: type[BaseException]) -> None:
    """An import that fails in the thread reaches the agent as an event, not as a dead thread."""

    def make() -> Performer:
        raise kind("no module named torch")

    delivered: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
    worker = Worker(make, delivered.put)
    worker.start()
    worker.submit(e.Build(1, {}, b""))
    event = delivered.get(timeout=10)
    worker.close()
    assert isinstance(event, e.Failed) and "no module named torch" in event.why
    assert worker.join(10)


def test_a_slow_response_is_waited_for_before_the_first_step_alone() -> None:
    """An hour before step 0, nothing before the others; it ends at once when the work is stopped."""
    first: queue.SimpleQueue[int] = queue.SimpleQueue()

    class From:
        """Trains from the step that its round names to step 2."""

        def perform(self, work: e.Work, progress: Any) -> e.Event:
            """Steps."""
            assert isinstance(work, e.Train)
            first.put(work.round)
            for step in range(work.round, 3):
                progress(step)
            return e.Trained(work.number, work.params, 0, 1, 1, {})

    delivered: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
    worker = Worker(From, delivered.put)
    worker.response_s = lambda _round: 3600.0
    worker.start()
    worker.submit(e.Train(1, 0, np.zeros(1)))
    assert first.get(timeout=10) == 0
    worker.submit(e.Train(2, 1, np.zeros(1)))
    event = delivered.get(timeout=10)
    worker.close()
    assert isinstance(event, e.Trained) and event.number == 2
    assert worker.join(10) and delivered.empty()


def test_work_waits_and_says_where_it_is_until_nobody_wants_it() -> None:
    """An hour's pause in the middle of a step ends at once; newer work has said nothing yet."""

    class Paced:
        """Says something and waits."""

        def perform(self, work: e.Work, progress: Any) -> e.Event:
            """Waits for an hour, unless it is work number 2."""
            said.put(worker.says)
            progress.say(f"step {work.number}")
            said.put(worker.says)
            progress.pause(0.0)
            if work.number == 1:
                progress.pause(3600.0)
            raise BudgetSpent("the day is spent", 60.0)

    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    delivered: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
    worker = Worker(Paced, delivered.put)
    worker.start()
    worker.submit(e.Train(1, 1, np.zeros(1)))
    assert [said.get(timeout=10) for _ in range(2)] == ["", "step 1"]
    worker.submit(e.Train(2, 1, np.zeros(1)))
    assert [said.get(timeout=10) for _ in range(2)] == ["", "step 2"]
    assert delivered.get(timeout=10) == e.Spent(2, "the day is spent", 60.0)
    worker.close()
    assert worker.join(10) and delivered.empty()


def test_code_that_tries_again_whatever_fails_cannot_try_a_stop_again() -> None:
    """A user's variant that catches every Exception of its samples still ends with the work it is part of."""
    stop, tries = threading.Event(), 0
    watched = Watched(lambda _step: None, lambda _text: None, stop, lambda _step: 0.0)

    def stubborn() -> None:
        nonlocal tries
        for _ in range(3):
            tries += 1
            with contextlib.suppress(Exception):
                watched.pause(0.0)

    stubborn()
    assert tries == 3
    stop.set()
    with pytest.raises(Stopped):
        stubborn()
    assert tries == 4
