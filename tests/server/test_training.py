"""Rounds as lists of events: deadlines, refusals, skipped rounds, sampling, agent state, the record."""

import math

import numpy as np
import pytest

from edge_fed.errors import OutOfOrder
from edge_fed.federated.aggregation import Fold
from edge_fed.federated.cohort import cohort
from edge_fed.params import crc32, params_sha256
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from server.ledger import Book, Last, Ledger, Resume, Spent
from tests.server.fleet import Fleet, config


def test_updates_fold_in_agent_order_whatever_the_order_of_arrival() -> None:
    """Equal bits for every arrival order; the same deltas folded in another order differ in some bit.

    [complaints 38]
    """
    rng = np.random.default_rng(3)
    hashes = set()
    deltas = [rng.normal(size=100) * 10.0**k for k in (0, 3, -3)]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        fleet = Fleet()
        agents = fleet.started(0, 1, 2)
        for k in order:
            theta = agents[k].last(m.Theta)
            agents[k].update_with(deltas[k], round=1, theta_crc32=theta.crc32)
        hashes.add(fleet.saved[-1].record.params_sha256)
        assert [c.agent for c in fleet.saved[-1].record.contributors] == [0, 1, 2]
    assert len(hashes) == 1
    fold = Fold(np.zeros(100))
    for k in (0, 1, 2):
        fold.add(k, deltas[k], 10)
    assert hashes == {params_sha256(fold.result())}
    with pytest.raises(OutOfOrder):
        fold.add(1, deltas[1], 10)


@pytest.mark.parametrize("values", [(math.inf, -math.inf, 0.0), (1.7e308, 1.7e308, 1.7e308)])
def test_metrics_that_have_no_mean_do_not_end_the_server(values: tuple[float, ...]) -> None:
    """Agents may report whatever a float can be."""
    fleet = Fleet()
    for agent, value in zip(fleet.started(0, 1, 2), values, strict=True):
        agent.update(metrics={"loss": value})
    assert not math.isfinite(fleet.saved[-1].metrics["loss"])


def test_theta_is_sent_only_after_the_round_before_is_committed() -> None:
    """No agent works on parameters that a crash could take back."""
    fleet = Fleet(commits=False)
    fleet.event(e.Committed(0))
    agents = fleet.started(0, 1, 2)
    for agent in agents:
        agent.update()
    assert [agent.count(m.Theta) for agent in agents] == [1, 1, 1]
    assert fleet.saved[-1].round == 1
    fleet.event(e.Committed(1))
    assert [agent.last(m.Theta).round for agent in agents] == [2, 2, 2]


def test_round_opened_is_written_before_the_first_theta() -> None:
    """A crash after THETA finds the cohort in the journal."""
    fleet = Fleet()
    fleet.started(0, 1, 2)
    kinds = [
        c.event if isinstance(c, e.Journal) else type(c.message)
        for c in fleet.commands
        if isinstance(c, e.Journal) or (isinstance(c, e.Send) and isinstance(c.message, m.Theta))
    ]
    assert kinds.index("round_opened") < kinds.index(m.Theta)


def test_the_deadline_excuses_whoever_is_missing() -> None:
    """[wire 29] A hard deadline from the opening; heartbeats do not move it."""
    fleet = Fleet(config(round_deadline_s=10.0))
    slow, *others = fleet.started(0, 1, 2)
    for agent in others:
        agent.update(1.0)
    fleet.live(9, *fleet.agents, phase="training")
    assert fleet.machine.course.training.waiting() == (0,)
    fleet.wait(1.0)
    assert fleet.saved[-1].record.missing == {0: "deadline"}
    assert slow.last(m.Theta).round == 2  # it lives, so that it takes part again at once


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda d: np.where(np.arange(d.size) == 3, np.nan, d), "not finite"),
        (lambda d: np.where(np.arange(d.size) == 3, np.inf, d), "not finite"),
        (lambda d: d[:-1], "shape"),
        (lambda d: np.concatenate([d, d]), "shape"),
    ],
)
def test_a_wrong_update_is_refused_by_name_and_the_mean_is_that_of_the_others(
    change: object, part: str
) -> None:
    """NaN, infinity and a wrong size never reach the average; log, journal and record say why.

    [complaints 30]
    """
    fleet = Fleet()
    bad, *others = fleet.started(0, 1, 2)
    theta = bad.last(m.Theta)
    delta = change(np.ones(fleet.machine.room.admission.dimension))  # type: ignore[operator]
    bad.update_with(delta, round=1, theta_crc32=theta.crc32)
    assert bad.last(m.Ack).outcome == "refused"
    assert part in bad.last(m.Ack).reason
    for agent in others:
        agent.update(5.0)
    record = fleet.saved[-1].record
    assert record.missing[0].startswith("refused: ")
    assert fleet.saved[-1].params.tolist() == [5.0] * fleet.machine.room.admission.dimension
    assert fleet.journal("refused")[0]["agent"] == 0


@pytest.mark.parametrize("field", ["theta_crc32", "crc32"])
def test_an_update_with_a_wrong_checksum_is_refused(field: str) -> None:
    """[wire 2] Computed from other parameters, or altered on the way: refused, final for the round."""
    fleet = Fleet()
    bad, *_ = fleet.started(0, 1, 2)
    theta = bad.last(m.Theta)
    delta = np.ones(fleet.machine.room.admission.dimension)
    bad.update_with(delta, **{"round": 1, "theta_crc32": theta.crc32, field: 12345})
    assert bad.last(m.Ack).outcome == "refused"
    bad.update(1.0)
    assert bad.last(m.Ack).outcome == "late"
    assert fleet.machine.course.training.waiting() == (1, 2)


def test_zero_trajectories_under_the_weighted_rule_are_refused() -> None:
    """[complaints 29] A weight of zero is an error, not a division by zero at the end of the round."""
    fleet = Fleet(config(aggregation="weighted"))
    bad, one, two = fleet.started(0, 1, 2)
    bad.update(100.0, trajectories=0)
    assert "weight" in bad.last(m.Ack).reason
    one.update(1.0, trajectories=10)
    two.update(4.0, trajectories=20)
    assert fleet.saved[-1].params[0] == 3.0
    assert [c.weight for c in fleet.saved[-1].record.contributors] == [10.0, 20.0]


def test_too_few_updates_skip_the_round_and_leave_the_parameters() -> None:
    """One of three is below the half: nothing is averaged, the number advances, nothing is counted."""
    fleet = Fleet()
    first, second, third = fleet.started(0, 1, 2)
    before = fleet.saved[-1].params
    first.update(1.0)
    second.send(m.Error(code="internal", message="x"))
    third.send(m.Error(code="internal", message="x"))
    saved = fleet.saved[-1]
    assert saved.record.outcome == "skipped"
    assert saved.record.contributors == ()
    assert saved.params is before
    assert saved.book.last_counted == {}
    assert saved.book.last[0].verdict == "skipped"
    assert first.last(m.Theta).round == 2
    assert first.last(m.Theta).last_counted == 0


def test_updates_whose_sum_overflows_skip_the_round() -> None:
    """Each is finite, their sum is not: infinity is never committed."""
    fleet = Fleet()
    agents = fleet.started(0, 1, 2)
    before = fleet.saved[-1].params
    for agent in agents:
        agent.update(1.7e308)
    assert fleet.saved[-1].record.outcome == "skipped"
    assert fleet.saved[-1].params is before


def test_three_skipped_rounds_in_a_row_end_the_run() -> None:
    """[complaints 15] With the quorum code; a folded round in between starts the count again."""
    fleet = Fleet(config(rounds=20, quarantine_after="off"))
    agents = fleet.started(0, 1, 2)

    def skip() -> None:
        for agent in agents:
            agent.send(m.Error(code="internal", message="x"))

    skip()
    skip()
    for agent in agents:
        agent.update()
    skip()
    skip()
    assert not fleet.of(e.Exit)
    skip()
    assert fleet.exit.code == ExitCode.QUORUM
    assert agents[0].last(m.Shutdown).outcome == "failed"


def test_only_the_sampled_cohort_is_asked() -> None:
    """The cohort is that of the plain loop; nobody else gets THETA or may contribute."""
    fleet = Fleet(config(participation=0.5, rounds=4))
    agents = fleet.started(0, 1, 2)
    asked = cohort(0, 1, (0, 1, 2), 0.5)
    assert tuple(a.agent for a in agents if a.count(m.Theta)) == asked
    idle = next(a for a in agents if a.agent not in asked)
    delta = np.ones(fleet.machine.room.admission.dimension)
    theta = next(a for a in agents if a.agent in asked).last(m.Theta)
    idle.update_with(delta, round=1, theta_crc32=theta.crc32)
    assert idle.last(m.Ack).outcome == "refused"
    assert fleet.machine.course.training.waiting() == asked


def test_last_counted_tells_an_agent_which_state_counts() -> None:
    """It advances with a folded update only."""
    fleet = Fleet(config(rounds=4))
    first, *others = fleet.started(0, 1, 2)
    for agent in (first, *others):
        agent.update()
    assert first.last(m.Theta).last_counted == 1
    first.send(m.Error(code="internal", message="x"))
    for agent in others:
        agent.update()
    assert first.last(m.Theta).last_counted == 1
    assert others[0].last(m.Theta).last_counted == 2


def test_missing_agent_state_is_reset_recorded_and_forgotten_once_it_counts() -> None:
    """A restarted agent without its state starts afresh, and the record says in which round."""
    fleet = Fleet(config(rounds=4))
    victim, *others = fleet.started(0, 1, 2)
    for agent in (victim, *others):
        agent.update()
    fleet.gone.add(victim.peer)
    heir = fleet.agent(0)
    heir.register()
    assert heir.last(m.Welcome).last_counted == 1
    heir.ready(stateful=True, state_tag=0)
    assert heir.last(m.Theta).state_reset
    for agent in (heir, *others):
        agent.update()
    assert fleet.saved[-1].record.state_resets == (0,)
    assert not heir.last(m.Theta).state_reset
    for agent in (heir, *others):
        agent.update()
    assert fleet.saved[-1].record.state_resets == ()


def test_a_restarted_agent_with_its_state_is_not_reset() -> None:
    """State of the newest counted round is what is needed."""
    fleet = Fleet(config(rounds=4))
    victim, *others = fleet.started(0, 1, 2)
    for agent in (victim, *others):
        agent.update()
    fleet.gone.add(victim.peer)
    heir = fleet.agent(0)
    heir.register()
    heir.ready(stateful=True, state_tag=1)
    assert not heir.last(m.Theta).state_reset


def test_a_reset_agent_that_does_not_contribute_is_not_in_the_record() -> None:
    """Its state is reset again in the round in which it counts, so that a replay sees one reset."""
    fleet = Fleet(config(rounds=4))
    victim, *others = fleet.started(0, 1, 2)
    for agent in (victim, *others):
        agent.update()
    fleet.gone.add(victim.peer)
    heir = fleet.agent(0)
    heir.register()
    heir.ready(stateful=True)
    heir.send(m.Error(code="internal", message="x"))
    for agent in others:
        agent.update()
    assert fleet.saved[-1].record.state_resets == ()
    assert heir.last(m.Theta).state_reset


def test_trajectories_spent_adds_the_work_that_was_discarded() -> None:
    """A refused update is not contributed work, but it was sampled; a new process starts a new count."""
    fleet = Fleet(config(rounds=3))
    first, *others = fleet.started(0, 1, 2)
    first.update(np.nan)
    for agent in others:
        agent.update()
    first.update(1.0)
    for agent in others:
        agent.update()
    assert fleet.saved[-1].book.trajectories == {0: 10, 1: 20, 2: 20}
    assert fleet.saved[-1].book.spent[0].total == 20
    fleet.gone.add(first.peer)
    heir = fleet.agent(0)
    heir.join()
    heir.update(1.0)
    for agent in others:
        agent.update()
    assert fleet.saved[-1].book.spent[0].total == 30
    assert fleet.saved[-1].book.trajectories[0] == 20


def test_metrics_are_means_over_the_contributors() -> None:
    """A metric that one of them does not report is averaged over those that do."""
    fleet = Fleet()
    for agent, metrics in zip(fleet.started(0, 1, 2), ({"a": 1.0}, {"a": 2.0, "b": 5.0}, {}), strict=True):
        agent.update(metrics=metrics)
    assert fleet.saved[-1].metrics == {"a": 1.5, "b": 5.0}


def resumed(fleet: Fleet, **changes: object) -> Fleet:
    """A new server process after this one's newest checkpoint, with round 2 open for agents 0 to 2."""
    saved = fleet.saved[-1]
    opened = fleet.journal("round_opened")[-1]
    resume = Resume(
        expected=opened["eligible"],
        round=opened["round"],
        eligible=opened["eligible"],
        cohort=opened["cohort"],
        evaluated=frozenset({0}),
    )
    return Fleet(
        fleet.machine.room.config,
        ledger=lambda _: Ledger(saved.params, saved.round, saved.book),
        resume=resume,
        **changes,  # type: ignore[arg-type]
    )


def test_a_resumed_run_goes_on_with_the_recorded_cohort() -> None:
    """The open round keeps its cohort, and ends with the same bits."""
    whole = Fleet(config(rounds=3, participation=0.6))
    agents = whole.started(0, 1, 2)
    for agent in agents:
        if agent.count(m.Theta):
            agent.update(1.0 + agent.agent)
    again = resumed(whole)
    assert again.machine.course.phase == "joining"
    back = again.join(2, 0, 1)
    opened = whole.journal("round_opened")[-1]
    assert again.journal("round_opened") == []
    assert tuple(sorted(a.agent for a in back if a.count(m.Theta))) == opened["cohort"]
    for fleet in (whole, again):
        for agent in fleet.agents:
            if agent.count(m.Theta) and agent.last(m.Theta).round == 2:
                agent.update(3.0 + agent.agent)
    assert again.saved[-1].record == whole.saved[-1].record


def test_an_update_that_outlived_the_server_is_kept_for_its_round() -> None:
    """It comes before the round is open again, and is neither refused nor asked for twice."""
    whole = Fleet(config(rounds=3))
    agents = whole.started(0, 1, 2)
    for agent in agents:
        agent.update()
    theta = agents[0].last(m.Theta)
    again = resumed(whole)
    early = again.agent(0)
    early.join()
    delta = np.full(again.machine.room.admission.dimension, 2.0)
    early.update_with(delta, round=2, theta_crc32=theta.crc32)
    assert early.count(m.Ack) == 0
    early.beat(round_=2)
    assert [ack.outcome for ack in early.acks()] == ["held"], "else it sends it again with every heartbeat"
    others = again.join(1, 2)
    early.beat(round_=2)
    assert early.last(m.Ack).outcome == "held"
    assert early.count(m.Theta) == 0
    for agent in others:
        agent.update(2.0)
    assert [c.agent for c in again.saved[-1].record.contributors] == [0, 1, 2]


def test_an_update_that_outlived_the_server_keeps_its_state_reset_in_the_record() -> None:
    """The agent had lost its state and computed from the initial one, as the server before had told it."""
    whole = Fleet(config(rounds=3))
    agents = whole.started(0, 1, 2)
    for agent in agents:
        agent.update()
    theta = agents[0].last(m.Theta)
    again = resumed(whole)
    early = again.agent(0)
    early.register()
    early.ready(stateful=True, state_tag=0)
    delta = np.full(again.machine.room.admission.dimension, 2.0)
    early.update_with(delta, round=2, theta_crc32=theta.crc32)
    for agent in again.join(1, 2):
        agent.update(2.0)
    assert again.saved[-1].record.state_resets == (0,)
    assert not early.last(m.Theta).state_reset, "the state after round 2 counts"


def assert_goes_on_without_agent_2(again: Fleet) -> None:
    """Agents 0 and 1 come back, the deadline passes, their updates are folded."""
    back = again.join(0, 1)
    again.live(60, *back)
    for agent in back:
        agent.update()
    assert again.saved[-1].record.missing == {2: "not back after the restart of the server"}


def test_who_is_not_back_after_a_restart_is_excused_after_the_round_deadline() -> None:
    """The open round goes on with those who are here."""
    whole = Fleet(config(rounds=3, quorum=2))
    agents = whole.started(0, 1)
    whole.join(2)
    for agent in agents:
        agent.update()
    assert_goes_on_without_agent_2(resumed(whole))


def test_who_is_not_back_does_not_end_a_run_that_had_its_quorum() -> None:
    """The quorum counts at the start; later a round's own minimum decides."""
    whole = Fleet(config(rounds=3))
    for agent in whole.started(0, 1, 2):
        agent.update()
    assert_goes_on_without_agent_2(resumed(whole))


@pytest.mark.parametrize("first", [True, False])
def test_nobody_waits_for_the_return_of_an_agent_that_is_dead(first: bool) -> None:
    """The supervisor's word may come before or after the others are back."""
    whole = Fleet(config(rounds=3))
    for agent in whole.started(0, 1, 2):
        agent.update()
    again = resumed(whole)
    back = [] if first else again.join(0, 1)
    again.event(e.DeclaredLost(2))
    back = back or again.join(0, 1)
    for agent in back:
        agent.update()
    assert again.saved[-1].record.missing == {2: "not back after the restart of the server"}


def test_a_restarted_server_does_not_wait_for_an_agent_that_leaves() -> None:
    """BYE while the others are still on their way back."""
    whole = Fleet(config(rounds=3))
    for agent in whole.started(0, 1, 2):
        agent.update()
    again = resumed(whole)
    (leaver,) = again.join(2)
    leaver.send(m.Bye())
    for agent in again.join(0, 1):
        agent.update()
    assert set(again.saved[-1].record.missing) == {2}


def test_a_restarted_server_whose_agents_are_all_dead_goes_on_with_the_first_that_comes() -> None:
    """Any training agent will do, within the deadline of joining."""
    whole = Fleet(config(rounds=3))
    for agent in whole.started(0, 1, 2):
        agent.update()
    again = resumed(whole)
    for dead in (0, 1, 2):
        again.event(e.DeclaredLost(dead))
    again.wait(1.0)
    assert again.of(e.Wait)[-1].what == "any training agent"
    again.wait(100.0)
    (heir,) = again.join(1)
    heir.update()
    assert [saved.record.outcome for saved in again.saved] == ["skipped"]
    heir.update()
    assert again.saved[-1].record.outcome == "folded"


def test_the_answers_of_committed_rounds_survive_a_restart() -> None:
    """The checkpoint keeps each agent's newest update."""
    book = Book(
        last={0: Last(1, crc32(np.ones(100)), "folded"), 1: Last(1, 7, "late")},
        last_counted={0: 1},
        spent={0: Spent(5, "ab", 6)},
    )
    fleet = Fleet(ledger=lambda a: Ledger(a.initial, 1, book), resume=Resume(evaluated=frozenset({0})))
    first, second = fleet.join(0, 1)
    first.update_with(np.ones(100), round=1, theta_crc32=0)
    assert first.last(m.Ack).outcome == "duplicate"
    second.update_with(np.ones(100), round=1, theta_crc32=0)
    assert second.last(m.Ack).outcome == "late"
    first.update_with(np.zeros(100), round=1, theta_crc32=0)
    assert first.last(m.Error).code == "conflict"


@pytest.mark.parametrize("point", ["theta", "update", "array"])
def test_the_supervisor_can_make_the_server_kill_itself(point: e.KillPoint) -> None:
    """After the first THETA, between two updates, or between array file and sidecar; once, in that round."""
    fleet = Fleet()
    fleet.event(e.Arm(point, 2))
    agents = fleet.started(0, 1, 2)
    for agent in agents:
        agent.update()
    thetas = sum(isinstance(c, e.Send) and isinstance(c.message, m.Theta) for c in fleet.commands)
    assert len(fleet.of(e.Die)) == (1 if point == "theta" else 0)
    assert thetas == 6
    agents[0].update()
    assert len(fleet.of(e.Die)) == (0 if point == "array" else 1)
    agents[1].update()
    agents[2].update()
    assert len(fleet.of(e.Die)) == (0 if point == "array" else 1)
    assert [saved.die for saved in fleet.saved] == [None, None, "array" if point == "array" else None]
