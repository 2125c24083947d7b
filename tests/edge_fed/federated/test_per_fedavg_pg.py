"""The plain loop: round rules, agent state, and the order of agents."""

import msgspec
import numpy as np
import pytest

from edge_fed.federated import per_fedavg_pg as loop
from edge_fed.federated.cohort import cohort
from edge_fed.federated.local_update import LocalUpdate, initial_state, local_update
from edge_fed.federated.per_fedavg_pg import full_attendance, per_fedavg_pg
from edge_fed.federated.record import Attendance
from edge_fed.federated.task import initial_params
from edge_fed.params import crc32, params_sha256
from tests.edge_fed.federated.runs import gridworld, play, tasks_of


def hashes(rounds):
    """The params hash of each round."""
    return [outcome.record.params_sha256 for outcome in rounds]


def test_a_round_is_the_mean_of_the_agents_own_updates():
    """Recomputing both agents' updates by hand gives the round's parameters and checksums."""
    config = gridworld(agents="0-1", rounds=1)
    (outcome,) = play(config, range(2))
    start = initial_params(config)
    updates = [
        local_update(task, start, initial_state(task), config.seed, 1, lambda _: None)
        for task in tasks_of(config, range(2)).values()
    ]
    expected = start + (updates[0].delta + updates[1].delta) / 2.0
    assert outcome.params.tobytes() == expected.tobytes()
    assert [c.crc32 for c in outcome.record.contributors] == [crc32(u.delta) for u in updates]
    assert outcome.record.params_sha256 == params_sha256(expected)


def test_agents_may_be_given_in_any_order():
    """Permuting the agents changes no bit (science.md mistake 37)."""
    config = gridworld(rounds=3, baseline="value")
    forward = play(config, range(8))
    backward = play(config, reversed(range(8)), full_attendance(reversed(range(8)), 3))
    assert hashes(forward) == hashes(backward)


def test_runs_with_one_seed_are_equal_and_seeds_differ():
    """The seed decides every bit."""
    first, again, other = (hashes(play(gridworld(seed=s, rounds=2), range(8))) for s in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]


def test_participation_asks_the_drawn_cohort_only():
    """With r = 0.5 four of eight agents contribute, the ones that `cohort` draws."""
    config = gridworld(rounds=4, participation=0.5)
    for outcome in play(config, range(8)):
        record = outcome.record
        assert record.cohort == cohort(config.seed, record.round, range(8), 0.5)
        assert tuple(c.agent for c in record.contributors) == record.cohort
        assert len(record.cohort) == 4


def test_too_few_updates_skip_the_round_and_change_nothing():
    """Below the minimum the parameters, and the agents' states, stay; the round's number advances."""
    config = gridworld(rounds=3, baseline="value")
    everybody = tuple(range(8))
    rounds = [
        Attendance(1, everybody),
        Attendance(2, everybody, present=frozenset({0, 1, 2})),
        Attendance(3, everybody),
    ]
    skipped = play(config, everybody, rounds)
    assert [outcome.record.outcome for outcome in skipped] == ["folded", "skipped", "folded"]
    assert skipped[1].record.params_sha256 == skipped[0].record.params_sha256
    assert skipped[1].record.contributors == ()
    # The same third round without any second one: the skipped round left no trace in any agent.
    without = play(config, everybody, [Attendance(1, everybody), Attendance(3, everybody)])
    assert skipped[2].record.params_sha256 == without[1].record.params_sha256


def test_state_advances_only_with_counted_updates():
    """An agent that missed a round continues from its state of before; a reset starts it anew."""
    config = gridworld(rounds=3, baseline="value")
    everybody, rest = tuple(range(8)), frozenset(range(1, 8))
    missed = [Attendance(1, everybody), Attendance(2, everybody, present=rest), Attendance(3, everybody)]
    reset = [*missed[:2], Attendance(3, everybody, state_resets=(0,))]
    kept, lost = play(config, everybody, missed), play(config, everybody, reset)
    assert hashes(kept)[:2] == hashes(lost)[:2]
    assert hashes(kept)[2] != hashes(lost)[2]
    third = {c.agent: c.crc32 for c in kept[2].record.contributors}
    anew = {c.agent: c.crc32 for c in lost[2].record.contributors}
    assert {agent for agent in everybody if third[agent] != anew[agent]} == {0}
    assert kept[1].record.missing == {0: "absent"}


@pytest.mark.parametrize(
    ("variant", "per_step"), [("exact", 10 + 7 + 4), ("first_order", 10 + 4), ("fedavg_pg", 10 + 7 + 4)]
)
def test_trajectories_are_counted_exactly(variant, per_step):
    """[complaints 36] Tau (m_in + m_h + m_out), without m_h for first_order."""
    config = gridworld(rounds=1, variant=variant, inner_batch=10, hessian_batch=7, outer_batch=4)
    (outcome,) = play(config, range(8))
    assert {c.trajectories for c in outcome.record.contributors} == {5 * per_step}


def test_outer_step_size_zero_leaves_the_bits():
    """Beta = 0 changes nothing (science.md mistake 5: the step is applied at theta, not at theta~)."""
    config = gridworld(rounds=2, outer_step_size=0.0)
    assert hashes(play(config, range(8)))[1] == params_sha256(initial_params(config))


def test_published_parameters_cannot_be_changed():
    """Each round's parameters are a read-only array of their own."""
    first, second = play(gridworld(rounds=2), range(8))
    assert not np.shares_memory(first.params, second.params)
    assert not first.params.flags.writeable


def test_an_agent_whose_step_diverges_is_excused_and_named():
    """A non-finite update is no update: the others are averaged, the reason is in the record."""
    config = gridworld(rounds=2, local_steps=1)
    everybody = tuple(range(8))
    tasks = tasks_of(config, everybody)
    wild = msgspec.structs.replace(tasks[3].settings, outer_step_size=float("inf"))
    tasks[3] = msgspec.structs.replace(tasks[3], settings=wild)
    start = initial_params(config)
    *_, last = per_fedavg_pg(config, tasks, start, full_attendance(everybody, 2))
    others = [Attendance(k, everybody, present=frozenset(everybody) - {3}) for k in (1, 2)]
    assert last.record.missing[3].startswith("refused: agent 3, round 2")
    assert last.record.params_sha256 == hashes(play(config, everybody, others))[1]


def test_a_round_whose_sum_overflows_is_skipped(monkeypatch):
    """Finite updates that add up to infinity change nothing; the run goes on."""
    huge = LocalUpdate(np.full(100, 1.7e308), 1, {}, {})
    monkeypatch.setattr(loop, "private_update", lambda *_, **__: huge)
    (outcome,) = play(gridworld(rounds=1), range(8))
    assert outcome.record.outcome == "skipped"
    assert outcome.record.params_sha256 == params_sha256(initial_params(gridworld()))


def test_three_skipped_rounds_in_a_row_end_the_run():
    """The third says why and is the last; a folded round in between starts the count again."""
    everybody = tuple(range(8))
    few = {"present": frozenset({0, 1, 2})}
    rounds = [Attendance(k, everybody, **({} if k == 3 else few)) for k in range(1, 9)]
    found = play(gridworld(rounds=8, local_steps=1), everybody, rounds)
    assert [outcome.record.outcome for outcome in found] == [*["skipped"] * 2, "folded", *["skipped"] * 3]
    assert [bool(outcome.ends) for outcome in found] == [*[False] * 5, True]
    assert found[-1].ends == "3 rounds in a row had too few updates"


def test_without_anybody_to_ask_no_round_is_played():
    """As the server, which then waits for agents to come."""
    rounds = [Attendance(1, (0, 1)), Attendance(2, ()), Attendance(3, (0, 1))]
    found = play(gridworld(agents="0-1", rounds=3, local_steps=1), range(2), rounds)
    assert [(outcome.record.round, outcome.ends) for outcome in found] == [(1, "")]
