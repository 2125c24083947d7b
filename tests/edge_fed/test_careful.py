"""Careful adaptation: what is tried, what is taken, and what it costs."""

import msgspec
import numpy as np
import pytest

from edge_fed.evaluation import Bench
from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.careful import FACTORS, LEAST, careful_step, split
from edge_fed.onboarding import onboard
from edge_fed.returns import episode_return
from edge_fed.seeding import Purpose, stream
from tests.edge_fed.test_evaluation import GOAL, SEED, SMALL, chosen, navigation, sampled


@pytest.fixture
def step():
    """A task, parameters, eight trajectories and the step they give."""
    task, params = navigation()
    batch = sampled(task, params, 40, 0)
    return task, params, batch, adapt_batch(task, params, batch).params - params


def scripted(returns):
    """A trial whose returns are given per factor, in the order in which factors are tried."""
    asked, answers = [], iter(returns)

    def trial(candidate, k):
        asked.append((candidate, k))
        return np.asarray(next(answers), dtype=np.float64)

    return trial, asked


@pytest.mark.parametrize(("best", "factor"), list(enumerate(FACTORS)))
def test_the_best_factor_is_taken(step, best, factor):
    """A clearly better trial decides which part of the step is taken; each candidate is tried with k."""
    task, params, batch, whole = step
    level = episode_return(batch.rewards).mean()
    returns = [np.full(5, level)] * 3
    returns[best] = np.full(5, level + 100)
    trial, asked = scripted(returns)
    found = careful_step(task, params, batch, trial, 5, 1.0)
    assert found.factor == factor
    assert np.array_equal(found.params, params + factor * whole)
    assert [k for _, k in asked] == [5, 5, 5]
    for (candidate, _), part in zip(asked, FACTORS, strict=True):
        assert np.array_equal(candidate, params + part * whole)


def test_worse_trials_keep_the_initialization(step):
    """If acting got worse, nothing is taken, to the bit."""
    task, params, batch, _ = step
    found = careful_step(task, params, batch, scripted([np.full(5, -1.0)] * 3)[0], 5, 1.0)
    assert found.factor == 0
    assert np.array_equal(found.params, params)
    assert found.params is not params


@pytest.mark.parametrize(("sigmas", "factor"), [(0.9, 0.0), (1.1, 0.25)])
def test_a_gain_within_one_standard_error_is_none(step, sigmas, factor):
    """The margin is one standard error of the difference of the two means."""
    task, params, batch, _ = step
    before = episode_return(batch.rewards)
    after = np.array([-1.0, 0.0, 1.0])  # variance 1
    error = np.sqrt(before.var(ddof=1) / before.size + 1 / 3)
    better = before.mean() + sigmas * error + after
    found = careful_step(task, params, batch, scripted([better, after - 50, after - 50])[0], 3, 1.0)
    assert found.factor == factor


def test_single_trials_spread_as_the_batch_does(step):
    """With k = 1 the variance of a trial is taken from the batch: 1.1 errors are enough, 0.9 are not."""
    task, params, batch, _ = step
    before = episode_return(batch.rewards)
    error = np.sqrt(before.var(ddof=1) * (1 / before.size + 1))
    for sigmas, factor in ((1.1, 0.25), (0.9, 0.0)):
        returns = [[before.mean() + sigmas * error], [-9.0], [-9.0]]
        assert careful_step(task, params, batch, scripted(returns)[0], 1, 1.0).factor == factor


def test_without_any_reward_nothing_is_taken(step):
    """All returns zero: no spread, no gain, no step."""
    task, params, batch, _ = step
    batch = msgspec.structs.replace(batch, rewards=np.zeros_like(batch.rewards))
    assert careful_step(task, params, batch, scripted([np.zeros(4)] * 3)[0], 4, 1.0).factor == 0


@pytest.mark.parametrize("m", [LEAST, 6, 20, 50, 100, 101, 500])
def test_a_budget_is_spent_to_the_last_trajectory(m):
    """N + 3 k = m, k at least 1, n at least 2, and k no more than a fifth allows."""
    n, k = split(m)
    assert n + len(FACTORS) * k == m
    assert (n >= 2, k >= 1) == (True, True)
    assert k == 1 or len(FACTORS) * k <= m / 5


def test_careful_rows_stand_beside_the_plain_ones():
    """One per budget of at least five; same pool, trials from a stream of their own, budgets counted."""
    task, params = navigation()
    config = msgspec.structs.replace(SMALL, m_adapt=(0, 3, 20, 50), scratch=(), random=False, careful=True)
    found = onboard(task, params, SEED, config, lambda _done: None)
    careful = chosen(found.rows, "careful")
    assert list(careful) == [20, 50]
    assert [row["trajectories"] for row in careful.values()] == [20, 50]
    assert found.adapt_trajectories == 50 + 3 * split(20)[1] + 3 * split(50)[1]
    bench = Bench(task, SEED, config)
    expected, factor = bench.adapt_carefully(params, sampled(task, params, 50, 0), 50)
    assert np.array_equal(found.params, expected)
    assert careful[50]["factor"] == factor
    rng = stream(SEED, GOAL, 0, 0, Purpose.TRIAL)
    tried = task.sample.outcomes(params, 2, rng).states[0]
    assert not {start.tobytes() for start in tried} & {
        start.tobytes() for start in sampled(task, params, 50, 0).states[0]
    }


def test_further_steps_are_tried_as_well():
    """With two inner steps each has a trial of its own stream; the factor is their mean."""
    task, params = navigation(adapt_steps=2)
    bench = Bench(task, SEED, SMALL)
    _, factor = bench.adapt_carefully(params, sampled(task, params, 20, 0), 20)
    n, k = split(20)
    assert bench.task.sample.trajectories == 2 * 3 * k + n  # the first n came from outside
    assert factor * 2 in {a + b for a in (0, *FACTORS) for b in (0, *FACTORS)}


def test_the_learner_adapts_within_its_budget():
    """`adapt(careful=True)` samples exactly m, repeats with an equal stream; below five it adapts nothing."""
    task, params = navigation()
    found = [task.adapt(params, 30, np.random.default_rng(3), careful=True) for _ in range(2)]
    assert np.array_equal(*found)
    assert task.sample.trajectories == 60
    assert np.array_equal(task.adapt(params, LEAST - 1, np.random.default_rng(3), careful=True), params)
