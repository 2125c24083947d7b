"""Onboarding as lists of events: what is handed out, when, to how many at once, and who is waited for."""

import numpy as np
import pytest

from edge_fed.params import crc32
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from server.ledger import Resume
from server.onboarding import MOST_REPORTS, Onboarding
from tests.server.fleet import FakeAgent, Fleet, config, measured_row


def guest(fleet: Fleet, goal: int, at: str = "final", round_: int = 0) -> FakeAgent:
    """An onboarder that has asked for its initialization."""
    agent = fleet.agent(goal)
    agent.register(role="onboard")
    agent.ready()
    agent.send(m.Onboard(at=at, round=round_))  # type: ignore[arg-type]
    return agent


def report(agent: FakeAgent, value: float = 1.0) -> None:
    """The onboarder's rows."""
    row = measured_row(agent.agent, value)
    agent.send(m.Report(kind="onboarding", round=agent.last(m.Init).round, rows=(row,), trajectories=5))


def play(fleet: Fleet, rounds: int) -> None:
    """All trainers answer for some rounds."""
    for _ in range(rounds):
        for agent in fleet.agents:
            if agent.count(m.Theta):
                agent.update()


def test_the_final_initialization_waits_for_the_last_round() -> None:
    """An onboarder that comes early is told how far the run is, and served after round K."""
    fleet = Fleet(config(rounds=4))
    fleet.started(0, 1, 2)
    early = guest(fleet, 5)
    fleet.now += 2.0
    play(fleet, 2)
    early.beat()
    assert early.count(m.Init) == 0
    assert early.last(m.Heartbeat).message == "round 2 of 4 is done, about 2 s left"
    play(fleet, 2)
    init = early.last(m.Init)
    assert (init.round, init.final) == (4, True)
    assert init.crc32 == crc32(fleet.saved[-1].params)
    assert np.array_equal(early.tensors["params"], fleet.saved[-1].params)


def test_now_is_the_newest_committed_round() -> None:
    """Parameters that a crash could take back are given to nobody."""
    fleet = Fleet(config(rounds=4), commits=False)
    fleet.event(e.Committed(0))
    fleet.started(0, 1, 2)
    play(fleet, 1)
    early = guest(fleet, 5, "now")
    assert early.count(m.Init) == 0
    fleet.event(e.Committed(1))
    assert (early.last(m.Init).round, early.last(m.Init).final) == (1, False)


def test_an_earlier_round_is_read_from_its_checkpoint() -> None:
    """And one that is not kept is refused by name."""
    fleet = Fleet(config(rounds=4))
    fleet.started(0, 1, 2)
    play(fleet, 3)
    first, second = guest(fleet, 5, "round", 1), guest(fleet, 6, "round", 2)
    assert [load.round for load in fleet.of(e.Load)] == [1, 2]
    params = np.full(first.server.machine.room.admission.dimension, 0.25)
    fleet.event(e.Loaded(1, params))
    assert first.last(m.Init).round == 1
    assert np.array_equal(first.tensors["params"], params)
    fleet.event(e.Loaded(2, None))
    assert second.last(m.Shutdown).outcome == "failed"
    assert "round 2" in second.last(m.Shutdown).reason


def test_a_damaged_checkpoint_is_called_damaged() -> None:
    """To each who asks; what is wrong with it is logged once, however many ask and however often."""
    fleet = Fleet(config(rounds=4))
    fleet.started(0, 1, 2)
    play(fleet, 3)
    for goal in (5, 6):
        asks = guest(fleet, goal, "round", 1)
        fleet.event(e.Loaded(1, None, "no hash fits"))
        assert asks.last(m.Error).message == asks.last(m.Shutdown).reason
        assert "round 1 is damaged" in asks.last(m.Error).message and "--at" in asks.last(m.Error).message
    logged = [(log.level, log.text) for log in fleet.of(e.Log) if "no hash fits" in log.text]
    assert logged == [("error", "the checkpoint of round 1 is damaged: no hash fits")]


def test_a_round_that_the_run_does_not_have_is_refused() -> None:
    """Nobody waits for round 9 of 4."""
    fleet = Fleet(config(rounds=4))
    early = guest(fleet, 5, "round", 9)
    refusal = early.last(m.Error).message
    assert "no round 9;" in refusal and "0 (untrained) to 4" in refusal and "--at" in refusal
    assert early.last(m.Shutdown).reason == refusal
    assert isinstance(early.inbox[-1], m.Shutdown)


def test_the_server_waits_for_announced_and_connected_onboarders() -> None:
    """Goal 5 was announced and has not come, goal 6 came unannounced: both are due."""
    fleet = Fleet(config(onboard="5"))
    fleet.started(0, 1, 2)
    stranger = guest(fleet, 6)
    play(fleet, 2)
    fleet.evaluate()
    fleet.wait(1.0)
    assert fleet.of(e.Wait)[-1].missing == (5, 6)
    announced = guest(fleet, 5)
    report(announced)
    assert not fleet.of(e.Exit)
    report(stranger)
    assert fleet.exit.code == ExitCode.OK
    assert [row["goal"] for row in fleet.machine.course.hosting.onboarding.rows()] == [5, 6]


def test_an_announced_goal_that_was_measured_in_between_is_waited_for_again() -> None:
    """What is announced is measured after the last round; an earlier report of the goal is another one."""
    fleet = Fleet(config(rounds=2, onboard=(5,)))
    fleet.started(0, 1, 2)
    play(fleet, 1)
    early = guest(fleet, 5, "now")
    report(early)
    early.send(m.Bye())
    play(fleet, 1)
    fleet.evaluate()
    assert not fleet.of(e.Exit)
    report(guest(fleet, 5))
    assert fleet.exit.code == ExitCode.OK


def test_onboarders_that_never_come_are_waited_for_until_the_deadline() -> None:
    """The run is complete all the same; the missing goals are named."""
    fleet = Fleet(config(onboard="5-6", join_deadline_s=30.0))
    fleet.started(0, 1, 2)
    play(fleet, 2)
    fleet.evaluate()
    fleet.wait(31.0)
    assert fleet.exit.code == ExitCode.OK
    assert "goals 5, 6" in fleet.exit.why


def test_a_server_that_serves_stays_after_the_last_report() -> None:
    """New onboarders come for ever."""
    fleet = Fleet(serve=True)
    fleet.started(0, 1, 2)
    play(fleet, 2)
    fleet.evaluate()
    assert fleet.machine.course.phase == "serving"
    late = guest(fleet, 0)
    report(late)
    late.send(m.Bye())
    fleet.wait(1000.0)
    assert not fleet.of(e.Exit)


def test_a_training_goal_that_arrives_after_the_last_round_onboards() -> None:
    """There is nothing left to train."""
    fleet = Fleet(serve=True)
    fleet.started(0, 1, 2)
    play(fleet, 2)
    fleet.evaluate()
    late = fleet.agent(1)
    late.register()
    assert late.last(m.Welcome).role == "onboard"


def test_a_report_is_idempotent() -> None:
    """A resend is recorded once; corrected rows replace the earlier ones."""
    fleet = Fleet(serve=True)
    fleet.started(0, 1, 2)
    play(fleet, 2)
    fleet.evaluate()
    one = guest(fleet, 5)
    report(one)
    report(one)
    assert len(fleet.told("report")) == 1
    report(one, 2.0)
    assert [row["return"] for row in fleet.machine.course.hosting.onboarding.rows()] == [2.0]


def test_a_lost_init_is_sent_again() -> None:
    """After two heartbeats that do not show it at work; not to one that onboards."""
    fleet = Fleet(serve=True)
    fleet.started(0, 1, 2)
    play(fleet, 2)
    fleet.evaluate()
    one = guest(fleet, 5)
    one.beat("onboarding")
    fleet.wait(3.0)
    one.beat("onboarding")
    assert one.count(m.Init) == 1
    one.beat("idle")
    assert one.count(m.Init) == 2


def test_a_lost_onboarder_is_no_longer_waited_for() -> None:
    """Its lease ends; it was not announced."""
    fleet = Fleet()
    fleet.started(0, 1, 2)
    guest(fleet, 5)
    play(fleet, 2)
    fleet.evaluate()
    assert not fleet.of(e.Exit)
    fleet.wait(6.0)
    assert fleet.exit.code == ExitCode.OK


class Guest:
    """What `Onboarding` reads of a member."""

    def __init__(self, number: int) -> None:
        self.incarnation = bytes([number])
        self.agent = number
        self.phase = "idle"
        self.given: set[int] = set()


@pytest.mark.parametrize(("size", "at_once"), [(1024, 5), (4 * 1024 * 1024, 2)])
def test_at_most_two_bulk_transfers_run_at_once(size: int, at_once: int) -> None:
    """The others are told their place, and follow as transfers end; small vectors go out at once."""
    onboarding = Onboarding((), size)
    guests = [Guest(k) for k in range(5)]
    for one in guests:
        onboarding.ask(one, m.Onboard(at="final"))  # type: ignore[arg-type]
    served = onboarding.servable(3, 3, 0.0)
    assert served == [(bytes([k]), 3) for k in range(at_once)]
    for one in guests[:at_once]:
        onboarding.sent(one, 3, 0.0)  # type: ignore[arg-type]
    if at_once == 5:
        return
    assert onboarding.servable(3, 3, 0.1) == []
    assert [onboarding.place(one) for one in guests] == [None, None, 0, 1, 2]  # type: ignore[arg-type]
    guests[0].phase = "onboarding"
    onboarding.lacks(guests[0])  # type: ignore[arg-type]
    assert onboarding.servable(3, 3, 0.2) == [(b"\x02", 3)]
    assert len(onboarding.servable(3, 3, onboarding.due())) == 2


@pytest.mark.parametrize(
    ("round_", "goal", "why"),
    [
        (0, 7, "row 0: it is of goal 7"),
        (99, 5, "there is no round 99; the last one is 2"),
        (2, 5, "this session was never given the parameters of round 2"),
    ],
)
def test_an_onboarder_speaks_for_its_own_goal_and_of_rounds_that_exist(
    round_: int, goal: int, why: str
) -> None:
    """Anything else is refused by name and stands nowhere."""
    fleet = Fleet(config(rounds=2, onboard=(5, 7)), serve=True)
    fleet.started(0, 1, 2)
    agent = guest(fleet, 5, "now")
    assert agent.last(m.Init).round == 0
    rows = (measured_row(goal, -99.0),)
    agent.send(m.Report(kind="onboarding", round=round_, rows=rows, trajectories=5))
    ack = agent.last(m.Ack)
    assert (ack.of, ack.outcome) == ("onboarding", "refused") and why in ack.reason
    assert not fleet.machine.course.hosting.onboarding.rows()


def test_reports_without_end_take_no_memory_and_no_patience() -> None:
    """A few of a session are taken; the same one again is no news, and does not put the end off."""
    fleet = Fleet(config(rounds=0, onboard=(5, 7), join_deadline_s=30.0))
    fleet.started(0, 1, 2)
    agent = guest(fleet, 5)
    for value in range(20):
        report(agent, float(value))
    assert [ack.outcome for ack in agent.inbox if isinstance(ack, m.Ack)] == ["held"] * 8 + ["refused"] * 12
    assert len(fleet.of(e.Evaluation)) == 1 + 8
    until = fleet.machine.room.watch.until
    fleet.now += 10.0
    report(agent, 7.0)  # the newest that was taken, sent again
    assert agent.last(m.Ack).outcome == "held"
    assert fleet.machine.room.watch.until == until


def test_reports_of_one_goal_are_bounded_in_the_life_of_a_run() -> None:
    """Not of a session alone: whoever registers again and again fills neither memory nor disk."""
    fleet = Fleet(config(rounds=0, onboard=(7,)), serve=True)
    fleet.started(0, 1, 2)
    for session in range(40):
        agent = guest(fleet, 5)
        for value in range(8):
            report(agent, float(8 * session + value))
        agent.send(m.Bye())
    taken = [
        row for row in (command.row for command in fleet.of(e.Evaluation)) if row["kind"] == "onboarding"
    ]
    assert len(taken) == MOST_REPORTS
    refused = agent.last(m.Ack)
    assert refused.outcome == "refused"
    assert refused.reason == f"{MOST_REPORTS} reports of goal 5 were taken in this run already"
    other = guest(fleet, 7)
    report(other)
    assert other.last(m.Ack).outcome == "held"


def test_reports_of_an_earlier_process_count_as_well() -> None:
    """A restart of the server gives nobody another 256."""
    line = {"kind": "onboarding", "round": 0, "agent": 5, "trajectories": 0, "rows": []}
    reports = tuple({**line, "incarnation": f"{number:032x}"} for number in range(MOST_REPORTS))
    resume = Resume(reports=reports, evaluated=frozenset({0}))
    fleet = Fleet(config(rounds=0), serve=True, resume=resume)
    fleet.started(0, 1, 2)
    agent = guest(fleet, 5)
    report(agent)
    assert agent.last(m.Ack).outcome == "refused"


def skip_until_the_end(fleet: Fleet) -> None:
    """Nobody can train: three rounds are skipped."""
    for _ in range(3):
        for agent in fleet.agents:
            if agent.count(m.Theta):
                agent.send(m.Error(code="internal", message="x"))


def test_a_run_that_fails_waits_for_onboarders_that_are_at_work() -> None:
    """One holds its initialization, one is about to ask, one waits for a round that never comes."""
    fleet = Fleet(config(rounds=20, onboard="7", quarantine_after="off"))
    fleet.started(0, 1, 2)
    early, late, announced = guest(fleet, 5, "now"), fleet.agent(6), guest(fleet, 7)
    late.join(role="onboard")
    skip_until_the_end(fleet)
    fleet.wait(1.0)
    assert fleet.of(e.Wait)[-1].missing == (5, 6)
    assert fleet.of(e.Wait)[-1].what == "reports of onboarders"
    late.send(m.Onboard(at="final"))  # so it waits in vain, too
    assert not fleet.of(e.Exit)
    early.beat("onboarding")
    assert "about" not in early.last(m.Heartbeat).message
    report(early)
    assert fleet.exit.code == ExitCode.QUORUM
    assert fleet.exit.why == "3 rounds in a row had too few updates"
    assert {early.last(m.Shutdown).outcome, announced.last(m.Shutdown).outcome} == {"failed"}
    assert [row["goal"] for row in fleet.machine.course.hosting.onboarding.rows()] == [5]


def test_a_run_that_fails_waits_no_longer_than_for_agents_to_join() -> None:
    """An onboarder that never reports, or goes away, does not keep the run from its end."""
    for leaves in (True, False):
        settings = config(rounds=20, quarantine_after="off", join_deadline_s=3.0, lease_s=60.0)
        fleet = Fleet(settings, serve=True)
        fleet.started(0, 1, 2)
        early = guest(fleet, 5, "now")
        skip_until_the_end(fleet)
        assert not fleet.of(e.Exit)
        if leaves:
            early.send(m.Bye())
        else:
            fleet.wait(4.0)
        assert (fleet.exit.code, fleet.exit.outcome) == (ExitCode.QUORUM, "failed")


def test_a_run_that_fails_is_stopped_as_one_that_did_not_finish() -> None:
    """A signal while it waits for reports: no success, whatever --serve says."""
    fleet = Fleet(config(rounds=20, quarantine_after="off"), serve=True)
    fleet.started(0, 1, 2)
    guest(fleet, 5, "now")
    skip_until_the_end(fleet)
    fleet.event(e.Stop("SIGTERM", ExitCode.TERMINATED))
    assert (fleet.exit.code, fleet.exit.outcome) == (ExitCode.TERMINATED, "stopped")
