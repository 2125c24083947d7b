"""Many agents, many rounds and many restarts as lists of events."""

import math
import random

import numpy as np
import pytest

from edge_fed.params import crc32
from protocol import messages as m
from server import events as e
from tests.server.fleet import Fleet, config


def test_thirteen_agents_are_never_asked_out_of_turn() -> None:
    """[complaints 13] 50 rounds, answered in random order: each agent is asked in the rounds that drew it."""
    order = random.Random(0)
    fleet = Fleet(config(agents="0-12", rounds=50, participation=0.5))
    agents = fleet.started(*range(13))
    for _ in range(50):
        asked = fleet.journal("round_opened")[-1]["cohort"]
        for agent in order.sample(asked, len(asked)):
            agents[agent].update(order.random())
    opened = {line["round"]: line["cohort"] for line in fleet.journal("round_opened")}
    assert sorted(opened) == list(range(1, 51))
    for agent in agents:
        rounds = [message.round for message in agent.inbox if isinstance(message, m.Theta)]
        assert rounds == [round_ for round_, cohort in opened.items() if agent.agent in cohort]
    assert [commit.record.missing for commit in fleet.saved[1:]] == [{}] * 50


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 12])
def test_every_cohort_and_minimum_finishes(n: int) -> None:
    """[complaints 14] Agents, cohort and min_updates in every combination: three rounds are folded."""
    for asked in range(1, n + 1) if n < 12 else (1, 6, 11, 12):
        for least in range(1, asked + 1) if n < 12 else {1, asked}:
            changes = {"participation": asked / n, "min_updates": least}
            fleet = Fleet(config(agents=f"0-{n - 1}", rounds=3, **changes))
            agents = fleet.started(*range(n))
            for round_ in (1, 2, 3):
                for agent in fleet.journal("round_opened")[-1]["cohort"]:
                    agents[agent].update()
                assert (fleet.record.round, fleet.record.outcome) == (round_, "folded"), changes
                assert len(fleet.record.contributors) == asked


def test_a_round_in_which_all_weights_are_zero_changes_nothing() -> None:
    """[complaints 29] Everybody reports no trajectory: each is refused by name, the parameters stay."""
    fleet = Fleet(config(aggregation="weighted"))
    agents = fleet.started(0, 1, 2)
    before = fleet.saved[-1].params
    for agent in agents:
        agent.update(1.0, trajectories=0)
        assert "weight" in agent.last(m.Ack).reason
    assert fleet.record.outcome == "skipped"
    assert fleet.saved[-1].params is before and np.isfinite(before).all()


def test_a_round_that_nobody_answers_is_skipped() -> None:
    """[complaints 15] All live and none has finished at the deadline: nothing changes, the run goes on."""
    fleet = Fleet(config(round_deadline_s=3.0))
    agents = fleet.started(0, 1, 2)
    before = fleet.saved[-1].params
    fleet.live(3, *agents, phase="training")
    assert (fleet.record.round, fleet.record.outcome) == (1, "skipped")
    assert fleet.record.missing == dict.fromkeys(range(3), "deadline")
    assert fleet.saved[-1].params is before
    for agent in agents:
        agent.update(2.0)
    assert (fleet.record.round, fleet.record.outcome) == (2, "folded")


def test_an_update_after_a_long_step_counts() -> None:
    """[complaints 5] Twelve heartbeats and more than two leases of training, then its update."""
    fleet = Fleet()
    agents = fleet.started(0, 1, 2)
    fleet.live(12, *agents, phase="training")
    for agent in agents:
        agent.update()
    assert (len(fleet.record.contributors), fleet.record.missing, fleet.journal("lost")) == (3, {}, [])


def test_the_last_update_of_an_agent_that_leaves_counts() -> None:
    """[wire 38] UPDATE and BYE at once: what came is folded, and nobody waits for more."""
    fleet = Fleet()
    leaver, *others = fleet.started(0, 1, 2)
    leaver.update(3.0)
    leaver.send(m.Bye(reason="done"))
    for agent in others:
        agent.update(3.0)
    assert [part.agent for part in fleet.record.contributors] == [0, 1, 2]
    assert fleet.record.missing == {}
    assert fleet.journal("round_opened")[-1]["cohort"] == (1, 2)


def test_fifty_restarts_within_a_round_lose_nothing() -> None:
    """[complaints 67] [wire 15, 17] Each new process has the goal and the question, also of a late server."""
    fleet = Fleet(config(round_deadline_s=1000.0))
    agent, *others = fleet.started(0, 1, 2)
    for number in range(50):
        fleet.gone.add(agent.peer)
        if number % 2:  # the server was stopped for two seconds, and reads REGISTER after it
            fleet.now += 2.0
            fleet.event(e.Tick(late_s=2.0))
        agent = fleet.agent(0)
        agent.join()
        assert agent.last(m.Theta).round == 1
        assert fleet.machine.members.eligible() == (0, 1, 2)
        for other in others:
            other.beat("training", 1)
    for one in (agent, *others):
        one.update(3.0)
    assert [part.agent for part in fleet.record.contributors] == [0, 1, 2]
    assert fleet.saved[-1].params[0] == 3.0 and fleet.record.missing == {}


def test_what_was_published_can_never_change() -> None:
    """[wire 2, 3] Every THETA's array is read-only and has its checksum still after the last round."""
    fleet = Fleet(config(rounds=5))
    agents = fleet.started(0, 1, 2)
    for round_ in range(5):
        for agent in agents:
            agent.update(math.pi * round_)
    sent = [c for c in fleet.of(e.Send) if isinstance(c.message, m.Theta)]
    assert len(sent) == 15
    for command in sent:
        assert isinstance(command.message, m.Theta)
        params = command.tensors["params"]
        assert not params.flags.writeable and crc32(params) == command.message.crc32
