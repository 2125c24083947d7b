"""Liveness as lists of events: leases, lost and returning agents, take-over, reminders, our own lag."""

from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from tests.server.fleet import FakeAgent, Fleet, config


def test_a_silent_agent_is_excused_when_its_lease_ends() -> None:
    """[complaints 2] Five seconds of silence, not the round's deadline, end the wait for a dead agent."""
    fleet = Fleet()
    _dead, *others = fleet.started(0, 1, 2)
    for agent in others:
        agent.update()
    fleet.wait(4.0)
    for agent in others:
        agent.beat("training", 1)
    assert fleet.machine.course.training.waiting() == (0,)
    fleet.wait(1.5)
    assert fleet.saved[-1].record.missing == {0: "lease"}
    assert fleet.told("lost")[0] == {"agent": 0, "role": "train", "why": "lease"}


def test_heartbeats_keep_an_agent_that_trains_for_long() -> None:
    """[complaints 5] A step that lasts three leases loses nobody who beats."""
    fleet = Fleet()
    agents = fleet.started(0, 1, 2)
    fleet.live(15, *agents, phase="training")
    assert fleet.journal("lost") == []
    assert fleet.machine.course.training.waiting() == (0, 1, 2)


def test_a_lost_agent_comes_back_in_its_session_and_its_late_update_changes_nothing() -> None:
    """Excused is final for the round; the agent takes part again at the next boundary."""
    fleet = Fleet(config(rounds=3))
    sleeper, *others = fleet.started(0, 1, 2)
    theta = sleeper.last(m.Theta)
    for agent in others:
        agent.update(1.0)
    fleet.live(6, *others, phase="training")
    assert fleet.saved[-1].record.missing == {0: "lease"}
    assert fleet.journal("round_opened")[-1]["cohort"] == (1, 2)
    sleeper.update(9.0)
    assert sleeper.last(m.Ack).outcome == "late"
    assert theta.round == 1
    for agent in others:
        agent.update(1.0)
    assert fleet.journal("round_opened")[-1]["cohort"] == (0, 1, 2)
    assert fleet.saved[-1].params[0] == 2.0


def test_a_broken_connection_excuses_nobody_before_the_lease_ends() -> None:
    """[wire 23] Unreachable is a fact; the agent reconnects, gets THETA again and is counted."""
    fleet = Fleet()
    agents = fleet.join(0, 1, 2)
    fleet.gone.add(agents[0].peer)
    fleet.evaluate()
    fleet.gone.clear()
    agents[0].evaluated()
    fleet.gone.add(agents[0].peer)
    agents[0].beat("idle", 0)
    assert fleet.machine.course.training.waiting() == (0, 1, 2)
    agents[0].reconnect()
    agents[0].beat("idle", 0)
    for agent in agents:
        agent.update()
    assert fleet.saved[-1].record.missing == {}


def test_theta_is_sent_again_to_an_agent_that_evidently_never_got_it() -> None:
    """Over a new connection at once, over the same one after two heartbeats; never to one that has it.

    [wire 23]
    """
    fleet = Fleet()
    agent, *_ = fleet.started(0, 1, 2)
    agent.beat("idle", 0)  # crossed THETA on the way
    assert agent.count(m.Theta) == 1
    fleet.wait(2.5)
    agent.beat("training", 1)
    assert agent.count(m.Theta) == 1
    agent.beat("idle", 0)
    assert agent.count(m.Theta) == 2
    agent.reconnect()
    agent.beat("idle", 0)
    assert agent.count(m.Theta) == 3


def test_evaluate_is_sent_again_to_an_idle_agent() -> None:
    """An EVALUATE that was lost with its connection is repeated."""
    fleet = Fleet()
    agents = fleet.join(0, 1, 2)
    agents[0].reconnect()
    agents[0].beat("evaluating")
    assert agents[0].count(m.Evaluate) == 1
    agents[0].beat("idle")
    assert agents[0].count(m.Evaluate) == 2


def test_a_lagging_agent_gets_its_theta_at_its_next_heartbeat() -> None:
    """A message that did not fit into a full pipe is not forgotten."""
    fleet = Fleet()
    agent, *_ = fleet.started(0, 1, 2)
    fleet.event(e.Lagging(agent.peer))
    agent.beat("idle", 0)
    assert agent.count(m.Theta) == 2
    assert fleet.journal("lagging") == [{"agent": 0}]


def test_our_own_lag_extends_all_leases() -> None:
    """[wire 28] A server that was stopped for a minute does not blame its agents."""
    fleet = Fleet()
    agents = fleet.started(0, 1, 2)
    fleet.now += 50.0
    fleet.event(e.Tick(late_s=50.0))
    assert fleet.journal("lost") == []
    for agent in agents:
        agent.beat("training", 1)
    fleet.wait(4.0)
    assert fleet.machine.members.eligible() == (0, 1, 2)
    fleet.now += 50.0
    fleet.event(e.Tick(late_s=0.0))
    assert fleet.machine.members.eligible() == ()


def test_a_bulk_transfer_extends_the_lease() -> None:
    """An agent that receives and returns 10 MB may be silent for 20 s more."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    member = fleet.machine.members.training[0]
    member.ask("theta", 1, 10_000_000, fleet.now)
    fleet.wait(20.0)
    assert fleet.machine.members.eligible() == (0,)
    fleet.wait(6.0)
    assert fleet.machine.members.eligible() == ()
    assert agent.agent == 0


def test_the_supervisor_s_word_that_an_agent_is_dead_counts_at_once() -> None:
    """Nobody waits for the lease of a process that was reaped, and its session is over."""
    fleet = Fleet()
    dead, *others = fleet.started(0, 1, 2)
    fleet.event(e.DeclaredLost(0))
    for agent in others:
        agent.update()
    assert fleet.saved[-1].record.missing == {0: "lost"}
    fleet.event(
        e.Received(dead.peer, dead.session.send(m.Heartbeat(phase="idle")), m.Heartbeat(phase="idle"))
    )
    assert dead.last(m.Error).code == "unknown_session"


def test_bye_excuses_at_once() -> None:
    """An agent that leaves in order is not waited for."""
    fleet = Fleet()
    leaver, *others = fleet.started(0, 1, 2)
    leaver.send(m.Bye(reason="battery"))
    for agent in others:
        agent.update()
    assert fleet.saved[-1].record.missing == {0: "bye"}
    assert fleet.journal("lost")[0]["reason"] == "battery"


def test_an_agent_whose_step_failed_is_excused_with_its_words() -> None:
    """[complaints 53] Exception type and place reach the record, and nobody waits."""
    fleet = Fleet()
    broken, *others = fleet.started(0, 1, 2)
    broken.send(m.Error(code="internal", message="ValueError in rollouts.py:12"))
    for agent in others:
        agent.update()
    assert fleet.saved[-1].record.missing == {0: "error: ValueError in rollouts.py:12"}


# --- two agents, one goal ------------------------------------------------------------------------------


def test_a_living_agent_keeps_its_goal() -> None:
    """[complaints 66] [wire 15] The newcomer is refused once the present agent answers PING."""
    fleet = Fleet()
    (holder,) = fleet.join(0)
    newcomer = fleet.agent(0)
    newcomer.register()
    assert newcomer.inbox == []
    assert holder.count(m.Ping) == 1
    holder.send(m.Pong())
    assert newcomer.last(m.Reject).reason == "goal_in_use"
    assert fleet.machine.members.eligible() == (0,)


def test_only_the_answer_to_ping_proves_life() -> None:
    """A heartbeat that was on its way when the process died does not."""
    fleet = Fleet()
    (holder,) = fleet.join(0)
    newcomer = fleet.agent(0)
    newcomer.register()
    holder.beat()
    fleet.wait(1.4)
    assert newcomer.inbox == []
    fleet.wait(0.2)
    assert newcomer.count(m.Welcome) == 1


def test_a_silent_agent_is_superseded_and_told_so_if_it_returns() -> None:
    """[wire 16] After 1.5 s the newcomer takes over; the old process gets the same last word every time."""
    fleet = Fleet()
    (holder,) = fleet.join(0)
    frozen = FakeAgent(fleet, 0, holder.incarnation)
    frozen.session, frozen.peer = holder.session, holder.peer
    fleet.agents.remove(holder)
    newcomer = fleet.agent(0)
    newcomer.register()
    fleet.wait(1.6)
    assert newcomer.count(m.Welcome) == 1
    assert frozen.last(m.Superseded)
    again = FakeAgent(fleet, 0, holder.incarnation)
    again.register()
    assert again.last(m.Superseded)
    assert fleet.machine.members.training[0].incarnation == newcomer.incarnation


def test_an_unreachable_agent_is_superseded_at_once() -> None:
    """PING to a dead connection fails within milliseconds: a restarted agent need not wait.

    [complaints 66]
    """
    fleet = Fleet()
    (holder,) = fleet.join(0)
    fleet.gone.add(holder.peer)
    newcomer = fleet.agent(0)
    newcomer.register()
    assert newcomer.count(m.Welcome) == 1


def test_take_over_displaces_a_living_agent() -> None:
    """[wire 15] ``--take-over`` asks nobody."""
    fleet = Fleet()
    (holder,) = fleet.join(0)
    newcomer = fleet.agent(0)
    newcomer.register(take_over=True)
    assert newcomer.count(m.Welcome) == 1
    assert holder.last(m.Superseded)


def test_a_third_process_is_refused_while_a_challenge_runs() -> None:
    """One question at a time; the newcomer's own repetition is no third process."""
    fleet = Fleet()
    fleet.join(0)
    newcomer, third = fleet.agent(0), fleet.agent(0)
    newcomer.register()
    newcomer.register()
    third.register()
    assert third.last(m.Reject).reason == "goal_in_use"
    fleet.wait(1.6)
    assert newcomer.count(m.Welcome) == 1


def test_a_successor_gets_the_open_round_s_theta() -> None:
    """The goal is still expected: a restarted agent works on the same round, and counts."""
    fleet = Fleet()
    victim, *others = fleet.started(0, 1, 2)
    fleet.gone.add(victim.peer)
    successor = fleet.agent(0)
    successor.join()
    assert successor.last(m.Theta).round == 1
    for agent in (*others, successor):
        agent.update()
    assert [c.agent for c in fleet.saved[-1].record.contributors] == [0, 1, 2]
    assert fleet.saved[-1].record.missing == {}


def test_a_successor_is_not_asked_for_what_is_held_already() -> None:
    """The update of the killed process stands."""
    fleet = Fleet()
    victim, *_ = fleet.started(0, 1, 2)
    victim.update()
    fleet.gone.add(victim.peer)
    successor = fleet.agent(0)
    successor.join()
    assert successor.count(m.Theta) == 0


def test_everybody_dead_ends_the_run_by_skipped_rounds_or_the_join_deadline() -> None:
    """[complaints 4] A server whose agents all died does not stay on its port."""
    fleet = Fleet(config(rounds=50, join_deadline_s=20.0))
    fleet.started(0, 1, 2)
    fleet.wait(120.0)
    assert fleet.exit.code == ExitCode.QUORUM
    assert fleet.now <= 220.0


def test_nothing_happens_after_the_exit() -> None:
    """The machine is silent once it has said Exit, and asks for no timer."""
    fleet = Fleet(config(join_deadline_s=1.0))
    fleet.wait(2.0)
    assert fleet.exit.code == ExitCode.QUORUM
    assert fleet.machine.due() == float("inf")
    assert fleet.event(e.Tick()) == []
    assert fleet.event(e.Stop("again", ExitCode.FAILED)) == []
