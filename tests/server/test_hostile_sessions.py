"""Floods of REGISTER as lists of events: sessions, log and journal stay bounded, and the round goes on."""

import tracemalloc

import numpy as np
import pytest

from protocol import messages as m
from server import events as e
from server import members, outbox
from server.ledger import MOST_FINGERPRINTS
from server.members import BUILD_S, LEFT
from tests.server.fleet import FakeAgent, Fleet, config


def guest(fleet: Fleet, number: int) -> FakeAgent:
    """An onboarder of some goal over its own connection."""
    return fleet.agent(number % 6)


def test_a_connection_carries_one_session() -> None:
    """[wire 30, 50] 1,000 REGISTERs of as many incarnations over one connection leave one session."""
    fleet = Fleet()
    fleet.started(0, 1, 2)
    for number in range(1000):
        message = m.Register(agent=number % 6, incarnation=number.to_bytes(16, "big"), role="onboard")
        fleet.event(e.Received(b"flood", m.Header(), message))
    assert len(fleet.machine.members.everybody()) == 3 + 1
    fleet.wait(6.0)
    assert [member.agent for member in fleet.machine.members.onboarders()] == []


def test_only_updates_of_sessions_are_copied_and_no_larger_ones() -> None:
    """[wire 30] A stranger's tensors are worth nothing; a larger update is refused for its shape alone."""
    fleet = Fleet(config(rounds=1, min_updates=1))
    large, *others = fleet.started(0, 1, 2)
    size = fleet.machine.room.admission.initial.nbytes
    assert fleet.machine.tensor_bytes(m.Header(session=b"s" * 16, seq=1)) == 0
    assert fleet.machine.tensor_bytes(m.Header()) == 0
    assert fleet.machine.tensor_bytes(m.Header(session=large.session.sid, seq=1)) == size
    theta = large.last(m.Theta)
    shape_alone = np.broadcast_to(np.zeros(()), (1000,))
    large.update_with(shape_alone, round=1, theta_crc32=theta.crc32, crc32=0)
    assert "update has shape (1000,)" in large.last(m.Ack).reason
    for agent in others:
        agent.update()
    assert [part.agent for part in fleet.record.contributors] == [1, 2]
    assert "refused" in fleet.record.missing[0]


def test_a_flood_over_many_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """[wire 30, 50] Onboarders that are not READY give way, the oldest first; who is READY stays."""
    monkeypatch.setattr(members, "MAX_GUESTS", 50)
    fleet = Fleet(config(rounds=1))
    agents = fleet.started(0, 1, 2)
    honest = fleet.agent(5)
    honest.join()
    flood = [guest(fleet, number) for number in range(1000)]
    for agent in flood:
        agent.register(role="onboard")
        assert len(fleet.machine.members.onboarders()) <= 50
    here = fleet.machine.members.everybody()
    assert {member.incarnation for member in here} >= {honest.incarnation, flood[-1].incarnation}
    flood[0].ready()
    assert flood[0].last(m.Error).code == "unknown_session", "it was crowded out, and may register again"
    for agent in agents:
        agent.update(1.0)
    assert fleet.record.round == 1 and len(fleet.record.contributors) == 3


def test_a_server_that_is_full_of_ready_onboarders_asks_newcomers_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[wire 50] Nobody who works is sent away; the newcomer asks again, and training agents are let in."""
    monkeypatch.setattr(members, "MAX_GUESTS", 3)
    fleet = Fleet()
    ready = [guest(fleet, number) for number in range(3)]
    for agent in ready:
        agent.register(role="onboard")
        agent.ready()
    late = guest(fleet, 4)
    late.register(role="onboard")
    assert late.last(m.Error).code == "internal" and late.count(m.Welcome) == 0
    fleet.join(0, 1)
    assert fleet.machine.members.eligible() == (0, 1)
    ready[0].send(m.Bye())
    late.register(role="onboard")
    assert late.count(m.Welcome) == 1


def test_an_onboarder_that_never_becomes_ready_expires() -> None:
    """[wire 50] Heartbeats alone hold no place for ever; a READY one is not touched."""
    fleet = Fleet(config(join_deadline_s=1e6))
    idle, works = guest(fleet, 4), guest(fleet, 5)
    idle.register(role="onboard")
    works.register(role="onboard")
    works.ready()
    fleet.live(int(BUILD_S) + 2, idle, works, phase="building")
    assert [member.agent for member in fleet.machine.members.onboarders()] == [5]
    assert idle.last(m.Error).code == "unknown_session"
    assert fleet.journal("lost")[0]["why"] == "never ready"


def test_who_registers_anew_after_long_has_its_time_again() -> None:
    """A READY onboarder that lost its connection builds again, and is not late at once."""
    fleet = Fleet(config(join_deadline_s=1e6))
    agent = guest(fleet, 5)
    agent.register(role="onboard")
    agent.ready()
    fleet.live(int(BUILD_S) + 2, agent)
    agent.register(role="onboard")
    fleet.live(3, agent)
    assert len(fleet.machine.members.onboarders()) == 1


def test_connections_that_a_session_left_are_bounded() -> None:
    """[complaints 49] An agent that reconnects for ever leaves a bounded trace."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    for _ in range(10 * LEFT):
        agent.reconnect()
        agent.beat()
    (member,) = fleet.machine.members.everybody()
    assert len(member.left) == LEFT and fleet.machine.members.by_peer(agent.peer) is member


def test_an_agent_s_errors_do_not_fill_the_log() -> None:
    """[complaints 49] A thousand ERRORs of a session are a hundred lines and a few."""
    fleet = Fleet()
    (agent,) = fleet.join(0)
    for _ in range(1000):
        agent.send(m.Error(code="malformed", message="x" * 4000))
    assert len(fleet.journal("agent_error")) == outbox.LOUD + 3, "and then 128, 256, 512"


def test_versions_are_cut_before_they_are_written() -> None:
    """[complaints 49] 60 kB of versions in each REGISTER do not become 60 kB of journal."""
    fleet = Fleet()
    fleet.agent(0).register(versions={f"{number}" * 30: "v" * 500 for number in range(100)})
    (line,) = fleet.journal("registered")
    assert sum(len(name) + len(version) for name, version in line["versions"].items()) <= 2000


def test_fingerprints_that_are_made_up_are_bounded() -> None:
    """[complaints 49] Each READY with another fingerprint would else make every checkpoint larger."""
    fleet = Fleet()
    agent = fleet.agent(0)
    for number in range(MOST_FINGERPRINTS + 50):
        agent.register()
        agent.ready(fingerprint=f"machine {number}")
    assert len(fleet.machine.room.ledger.book().fingerprints) == MOST_FINGERPRINTS


@pytest.mark.parametrize(
    "overrides",
    [
        {"args": {"size": 1000}},
        {"args": {"x" * 60_000: 1}},
        {"args": {str(number): number for number in range(5000)}},
        {"curvature": "y" * 60_000},
        {"link": {"z" * 60_000: 1.0}},
    ],
    ids=["a million cells", "a long name", "many names", "a long word", "a long key"],
)
def test_settings_that_an_agent_asks_for_cost_the_server_little(overrides: dict[str, object]) -> None:
    """[complaints 49] No environment is built for a REGISTER: a million cells took 78 MB and 0.4 s each."""
    fleet = Fleet()
    agent = fleet.agent(1)
    agent.register(overrides=overrides)
    tracemalloc.start()
    agent = fleet.agent(2)
    agent.register(overrides=overrides)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert len(agent.inbox) == 1
