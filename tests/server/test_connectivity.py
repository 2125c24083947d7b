"""Availability and connectivity at the server: who is asked, whose update counts as lost, what is said."""

import msgspec
import pytest

from edge_fed.config import Agents, RunConfig
from edge_fed.profiles import LOST, available, lost
from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from tests.server.fleet import Fleet, config


def run_of(wanted, rounds=4, **words) -> RunConfig:
    """A run of agents 0 to 2 with these words, with the first seed whose draws are as wanted."""
    for seed in range(1000):
        found = msgspec.structs.replace(
            config(rounds=rounds), seed=seed, agents=(Agents(goals="0-2", **words),)
        )
        if wanted(found):
            return found
    raise AssertionError("no such seed")


def strays(*expected: tuple[int, ...]):
    """Whether exactly these updates are lost in rounds 1, 2, ..."""
    return lambda run: all(lost(run, k, (0, 1, 2)) == set(who) for k, who in enumerate(expected, start=1))


def there(*expected: tuple[int, ...]):
    """Whether exactly these agents are available in rounds 1, 2, ..."""
    return lambda run: all(available(run, k, (0, 1, 2)) == who for k, who in enumerate(expected, start=1))


def test_a_lost_update_is_late_and_the_round_goes_on() -> None:
    """Its agent is told so, the record and the journal name the reason, the work is counted as spent."""
    fleet = Fleet(run_of(strays((1,), ()), connectivity=0.6))
    agents = fleet.started(0, 1, 2)
    agents[1].update()
    assert [(ack.outcome, ack.reason) for ack in agents[1].acks()] == [("late", LOST)]
    agents[1].update()
    assert agents[1].acks()[-1].outcome == "late", "sent again, it is still lost"
    agents[2].update()
    agents[0].update()
    assert fleet.record.missing == {1: LOST}
    assert [part.agent for part in fleet.record.contributors] == [0, 2]
    assert fleet.journal("late")[0]["reason"] == LOST
    assert fleet.machine.room.ledger.spent[1].total > 0
    assert agents[1].last(m.Theta).last_counted == 0
    for agent in agents:
        agent.update()
    assert [part.agent for part in fleet.record.contributors] == [0, 1, 2], "the next round counts it again"


@pytest.mark.parametrize("stray", [True, False])
def test_what_a_lost_message_says_is_no_strike(stray: bool) -> None:
    """An agent that reports an error instead of an update: unheard if its message is lost, refused if not."""
    fleet = Fleet(run_of(strays((1,) if stray else ()), connectivity=0.6))
    agents = fleet.started(0, 1, 2)
    agents[1].send(m.Error(code="internal", message="round 1: NonFinite: the direction is not finite"))
    agents[0].update()
    agents[2].update()
    assert (fleet.record.missing[1] == LOST) is stray
    assert fleet.machine.room.ledger.quarantine.strikes.get(1, 0) == (0 if stray else 1)


def test_an_agent_that_dies_is_missing_for_that_reason() -> None:
    """A lost update is no excuse for a lost agent: after a restart nobody waits for it."""
    fleet = Fleet(run_of(strays((1,)), connectivity=0.6))
    agents = fleet.started(0, 1, 2)
    agents[1].send(m.Bye(reason="off"))
    agents[0].update()
    agents[2].update()
    assert fleet.record.missing[1] != LOST


def test_only_available_agents_are_asked() -> None:
    """Who is away gets no THETA, stays eligible and connected, and is asked again when it is there."""
    fleet = Fleet(run_of(there((0, 2), (0, 1, 2)), availability=0.6))
    agents = fleet.started(0, 1, 2)
    assert [agent.count(m.Theta) for agent in agents] == [1, 0, 1]
    agents[2].update()
    agents[0].update()
    assert (fleet.record.eligible, fleet.record.cohort, fleet.record.missing) == ((0, 1, 2), (0, 2), {})
    assert [agent.last(m.Theta).round for agent in agents] == [2, 2, 2]


def test_a_round_for_which_nobody_is_available_is_skipped_at_once() -> None:
    """No wait for somebody who cannot come: the round is recorded as skipped, the next one opens.

    [complaints 15]
    """
    fleet = Fleet(run_of(there((), (0, 1, 2)), availability=0.5))
    agents = fleet.started(0, 1, 2)
    assert (fleet.record.round, fleet.record.cohort, fleet.record.outcome) == (1, (), "skipped")
    assert [agent.last(m.Theta).round for agent in agents] == [2, 2, 2]


def test_three_rounds_without_anybody_end_the_run() -> None:
    """With the exit code for too few agents, as any three skipped rounds."""
    fleet = Fleet(run_of(there((), (), ()), availability=0.3))
    fleet.started(0, 1, 2)
    assert fleet.exit.code is ExitCode.QUORUM
    assert fleet.of(e.Commit)[-1].round == 3
