"""Sessions and idempotency as lists of events: who is let in, what is answered, what changes nothing."""

import numpy as np
import pytest

from edge_fed.config import Overrides
from protocol import messages as m
from server import events as e
from server.members import LAST_WORDS
from server.outbox import LOUD
from tests.server.fleet import FakeAgent, Fleet, config


def test_an_agent_is_welcomed_with_the_configuration_and_its_role() -> None:
    """A planned goal trains, a held-out one onboards, and both get the run's settings."""
    fleet = Fleet()
    trainer, onboarder = fleet.agent(0), fleet.agent(5)
    trainer.register()
    onboarder.register()
    assert trainer.last(m.Welcome).role == "train"
    assert onboarder.last(m.Welcome).role == "onboard"
    assert trainer.last(m.Welcome).config["environment"]["family"] == "gridworld"
    assert trainer.last(m.Welcome).limits["lease_s"] == 5.0


def test_onboarding_on_request_needs_no_free_goal() -> None:
    """An onboarder of a training goal is let in beside the agent that trains it."""
    fleet = Fleet()
    fleet.join(0)
    guest = fleet.agent(0)
    guest.register(role="onboard")
    assert guest.last(m.Welcome).role == "onboard"
    assert fleet.machine.members.eligible() == (0,)


def test_a_repeated_register_gets_the_same_session_over_the_new_connection() -> None:
    """The same incarnation is the same session, whatever connection it comes over."""
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register()
    sid = agent.session.sid
    agent.reconnect()
    agent.register()
    assert agent.session.sid == sid
    assert agent.count(m.Welcome) == 2
    agent.ready()
    assert fleet.machine.members.eligible() == (0,)


def test_a_ready_agent_that_registers_again_is_told_to_the_supervisor() -> None:
    """Until its READY a round may open without it; before its first READY it is no news."""
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register()
    agent.reconnect()
    agent.register()
    assert fleet.told("registers_again") == []
    agent.ready()
    agent.reconnect()
    agent.register()
    assert fleet.told("registers_again") == [{"agent": 0, "role": "train"}]
    assert fleet.machine.members.eligible() == ()
    agent.ready()
    assert len(fleet.told("ready")) == 2


def test_a_register_that_crosses_its_answer_gets_no_second_one() -> None:
    """WELCOME may be on its way: over the same connection it is repeated after 2 s, then after 4 more."""
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register()
    for wait_s, welcomes in ((1.0, 1), (1.5, 2), (3.0, 2), (1.5, 3)):
        fleet.wait(wait_s)
        agent.register()
        assert agent.count(m.Welcome) == welcomes
    agent.ready()
    agent.register()
    assert agent.count(m.Welcome) == 4, "an agent that was READY has lost it"


def test_a_register_that_was_overtaken_over_a_newer_connection_changes_nothing() -> None:
    """The server was stopped: what waits in two connections of one agent is read in turn, old after new.

    [complaints 67]
    """
    fleet = Fleet()
    agent, *_ = fleet.started(0, 1, 2)
    old = agent.peer
    agent.reconnect()
    agent.join()
    welcomes = agent.count(m.Welcome)
    fleet.event(e.Received(old, m.Header(), m.Register(agent=0, incarnation=agent.incarnation)))
    assert agent.count(m.Welcome) == welcomes
    agent.update()
    assert fleet.machine.course.training.waiting() == (1, 2)


def test_a_register_with_a_forged_session_is_read_as_one_outside_sessions() -> None:
    """It neither ends the server nor changes the numbers of the session."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    again = m.Register(agent=0, incarnation=agent.incarnation)
    fleet.event(e.Received(agent.peer, m.Header(session=b"x" * 16, seq=1), again))
    assert agent.count(m.Welcome) == 2


def test_a_message_over_a_new_connection_rebinds_the_session() -> None:
    """[wire 23] A DEALER reconnects unseen: the next message says where answers go."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    agent.reconnect()
    agent.beat()
    assert agent.count(m.Heartbeat) == 1


def test_an_unknown_session_is_told_to_register_again() -> None:
    """After a restart of the server nothing in a message of the old session is read."""
    fleet = Fleet()
    stranger = fleet.agent(0)
    stranger.register()
    other = Fleet()
    done = other.event(
        e.Received(b"peer!", m.Header(session=stranger.session.sid, seq=2), m.Heartbeat(phase=""))
    )
    assert [c.message.code for c in done if isinstance(c, e.Send)] == ["unknown_session"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"dimension": 7}, "dimension"),
        ({"schema_sha256": "0" * 64}, "schema"),
        ({"initial_sha256": "0" * 64}, "environment"),
    ],
)
def test_an_agent_that_does_not_fit_is_rejected(fields: dict[str, object], reason: str) -> None:
    """Dimension, layout and initial parameters must be the run's; the answer names both values.

    [complaints 43, 58]
    """
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register()
    agent.ready(**fields)
    reject = agent.last(m.Reject)
    assert reject.reason == reason
    assert reject.expected and reject.received
    if reason in ("dimension", "schema"):
        assert reject.expected == "softmax 25x4", "its layout, so that the agent can say where they part"
    assert fleet.machine.members.eligible() == ()


@pytest.mark.parametrize(
    ("goal", "fields", "reason"),
    [
        (99, {}, "unknown_goal"),
        (0, {"known_run": b"another-run-id-!"}, "wrong_run"),
        (0, {"overrides": {"inner_batch": -1}}, "overrides"),
        (0, {"overrides": {"no_such_key": 1}}, "overrides"),
        (0, {"overrides": {"curvature": "naiv"}}, "overrides"),
        (0, {"overrides": {"args": {"no_such_argument": 1}}}, "overrides"),
    ],
)
def test_a_wrong_registration_is_rejected_by_name(goal: int, fields: dict[str, object], reason: str) -> None:
    """Unknown goal, another run and impossible overrides each have their own reason.

    [complaints 4, 26, 58]
    """
    fleet = Fleet()
    agent = fleet.agent(goal)
    agent.register(**fields)
    assert agent.last(m.Reject).reason == reason
    assert fleet.journal("rejected")[0]["reason"] == reason


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"link": {"latency_s": 3600.0}}, "--link latency_s: is 3600.0, expected a number from 0 to 60"),
        ({"curvature": "naiv"}, "--curvature: unknown curvature estimator 'naiv' (did you mean 'naive'?)"),
        ({"args": {"no_such_argument": 1}}, "--env-arg"),
    ],
)
def test_refused_overrides_are_named_as_the_command_line_names_them(
    overrides: dict[str, object], said: str
) -> None:
    """A person typed flags: no dump of fields that were never typed."""
    agent = Fleet().agent(0)
    agent.register(overrides=overrides)
    reject = agent.last(m.Reject)
    assert said in reject.message
    assert (reject.expected, reject.received) == ("", "")


def test_an_agent_may_return_to_its_own_run() -> None:
    """An agent process that was in this run before a restart of the server is welcome."""
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register(known_run=fleet.machine.room.admission.run_id)
    assert agent.count(m.Welcome) == 1


def test_an_agent_s_own_overrides_go_over_its_table_and_into_the_record() -> None:
    """What an agent changes for itself is written down, and counts only for it."""
    fleet = Fleet()
    first, second = fleet.agent(0), fleet.agent(1)
    first.join(overrides={"inner_batch": 3})
    second.join()
    fleet.join(2)
    fleet.evaluate()
    for agent in fleet.agents:
        agent.update()
    assert fleet.saved[-1].record.overrides == {0: Overrides(inner_batch=3)}


def test_a_held_update_is_acknowledged_once_and_its_resend_is_a_duplicate() -> None:
    """The receipt comes with the answer to the next heartbeat, before it; the same update counts once."""
    fleet = Fleet()
    first, *_ = fleet.started(0, 1, 2)
    first.update(1.0)
    assert first.acks() == [], "most rounds commit before anybody needs a receipt"
    first.beat(round_=1)
    assert [type(message) for message in first.inbox[-2:]] == [m.Ack, m.Heartbeat]
    first.beat(round_=1)
    first.update(1.0)
    assert [ack.outcome for ack in first.acks()] == ["held", "duplicate"]
    for agent in fleet.agents[1:]:
        agent.update(4.0)
    assert [c.agent for c in fleet.record.contributors] == [0, 1, 2]
    assert fleet.saved[-1].params[0] == 3.0


def test_another_update_of_the_same_round_is_a_conflict_and_changes_nothing() -> None:
    """The first update stands."""
    fleet = Fleet()
    first, *others = fleet.started(0, 1, 2)
    first.update(1.0)
    first.update(100.0)
    assert first.last(m.Error).code == "conflict"
    for agent in others:
        agent.update(1.0)
    assert fleet.saved[-1].params[0] == 1.0


def test_a_resend_after_the_commit_gets_the_same_answer() -> None:
    """The agent never saw the receipt of a committed round: duplicate, or conflict for another update."""
    fleet = Fleet(config(rounds=3))
    agents = fleet.started(0, 1, 2)
    for agent in agents:
        agent.update(1.0)
    theta_1 = next(message for message in agents[0].inbox if isinstance(message, m.Theta))
    assert theta_1.round == 1
    delta = np.full(agents[0].tensors["params"].size, 1.0)
    agents[0].update_with(delta, round=1, theta_crc32=theta_1.crc32)
    assert agents[0].last(m.Ack) == m.Ack(round=1, outcome="duplicate")
    agents[0].update_with(2 * delta, round=1, theta_crc32=theta_1.crc32)
    assert agents[0].last(m.Error).code == "conflict"
    assert fleet.machine.course.training.waiting() == (0, 1, 2)


def test_an_update_of_a_round_that_is_not_open_is_refused() -> None:
    """An update for the future cannot have been computed from anything."""
    fleet = Fleet()
    agent, *_ = fleet.started(0, 1, 2)
    delta = np.zeros(fleet.machine.room.admission.dimension)
    agent.update_with(delta, round=9, theta_crc32=0)
    assert agent.last(m.Ack).outcome == "refused"
    assert fleet.machine.course.training.waiting() == (0, 1, 2)


def test_a_stale_number_is_dropped_without_an_answer() -> None:
    """A replayed message changes nothing and is not answered."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    header = agent.session.send(m.Heartbeat(phase="idle"))
    fleet.event(e.Received(agent.peer, header, m.Heartbeat(phase="idle")))
    before = len(agent.inbox)
    fleet.event(e.Received(agent.peer, header, m.Bye()))
    assert len(agent.inbox) == before
    assert fleet.machine.members.eligible() == (0,)


def test_a_message_out_of_order_is_answered_and_changes_nothing() -> None:
    """An onboarder may not send an update."""
    fleet = Fleet()
    guest = fleet.agent(5)
    guest.join()
    header = m.Header(session=guest.session.sid, seq=99)
    update = m.Update(round=1, theta_crc32=0, crc32=0, trajectories=1, trajectories_spent=1)
    fleet.event(e.Received(guest.peer, header, update, {"delta": np.zeros(3)}))
    assert guest.last(m.Error).code == "illegal_order"


def test_ten_malformed_messages_in_a_row_end_a_session() -> None:
    """Nine and a good one do not; ten do, and the round goes on without that agent."""
    fleet = Fleet()
    agent, *_ = fleet.started(0, 1, 2)
    for _ in range(9):
        fleet.event(e.Malformed(agent.peer, "malformed", "garbage"))
    agent.beat("training", 1)
    assert fleet.machine.members.eligible() == (0, 1, 2)
    for _ in range(10):
        fleet.event(e.Malformed(agent.peer, "malformed", "garbage"))
    assert fleet.machine.members.eligible() == (1, 2)
    assert 0 not in fleet.machine.course.training.waiting()
    assert agent.last(m.Error).code == "malformed"


def test_malformed_messages_of_strangers_are_counted_but_do_not_fill_the_log() -> None:
    """A thousand malformed messages are ten lines."""
    fleet = Fleet()
    for _ in range(1000):
        fleet.event(e.Malformed(b"x", "malformed", "garbage"))
    assert fleet.machine.malformed == 1000
    assert len(fleet.of(e.Log)) == 10


def test_a_peer_of_another_major_version_is_written_down() -> None:
    """The refusal itself is sent by the runtime, in our version."""
    fleet = Fleet()
    fleet.event(e.PeerVersion(b"x", 9, 1))
    assert fleet.journal("rejected") == [{"reason": "version", "received": "9.1"}]


def test_two_different_fingerprints_are_a_mixed_fleet() -> None:
    """Another machine's numerics are recorded per round and warned about once."""
    fleet = Fleet()
    first, second, third = (fleet.agent(k) for k in range(3))
    for agent, mark in ((first, "a"), (second, "b"), (third, "b")):
        agent.register()
        agent.ready(fingerprint=mark)
    fleet.evaluate()
    for agent in fleet.agents:
        agent.update()
    assert fleet.saved[-1].record.fingerprints == {"a": (0,), "b": (1, 2)}
    assert len(fleet.journal("mixed_fleet")) == 1


def test_a_late_joiner_becomes_eligible_at_the_next_boundary() -> None:
    """An agent that comes in the middle of round 1 changes nothing in it and trains in round 2.

    [complaints 8] [wire 14]
    """
    fleet = Fleet(config(quorum=2))
    first, second = fleet.started(0, 1)
    late = FakeAgent(fleet, 2)
    late.join()
    assert late.count(m.Theta) == 0
    first.update()
    second.update()
    assert fleet.record.eligible == (0, 1)
    assert late.last(m.Theta).round == 2
    assert fleet.journal("round_opened")[-1]["cohort"] == (0, 1, 2)


def test_a_flood_of_refusals_fills_neither_log_nor_journal() -> None:
    """A stranger that registers a thousand times for a goal that does not exist is answered every time."""
    fleet = Fleet()
    strangers = [fleet.agent(99) for _ in range(1000)]
    for stranger in strangers:
        stranger.register()
    assert all(stranger.count(m.Reject) == 1 for stranger in strangers)
    assert len(fleet.journal("rejected")) == LOUD + 3, "and then 128, 256, 512"


def test_what_is_kept_for_processes_that_are_gone_is_bounded() -> None:
    """The answer to a process that was displaced is kept for a while, not for ever."""
    fleet = Fleet()
    members = fleet.machine.members
    fleet.join(0)
    (member,) = members.everybody()
    for number in range(3 * LAST_WORDS):
        member.session.sid = member.incarnation = number.to_bytes(16, "big")
        members.remove(member, m.Superseded(message="x"))
    assert members.last_word((0).to_bytes(16, "big")) is None
    assert members.last_word((3 * LAST_WORDS - 1).to_bytes(16, "big")) is not None


def test_an_agent_of_another_run_and_the_log_are_told_how_to_go_on_with_it() -> None:
    """A server was killed and started anew instead of resumed: all its agents are refused."""
    fleet = Fleet()
    agent = fleet.agent(0)
    commands = agent.register(known_run=b"another-run-id-!")
    resume = "stop this server and start: python -m server --resume runs/<its folder>, with the same --bind"
    assert resume in agent.last(m.Reject).message
    (line,) = [c for c in commands if isinstance(c, e.Log)]
    assert line.level == "warning" and resume in line.text


def test_an_agent_that_leaves_before_it_was_ready_is_a_warning() -> None:
    """It refuses the run, e.g. for its noise: the log says why, and no internal error of anybody."""
    fleet = Fleet()
    agent = fleet.agent(0)
    agent.register()
    commands = agent.send(m.Bye(reason="it refuses the run: noise 2 is below --min-noise 5"))
    (line,) = [c for c in commands if isinstance(c, e.Log)]
    assert line.text == "agent 0 is gone: bye (it refuses the run: noise 2 is below --min-noise 5)"
    assert line.level == "warning"
