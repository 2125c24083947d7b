"""Diagnostics of the inner step: against dynamic programming, enumeration and closed forms."""

import itertools

import msgspec
import numpy as np
import pytest

from edge_fed import diagnostics, dp
from edge_fed.config import Algorithm, EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.diagnostics import diagnose, signal_to_noise
from edge_fed.federated.task import make_task
from edge_fed.params import params_sha256
from edge_fed.policies.softmax import Softmax
from edge_fed.returns import discounts, reward_to_go
from edge_fed.rollouts import Sampler
from edge_fed.seeding import Purpose, stream
from edge_fed.spaces import Spaces
from tests.edge_fed import checks

SEED = 11
NAMES = {"gradient_snr", "step_norm", "adaptation_kl"}


def grid(**algorithm):
    """A grid of 3 x 3 cells and 3 actions in a row: 512 trajectories; parameters that are not uniform."""
    config = RunConfig(
        environment=EnvironmentConfig(family="gridworld", horizon=2, discount=0.9, args={"size": 3}),
        policy=PolicyConfig(name="softmax"),
        algorithm=Algorithm(inner_step_size=2.0, **algorithm),
    )
    task = make_task(config, 4, Overrides())
    return task, np.random.default_rng(0).normal(scale=0.5, size=task.policy.dimension)


def every_gradient(task, params):
    """The gradient g of every trajectory ``[n, d]`` and its probability ``[n]``, written out."""
    model = task.environment.model()
    start = np.flatnonzero(model.start)
    paths = np.array([(s, *actions) for s in start for actions in itertools.product(range(4), repeat=3)]).T
    states, actions = np.empty((3, paths.shape[1]), dtype=np.int64), paths[1:].copy()
    states[0] = paths[0]
    for h in range(2):
        states[h + 1] = model.transition[states[h], actions[h]].argmax(axis=1)
    trace = task.policy.begin(params, states)
    trace.actions[:] = actions
    to_go = reward_to_go(model.reward[states, actions] * discounts(2, 0.9))
    columns = [slice(j, j + 1) for j in range(paths.shape[1])]
    gradients = np.array([task.policy.score(trace.columns(part), to_go[:, part]) for part in columns])
    likelihood = np.exp(task.policy.log_prob(params, states, actions).sum(axis=0))
    return gradients, model.start[states[0]] * likelihood


def test_signal_to_noise_of_two_worked_batches():
    """(1, 0) and (3, 0): signal 1 * 3, variance ((1-2)^2 + (3-2)^2) / 1 = 2."""
    assert signal_to_noise(np.array([[1.0, 0.0], [3.0, 0.0]])) == 1.5


def test_signal_is_negative_where_batches_contradict_each_other():
    """(1, 0), (-1, 0), (0, 0): pairs give -1, 0, 0, hence signal -1/3; variance 2/2. Nothing is clipped."""
    found = signal_to_noise(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]))
    assert found == pytest.approx(-1 / 3)


def test_batches_without_reward_give_zero():
    """Neither signal nor noise: 0, and no division by zero."""
    assert signal_to_noise(np.zeros((4, 3))) == 0.0


def test_signal_and_noise_agree_with_enumeration():
    """In 20,000 batches of 4 the ratio is ||grad J||^2 / (tr Cov(g) / 4) to 5 %; dp gives the gradient."""
    task, params = grid(inner_batch=4)
    gradients, q = every_gradient(task, params)
    mean = q @ gradients
    assert q.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(mean, dp.gradient(task.environment.model(), params), atol=1e-12)
    covariance = float(q @ (gradients**2).sum(axis=1) - mean @ mean)
    expected = float(mean @ mean) / (covariance / 4)
    assert diagnose(task, params, SEED, m=80_000)["gradient_snr"] == pytest.approx(expected, rel=0.05)
    assert expected > 0.05


def test_signal_is_unbiased_for_few_batches():
    """Mean of signal over 4,000 triples of batches is ||grad J||^2 within 5 standard errors.

    The plain ||mean g||^2 would be too large by a third of the noise, many errors away.
    """
    task, params = grid()
    gradients, q = every_gradient(task, params)
    mean, rng = q @ gradients, np.random.default_rng(3)
    triples = gradients[rng.choice(q.size, size=(4_000, 3), p=q / q.sum())]
    noise = triples.var(axis=1, ddof=1).sum(axis=1)
    signal = np.array([signal_to_noise(triple) for triple in triples]) * noise
    error = signal.std() / np.sqrt(signal.size)
    assert abs(signal.mean() - mean @ mean) < 5 * error
    assert noise.mean() / 3 > 20 * error


def test_kl_is_that_of_two_softmax_rows():
    """Per state sum_a pi (log pi - log pi'), worked from the logits; 0 to itself."""
    policy = Softmax(Spaces(num_actions=3, observation_shape=(), num_states=2))
    here, there = np.log([0.5, 0.25, 0.25, 0.2, 0.2, 0.6]), np.log([0.25, 0.5, 0.25, 0.2, 0.2, 0.6])
    states = np.array([[0, 1], [1, 0]])
    expected = 0.25 * np.log(2)  # 0.5 ln 2 - 0.25 ln 2
    np.testing.assert_allclose(policy.kl(here, there, states), [[expected, 0], [0, expected]], atol=1e-15)
    assert not policy.kl(here, here, states).any()


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_all_actions_at_once_have_the_bits_of_one_after_the_other(family):
    """A policy that gives all log-probabilities in one pass gives those of `log_prob`."""
    task, params = checks.task_and_params(checks.FAMILIES[family], **checks.LARGE)
    (batch,) = task.sample(params, [(5, np.random.default_rng(0))])
    for action, found in enumerate(np.moveaxis(task.policy.log_probs(params, batch.states), -1, 0)):
        chosen = np.full(batch.states.shape[:2], action)
        assert np.array_equal(found, task.policy.log_prob(params, batch.states, chosen))


def written_out(task, params, size, count):
    """The three numbers' ingredients: the pool's states, and every batch's inner step by `policy.score`."""
    sampler = Sampler(task.environment, task.policy)
    pool = sampler.pool(params, [(size * count, stream(SEED, task.agent, 0, 0, Purpose.DIAGNOSE))])
    batches = [pool.part(slice(size * b, size * (b + 1))) for b in range(count)]
    return pool.states, [
        task.policy.score(batch.trace, reward_to_go(batch.rewards)) / size for batch in batches
    ]


@pytest.mark.parametrize("family", checks.FAMILIES)
def test_step_and_divergence_are_those_of_the_adaptation(family):
    """256 trajectories hold 4 batches of 60: their mean step length, and the KL of the first step."""
    task, params = checks.task_and_params(checks.FAMILIES[family], **checks.LARGE)
    alpha, policy = task.settings.inner_step_size, task.policy
    states, gradients = written_out(task, params, 60, 4)
    found = diagnose(task, params, SEED)
    assert set(found) == NAMES
    assert found["step_norm"] == pytest.approx(alpha * np.mean([np.linalg.norm(g) for g in gradients]))
    adapted = params + alpha * gradients[0]
    every = range(task.environment.spaces.num_actions)
    here, there = (
        np.array([policy.log_prob(theta, states, np.full(states.shape[:2], a)) for a in every])
        for theta in (params, adapted)
    )
    assert found["adaptation_kl"] == pytest.approx((np.exp(here) * (here - there)).sum(axis=0).mean())
    assert found["adaptation_kl"] > 1e-3


def test_batches_larger_than_half_the_pool_still_make_two():
    """With inner_batch = 200 the pool holds 400 trajectories, not 256."""
    task, params = grid(inner_batch=200)
    _, gradients = written_out(task, params, 200, 2)
    expected = 2.0 * np.mean([np.linalg.norm(g) for g in gradients])
    assert diagnose(task, params, SEED)["step_norm"] == pytest.approx(expected)


def test_the_step_has_the_adaptation_baseline():
    """`adapt_baseline` decides, the baseline of training does not."""
    plain, centred, trained = (
        diagnose(*grid(**how), SEED) for how in ({}, {"adapt_baseline": "loo"}, {"baseline": "loo"})
    )
    assert centred != plain == trained


def test_without_an_inner_step_nothing_moves():
    """At alpha = 0 step and divergence are exactly 0, the signal-to-noise ratio is as before."""
    task, params = grid()
    still = msgspec.structs.replace(
        task, settings=msgspec.structs.replace(task.settings, inner_step_size=0.0)
    )
    found = diagnose(still, params, SEED)
    assert (found["step_norm"], found["adaptation_kl"]) == (0.0, 0.0)
    assert found["gradient_snr"] == diagnose(task, params, SEED)["gradient_snr"]


def test_draws_from_its_own_stream_only(monkeypatch):
    """One stream, of the purpose DIAGNOSE, whatever the method."""
    keys = []

    def record(*key):
        keys.append(key)
        return stream(*key)

    monkeypatch.setattr(diagnostics, "stream", record)
    for variant in ("first_order", "exact"):
        diagnose(*grid(variant=variant), SEED)
    assert keys == [(SEED, 4, 0, 0, Purpose.DIAGNOSE)] * 2


def test_nothing_that_was_passed_in_changes():
    """Parameters and the training sampler's count are as before; twice gives the same numbers."""
    task, params = grid()
    before = params_sha256(params)
    assert diagnose(task, params, SEED) == diagnose(task, params, SEED)
    assert params_sha256(params) == before and task.sample.trajectories == 0
    assert {type(value) for value in diagnose(task, params, SEED).values()} == {float}
