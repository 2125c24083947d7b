"""The sampler: conventions, own streams of fused batches, counting."""

import numpy as np
import pytest

from edge_fed.seeding import Purpose, stream, streams
from tests.edge_fed import checks


def test_rollouts_keep_the_papers_conventions():
    """H+1 actions, reward of the state before the action, absolute discount."""
    checks.check_rollout_conventions()


def test_uniform_policy_averages_to_the_floor():
    """The mean return of the uniform policy is 0.2438700556 within four standard errors."""
    checks.check_uniform_floor()


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_fused_batches_draw_from_their_own_streams(family):
    """A batch starts and acts the same whether it rolls out alone or beside others."""
    checks.check_own_streams(family)


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_one_trajectory_is_sampled_with_two_rows_and_counted_as_one(family):
    """A batch of one is cut from a rollout of two: no one-row product, no extra draw, no extra count."""
    task, params = checks.task_and_params(checks.FAMILIES[family])
    rng = stream(0, 3, 1, 0, Purpose.OUTER)
    (one,) = task.sample(params, [(1, rng)])
    assert one.size == 1
    assert one.states.base.shape[1] == 2
    assert task.sample.trajectories == 1
    again = stream(0, 3, 1, 0, Purpose.OUTER)
    task.environment.start(again, 1)
    again.random((task.environment.horizon + 1, 1))
    assert rng.random() == again.random()


def test_pool_holds_the_batches_side_by_side():
    """The pool's parts are what a call returns."""
    task, params = checks.task_and_params(checks.NAVIGATION)
    draw = streams(0, 3, 1, 0)
    batches = [(4, Purpose.INNER), (3, Purpose.OUTER)]
    pool = task.sample.pool(params, [(m, draw(p)) for m, p in batches])
    parts = task.sample(params, [(m, draw(p)) for m, p in batches])
    assert (np.concatenate([part.states for part in parts], axis=1) == pool.states).all()
    assert (np.concatenate([part.rewards for part in parts], axis=1) == pool.rewards).all()


@pytest.mark.parametrize("family", checks.FAMILIES)
@pytest.mark.parametrize("m", [1, 2, 7, 300])
def test_outcomes_are_those_of_a_rollout_that_keeps_everything(family, m):
    """Writing over the policy's record changes no bit, no draw and no count."""
    task, params = checks.task_and_params(checks.FAMILIES[family])
    rng, again = (stream(0, 3, 1, 0, Purpose.EVALUATE) for _ in range(2))
    found = task.sample.outcomes(params, m, rng)
    assert (task.sample.trajectories, task.sample.env_steps) == (m, found.rewards.size)
    pool = task.sample.pool(params, [(m, again)])
    assert (found.states == pool.states).all()
    assert found.states.shape == pool.states.shape
    assert (found.rewards == pool.rewards).all()
    assert found.rewards.shape == pool.rewards.shape
    assert rng.random() == again.random()


def test_earlier_batches_survive_later_rollouts():
    """Arrays belong to the caller: the curvature batch is intact after the outer rollout."""
    task, params = checks.task_and_params(checks.NAVIGATION)
    (first,) = task.sample(params, [(5, stream(0, 3, 1, 0, Purpose.INNER))])
    copies = first.states.copy(), first.actions.copy(), first.trace.odds.copy()
    task.sample(params + 1, [(5, stream(0, 3, 1, 0, Purpose.OUTER))])
    for now, then in zip((first.states, first.actions, first.trace.odds), copies, strict=True):
        assert (now == then).all()


def test_first_trajectories_of_a_pool_are_a_smaller_pool():
    """Part of a batch is those trajectories: their scores are the batch's with the others left out."""
    task, params = checks.task_and_params(checks.NAVIGATION)
    (pool,) = task.sample(params, [(40, stream(0, 3, 1, 0, Purpose.ADAPT))])
    part = pool.part(slice(0, 15))
    weights = np.ones((21, 40))
    weights[:, 15:] = 0
    found = task.policy.score(part.trace, weights[:, :15])
    np.testing.assert_allclose(found, task.policy.score(pool.trace, weights), atol=1e-12)


def test_an_empty_rollout_is_refused():
    """No trajectories at all is a mistake of the caller, said so."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    with pytest.raises(ValueError, match="one trajectory or more"):
        task.sample(params, [(0, stream(0, 3, 1, 0, Purpose.INNER))])


def test_an_empty_batch_beside_others_is_empty():
    """A curvature batch of 0, as fedavg_pg may have, costs nothing and changes no other batch."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    draw = streams(0, 3, 1, 0)
    first, none = task.sample(params, [(4, draw(Purpose.INNER)), (0, draw(Purpose.CURVATURE))])
    assert (first.size, none.size, task.sample.trajectories) == (4, 0, 4)
