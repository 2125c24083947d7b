"""Lemmas 3 to 5 and Propositions 1 and 3 as inequalities against enumerated moments and recorded runs."""

import itertools

import numpy as np
import pytest

from edge_fed import dp
from edge_fed.config import Overrides
from edge_fed.federated.local_update import local_update
from edge_fed.federated.task import initial_params, make_task
from edge_fed.theory.bounds import (
    Batches,
    bias_star,
    drift,
    exact_bounds,
    first_order_bounds,
    gradient_distance,
    objective_distance,
    plain_stationarity,
    progress,
    step_ceiling,
)
from edge_fed.theory.constants import meta_gradient_bound, meta_smoothness, tabular_constants
from tests.edge_fed.checks import configured
from tests.edge_fed.federated.runs import gridworld, play
from tests.edge_fed.theory.moments import Moments, inner_gradients, setting
from tests.edge_fed.theory.test_constants import gridworld as gridworld_constants

ALPHAS = (0.01, 0.5, 2.0)
ONE = Batches(1, 1, 1)


def directions(model, theta, alpha, m_in):
    """Every exact and first-order direction of one curvature and one outer trajectory, with weights."""
    at = Moments(model, theta)
    for weight, g_in in inner_gradients(at, m_in):
        adapted = Moments(model, theta + alpha * g_in)
        for q, g_out in zip(adapted.q, adapted.g, strict=True):
            yield weight * q * at.q, g_out + alpha * at.u @ g_out, g_out


def test_the_numbers_at_alpha_2():
    """science.md 1.4, batches of 10."""
    c, _ = gridworld_constants()
    batches = Batches(10, 10, 10)
    assert exact_bounds(c, 2.0, batches).bias == pytest.approx(1.17e10, rel=5e-3)
    assert exact_bounds(c, 2.0, batches).variance == pytest.approx(4.1e20, rel=5e-3)
    assert bias_star(c, 2.0, 10) == pytest.approx(2.7e13, rel=2e-2)
    assert first_order_bounds(c, 2.0, batches).bias == pytest.approx(3.58e6, rel=1e-3)
    assert step_ceiling(meta_smoothness(c, 2.0)) == pytest.approx(1.325e-13, rel=1e-3, abs=0)


def test_the_moments_by_hand():
    """With alpha L_J = 2 and G_J = 200: every term of both second moments, and the norms, written out."""
    c, _ = gridworld_constants()
    batches, alpha = Batches(4, 5, 6), 2 / c.L_J
    exact, first = exact_bounds(c, alpha, batches), first_order_bounds(c, alpha, batches)
    assert (exact.norm, first.norm) == pytest.approx((600, 200))
    assert (exact.bias, first.bias) == pytest.approx((3 * 2 * 200 / 2, 2 * 200 * 1.5))
    assert exact.variance == pytest.approx(3 * 200**2 * (4 / 5 + 9 / 6 + 36 / 4))
    assert first.variance == pytest.approx(3 * 200**2 * (1 / 6 + 4 / 4 + 4))
    assert bias_star(c, alpha, 4, spread=7.0) == pytest.approx(3 * alpha**2 * c.rho_J * 7 / 8)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("horizon", "m_in"), [(0, 1), (0, 2), (1, 1)])
def test_lemma_3_of_all_directions(alpha, horizon, m_in):
    """Norm surely, bias and second moment in the mean, for exact and first order, all enumerated."""
    model, theta, c = setting(horizon)
    goal = dp.meta_gradient(model, theta, alpha)
    exact, first = (f(c, alpha, Batches(m_in, 1, 1)) for f in (exact_bounds, first_order_bounds))
    mean, plain_mean = np.zeros((2, theta.size))
    square = plain_square = total = 0.0
    for weights, found, plain in directions(model, theta, alpha, m_in):
        assert np.linalg.norm(found, axis=1).max() <= exact.norm
        assert np.linalg.norm(plain) <= first.norm
        total += weights.sum()
        mean += weights @ found
        square += weights @ ((found - goal) ** 2).sum(axis=1)
        plain_mean += weights.sum() * plain
        plain_square += weights.sum() * ((plain - goal) ** 2).sum()
    assert total == pytest.approx(1)
    assert 0 < np.linalg.norm(mean - goal) <= min(exact.bias, bias_star(c, alpha, m_in))
    assert 0 < square <= exact.variance
    assert 0 < np.linalg.norm(plain_mean - goal) <= first.bias
    assert 0 < plain_square <= first.variance


def exact_bias(model, theta, alpha, at, m_in):
    """||(I + alpha hess J) E grad J(theta + alpha g_in) - grad F||: the rest has no bias."""
    v = np.zeros(theta.size)
    for weight, g_in in inner_gradients(at, m_in):
        v += weight * dp.gradient(model, theta + alpha * g_in)
    mean = v + alpha * dp.hessian_vector(model, theta, v)
    return float(np.linalg.norm(mean - dp.meta_gradient(model, theta, alpha)))


def test_the_bias_falls_as_one_over_m():
    """Proposition 1: m times the bias settles, while Lemma 3 alone would allow it to grow as sqrt(m)."""
    model, theta, _ = setting(horizon=0)
    at, alpha = Moments(model, theta), 0.5
    scaled = {m: m * exact_bias(model, theta, alpha, at, m) for m in (1, 2, 4, 8)}
    assert scaled[8] == pytest.approx(scaled[4], rel=0.05)
    assert scaled[8] == pytest.approx(scaled[1], rel=0.3)


@pytest.mark.parametrize("m_in", [1, 2])
def test_proposition_1_with_the_spread_at_hand(m_in):
    """The bias over two steps is below b_star with varsigma^2 enumerated, which is below the one with G_J."""
    model, theta, c = setting(horizon=1)
    at = Moments(model, theta)
    for alpha in ALPHAS:
        bound = bias_star(c, alpha, m_in, at.spread())
        assert exact_bias(model, theta, alpha, at, m_in) <= bound <= bias_star(c, alpha, m_in)


def test_the_two_bias_bounds_cross():
    """b_star / b_hat = alpha rho_J varsigma^2 / (2 L_J G_J sqrt(m_in)): only large batches favour b_star."""
    c, _ = gridworld_constants()
    for m in (10, 10**8):
        ratio = bias_star(c, 2.0, m) / exact_bounds(c, 2.0, Batches(m, 1, 1)).bias
        assert ratio == pytest.approx(2.0 * c.rho_J * c.G_J / (2 * c.L_J * m**0.5))
        assert (ratio < 1) == (m == 10**8)


def local_params(config, agents, params, seed, round_):
    """theta_i^{k,t} for t = 0..tau, ``[n, tau+1, d]``: t steps alone are the first t steps of the round."""
    found = []
    for agent in agents:
        path = [params]
        for t in range(1, config.algorithm.local_steps + 1):
            task = make_task(configured(config, local_steps=t), agent, Overrides())
            path.append(params + local_update(task, params, {}, seed, round_, lambda _t: None).delta)
        found.append(path)
    return np.array(found)


def test_lemma_4_in_a_recorded_run():
    """At every local step of a plain run the drift from the round's start and from the mean stays below."""
    config = gridworld(rounds=3, local_steps=4, variant="exact", agents="0-2")
    agents, beta, alpha = (0, 1, 2), config.algorithm.outer_step_size, config.algorithm.inner_step_size
    norm = meta_gradient_bound(gridworld_constants()[0], alpha)
    params = initial_params(config)
    for round_ in play(config, agents):
        local = local_params(config, agents, params, config.seed, round_.record.round)
        assert abs(local[:, -1].mean(axis=0) - round_.params).max() < 1e-12  # it IS the recorded run
        for t in range(1, 5):
            bound, apart = drift(norm, beta, t), local[:, t] - local[:, t].mean(axis=0)
            moved = np.linalg.norm(local[:, t] - params, axis=1)
            assert 0 < moved.max() <= bound.from_start
            assert np.linalg.norm(apart, axis=1).max() <= bound.from_mean
            assert 0 < (apart**2).sum(axis=1).mean() <= bound.spread
        params = round_.params


def test_drift_by_hand():
    """The distance beta t G_F, twice that, its square; nothing before the first step."""
    bound = drift(norm=3.0, beta=0.5, t=4)
    assert (bound.from_start, bound.from_mean, bound.spread) == (6.0, 12.0, 36.0)
    assert drift(3.0, 0.5, 0).spread == 0


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.5])
def test_lemma_5_from_a_common_start(alpha):
    """Two agents, one step each: the expected gain of F at their mean is above the bound (enumerated)."""
    first, theta, _ = setting(horizon=0, seed=0)
    second, _, _ = setting(horizon=0, seed=1)
    models = [first, second]
    c = tabular_constants(models)
    L_F = meta_smoothness(c, alpha)
    beta = step_ceiling(L_F)
    steps = []  # per agent: all (probability, direction), merged over equal inner and outer draws
    for model in models:
        pairs = list(directions(model, theta, alpha, 1))
        steps.append((np.concatenate([w for w, _, _ in pairs]), np.concatenate([v for _, v, _ in pairs])))
    goal = np.mean([dp.meta_gradient(model, theta, alpha) for model in models], axis=0)
    squared = float(goal @ goal)
    # F is L_F-smooth: F(x + s) >= F(x) + grad F . s - (L_F / 2) ||s||^2, whose mean is exact here
    means = [w @ v for w, v in steps]
    spreads = [w @ ((v - m) ** 2).sum(axis=1) for (w, v), m in zip(steps, means, strict=True)]
    step = (means[0] + means[1]) / 2
    second_moment = step @ step + sum(spreads) / 4
    guaranteed = beta * goal @ step - L_F / 2 * beta**2 * second_moment
    bound = progress(exact_bounds(c, alpha, ONE), L_F, beta, 0, 2, squared)
    assert guaranteed >= bound
    sample = [v[:: max(1, len(v) // 6)] for _, v in steps]
    for v, w in itertools.product(*sample):  # the smoothness that the step above relied on
        s = beta * (v + w) / 2
        change = sum(
            dp.meta_objective(m, theta + s, alpha) - dp.meta_objective(m, theta, alpha) for m in models
        )
        assert change / 2 >= goal @ s - L_F / 2 * (s @ s) - 1e-15


def test_lemma_5_needs_small_steps_and_knows_drift():
    """More local steps and more bias promise less, more agents more; beta above 1 / (6 L_F) is refused."""
    c, _ = gridworld_constants()
    L_F, direction = meta_smoothness(c, 1e-5), exact_bounds(c, 1e-5, ONE)
    beta = step_ceiling(L_F)
    assert progress(direction, L_F, beta, 1, 4, 1.0) < progress(direction, L_F, beta, 0, 4, 1.0)
    assert progress(direction, L_F, beta, 0, 1, 1.0) < progress(direction, L_F, beta, 0, 4, 1.0)
    with pytest.raises(ValueError, match="Lemma 5"):
        progress(direction, L_F, 1.01 * beta, 0, 4, 1.0)


def test_proposition_3_distances():
    """F and f, and their gradients, differ by less than the bounds on the gridworld, linearly in alpha."""
    c, models = gridworld_constants()
    theta = np.random.default_rng(3).normal(size=100)
    for alpha in (0.0, 1e-5, 0.5, 2.0):
        apart = np.mean([dp.meta_gradient(m, theta, alpha) - dp.gradient(m, theta) for m in models], axis=0)
        gap = np.mean([dp.meta_objective(m, theta, alpha) - dp.expected_return(m, theta) for m in models])
        assert np.linalg.norm(apart) <= gradient_distance(c, alpha)
        assert abs(gap) <= objective_distance(c, alpha)


def test_proposition_3_limits():
    """At alpha = 0: no bias, variance 3 G_J^2 / m_out, norm G_J, and epsilon stays epsilon."""
    c, _ = gridworld_constants()
    found = exact_bounds(c, 0.0, Batches(3, 5, 7))
    assert (found.norm, found.bias, found.variance) == (c.G_J, 0.0, pytest.approx(3 * c.G_J**2 / 7))
    assert first_order_bounds(c, 0.0, Batches(3, 5, 7)) == found
    assert plain_stationarity(c, 0.0, 0.01) == pytest.approx(0.01)
    assert plain_stationarity(c, 1e-6, 0.01) == pytest.approx((0.1 + 2e-6 * 6800 * 200) ** 2)


def test_an_empty_batch_is_refused():
    """Exact needs curvature trajectories; first order does not."""
    c, _ = gridworld_constants()
    with pytest.raises(ValueError, match="1 or more"):
        exact_bounds(c, 1.0, Batches(10, 0, 10))
    assert first_order_bounds(c, 1.0, Batches(10, 0, 10)).bias > 0
