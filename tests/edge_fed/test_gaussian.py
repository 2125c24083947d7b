"""The Gaussian policy: closed forms for every kind of log-std, sampling, KL, boxes."""

import numpy as np
import pytest

from edge_fed.envs.pendulum import Pendulum
from edge_fed.policies.gaussian import Gaussian, make_gaussian
from edge_fed.rollouts import Sampler
from edge_fed.spaces import Spaces
from tests.edge_fed import checks

LOW, HIGH = (-2.0, 0.0), (2.0, 6.0)
SPACES = Spaces(num_actions=None, observation_shape=(3,), action_low=LOW, action_high=HIGH)
KINDS = {
    "fixed": {},
    "wide": {"log_std": 0.3},
    "learned": {"log_std": "learned"},
    "squashed": {"squash": True},
    "squashed and learned": {"log_std": "learned", "squash": True},
}
LIMIT = 6e-7  # as of the network with logits


def case(kind, seed, hidden=(5, 4)):
    """A policy with generic parameters, recorded trajectories of 4 steps and 6 columns, weights."""
    rng = np.random.default_rng(seed)
    policy = Gaussian(SPACES, hidden, **KINDS[kind])
    states = rng.uniform(-1, 1, (4, 6, 3))
    params, v = rng.normal(size=(2, policy.dimension)) * [[0.5], [1.0]]
    w, q = rng.normal(size=(2, 4, 6))
    actions = np.array(rollout(policy, params, states, rng.normal(size=(4, 6, 2))).actions)

    def record(theta):
        trace = rollout(policy, theta, states, np.zeros((4, 6, 2)))
        trace.actions[:] = actions
        return trace

    return policy, record, states, params, v, w, q


def rollout(policy, params, states, noise):
    """The trace of acting in given states."""
    trace = policy.begin(params, states)
    for h in range(len(states)):
        policy.act(trace, h, noise[h])
    return trace


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [(32,), (1,), (5, 4)])
def test_score_equals_finite_differences(kind, hidden):
    """Sum of w psi agrees with differences of w log pi to 6e-7."""
    policy, record, states, params, _, w, _ = case(kind, 1, hidden)
    checks.check_score(policy, record(params), states, params, w, LIMIT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [(32,), (1,), (5, 4)])
def test_second_equals_finite_differences(kind, hidden):
    """Scores along v, and sum of (w psi + q Psi v), agree with differences to 6e-7."""
    policy, record, states, params, v, w, q = case(kind, 2, hidden)
    checks.check_second(policy, record, states, params, v, w, q, LIMIT)


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_learns_at_the_initial_parameters(kind):
    """No weight, bias or rho is frozen; a part of the trajectories has a part of the score."""
    policy, record, _, _, _, w, _ = case(kind, 3)
    trace = record(policy.initial(np.random.default_rng(0)))
    gradient = policy.score(trace, w)
    blocks = [*policy.network.split(gradient), gradient[policy.network.weights :]]
    assert all(block.all() for block in blocks)
    parts = [policy.score(trace.columns(part), w[:, part]) for part in (slice(0, 2), slice(2, 6))]
    assert np.allclose(parts[0] + parts[1], gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_log_prob_is_the_density_of_what_is_stored(kind):
    """It integrates to 1 over a fine grid of stored actions, to 1e-6: one dimension of action."""
    spaces = Spaces(num_actions=None, observation_shape=(3,), action_low=(-2.0,), action_high=(6.0,))
    policy = Gaussian(spaces, (5,), **KINDS[kind])
    params = np.random.default_rng(4).normal(size=policy.dimension)
    grid = np.linspace(-60, 60, 200_001)[:, None]
    states = np.broadcast_to([0.3, -0.2, 0.9], (len(grid), 3))
    total = np.exp(policy.log_prob(params, states, grid)).sum() * (grid[1, 0] - grid[0, 0])
    assert total == pytest.approx(1, abs=1e-6)


def test_samples_are_affine_in_unit_space_and_not_clipped():
    """Mean and deviation of samples are those of the box: centre + half (mean + sd z), far outside it too."""
    policy = Gaussian(SPACES, (5,), 0.0)
    params = np.zeros(policy.dimension)
    policy.network.split(params)[-1][-1] = [0.5, -1.0]  # the means, whatever is seen
    noise = np.array([[[0.0, 0.0], [3.0, -2.0]]])
    actions = rollout(policy, params, np.ones((1, 2, 3)), noise).actions
    assert np.allclose(actions, [[[1.0, 0.0], [7.0, -6.0]]], rtol=0, atol=1e-12)
    assert policy.executed(actions) is actions


def test_squashed_actions_stay_in_the_box():
    """What is stored is u; what is executed is tanh(u) in the box, at its end for huge u."""
    policy = Gaussian(SPACES, (5,), 0.0, squash=True)
    params = np.zeros(policy.dimension)
    noise = np.array([[[0.0, 0.5], [40.0, -40.0]]])
    stored = rollout(policy, params, np.ones((1, 2, 3)), noise).actions
    assert stored.tolist() == noise.tolist()
    expected = [[[0.0, 3.0 + 3 * np.tanh(0.5)], [2.0, 0.0]]]
    assert np.allclose(policy.executed(stored), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("squash", [False, True])
def test_the_environment_gets_what_is_executed(squash):
    """A sampler stores samples, steps and pays with what the policy makes of them: pathwise, in both ways."""
    environment = Pendulum(30, 0.9, {}).make(0)
    policy = Gaussian(environment.spaces, (5,), 0.5, squash=squash)
    sampler = Sampler(environment, policy)
    params = np.random.default_rng(0).normal(size=policy.dimension)
    batch = sampler.pool(params, [(6, np.random.default_rng(1))])
    sent = 10 * np.tanh(batch.actions) if squash else batch.actions
    assert (abs(batch.actions) > (1 if squash else 10)).any(), "nothing reaches the ends: this shows nothing"
    rewards = environment.rewards(batch.states, sent) * 0.9 ** np.arange(31)[:, None]
    assert np.allclose(batch.rewards, rewards, rtol=0, atol=1e-12)
    out = np.empty((6, 3))
    for h in range(30):
        environment.step(batch.states[h], sent[h], out)
        assert np.allclose(batch.states[h + 1], out, rtol=0, atol=1e-12)
    found = sampler.outcomes(params, 6, np.random.default_rng(1))
    assert found.rewards.tobytes() == batch.rewards.tobytes()


def test_a_learned_log_std_starts_at_the_fixed_one_and_keeps_its_bounds():
    """-0.7 at first; between -2.5 and 0.5 for any rho, without a warning; a fixed one does not move."""
    policy = make_gaussian(SPACES, {"log_std": "learned"})
    params = policy.initial(np.random.default_rng(0))
    assert policy.dimension == make_gaussian(SPACES, {}).dimension + 2
    assert np.allclose(policy.log_std(params)[0], -0.7, rtol=0, atol=1e-12)
    params[-2:] = -700.0, 700.0
    assert np.allclose(policy.log_std(params)[0], [-2.5, 0.5], rtol=0, atol=1e-12)
    trace = rollout(policy, params, np.ones((2, 3, 3)), np.ones((2, 3, 2)))
    tangent = policy.tangent(trace, np.ones(policy.dimension))
    assert np.isfinite(policy.second(tangent, np.ones((2, 3)), np.ones((2, 3)))).all()


@pytest.mark.parametrize("kind", KINDS)
def test_kl_is_the_mean_of_log_ratios(kind):
    """Closed form against 200,000 samples, to five standard errors; 0 to itself."""
    policy, _, states, params, v, _, _ = case(kind, 5)
    other = params + 0.1 * v
    one = np.broadcast_to(states[0, 0], (1, 200_000, 3))
    actions = rollout(policy, params, one, np.random.default_rng(0).normal(size=(1, 200_000, 2))).actions
    ratios = policy.log_prob(params, one, actions) - policy.log_prob(other, one, actions)
    found = policy.kl(params, other, states)
    assert found.shape == (4, 6) and found[0, 0] > 1e-3
    assert abs(ratios.mean() - found[0, 0]) < 5 * ratios.std() / np.sqrt(ratios.size)
    assert abs(policy.kl(params, params, states)).max() < 1e-15


def test_noise_is_standard_normal():
    """One per dimension of action, in the order of the stream."""
    policy = Gaussian(SPACES)
    noise = policy.noise(np.random.default_rng(1), 3, 4)
    assert noise.tobytes() == np.random.default_rng(1).standard_normal((3, 4, 2)).tobytes()


def test_observations_of_any_shape_are_flattened():
    """A box of shape (3, 1) gives what the same numbers in a row give, to the bit."""
    policy, _, states, params, _, w, _ = case("learned", 6)
    spaces = Spaces(num_actions=None, observation_shape=(3, 1), action_low=LOW, action_high=HIGH)
    box = Gaussian(spaces, (5, 4), "learned")
    noise = np.random.default_rng(2).normal(size=(4, 6, 2))
    trace = rollout(policy, params, states, noise)
    other = rollout(box, params, states[..., None], noise)
    assert trace.actions.tobytes() == other.actions.tobytes()
    assert policy.score(trace, w).tobytes() == box.score(other, w).tobytes()
    found = box.log_prob(params, states[..., None], trace.actions)
    assert found.tobytes() == policy.log_prob(params, states, trace.actions).tobytes()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"hidden": []}, "'hidden'"),
        ({"log_std": "free"}, "'log_std'.*found 'free'"),
        ({"log_std": 9.0}, "'log_std'.*found 9.0"),
        ({"squashed": True}, "did you mean 'squash'"),
    ],
)
def test_wrong_arguments_are_named(args, message):
    """A wrong arg is refused with its name."""
    with pytest.raises(ValueError, match=message):
        make_gaussian(SPACES, args)


def test_finite_actions_and_states_are_refused():
    """The message names what the family has, and the policy for it."""
    with pytest.raises(ValueError, match="this family has 4 actions: use policy 'mlp'"):
        make_gaussian(Spaces(num_actions=4, observation_shape=(2,)), {})
    with pytest.raises(ValueError, match="this family has 9 states: use policy 'softmax'"):
        make_gaussian(Spaces(num_actions=4, observation_shape=(), num_states=9), {})
