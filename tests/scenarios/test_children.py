"""What one step changes of who runs and who is there; the order of steps is in `test_director`."""

import pytest

from scenarios.actions import SERVER, Disturb, Doom, Kill, Mend, Pause, Resume, Start, Step, UntilLost
from scenarios.children import Children
from scenarios.orders import Note, Order, StartServer
from scenarios.proxy.rules import Rule

AGENT = "agent-3"
FREEZE, DROP = Rule(kind="freeze"), Rule(kind="drop", chance=0.1)


def running(*steps: Step) -> Children:
    """A server and an agent that is ready, after these steps."""
    children = Children()
    children.alive.add(SERVER)
    children.start(Start(AGENT, 3), [])
    children.ready.add(AGENT)
    for step in steps:
        assert children.do(step, 0.0, [])
    return children


def ordered(children: Children, step: Step, now: float = 0.0) -> list[Order]:
    """The orders of one step."""
    orders: list[Order] = []
    children.do(step, now, orders)
    return orders


@pytest.mark.parametrize("step", [Kill("agent-4"), Pause("agent-4"), Resume("agent-4")])
def test_who_does_not_run_gets_no_signal(step: Step) -> None:
    """Its process may have ended by itself: a line for people, no order."""
    (note,) = ordered(running(), step)
    assert isinstance(note, Note)
    assert note.text == f"agent-4 is not running: no {type(step).__name__.lower()}"


@pytest.mark.parametrize(
    ("step", "waited_for"),
    [(Pause(AGENT), False), (Disturb(AGENT, FREEZE), False), (Disturb(AGENT, DROP), True)],
    ids=["paused", "silenced", "disturbed"],
)
def test_nobody_waits_for_an_agent_that_cannot_be_heard(step: Step, waited_for: bool) -> None:
    """A stopped program, or a way on which nothing passes; a way that loses a little is no reason."""
    children = running(step)
    children.ready.clear()
    assert children.missing == ([AGENT] if waited_for else [])
    assert children.in_place is not waited_for


def test_a_boundary_waits_for_the_server_itself() -> None:
    """While it is down, nobody is in place."""
    children = running(Kill(SERVER))
    assert not children.in_place


def test_a_fault_that_has_ended_is_not_ended_again() -> None:
    """One of two, then the other by the end of all; then there is nothing to mend."""
    children = running(Disturb(AGENT, FREEZE), Disturb(AGENT, DROP))
    assert ordered(children, Mend(AGENT, FREEZE))[0] == Mend(AGENT, FREEZE)
    assert ordered(children, Mend(AGENT, FREEZE)) == []
    assert ordered(children, Mend(AGENT))[0] == Mend(AGENT)
    assert ordered(children, Mend(AGENT)) == []


def test_timers_ring_once_in_the_order_in_which_they_were_set() -> None:
    """A server that starts again at the time of its own resumption is there to be resumed."""
    children = running(Kill(SERVER))
    start = StartServer((5,), resume=True)
    children.timers.append((2.0, start))
    children.do(Resume(SERVER, after_s=1.5), 0.5, [])
    orders: list[Order] = []
    children.ring(1.9, orders)
    assert orders == []
    children.ring(2.0, orders)
    children.ring(3.0, orders)
    assert orders == [start, Resume(SERVER)]


def test_a_death_is_scripted_once() -> None:
    """The next one of the same child is an accident."""
    children = running(Doom(AGENT))
    assert children.ended(AGENT)
    children.start(Start(AGENT, 3), [])
    assert not children.ended(AGENT)


def test_an_end_is_waited_for_from_its_first_asking() -> None:
    """Patience counts from there; after the kill the child is doomed."""
    children = running()
    until = UntilLost(AGENT, 5.0)
    assert ordered(children, until, 10.0) == []
    assert ordered(children, until, 14.9) == []
    assert ordered(children, until, 15.0)[-1] == Kill(AGENT)
    assert children.ended(AGENT)
    assert not children.do(until, 16.0, []), "the server has not missed it yet"
    children.ready.discard(AGENT)
    assert children.do(until, 16.0, [])


def test_onboarders_of_one_goal_are_told_apart_by_who_is_ready() -> None:
    """The server knows them by goal and role alone."""
    children = running()
    for name in ("onboard-3-0", "onboard-3-1", "onboard-30"):
        children.start(Start(name, 3, onboard=True), [])
    assert children.behind("3", "train") == AGENT
    assert children.behind("3", "onboard") == "onboard-3-0"
    children.ready.add("onboard-3-0")
    assert children.behind("3", "onboard") == "onboard-3-1"
    children.ready.add("onboard-3-1")
    assert children.behind("3", "onboard") == "onboard-3", "number 30 is another goal's"
    assert children.behind("7", "onboard") == "onboard-7"
