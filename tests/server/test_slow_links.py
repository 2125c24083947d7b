"""Links so slow that a question is still on its way when the agent says that it has none."""

from protocol import messages as m
from tests.server.fleet import Fleet, config


def test_questions_do_not_pile_up_on_a_link_slower_than_they_are_repeated() -> None:
    """THETA needs a minute: it is repeated after 2, 4, 8 and 16 heartbeats, not thirty times."""
    fleet = Fleet(config(lease_s=6.0, round_deadline_s=600.0, heartbeat_s=1.0))
    agent, *_ = fleet.started(0, 1, 2)
    sent = []
    for second in range(1, 66):
        fleet.wait(1.0)
        agent.beat("idle", 0)
        sent += [second] if agent.count(m.Theta) > len(sent) + 1 else []
    assert sent == [3, 8, 17, 34]
    agent.reconnect()
    agent.beat("idle", 0)
    assert agent.count(m.Theta) == len(sent) + 2, "over a new connection it is sent at once"


def test_the_next_question_starts_with_a_short_pause() -> None:
    """The doubling belongs to one question, not to the agent."""
    fleet = Fleet(config(lease_s=6.0, round_deadline_s=600.0, heartbeat_s=1.0))
    agents = fleet.started(0, 1, 2)
    for _ in range(20):
        fleet.wait(1.0)
        agents[0].beat("idle", 0)
    for agent in agents:
        agent.update()
    count = agents[0].count(m.Theta)
    fleet.wait(2.5)
    agents[0].beat("idle", 1)
    assert agents[0].count(m.Theta) == count + 1


def test_a_long_lease_means_a_slow_link() -> None:
    """With a lease of half a minute THETA is repeated after ten seconds, not after two heartbeats."""
    fleet = Fleet(config(lease_s=30.0, heartbeat_s=1.0))
    agent, *_ = fleet.started(0, 1, 2)
    fleet.live(9, agent)
    assert agent.count(m.Theta) == 1
    fleet.live(3, agent)
    assert agent.count(m.Theta) == 2


def test_a_question_on_its_way_is_not_sent_again_however_long_it_takes() -> None:
    """The agent says what it has received: THETA, or anything behind it, is not among it yet."""
    fleet = Fleet(config(lease_s=6.0, round_deadline_s=600.0, heartbeat_s=1.0))
    agent, *_ = fleet.started(0, 1, 2)
    before = agent.session.received - 1
    for _ in range(66):
        fleet.wait(1.0)
        agent.beat("idle", 0, before)
    assert agent.count(m.Theta) == 1
    agent.beat("idle", 0, agent.session.received)
    assert agent.count(m.Theta) == 2, "it has received what came behind THETA: THETA was lost"
    agent.reconnect()
    agent.beat("idle", 0, before)
    assert agent.count(m.Theta) == 3, "over a new connection it is sent at once"


def test_answers_to_heartbeats_say_what_was_heard() -> None:
    """So the agent knows what is still on its way."""
    fleet = Fleet(config())
    agent, *_ = fleet.started(0, 1, 2)
    agent.beat("idle", 0)
    assert agent.last(m.Heartbeat).heard == agent.session.sent > 0
