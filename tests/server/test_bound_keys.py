"""Keys as lists of events: which key may act as which agent, and what happens when it may not any more."""

from typing import Any

import pytest

from edge_fed.params import F8
from edge_fed.program.allow_list import AllowList, Rights
from protocol import messages as m
from server import events as e
from tests.server.fleet import FakeAgent, Fleet, config


class Keyed(FakeAgent):
    """An agent whose messages carry a public key."""

    def __init__(self, server: Fleet, agent: int, key: str, **fields: Any) -> None:
        super().__init__(server, agent, **fields)
        self.key = key

    def send(self, message: m.Message, **tensors: F8) -> list[e.Command]:
        """Sends one message within the session."""
        header = self.session.send(message)
        return self.server.event(e.Received(self.peer, header, message, tensors, key=self.key))


def allowed(**rights: str) -> e.Allowed:
    """An allow-list, e.g. ``k0="0"`` or ``guest="onboard"``."""
    ids = {
        key: frozenset(int(word) for word in who.split() if word.isdecimal()) for key, who in rights.items()
    }
    return e.Allowed(AllowList({key: Rights(ids[key], "onboard" in who) for key, who in rights.items()}))


THREE = {"k0": "0", "k1": "1", "k2": "2"}


def keyed_fleet(*agents: int, **rights: str) -> tuple[Fleet, list[Keyed]]:
    """A fleet with an allow-list and agents under their own keys, round 1 open if there are three."""
    fleet = Fleet()
    fleet.event(allowed(**{**THREE, **rights}))
    found = [Keyed(fleet, agent, f"k{agent}") for agent in agents]
    for agent in found:
        agent.join()
    fleet.evaluate()
    return fleet, found


def test_a_key_may_only_act_as_the_agents_of_its_line() -> None:
    """Another id is refused, naming key and agent; nobody's place is taken [complaints 71]."""
    fleet, (one,) = keyed_fleet(1)
    liar = Keyed(fleet, 0, "k1")
    liar.register()
    rejected = liar.last(m.Reject)
    assert rejected.reason == "key"
    assert "k1" in rejected.message and "agent 0" in rejected.message
    assert rejected.expected == "agents 1" and rejected.received == "agent 0"
    assert fleet.machine.members.eligible() == (1,)
    assert fleet.journal("rejected") == [{"agent": 0, "reason": "key"}]
    assert one.count(m.Reject) == 0


def test_a_key_for_onboarding_never_trains() -> None:
    """It may onboard any goal, on request or because the goal does not train."""
    fleet, _ = keyed_fleet(guest="onboard")
    Keyed(fleet, 0, "guest").register()
    for agent, fields, role in ((0, {}, None), (0, {"role": "onboard"}, "onboard"), (7, {}, "onboard")):
        guest = Keyed(fleet, agent, "guest")
        guest.register(**fields)
        assert guest.count(m.Reject) == (role is None)
        assert guest.count(m.Welcome) == (role is not None)


def test_a_replayed_register_from_another_key_is_refused() -> None:
    """Even if that key may act as the agent: the process belongs to its own key [complaints 71]."""
    fleet, (agent,) = keyed_fleet(0, twin="0")
    replay = Keyed(fleet, 0, "twin", incarnation=agent.incarnation)
    replay.register()
    assert replay.last(m.Reject).reason == "key"
    assert replay.count(m.Welcome) == 0
    assert fleet.machine.members.by_peer(agent.peer) is not None
    agent.beat()
    assert agent.count(m.Heartbeat) == 1


@pytest.mark.parametrize("thief_key", ["k1", "twin", ""])
def test_a_session_cannot_be_used_with_another_key(thief_key: str) -> None:
    """A valid session id and a higher number are not enough: it is neither bound nor counted nor ended."""
    fleet, (agent, *_) = keyed_fleet(0, 1, 2, twin="0")
    for message in (m.Heartbeat(phase="idle"), m.Bye(reason="not mine to say")):
        header = m.Header(session=agent.session.sid, run=agent.session.run, seq=1000)
        fleet.event(e.Received(b"thief", header, message, key=thief_key))
    assert [answer.code for answer in sent_to(fleet, b"thief")] == ["unknown_session"] * 2
    agent.update()  # its numbers are lower than the thief's: they still count
    member = fleet.machine.members.by_peer(agent.peer)
    assert member is not None and member.peer == agent.peer
    assert len(fleet.journal("rejected")) == 2


def sent_to(fleet: Fleet, peer: bytes) -> list[Any]:
    """What was sent over a connection."""
    return [command.message for command in fleet.of(e.Send) if command.peer == peer]


def test_the_same_process_with_the_same_key_keeps_its_session_over_a_new_connection() -> None:
    """Rebinding needs the same key, and with it works as without keys."""
    fleet, (agent, *_) = keyed_fleet(0, 1, 2)
    agent.reconnect()
    agent.update()
    member = fleet.machine.members.by_peer(agent.peer)
    assert member is not None and member.key == "k0"


def test_a_revoked_agent_is_told_and_excused_and_the_round_goes_on() -> None:
    """Its session ends, later messages change nothing, the others fold without waiting for a deadline."""
    fleet, (agent, *others) = keyed_fleet(0, 1, 2)
    for other in others:
        other.update(4.0)
    assert len(fleet.saved) == 1  # round 0 alone
    fleet.event(allowed(k1="1", k2="2"))
    assert agent.last(m.Reject).reason == "key"
    record = fleet.saved[-1].record
    assert [c.agent for c in record.contributors] == [1, 2] and record.missing[0] == "key revoked"
    before = fleet.machine.members.eligible()
    thetas = agent.count(m.Theta)
    late = m.Heartbeat(phase="idle")
    header = m.Header(session=agent.session.sid, run=agent.session.run, seq=1000)
    fleet.event(e.Received(b"later", header, late, key="k0"))
    assert [answer.reason for answer in sent_to(fleet, b"later")] == ["key"]
    again = Keyed(fleet, 0, "k0")
    again.register()
    assert again.last(m.Reject).reason == "key"
    assert fleet.machine.members.eligible() == before == (1, 2)
    assert agent.count(m.Theta) == thetas


def test_a_revoked_onboarder_is_told_in_every_state() -> None:
    """Also while it waits for its initialization."""
    fleet, _ = keyed_fleet(guest="onboard")
    guest = Keyed(fleet, 7, "guest")
    guest.join()
    guest.send(m.Onboard(at="final"))
    fleet.event(allowed(**THREE))
    assert guest.last(m.Reject).reason == "key"
    assert not fleet.machine.members.onboarders()


def test_a_changed_list_leaves_the_others_alone() -> None:
    """A newly listed key comes in; a key that loses one of its ids keeps the other."""
    fleet, (agent, *_) = keyed_fleet(0, 1, 2)
    fleet.event(allowed(k0="0", k1="1", k2="2", k5="5"))
    assert agent.count(m.Reject) == 0
    newcomer = Keyed(fleet, 5, "k5")
    newcomer.register()
    assert newcomer.count(m.Welcome) == 1


def test_a_newcomer_that_had_to_wait_keeps_its_key() -> None:
    """The present holder is asked first; after its silence the session belongs to the newcomer's key."""
    fleet, _ = keyed_fleet(0, 1, 2, twin="0")
    newcomer = Keyed(fleet, 0, "twin")
    newcomer.register()
    fleet.wait(2.0)
    assert newcomer.count(m.Welcome) == 1
    newcomer.ready()
    assert 0 in fleet.machine.members.eligible()


def test_a_key_that_is_revoked_while_its_agent_waits_takes_no_place() -> None:
    """The holder is asked; the newcomer's key goes; the holder stays, silent as it is."""
    fleet, (holder, *_) = keyed_fleet(0, 1, 2, twin="0")
    newcomer = Keyed(fleet, 0, "twin")
    newcomer.register()
    fleet.event(allowed(**THREE))
    fleet.wait(2.0)
    assert newcomer.count(m.Welcome) == 0 and newcomer.last(m.Reject).reason == "key"
    assert holder.count(m.Superseded) == 0 and 0 in fleet.machine.members.eligible()


def test_without_keys_nothing_is_checked() -> None:
    """A server without keys sees empty keys only, and lets everybody in."""
    fleet = Fleet(config())
    fleet.join(0, 1, 2)
    assert fleet.machine.members.eligible() == (0, 1, 2)
