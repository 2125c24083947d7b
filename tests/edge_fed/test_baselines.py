"""Baselines: leave-one-out, the learned value, and their state."""

import numpy as np
import pytest

from edge_fed.errors import ShapeError
from edge_fed.meta.baselines import BASELINES, initial_state, remaining_share
from edge_fed.seeding import Purpose, stream
from tests.edge_fed import checks


def test_none_is_the_reward_to_go():
    """With b = 0, advantages are R^h."""
    task, _ = checks.task_and_params(checks.GRIDWORLD)
    assert np.array_equal(BASELINES["none"](task, {}).advantages(checks.hand_batch()), [[2.0], [1.0]])
    assert initial_state(task) == {}


def test_leave_one_out_subtracts_the_mean_of_the_others():
    """Each trajectory's b_h is the mean R^h of the other trajectories of the batch."""
    task, params = checks.task_and_params(checks.GRIDWORLD)
    (batch,) = task.sample(params, [(5, stream(0, 3, 1, 0, Purpose.INNER))])
    to_go = np.cumsum(batch.rewards[::-1], axis=0)[::-1]
    expected = np.stack([to_go[:, j] - np.delete(to_go, j, axis=1).mean(axis=1) for j in range(5)], axis=1)
    np.testing.assert_allclose(BASELINES["loo"](task, {}).advantages(batch), expected, atol=1e-15)


def test_leave_one_out_needs_two():
    """A batch of one has no others; the message says so."""
    task, _ = checks.task_and_params(checks.GRIDWORLD)
    with pytest.raises(ValueError, match="2 trajectories or more"):
        BASELINES["loo"](task, {}).advantages(checks.hand_batch())


def test_leave_one_out_is_unbiased():
    """Over all pairs of trajectories g and H_hat v average to dp's, to 1e-8."""
    checks.check_loo_mean()


def test_value_baseline_by_hand():
    """Two steps of a worked case: w = 0 at first, fitted before sampling, decays by 0.9."""
    checks.check_value_baseline()


def test_value_baseline_leaves_the_state_passed_in():
    """After a step the old state still holds its bits."""
    task = checks.hand_task()
    state = BASELINES["value"].initial(task)
    before = {name: array.tobytes() for name, array in state.items()}
    baseline = BASELINES["value"](task, state)
    baseline.advantages(checks.hand_batch())
    baseline.after()
    assert {name: array.tobytes() for name, array in state.items()} == before


@pytest.mark.parametrize("state", [{}, {"A": np.zeros(3), "b": np.zeros(2)}, {"A": np.zeros(2)}])
def test_value_baseline_refuses_a_state_that_does_not_fit(state):
    """A state of another task, or none, is refused by name."""
    with pytest.raises(ShapeError, match="value baseline: state"):
        BASELINES["value"](checks.hand_task(), state)


def test_remaining_share():
    """zeta_0 = 1, the sum of what is left of gamma^t, and its limit at gamma = 1."""
    powers = 0.9 ** np.arange(4)
    expected = [powers[h:].sum() / powers.sum() for h in range(4)]
    np.testing.assert_allclose(remaining_share(3, 0.9)[:, 0], expected, atol=1e-15)
    np.testing.assert_allclose(remaining_share(3, 1.0)[:, 0], [1, 0.75, 0.5, 0.25])


def test_value_baseline_explains_returns_on_navigation():
    """After 30 batches at fixed parameters it removes most of the variance of R^h that states explain."""
    task, params = checks.task_and_params(checks.NAVIGATION, baseline="value")
    state = initial_state(task)
    for step in range(30):
        (batch,) = task.sample(params, [(30, stream(0, 3, 1, step, Purpose.INNER))])
        baseline = BASELINES["value"](task, state)
        advantages = baseline.advantages(batch)
        state = baseline.after()
    (fresh,) = task.sample(params, [(2000, stream(0, 3, 2, 0, Purpose.INNER))])
    advantages = BASELINES["value"](task, state).advantages(fresh)
    plain = BASELINES["none"](task, {}).advantages(fresh)
    assert (advantages**2).mean() < 0.7 * (plain**2).mean()
