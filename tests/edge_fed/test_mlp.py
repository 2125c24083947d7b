"""The neural policy: closed forms at several hidden sizes, sampling, initial parameters."""

import numpy as np
import pytest

from edge_fed.policies.mlp import Mlp, make_mlp
from edge_fed.spaces import Spaces
from tests.edge_fed import checks

SPACES = Spaces(num_actions=8, observation_shape=(2,))
HIDDEN = [(32,), (1,), (7,), (5, 4), (3, 6, 2)]


def case(hidden, seed, scale=1.0):
    """A policy with generic parameters, recorded trajectories of 4 steps and 6 columns, weights."""
    rng = np.random.default_rng(seed)
    policy = Mlp(SPACES, hidden)
    states = rng.uniform(-1, 1, (4, 6, 2))
    actions = rng.integers(0, 8, (4, 6))
    params, v = scale * rng.normal(size=(2, policy.dimension)) * [[0.5], [1.0]]
    w, q = rng.normal(size=(2, 4, 6))

    def record(theta):
        trace = policy.begin(theta, states)
        for h in range(4):
            policy.act(trace, h, np.full((6, 1), 0.5))
        trace.actions[:] = actions
        return trace

    return policy, record, states, params, v, w, q


@pytest.mark.parametrize("hidden", HIDDEN)
def test_score_equals_finite_differences(hidden):
    """Sum of w psi agrees with differences of w log pi to 6e-7, for any hidden sizes."""
    policy, record, states, params, _, w, _ = case(hidden, 1)
    checks.check_score(policy, record(params), states, params, w, 6e-7)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_second_equals_finite_differences(hidden):
    """Sum of (w psi + q Psi v) agrees with differences of the score to 6e-7, for any hidden sizes."""
    policy, record, states, params, v, w, q = case(hidden, 2)
    checks.check_second(policy, record, states, params, v, w, q, 6e-7)


def test_closed_forms_hold_for_weights_that_need_the_shift():
    """Output weights beyond the safe bound take the shifted path: finite, and still the derivative."""
    policy, record, states, params, v, w, q = case((4,), 3)
    params[-8:] += np.linspace(800, 810, 8)  # biases of the logits: exp alone would overflow
    assert record(params).shift
    checks.check_score(policy, record(params), states, params, w, 6e-7)
    checks.check_second(policy, record, states, params, v, w, q, 6e-7)


def test_nan_parameters_choose_valid_actions():
    """NaN never indexes outside the actions; refusing it is the local update's part."""
    policy, record, _, params, *_ = case((4,), 3)
    params[:] = np.nan
    trace = record(params)
    assert ((policy.act(trace, 0, np.full((6, 1), 0.5)) >= 0) & (trace.actions < 8)).all()


def test_columns_are_the_trajectories_alone():
    """The score of some columns equals that of the whole trace with the other weights at zero."""
    policy, record, _, params, _, w, _ = case((5, 4), 4)
    trace, only = record(params), np.zeros_like(w)
    only[:, 2:5] = w[:, 2:5]
    found = policy.score(trace.columns(slice(2, 5)), w[:, 2:5])
    np.testing.assert_allclose(found, policy.score(trace, only), atol=1e-13)


def test_actions_follow_their_probabilities():
    """Equally spaced uniforms give each action the share exp(log_prob)."""
    policy, _, _, params, *_ = case((5,), 5)
    n = 20_000
    states = np.broadcast_to([0.3, -0.7], (1, n, 2)).copy()
    shares = np.bincount(
        policy.act(policy.begin(params, states), 0, (np.arange(n)[:, None] + 0.5) / n), minlength=8
    )
    expected = np.exp(policy.log_prob(params, np.broadcast_to([0.3, -0.7], (8, 2)), np.arange(8)))
    assert abs(expected.sum() - 1) < 1e-12
    assert abs(shares / n - expected).max() < 1.5 / n


def test_uniform_just_below_one_picks_the_last_action():
    """With u * total rounded up to the total, the last action is chosen, never the first by default."""
    policy, _, states, params, *_ = case((5,), 6)
    trace = policy.begin(params, states)
    assert (policy.act(trace, 0, np.full((6, 1), 1 - 2**-53)) == 7).all()


def test_initial_parameters_have_the_papers_scales():
    """W1 ~ N(0, 0.5^2), W_out ~ N(0, 0.1^2), zero biases; d = 360 for 2-32-8, laid out by layer."""
    policy = Mlp(SPACES, (32,))
    assert policy.dimension == 360
    draws = np.stack([policy.initial(np.random.default_rng(seed)) for seed in range(400)])
    assert abs(draws[:, :64].std() - 0.5) < 0.01
    assert abs(draws[:, 96:352].std() - 0.1) < 0.002
    assert not draws[:, 64:96].any()
    assert not draws[:, 352:].any()


def test_every_block_learns_at_the_initial_parameters():
    """The gradient of every weight and bias is nonzero at initialization (no frozen layer)."""
    policy, record, _, _, _, w, _ = case((6, 5), 7)
    gradient = policy.score(record(policy.initial(np.random.default_rng(0))), w)
    assert all(block.all() for block in policy.network.split(gradient))


def test_equal_seeds_give_equal_parameters():
    """Initial parameters are a function of their stream."""
    policy = Mlp(SPACES, (4, 3))
    first, second = (policy.initial(np.random.default_rng(9)) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"hidden": []}, "hidden"),
        ({"hidden": [0]}, "hidden"),
        ({"hidden": [32.5]}, "hidden"),
        ({"hidden": [True]}, "hidden"),
        ({"hidden": 32}, "hidden"),
        ({"hiden": [32]}, "did you mean 'hidden'"),
    ],
)
def test_wrong_arguments_are_named(args, named):
    """A wrong arg is refused with its name."""
    with pytest.raises(ValueError, match=named):
        make_mlp(SPACES, args)


def test_finite_states_are_refused():
    """The message names what the family has, and the policy for it."""
    with pytest.raises(ValueError, match="this family has 25 states: use policy 'softmax'"):
        make_mlp(Spaces(num_actions=4, observation_shape=(), num_states=25), {})


@pytest.mark.parametrize("shape", [(3, 2), (1, 2, 3), (6, 1)])
def test_observations_of_any_shape_are_flattened(shape):
    """A box of any shape gives what the same numbers in a row give, to the bit."""
    row, box = (Mlp(Spaces(num_actions=8, observation_shape=s), (5,)) for s in ((6,), shape))
    rng = np.random.default_rng(0)
    params, v = rng.normal(size=(2, row.dimension))
    w, q = rng.normal(size=(2, 4, 3))
    states, noise = rng.normal(size=(4, 3, 6)), rng.random((4, 3, 1))
    found = []
    for policy, seen in ((row, states), (box, states.reshape(4, 3, *shape))):
        later = np.empty_like(seen)  # a rollout fills the states after `begin`
        trace = policy.begin(params, later)
        for h in range(4):
            later[h] = seen[h]
            policy.act(trace, h, noise[h])
        tangent = policy.tangent(trace, v)
        found.append(
            [
                trace.actions,
                policy.log_prob(params, seen, trace.actions),
                policy.kl(params, v, seen),
                policy.score(trace, w),
                policy.second(tangent, w, q),
            ]
        )
    assert row.description == box.description
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes() and one.any()


def test_without_output_weights_it_starts_uniform():
    """``output_sd = 0``: every action has the probability 1/8 in any state; hidden weights are drawn."""
    policy = make_mlp(SPACES, {"output_sd": 0.0})
    params = policy.initial(np.random.default_rng(0))
    states = np.random.default_rng(1).normal(size=(5, 2))
    log_pi = policy.log_prob(params, states, np.arange(5))
    assert np.allclose(log_pi, -np.log(8), rtol=0, atol=1e-15) and params[:64].all()
