"""The course of a run as lists of events: joining, holds, evaluation, the end, stops."""

import pytest

from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from server.causes import STOPS
from server.ledger import Book, Ledger, Resume
from tests.server.fleet import Fleet, config, measured_row


def test_the_wait_for_agents_is_named_within_two_seconds_and_on_every_change() -> None:
    """[complaints 3] Who is missing, the time left and what happens then."""
    fleet = Fleet(config(join_deadline_s=100.0))
    fleet.wait(1.9)
    (first,) = fleet.of(e.Wait)
    assert (first.missing, first.what) == ((0, 1, 2), "3 training agents")
    assert first.left_s == 99.5
    fleet.join(1)
    assert fleet.of(e.Wait)[-1].missing == (0, 2)
    fleet.wait(11.0)
    assert len(fleet.of(e.Wait)) == 3


def test_a_round_that_lasts_is_named_too() -> None:
    """A quick round is no wait worth a line."""
    fleet = Fleet()
    agents = fleet.started(0, 1, 2)
    for agent in agents:
        agent.update()
    assert fleet.of(e.Wait) == []
    agents[0].update()
    fleet.wait(1.9)
    assert fleet.of(e.Wait)[-1].missing == (1, 2)
    agents[2].update()
    assert fleet.of(e.Wait)[-1].missing == (1,)


def test_too_few_agents_end_the_run_at_the_join_deadline() -> None:
    """[complaints 3] With the quorum code and the names of the missing; those who are here are told."""
    fleet = Fleet(config(join_deadline_s=10.0))
    (agent,) = fleet.join(1)
    fleet.live(10, agent)
    assert fleet.exit.code == ExitCode.QUORUM
    assert "missing: 0, 2" in fleet.exit.why
    assert agent.last(m.Shutdown).outcome == "failed"


def test_the_join_deadline_restarts_with_each_ready() -> None:
    """[complaints 51] Agents that come one by one, each in time, are all waited for."""
    fleet = Fleet(config(join_deadline_s=10.0))
    for goal in range(3):
        fleet.wait(8.0)
        for agent in fleet.agents:
            agent.beat()
        fleet.join(goal)
        for agent in fleet.agents:
            agent.beat()
    assert not fleet.of(e.Exit)
    assert fleet.machine.course.phase == "evaluating"


def test_quorum_starts_the_run_with_fewer_than_planned() -> None:
    """Two of three suffice if the run says so."""
    fleet = Fleet(config(quorum=2))
    fleet.started(2, 0)
    assert fleet.journal("round_opened") == [{"round": 1, "eligible": (0, 2), "cohort": (0, 2)}]


def test_the_initial_parameters_are_committed_first() -> None:
    """Round 0 is a checkpoint: a crash before round 1 finds a run to go on with."""
    fleet = Fleet()
    assert [saved.round for saved in fleet.saved] == [0]
    assert fleet.saved[0].record is None


def test_a_run_evaluates_before_round_1_after_round_k_and_in_between_as_asked() -> None:
    """Round 0, every second round, and the last one."""
    fleet = Fleet(config(rounds=5, evaluate_every=2))
    agents = fleet.started(0, 1, 2)
    for _ in range(5):
        for agent in agents:
            agent.update()
        fleet.evaluate()
    assert [c.row["round"] for c in fleet.of(e.Evaluation)] == [0, 2, 4, 5]
    assert fleet.exit.code == ExitCode.OK


def test_an_evaluation_is_averaged_in_agent_order_and_states_n() -> None:
    """Whoever does not answer by the deadline is named; the others are averaged."""
    fleet = Fleet(config(round_deadline_s=10.0))
    first, _silent, third = fleet.join(0, 1, 2)
    third.evaluated(0.75)
    first.evaluated(0.25)
    fleet.live(10, *fleet.agents, phase="evaluating")
    (row,) = [c.row for c in fleet.of(e.Evaluation)]
    assert (row["n"], row["expected_return"], row["meta_objective"]) == (2, 0.5, 1.0)
    assert row["missing"] == {1: "deadline"}
    assert row["meta_objective_kind"] == "dp"
    assert fleet.machine.course.phase == "running"


@pytest.mark.parametrize("row", [{}, {"agent": 0, "kind": "dp"}, {"expected_return": "high"}])
def test_a_malformed_evaluation_is_refused_and_nobody_waits(row: dict[str, object]) -> None:
    """A report without the agreed keys or types does not reach the average."""
    fleet = Fleet()
    bad, *others = fleet.join(0, 1, 2)
    bad.send(m.Report(kind="evaluation", round=0, rows=(row,), trajectories=1))
    for agent in others:
        agent.evaluated(1.0)
    (summary,) = [c.row for c in fleet.of(e.Evaluation)]
    assert summary["n"] == 2
    assert summary["missing"][0].startswith("refused: ")


def test_a_hold_waits_for_the_supervisor_s_word() -> None:
    """The server stands at the boundary; agents that join meanwhile are eligible in that round."""
    fleet = Fleet(config(quorum=2), holds=frozenset({2}))
    agents = fleet.started(0, 1)
    for agent in agents:
        agent.update()
    assert fleet.told("held") == [{"round": 2}]
    assert fleet.machine.course.phase == "held"
    fleet.join(2)
    assert len(fleet.journal("round_opened")) == 1
    fleet.event(e.Proceed(2))
    assert fleet.journal("round_opened")[-1]["cohort"] == (0, 1, 2)


def test_a_word_that_comes_early_is_not_waited_for() -> None:
    """Proceed before the boundary is reached lets the round open at once."""
    fleet = Fleet(holds=frozenset({2}))
    agents = fleet.started(0, 1, 2)
    fleet.event(e.Proceed(2))
    for agent in agents:
        agent.update()
    assert agents[0].last(m.Theta).round == 2


def test_a_supervisor_that_does_not_answer_fails_the_run() -> None:
    """A hold is a wait like any other: it is named and has an end."""
    fleet = Fleet(config(join_deadline_s=20.0), holds=frozenset({1}))
    agents = fleet.started(0, 1, 2)
    fleet.live(20, *agents)
    assert fleet.exit.code == ExitCode.FAILED
    assert fleet.of(e.Wait)[0].what == "the supervisor's word before round 1"


def test_the_end_sends_trainers_home_before_onboarders_are_done() -> None:
    """Nothing is left to do for them, also on a server that stays."""
    fleet = Fleet(config(onboard="5"))
    agents = fleet.started(0, 1, 2)
    for _ in range(2):
        for agent in agents:
            agent.update()
    fleet.evaluate()
    assert agents[0].last(m.Shutdown).outcome == "finished"
    assert not fleet.of(e.Exit)
    again = fleet.agent(0, incarnation=agents[0].incarnation)
    again.register()
    assert again.last(m.Shutdown).outcome == "finished"


@pytest.mark.parametrize("serve", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_a_run_that_came_to_its_end_untrained_says_so(serve: bool, counted: bool) -> None:
    """Also if it serves its parameters; its agents hear it, the exit code stays. One round is enough."""
    fleet = Fleet(config(quarantine_after="off"), serve=serve)
    agents = fleet.started(0, 1, 2)
    for round_ in (1, 2):
        for agent in agents:
            if counted and round_ == 1:
                agent.update()
            else:
                agent.send(m.Error(code="internal", message="x"))
    fleet.evaluate()
    words = "the run is complete, but none of the 2 rounds had enough updates, and the parameters are the"
    assert agents[0].last(m.Shutdown).reason.startswith(words) is not counted
    if serve:
        assert any(line.text.startswith(words) for line in fleet.of(e.Log)) is not counted
        fleet.event(e.Stop("stopped by SIGINT", ExitCode.INTERRUPTED))
    assert (fleet.exit.code == ExitCode.OK) is not serve and fleet.exit.outcome == "finished"
    assert fleet.exit.why.startswith(words) is not counted


@pytest.mark.parametrize("code", [ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.STOPPED])
def test_a_stop_tells_everybody_and_ends(code: ExitCode) -> None:
    """The newest committed checkpoint stands; agents hear that the run was stopped."""
    fleet = Fleet()
    agents = fleet.started(0, 1, 2)
    newcomer = fleet.agent(0)
    newcomer.register()
    fleet.event(e.Stop("stopped by SIGINT", code))
    assert fleet.exit == e.Exit(code, "stopped", "stopped by SIGINT", STOPS[code])
    assert [agent.last(m.Shutdown).outcome for agent in (*agents, newcomer)] == ["stopped"] * 4


@pytest.mark.parametrize(("serve", "outcome"), [(True, "finished"), (False, "stopped")])
def test_a_complete_run_that_serves_stays_complete(serve: bool, outcome: str) -> None:
    """Serving is stopped by hand, also before announced goal 5 came; else its report is missing."""
    fleet = Fleet(config(rounds=0, onboard="5"), serve=serve)
    fleet.started(0, 1, 2)
    fleet.evaluate()
    assert fleet.machine.course.phase == ("serving" if serve else "onboarding")
    fleet.event(e.Stop("stopped by SIGINT", ExitCode.INTERRUPTED))
    assert (fleet.exit.code, fleet.exit.outcome) == (ExitCode.INTERRUPTED, outcome)
    assert ("served until stopped by SIGINT" in fleet.exit.why) is serve


def test_a_run_without_rounds_evaluates_and_ends() -> None:
    """Rounds = 0: the initial parameters are the final ones."""
    fleet = Fleet(config(rounds=0))
    fleet.started(0, 1, 2)
    assert fleet.exit.code == ExitCode.OK
    assert fleet.of(e.Journal)[-1].event != "round_opened"


def test_a_boundary_that_finds_nobody_waits_for_anybody() -> None:
    """All agents have left: the run waits by name, and goes on with the first that comes."""
    fleet = Fleet(config(rounds=5))
    agents = fleet.started(0, 1, 2)
    for agent in agents:
        agent.send(m.Bye())
    assert fleet.machine.course.phase == "joining"
    fleet.wait(1.0)
    assert fleet.of(e.Wait)[-1].what == "any training agent"
    fleet.join(1)
    assert fleet.journal("round_opened")[-1] == {"round": 2, "eligible": (1,), "cohort": (1,)}


def test_a_resumed_run_that_ended_for_skipped_rounds_gets_another_chance() -> None:
    """Whoever resumes it has better agents; the rounds that were skipped count no longer."""
    book = Book(skipped=3)
    fleet = Fleet(
        config(rounds=9), ledger=lambda a: Ledger(a.initial, 4, book), resume=Resume(evaluated=frozenset({0}))
    )
    fleet.join(0, 1, 2)
    assert fleet.machine.course.phase == "running"


def test_a_resumed_server_to_which_nobody_comes_back_in_time_waits_for_the_first_who_does() -> None:
    """A whole fleet that is started again may need longer than a round; join_deadline_s bounds that wait."""
    resume = Resume(evaluated=frozenset({0}), expected=(0, 1, 2))
    settings = config(rounds=9, round_deadline_s=3.0, join_deadline_s=90.0)
    fleet = Fleet(settings, ledger=lambda a: Ledger(a.initial, 4), resume=resume)
    fleet.wait(3.5)
    assert not fleet.of(e.Exit)
    fleet.wait(80.0)
    assert fleet.of(e.Wait)[-1].what == "any training agent"
    fleet.join(1)
    assert fleet.machine.course.phase == "running"
    late = Fleet(settings, ledger=lambda a: Ledger(a.initial, 4), resume=resume)
    late.wait(94.0)
    assert late.exit.code == ExitCode.QUORUM


def test_a_resumed_run_that_had_lost_everybody_needs_no_quorum_again() -> None:
    """Its last agents died with the server, and one of them for good: the run goes on with who comes."""
    resume = Resume(evaluated=frozenset({0}))
    fleet = Fleet(config(rounds=9), ledger=lambda a: Ledger(a.initial, 4), resume=resume)
    fleet.wait(1.0)
    assert fleet.of(e.Wait)[-1].what == "any training agent"
    fleet.join(1)
    assert fleet.machine.course.phase == "running"


def test_a_heartbeat_tells_agents_what_the_server_waits_for() -> None:
    """An agent that idles can say whom the run waits for and how long."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    agent.beat()
    answer = agent.last(m.Heartbeat)
    assert answer.phase == "joining"
    assert "agents 1, 2" in answer.message
    assert "300 s left" in answer.message


def finished(**fields: object) -> Fleet:
    """A server that resumes a run whose rounds are all committed."""
    resume = Resume(evaluated=frozenset({0, 2}), **fields)  # type: ignore[arg-type]
    settings, book = config(onboard="5"), Book(last_counted={0: 2})
    return Fleet(settings, ledger=lambda a: Ledger(a.initial, 2, book), resume=resume)


def test_a_resumed_run_that_was_complete_serves_at_once() -> None:
    """Its announced onboarders have reported: it stays for others until it is stopped."""
    report = {
        "kind": "onboarding",
        "agent": 5,
        "incarnation": "ab",
        "round": 2,
        "trajectories": 0,
        "rows": [],
    }
    fleet = finished(finished=True, reports=(report,))
    assert fleet.machine.course.phase == "serving"
    assert "serving" in [told.name for told in fleet.of(e.Tell)]
    guest = fleet.agent(0)
    guest.join()
    guest.send(m.Onboard(at="final"))
    assert guest.last(m.Init).round == 2
    assert guest.last(m.Init).final
    fleet.event(e.Stop("stopped by SIGTERM", ExitCode.TERMINATED))
    assert fleet.exit.outcome == "finished"


@pytest.mark.parametrize("resumed", [True, False])
def test_a_server_that_stays_waits_for_no_onboarder(resumed: bool) -> None:
    """Goal 5 may come whenever it likes: it is named once, and nothing is waited for, least of all again."""
    if resumed:
        fleet = finished(finished=True)
    else:
        fleet = Fleet(config(rounds=0, onboard="5"), serve=True)
        fleet.started(0, 1, 2)
        fleet.evaluate()
    assert fleet.machine.course.phase == "serving"
    assert any("no report yet of the onboarders with goals 5" in c.text for c in fleet.of(e.Log))
    fleet.wait(1000.0)
    assert not fleet.of(e.Exit) and not fleet.of(e.Wait)
    late = fleet.agent(5)
    late.join()
    late.send(m.Onboard(at="final"))
    assert late.last(m.Init).final


def test_the_wait_for_onboarders_says_which_settings_end_it() -> None:
    """Its time and whom it is for."""
    fleet = Fleet(config(rounds=0, onboard="5"))
    fleet.started(0, 1, 2)
    fleet.evaluate()
    fleet.wait(1.0)
    (wait,) = fleet.of(e.Wait)
    assert "federation.join_deadline_s" in wait.ends and "onboarding.goals" in wait.ends


def test_a_resumed_run_that_died_while_onboarding_goes_on_there() -> None:
    """It waits for the announced report and ends."""
    fleet = finished()
    assert fleet.machine.course.phase == "onboarding"
    guest = fleet.agent(5)
    guest.join()
    guest.send(m.Onboard(at="final"))
    guest.send(m.Report(kind="onboarding", round=2, rows=(measured_row(5),), trajectories=3))
    assert fleet.exit == e.Exit(ExitCode.OK, "finished", "the run is complete")
