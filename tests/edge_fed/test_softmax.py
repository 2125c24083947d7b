"""The tabular policy: closed forms, sampling, initial parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_fed.policies.softmax import Softmax, make_softmax
from edge_fed.spaces import Spaces
from tests.edge_fed import checks

SPACES = Spaces(num_actions=3, observation_shape=(), num_states=5)


def case(seed):
    """A policy, states and actions of 4 steps and 6 trajectories, parameters, weights."""
    rng = np.random.default_rng(seed)
    policy = Softmax(SPACES)
    states = rng.integers(0, 5, (4, 6))
    actions = rng.integers(0, 3, (4, 6))
    params, v = rng.normal(size=(2, 15))
    w, q = rng.normal(size=(2, 4, 6))

    def record(theta):
        trace = policy.begin(theta, states)
        trace.actions[:] = actions
        return trace

    return policy, record, states, params, v, w, q


@pytest.mark.parametrize("seed", range(5))
def test_score_equals_finite_differences(seed):
    """Sum of w psi agrees with differences of w log pi to 5e-8."""
    policy, record, states, params, _, w, _ = case(seed)
    checks.check_score(policy, record(params), states, params, w, 5e-8)


@pytest.mark.parametrize("seed", range(5))
def test_second_equals_finite_differences(seed):
    """Sum of (w psi + q Psi v) agrees with differences of the score to 5e-8."""
    policy, record, states, params, v, w, q = case(seed)
    checks.check_second(policy, record, states, params, v, w, q, 5e-8)


def test_columns_are_the_trajectories_alone():
    """The score of some columns equals that of a trace of only those trajectories."""
    policy, record, _, params, _, w, _ = case(0)
    trace = record(params)
    rest = w.copy()
    rest[:, 2:5] = 0
    parts = policy.score(trace.columns(slice(2, 5)), w[:, 2:5]) + policy.score(trace, rest)
    np.testing.assert_allclose(parts, policy.score(trace, w), atol=1e-14)


def test_actions_follow_their_probabilities():
    """Equally spaced uniforms give each action its probability, in each state."""
    policy, n = Softmax(SPACES), 40_000
    theta = np.random.default_rng(1).normal(size=15)
    uniforms = (np.arange(n)[:, None] + 0.5) / n
    for state in range(5):
        trace = policy.begin(theta, np.full((1, n), state))
        shares = np.bincount(policy.act(trace, 0, uniforms), minlength=3) / n
        assert abs(shares - policy.probabilities(theta)[state]).max() < 1.5 / n


def test_uniform_just_below_one_picks_the_last_action():
    """Rounding of the running sum never yields an action out of range, nor the first by default."""
    checks.check_sampling_edge()


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.floats(-700, 700), st.integers(0, 14))
def test_probabilities_sum_to_one_at_any_scale(value, position):
    """Probabilities are finite and sum to 1, and log_prob is finite, for very large parameters."""
    params = np.zeros(15)
    params[position] = value
    policy = Softmax(SPACES)
    np.testing.assert_allclose(policy.probabilities(params).sum(axis=1), 1, atol=1e-15)
    assert np.isfinite(policy.log_prob(params, np.arange(5), np.array([0, 1, 2, 0, 1]))).all()


def test_initial_policy_is_uniform():
    """Theta = 0."""
    policy = Softmax(SPACES)
    assert not policy.initial(np.random.default_rng(0)).any()
    assert policy.dimension == 15
    assert policy.description == "softmax 5x3"


@pytest.mark.parametrize(
    ("spaces", "args", "named"),
    [
        (SPACES, {"hidden": [3]}, "hidden"),
        (Spaces(num_actions=3, observation_shape=(2,)), {}, "use policy 'mlp'"),
    ],
)
def test_wrong_arguments_are_named(spaces, args, named):
    """An arg, or a family without finite states, is refused by name."""
    with pytest.raises(ValueError, match=named):
        make_softmax(spaces, args)
