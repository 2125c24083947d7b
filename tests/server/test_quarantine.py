"""Refused updates as lists of events: named, excused, counted, quarantined; nobody waits for the agent."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Attack, Overrides
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from server.ledger import Ledger, Resume
from tests.server.fleet import FakeAgent, Fleet, config


def spoil(agent: FakeAgent) -> None:
    """Sends an update that is not finite."""
    agent.update(np.nan)


def quarantined(rounds: int = 8, **changes: object) -> tuple[Fleet, FakeAgent, list[FakeAgent]]:
    """A fleet of three whose agent 0 was refused in the first three rounds."""
    fleet = Fleet(config(rounds=rounds, **changes))
    bad, *others = fleet.started(0, 1, 2)
    for _ in range(3):
        spoil(bad)
        for agent in others:
            agent.update()
    return fleet, bad, others


def test_an_update_with_an_absurd_norm_is_refused_by_name() -> None:
    """Its agent is excused for the round, as one whose update is not finite; the mean is of the others."""
    fleet = Fleet(config(max_update_norm=100.0))
    bad, *others = fleet.started(0, 1, 2)
    bad.update(1e6)
    assert bad.last(m.Ack).outcome == "refused"
    assert "its norm is 1e+07, above max_update_norm = 100" in bad.last(m.Ack).reason
    for agent in others:
        agent.update(5.0)
    assert "max_update_norm" in fleet.saved[-1].record.missing[0]
    assert set(fleet.saved[-1].params) == {5.0}
    assert fleet.journal("refused")[0]["agent"] == 0


def test_an_update_just_within_the_bound_counts() -> None:
    """100 entries of 10: a norm of 100."""
    fleet = Fleet(config(max_update_norm=100.0))
    for agent in fleet.started(0, 1, 2):
        agent.update(10.0)
    assert len(fleet.saved[-1].record.contributors) == 3


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "geometric_median", "clipped_mean"])
def test_the_server_folds_by_the_rule_whatever_the_order_of_arrival(rule: str) -> None:
    """The same bits, and one wrong agent of three does not carry the others away."""
    results = set()
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        fleet = Fleet(config(rule=rule, clip_norm=20.0))
        agents = fleet.started(0, 1, 2)
        for k in order:
            agents[k].update((1.0, 1e9, 1.1)[k])
        results.add(fleet.saved[-1].params.tobytes())
        assert np.abs(fleet.saved[-1].params).max() < 2
    assert len(results) == 1


def test_a_round_with_fewer_updates_than_the_rule_needs_is_skipped() -> None:
    """Krum with one Byzantine agent promises nothing below five updates."""
    fleet = Fleet(config(agents="0-4", rule="krum", byzantine=1))
    first, *others = fleet.started(0, 1, 2, 3, 4)
    spoil(first)
    for agent in others:
        agent.update()
    assert fleet.saved[-1].record.outcome == "skipped"


def test_the_third_refused_update_in_a_row_quarantines() -> None:
    """[complaints 30] The agent is told, journal and one log line name it, the run goes on without it."""
    fleet, bad, others = quarantined()
    assert fleet.saved[-1].record.quarantined == (0,)
    assert bad.last(m.Reject).reason == "quarantined"
    assert "start a new run" in bad.last(m.Reject).message
    lines = [c.text for c in fleet.of(e.Log) if "quarantine" in c.text]
    assert len(lines) == 1
    assert "agent 0 is in quarantine until the run ends, after 3 refused updates in a row" in lines[0]
    assert fleet.journal("quarantined") == [
        {"agent": 0, "round": 3, "reason": fleet.saved[-1].record.missing[0]}
    ]
    assert fleet.journal("round_opened")[-1]["eligible"] == (1, 2)
    for agent in others:
        agent.update()
    assert fleet.saved[-1].round == 4, "nobody waits for it"
    assert fleet.saved[-1].record.missing == {}


def test_a_quarantined_agent_that_missed_the_answer_is_told_again() -> None:
    """Whatever it sends in its old session gets the same word, and changes nothing."""
    fleet, bad, _ = quarantined()
    beat = e.Received(bad.peer, m.Header(session=bad.session.sid, seq=99), m.Heartbeat(phase="idle"), {})
    (again,) = fleet.machine.handle(beat, fleet.now)
    assert isinstance(again, e.Send)
    assert (again.peer, again.message) == (bad.peer, bad.last(m.Reject))


def test_a_new_process_of_a_quarantined_agent_is_rejected() -> None:
    """A restart does not lift it, nor does --take-over; the agent exits instead of trying for ever."""
    fleet, *_ = quarantined()
    for fields in ({}, {"take_over": True}):
        heir = fleet.agent(0)
        heir.register(**fields)
        assert heir.last(m.Reject).reason == "quarantined"
        assert heir.count(m.Welcome) == 0
    assert fleet.machine.members.eligible() == (1, 2)


def test_a_quarantined_agent_may_still_onboard() -> None:
    """It receives, and sends nothing that could be averaged."""
    fleet, *_ = quarantined()
    guest = fleet.agent(0)
    guest.register(role="onboard")
    assert guest.last(m.Welcome).role == "onboard"


def test_the_restart_of_the_server_does_not_lift_a_quarantine() -> None:
    """Or else a run would depend on its restarts; nor does the server wait for the agent's return."""
    fleet, _, others = quarantined()
    saved, opened = fleet.saved[-1], fleet.journal("round_opened")[-1]
    resume = Resume(
        expected=(0, 1, 2), round=opened["round"], eligible=opened["eligible"], cohort=opened["cohort"],
        evaluated=frozenset({0}),
    )  # fmt: skip
    again = Fleet(
        fleet.machine.room.config,
        ledger=lambda _: Ledger(saved.params, saved.round, saved.book),
        resume=resume,
    )
    heir = again.agent(0)
    heir.register()
    assert heir.last(m.Reject).reason == "quarantined"
    for agent in again.join(1, 2):
        agent.update()
    for agent in others:
        agent.update()
    assert again.saved[-1].record == fleet.saved[-1].record


def test_an_update_that_counts_starts_the_count_again() -> None:
    """Refused twice, counted once, refused twice: still asked."""
    fleet = Fleet(config(rounds=9))
    bad, *others = fleet.started(0, 1, 2)
    for value in (np.nan, np.inf, 1.0, np.nan, np.nan):
        bad.update(value)
        for agent in others:
            agent.update()
    assert bad.count(m.Reject) == 0
    assert fleet.machine.members.eligible() == (0, 1, 2)


def test_quarantine_can_be_switched_off() -> None:
    """The updates are refused all the same."""
    fleet, bad, _ = quarantined(quarantine_after="off")
    assert bad.count(m.Reject) == 0
    assert fleet.journal("round_opened")[-1]["eligible"] == (0, 1, 2)


def test_conflicting_updates_are_strikes() -> None:
    """The first update of a round stands and counts; three rounds of conflicts quarantine the agent."""
    fleet = Fleet(config(rounds=9))
    bad, *others = fleet.started(0, 1, 2)
    for _ in range(3):
        bad.update(1.0)
        bad.update(2.0)
        assert bad.last(m.Error).code == "conflict"
        for agent in others:
            agent.update(1.0)
    assert [s.record.conflicts for s in fleet.saved[1:]] == [(0,)] * 3
    assert [len(s.record.contributors) for s in fleet.saved[1:]] == [3, 3, 3]
    assert bad.last(m.Reject).reason == "quarantined"


def test_stale_duplicate_and_early_updates_are_answered_and_no_strikes() -> None:
    """A bad network repeats and delays; only what an agent computed wrongly counts against it."""
    fleet = Fleet(config(rounds=9))
    slow, *others = fleet.started(0, 1, 2)
    for _ in range(4):
        theta = slow.last(m.Theta)
        delta = np.ones(fleet.machine.room.admission.dimension)
        slow.update_with(delta, round=theta.round, theta_crc32=theta.crc32)
        slow.update_with(delta, round=theta.round, theta_crc32=theta.crc32)
        assert slow.last(m.Ack).outcome == "duplicate"
        slow.update_with(delta, round=theta.round + 5, theta_crc32=theta.crc32)
        assert slow.last(m.Ack).outcome == "refused"
        if theta.round > 1:
            slow.update_with(delta, round=theta.round - 1, theta_crc32=theta.crc32)
            assert slow.last(m.Ack).outcome == "duplicate"
        for agent in others:
            agent.update()
    assert slow.count(m.Reject) == 0
    assert [len(saved.record.contributors) for saved in fleet.saved[1:]] == [3] * 4


def test_an_update_from_a_superseded_session_changes_nothing() -> None:
    """The old process is told that it was superseded; what it sends is not averaged."""
    fleet = Fleet(config(rounds=3))
    old, *others = fleet.started(0, 1, 2)
    theta = old.last(m.Theta)
    heir = fleet.agent(0)
    heir.register(take_over=True)
    heir.ready()
    assert old.count(m.Superseded) == 1
    update = m.Update(
        round=1, theta_crc32=theta.crc32, crc32=1, trajectories=1, trajectories_spent=1, metrics={}
    )
    delta = np.full(fleet.machine.room.admission.dimension, 99.0)
    header = m.Header(session=old.session.sid, seq=50)
    (answer,) = fleet.machine.handle(e.Received(old.peer, header, update, {"delta": delta}), fleet.now)
    assert isinstance(answer, e.Send)
    assert answer.message == old.last(m.Superseded)
    for agent in (heir, *others):
        agent.update(1.0)
    assert set(fleet.saved[-1].params) == {1.0}


def test_a_run_whose_agents_are_all_in_quarantine_ends_and_says_so() -> None:
    """It waits for nobody, nor does a server that is started again: nobody can come."""
    fleet = Fleet(config(agents="0", rounds=9, quarantine_after=2))
    (only,) = fleet.started(0)
    spoil(only)
    spoil(only)
    assert only.last(m.Reject).reason == "quarantined"
    assert fleet.exit.code == ExitCode.QUORUM
    assert "every training agent is in quarantine; the last refusal: refused: " in fleet.exit.why
    saved = fleet.saved[-1]
    again = Fleet(
        fleet.machine.room.config,
        ledger=lambda _: Ledger(saved.params, saved.round, saved.book),
        resume=Resume(),
    )
    assert again.exit.code == ExitCode.QUORUM and "every training agent is in quarantine" in again.exit.why


def test_the_quarantine_counts_once_its_round_is_committed() -> None:
    """A crash before must find the agent where the checkpoint has it."""
    fleet = Fleet(config(rounds=9, quarantine_after=1), commits=False)
    fleet.event(e.Committed(0))
    bad, *others = fleet.started(0, 1, 2)
    spoil(bad)
    for agent in others:
        agent.update()
    assert fleet.saved[-1].book.quarantined == (0,)
    assert bad.count(m.Reject) == 0
    fleet.event(e.Committed(1))
    assert bad.count(m.Reject) == 1


def test_an_agent_cannot_ask_for_an_attack() -> None:
    """It is a key of the run's [[agents]] alone."""
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register(overrides={"attack": {"kind": "noise"}})
    assert agent.last(m.Reject).reason == "overrides"
    assert "attack: is for [[agents]] of the run alone" in agent.last(m.Reject).message


def test_a_server_names_who_attacks() -> None:
    """One warning per agent, in log and journal, and the record's overrides say how."""
    settings = config(agents="0-2")
    (table,) = settings.agents
    attack = Attack(kind="sign_flip", scale=5.0)
    tables = (
        msgspec.structs.replace(table, goals="0-1"),
        msgspec.structs.replace(table, goals="2", attack=attack),
    )
    fleet = Fleet(msgspec.structs.replace(settings, agents=tables))
    for agent in fleet.started(0, 1, 2):
        agent.update()
    assert fleet.journal("attacker") == [{"agent": 2}]
    (line,) = [c for c in fleet.of(e.Log) if "attacks" in c.text]
    assert (line.level, line.text) == (
        "warning",
        "agent 2 attacks in this run, as [[agents]] says: sign_flip, scale 5",
    )
    assert fleet.saved[-1].record.overrides == {2: Overrides(attack=attack)}


def test_an_agents_own_settings_are_checked_without_the_rule_of_the_run() -> None:
    """Krum needs five agents; one that changes its batch size is one of them, not alone."""
    fleet = Fleet(config(agents="0-4", rule="krum", byzantine=1))
    agent = fleet.agent(0)
    agent.register(overrides={"inner_batch": 5})
    assert agent.count(m.Welcome) == 1


def test_a_conflict_counts_in_rounds_that_the_agent_was_there_for_only() -> None:
    """One that joined while a round was open is answered, and is not in the record of that round."""
    fleet = Fleet(config(rounds=3))
    agents = fleet.started(0, 1, 2)
    theta = agents[0].last(m.Theta)
    agents[0].update(1.0)
    for agent in agents[1:]:
        agent.update(1.0)
    assert fleet.saved[-1].record.conflicts == ()
    agents[0].send(m.Bye(reason="later"))
    for agent in agents[1:]:
        agent.update(1.0)
    assert fleet.saved[-1].record.round == 2
    (back,) = fleet.join(0)
    back.update_with(np.full(100, 2.0), round=theta.round, theta_crc32=theta.crc32)
    assert back.last(m.Error).code == "conflict"
    for agent in agents[1:]:
        agent.update(1.0)
    last = fleet.saved[-1].record
    assert (last.round, last.eligible, last.conflicts) == (3, (1, 2), ())
