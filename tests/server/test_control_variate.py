"""The server's half of the control variates: sent with THETA, advanced by the fold, kept by checkpoints."""

import numpy as np
import pytest

from edge_fed.federated.aggregation import Fold
from edge_fed.params import F8, crc32, params_sha256
from protocol import messages as m
from server import events as e
from server.admission import Admission
from server.ledger import Ledger, Resume
from tests.server.fleet import FakeAgent, Fleet, config

D = 100


def corrected(**changes: object) -> Fleet:
    """A fleet of a run with control variates."""
    return Fleet(config(**{"rounds": 4, "correction": "control_variate", **changes}))  # type: ignore[arg-type]


def control(fleet: Fleet) -> F8:
    """The newest committed c."""
    found = fleet.saved[-1].control
    assert found is not None
    return found


def all_update(*agents: FakeAgent, value: float = 1.0) -> None:
    """Everybody answers its newest THETA."""
    for agent in agents:
        agent.update(value)


def heir_of(fleet: Fleet, victim: FakeAgent) -> FakeAgent:
    """A new process of an agent, without any agent state."""
    fleet.gone.add(victim.peer)
    heir = fleet.agent(victim.agent)
    heir.register()
    heir.ready(stateful=True)
    return heir


def test_theta_carries_the_control_variate_of_a_run_that_has_one() -> None:
    """WELCOME names the feature; the checksum covers both tensors; without the correction nothing changes."""
    for fleet, features, names in (
        (corrected(), ("control",), ["params", "control"]),
        (Fleet(config(rounds=4)), (), ["params"]),
    ):
        agent, *others = fleet.started(0, 1, 2)
        all_update(agent, *others)
        assert agent.last(m.Welcome).features == features
        assert list(agent.tensors) == names
        assert agent.last(m.Theta).crc32 == crc32(*agent.tensors.values())
        assert not agent.last(m.Theta).control_reset
        if features:
            assert agent.tensors["control"].any()
            assert not agent.tensors["control"].flags.writeable


def test_only_theta_carries_it() -> None:
    """EVALUATE and INIT need the parameters alone."""
    fleet = corrected(rounds=1)
    agents = fleet.started(0, 1, 2)
    all_update(*agents)
    guest = fleet.agent(5)
    guest.join()
    fleet.evaluate()
    guest.send(m.Onboard())
    carried = [(c.message, c.tensors) for c in fleet.of(e.Send) if isinstance(c.message, m.Evaluate | m.Init)]
    assert {type(message) for message, _ in carried} == {m.Evaluate, m.Init}
    for message, tensors in carried:
        assert list(tensors) == ["params"]
        assert message.crc32 == crc32(tensors["params"])  # type: ignore[union-attr]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_it_advances_by_the_fold_whatever_the_order_of_arrival(order: tuple[int, ...]) -> None:
    """Bit for bit what the mathematics makes of the same updates in agent order; recorded by its hash."""
    fleet, rng = corrected(), np.random.default_rng(7)
    agents = fleet.started(0, 1, 2)
    expected = fleet.machine.room.admission.control
    assert expected is not None
    for _ in range(3):
        fold, deltas = Fold(np.zeros(D)), rng.normal(size=(3, D))
        for agent, delta in enumerate(deltas):
            fold.add(agent, delta, 10)
        expected = expected.after(fold)
        for k in order:
            theta = agents[k].last(m.Theta)
            agents[k].update_with(deltas[k], round=theta.round, theta_crc32=theta.crc32)
        assert control(fleet).tobytes() == expected.value.tobytes()
        assert fleet.record.control_sha256 == params_sha256(expected.value)


def test_what_is_not_folded_leaves_it() -> None:
    """Refused, late and skipped updates are not in the sum."""
    fleet = corrected(rounds=6)
    bad, *others = fleet.started(0, 1, 2)
    bad.update(np.nan)
    all_update(*others)
    # (delta 1, tau beta = 5 * 0.2 = 1, n = 3) of two agents
    assert np.allclose(control(fleet), 2 / 3)
    before = control(fleet).tobytes()
    for agent in (bad, *others):
        agent.update(np.nan)
    assert fleet.record.outcome == "skipped"
    assert control(fleet).tobytes() == before
    assert fleet.record.control_sha256 == params_sha256(control(fleet))


def test_an_update_computed_from_another_control_variate_is_refused() -> None:
    """The checksum that UPDATE echoes is that of parameters and control variate together."""
    fleet = corrected()
    bad, *others = fleet.started(0, 1, 2)
    all_update(bad, *others)
    delta, alone = np.ones(D), crc32(bad.tensors["params"])
    bad.update_with(delta, round=2, theta_crc32=alone)
    assert bad.last(m.Ack).outcome == "refused"
    assert f"{alone:08x}" in bad.last(m.Ack).reason
    forged = crc32(bad.tensors["params"], np.zeros(D))
    others[0].update_with(delta, round=2, theta_crc32=forged)
    assert others[0].last(m.Ack).outcome == "refused"


def test_updates_that_overflow_it_skip_the_round() -> None:
    """The parameters are finite, their control variate would not be: nothing changes."""
    fleet = corrected(outer_step_size=1e-300)
    all_update(*fleet.started(0, 1, 2), value=1e10)
    assert fleet.record.outcome == "skipped"
    assert not control(fleet).any()


def test_after_a_lost_state_all_start_from_zero() -> None:
    """The reset is recorded; c is zero; every agent is told once, also one that joins or comes back later."""
    fleet = corrected(rounds=6, agents="0-3", quorum=3)
    victim, *others = fleet.started(0, 1, 2)
    all_update(victim, *others)
    heir = heir_of(fleet, victim)
    assert heir.last(m.Theta).state_reset
    assert not others[0].last(m.Theta).control_reset
    absent, present = others
    absent.send(m.Error(code="internal", message="x"))
    all_update(heir, present)
    assert fleet.record.state_resets == (0,)
    assert not control(fleet).any()
    assert fleet.journal("control_restarted") == [{"round": 2, "agents": (0,)}]
    assert [agent.last(m.Theta).control_reset for agent in (heir, *others)] == [True] * 3
    assert not heir.last(m.Theta).state_reset, "the rest of its state after round 2 counts"
    absent.send(m.Error(code="internal", message="x"))
    all_update(heir, present)
    assert control(fleet).any()
    assert [agent.last(m.Theta).control_reset for agent in (heir, absent, present)] == [False, True, False]
    all_update(heir, *others)
    assert not absent.last(m.Theta).control_reset


def test_a_lost_state_that_does_not_count_changes_nothing_yet() -> None:
    """Its old share stays in c, as that of any absent agent, until its update counts."""
    fleet = corrected(rounds=6)
    victim, *others = fleet.started(0, 1, 2)
    all_update(victim, *others)
    heir = heir_of(fleet, victim)
    heir.send(m.Error(code="internal", message="x"))
    all_update(*others)
    assert fleet.record.state_resets == ()
    assert control(fleet).any()
    assert heir.last(m.Theta).state_reset and not others[0].last(m.Theta).control_reset


def test_a_resumed_server_goes_on_with_the_same_bits() -> None:
    """The checkpoint's c and the round since which it counts are sent as before."""
    fleet = corrected()
    victim, *others = fleet.started(0, 1, 2)
    all_update(victim, *others)
    heir = heir_of(fleet, victim)
    all_update(heir, *others)

    def ledger(admission: Admission) -> Ledger:
        saved = fleet.saved[-1]
        assert admission.control is not None and saved.control is not None
        return Ledger(saved.params, saved.round, saved.book, admission.control.of(saved.control))

    again = Fleet(fleet.machine.room.config, ledger=ledger, resume=Resume(expected=(0, 1, 2)))
    agents = again.started(0, 1, 2)
    theta = agents[1].last(m.Theta)
    assert theta == others[0].last(m.Theta)
    assert theta.control_reset
    assert agents[1].tensors["control"].tobytes() == others[0].tensors["control"].tobytes()


@pytest.mark.parametrize(("correction", "refused"), [("control_variate", True), ("none", False)])
def test_an_agent_of_an_older_protocol_is_refused_only_where_it_cannot_follow(
    correction: str, refused: bool
) -> None:
    """Protocol 1.0 does not know a second tensor in THETA; both versions are named."""
    fleet = Fleet(config(correction=correction))
    agent = fleet.agent(0)
    register = m.Register(agent=0, incarnation=agent.incarnation)
    fleet.event(e.Received(agent.peer, agent.session.send(register), register, {}, minor=0))
    assert agent.count(m.Welcome) == (not refused)
    if refused:
        reject = agent.last(m.Reject)
        assert (reject.reason, reject.expected, reject.received) == (
            "version",
            "protocol 1.1",
            "protocol 1.0",
        )
        assert "feature control" in reject.message
