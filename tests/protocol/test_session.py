"""The order of messages, numbering, idempotency and leases, as lists of events without a loop."""

import itertools
import random

import msgspec
import pytest

from protocol import messages as m
from protocol.codec import TYPES
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import FROM_AGENT, FROM_SERVER, Header
from protocol.session import OUTSIDE, RULES, Session, State
from tests.protocol.samples import SAMPLES

SID, RUN = b"s" * 16, b"r" * 16
ONBOARD = msgspec.structs.replace(SAMPLES[m.Welcome], role="onboard")
PATHS = {
    ("train", State.NEW): [],
    ("train", State.REGISTERING): [m.Register],
    ("train", State.WELCOMED): [m.Register, m.Welcome],
    ("train", State.READY): [m.Register, m.Welcome, m.Ready],
    ("train", State.CLOSED): [m.Register, m.Welcome, m.Ready, m.Bye],
    ("onboard", State.WELCOMED): [m.Register, m.Welcome],
    ("onboard", State.READY): [m.Register, m.Welcome, m.Ready],
    ("onboard", State.WAITING): [m.Register, m.Welcome, m.Ready, m.Onboard],
    ("onboard", State.ONBOARDING): [m.Register, m.Welcome, m.Ready, m.Onboard, m.Init],
    ("onboard", State.CLOSED): [m.Register, m.Reject],
}


class Pair:
    """Both sides of one session, joined by a wire without delay."""

    def __init__(self):
        self.agent = Session("agent")
        self.server = Session("server", SID, RUN)
        self.now = 0.0

    def sides(self, kind, sender=None):
        """Sender and receiver of a type."""
        from_agent = kind in FROM_AGENT if sender is None else sender == "agent"
        return (self.agent, self.server) if from_agent else (self.server, self.agent)

    def say(self, message, sender=None):
        """Sends a message and delivers it."""
        sending, receiving = self.sides(type(message), sender)
        header = sending.send(message)
        receiving.receive(header, message, self.now)
        return header

    def walk(self, role, path):
        """Says the sample messages of these types."""
        for kind in path:
            self.say(ONBOARD if kind is m.Welcome and role == "onboard" else SAMPLES[kind])
        return self


def at(role, state):
    """A pair in this state."""
    pair = Pair().walk(role, PATHS[role, state])
    assert pair.agent.state is pair.server.state is state
    return pair


def memory(session):
    """All that a session remembers."""
    return dict(vars(session))


def refusal(session, header):
    """The code with which a session refuses what the order does not allow."""
    foreign = header.session not in (b"", session.sid)
    return "unknown_session" if foreign or session.state is State.CLOSED else "illegal_order"


@pytest.mark.parametrize(("role", "state"), PATHS, ids=lambda part: getattr(part, "value", part))
def test_order_is_exactly_the_table(role, state):
    """In every state and role, every type from either side is legal if and only if a row says so."""
    for kind, sender in itertools.product(TYPES.values(), ("agent", "server")):
        rules = [r for r in RULES if r.message is kind and state in r.states and r.role in (None, role)]
        assert len(rules) <= 1
        legal = bool(rules) and kind in (FROM_AGENT if sender == "agent" else FROM_SERVER)
        pair = at(role, state)
        message = ONBOARD if kind is m.Welcome and role == "onboard" else SAMPLES[kind]
        sending, receiving = pair.sides(kind, sender)
        assert sending.may_send(kind) is legal
        if legal:
            pair.say(message, sender)
            assert sending.state is receiving.state is (rules[0].next or state)
            continue
        before = memory(sending), memory(receiving)
        with pytest.raises(LocalProtocolError, match=f"{sender} may not send"):
            sending.send(message)
        header = Header() if kind in OUTSIDE else Header(session=SID, seq=99, run=RUN)
        with pytest.raises(RemoteProtocolError) as caught:
            receiving.receive(header, message, 5.0)
        assert caught.value.code == refusal(receiving, header)
        assert (memory(sending), memory(receiving)) == before


def test_what_one_side_may_send_the_other_accepts():
    """300 random walks of 60 messages: both sides always agree on what is legal and where they stand."""
    draw = random.Random(0)
    for _ in range(300):
        pair, role = Pair(), draw.choice(("train", "onboard"))
        for _ in range(60):
            options = [
                (kind, sender)
                for kind in TYPES.values()
                for sender in (pair.agent, pair.server)
                if sender.may_send(kind)
                and (kind not in (m.Bye, m.Shutdown, m.Reject) or draw.random() < 0.05)
            ]
            if not options:
                break
            kind, sender = draw.choice(options)
            pair.say(ONBOARD if kind is m.Welcome and role == "onboard" else SAMPLES[kind], sender.side)
            assert pair.agent.state is pair.server.state
            assert pair.agent.role == pair.server.role
        assert pair.agent.state is not State.NEW


def test_a_training_session_from_start_to_end():
    """The legal flow of the specification, with the numbers that go over the wire."""
    pair = Pair()
    flow = [
        (m.Register, b"", 0),
        (m.Welcome, SID, 1),
        (m.Ready, SID, 1),
        (m.Evaluate, SID, 2),
        (m.Report, SID, 2),
        (m.Theta, SID, 3),
        (m.Update, SID, 3),
        (m.Ack, SID, 4),
        (m.Ping, SID, 5),
        (m.Pong, SID, 4),
        (m.Shutdown, SID, 6),
    ]
    for kind, sid, seq in flow:
        header = pair.say(SAMPLES[kind])
        assert (header.session, header.seq) == (sid, seq), kind
    assert pair.agent.state is pair.server.state is State.CLOSED
    assert (pair.agent.sid, pair.agent.run, pair.agent.role) == (SID, RUN, "train")


def test_onboarding_repeats_what_was_lost():
    """ONBOARD, INIT and REPORT may be said again until the agent leaves."""
    path = [m.Register, m.Welcome, m.Ready, m.Onboard, m.Onboard, m.Init, m.Init, m.Onboard, m.Init]
    pair = Pair().walk("onboard", [*path, m.Report, m.Report, m.Bye])
    assert pair.server.state is State.CLOSED


def test_committed_travels_in_every_header():
    """As the sender says."""
    pair = at("train", State.READY)
    assert pair.server.send(SAMPLES[m.Theta], committed=7).committed == 7


def test_register_may_be_repeated_within_its_session():
    """The same incarnation gets the same session, and its numbers go on."""
    pair = at("train", State.READY)
    pair.say(SAMPLES[m.Heartbeat], "agent")
    pair.walk("train", [m.Register, m.Register, m.Welcome])
    assert pair.agent.sid == SID
    assert pair.say(SAMPLES[m.Ready]).seq == 3


def test_a_second_welcome_changes_nothing():
    """Two REGISTERs cross the first WELCOME: the second finds the agent ready."""
    pair = Pair()
    first, second = pair.agent.send(SAMPLES[m.Register]), pair.agent.send(SAMPLES[m.Register])
    answers = []
    for header in (first, second):
        pair.server.receive(header, SAMPLES[m.Register], 0.0)
        answers.append(pair.server.send(SAMPLES[m.Welcome]))
    pair.agent.receive(answers[0], SAMPLES[m.Welcome], 0.0)
    pair.say(SAMPLES[m.Ready])
    pair.agent.receive(answers[1], SAMPLES[m.Welcome], 0.0)
    assert pair.agent.state is pair.server.state is State.READY


def test_a_second_welcome_changes_not_even_the_role():
    """An onboarder that waits would else stand in a state that its new role does not have."""
    pair = at("onboard", State.WAITING)
    pair.say(SAMPLES[m.Welcome], "server")
    assert pair.agent.role == pair.server.role == "onboard"
    pair.say(SAMPLES[m.Init], "server")


def test_a_restarted_server_gives_a_new_session():
    """The agent keeps its session object; the new id restarts the numbers of both directions."""
    pair = at("train", State.READY)
    for _ in range(5):
        pair.say(SAMPLES[m.Heartbeat], "agent")
        pair.say(SAMPLES[m.Theta])
    pair.server = Session("server", b"t" * 16, RUN)
    stale = pair.agent.send(SAMPLES[m.Update])
    with pytest.raises(RemoteProtocolError) as caught:
        pair.server.receive(stale, SAMPLES[m.Update], 1.0)
    assert caught.value.code == "unknown_session"
    pair.agent.receive(Header(), m.Error(code="unknown_session"), 1.0)
    pair.walk("train", [m.Register, m.Welcome])
    assert pair.agent.sid == b"t" * 16
    assert pair.say(SAMPLES[m.Ready]).seq == 1


def test_old_and_repeated_numbers_are_stale():
    """[wire 48] A number must be higher than the last; gaps are legal."""
    pair = at("train", State.READY)
    headers = [pair.agent.send(SAMPLES[m.Update]) for _ in range(3)]
    pair.server.receive(headers[1], SAMPLES[m.Update], 1.0)
    before = memory(pair.server)
    for header in headers[:2]:
        with pytest.raises(RemoteProtocolError, match="has number") as caught:
            pair.server.receive(header, SAMPLES[m.Update], 2.0)
        assert caught.value.code == "stale_seq"
    assert memory(pair.server) == before
    pair.server.receive(headers[2], SAMPLES[m.Update], 2.0)


def test_each_direction_counts_for_itself():
    """What one side sends does not make the other side's messages stale."""
    pair = at("train", State.READY)
    for _ in range(10):
        pair.say(SAMPLES[m.Theta])
    pair.say(SAMPLES[m.Update])


@pytest.mark.parametrize("sid", [b"", b"x" * 16, SID[:15]])
def test_another_session_id_is_unknown(sid):
    """Nothing else in the message is read, whatever its number."""
    pair = at("train", State.READY)
    with pytest.raises(RemoteProtocolError) as caught:
        pair.server.receive(Header(session=sid, seq=99), SAMPLES[m.Update], 1.0)
    assert caught.value.code == "unknown_session"


def test_no_session_is_no_session_id():
    """An agent that has none takes an empty id for nothing."""
    pair = at("train", State.REGISTERING)
    with pytest.raises(RemoteProtocolError) as caught:
        pair.agent.receive(Header(seq=99), SAMPLES[m.Theta], 1.0)
    assert caught.value.code == "unknown_session"


def test_messages_after_the_end_are_unknown():
    """[wire 24] A heartbeat after BYE, a THETA after SHUTDOWN: answered, never acted on."""
    pair = at("train", State.READY)
    late = pair.agent.send(SAMPLES[m.Heartbeat])
    pair.say(SAMPLES[m.Bye])
    with pytest.raises(RemoteProtocolError) as caught:
        pair.server.receive(late, SAMPLES[m.Heartbeat], 1.0)
    assert caught.value.code == "unknown_session"


def test_a_welcome_without_a_session_is_malformed():
    """An agent cannot live without an id."""
    agent = Session("agent")
    agent.send(SAMPLES[m.Register])
    with pytest.raises(RemoteProtocolError) as caught:
        agent.receive(Header(seq=1), SAMPLES[m.Welcome], 1.0)
    assert caught.value.code == "malformed"
    assert agent.state is State.REGISTERING


def test_refusals_reach_an_agent_without_a_session():
    """REJECT, ERROR, SUPERSEDED and SHUTDOWN carry no id while the agent has none."""
    for kind in (m.Reject, m.Error, m.Superseded, m.Shutdown):
        pair = at("train", State.REGISTERING)
        assert pair.say(SAMPLES[kind], "server").session == b""


def test_a_reject_of_ready_needs_no_session():
    """REJECT is outside the session even after WELCOME."""
    pair = at("train", State.READY)
    assert pair.say(SAMPLES[m.Reject]).session == b""
    assert pair.agent.state is State.CLOSED


def test_leases():
    """Silence beyond the lease expires it; any legal message renews it; `extend` excuses until the next."""
    pair = at("train", State.READY)
    assert not pair.server.expired(5.0, lease_s=5.0)
    assert pair.server.expired(5.1, lease_s=5.0)
    pair.server.extend(2.0)
    pair.server.extend(1.0)
    assert not pair.server.expired(8.0, lease_s=5.0)
    assert pair.server.expired(8.1, lease_s=5.0)
    pair.now = 9.0
    pair.say(SAMPLES[m.Heartbeat], "agent")
    assert pair.server.last_heard == 9.0
    assert not pair.server.expired(14.0, lease_s=5.0)
    assert pair.server.expired(14.1, lease_s=5.0)


def test_refused_messages_renew_no_lease():
    """An old message that surfaces late is no sign of life."""
    pair = at("train", State.READY)
    header = pair.say(SAMPLES[m.Heartbeat], "agent")
    with pytest.raises(RemoteProtocolError):
        pair.server.receive(header, SAMPLES[m.Heartbeat], 100.0)
    assert pair.server.last_heard == 0.0
